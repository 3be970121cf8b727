//! Examples in `--help`. A test parses each of them.

/// The examples of each command, by its path; the first is of the program itself.
pub(super) const EXAMPLES: [(&str, &[&str]); 69] = [
    (
        "",
        &[
            "sluice up --demo",
            "sluice scan -- npx -y @modelcontextprotocol/server-filesystem .",
            "sluice stack",
        ],
    ),
    ("init", &["sluice init", "sluice init gateway"]),
    (
        "up",
        &[
            "sluice up --demo",
            "sluice up --config /etc/sluice.toml --log json",
            "sluice --data ./data up --listen 127.0.0.1:9787 --admin 127.0.0.1:9788",
        ],
    ),
    (
        "wrap",
        &[
            "sluice wrap --policy policy.json -- npx -y @modelcontextprotocol/server-filesystem .",
            "sluice wrap --policy policy.json --url https://mcp.example.com/mcp --header 'Authorization: Bearer env:TOKEN'",
        ],
    ),
    (
        "call",
        &[
            "sluice call demo list_notes",
            r#"sluice call demo pay_invoice --args '{"invoice": "INV-1003", "amount": 5}'"#,
        ],
    ),
    (
        "server",
        &["sluice server list", "sluice server add notes --url https://mcp.example.com/mcp"],
    ),
    ("server list", &["sluice server list", "sluice server list --json"]),
    ("server show", &["sluice server show notes"]),
    (
        "server tools",
        &["sluice server tools notes", "sluice server tools notes --definitions > tools.json"],
    ),
    (
        "server add",
        &[
            "sluice server add notes --url https://mcp.example.com/mcp --header 'Authorization: Bearer env:TOKEN'",
            "sluice server add files -- npx -y @modelcontextprotocol/server-filesystem /srv/notes",
        ],
    ),
    (
        "server edit",
        &[
            "sluice server edit notes --timeout 2m",
            "sluice server edit notes --url https://mcp.example.com/v2",
        ],
    ),
    ("server refresh", &["sluice server refresh notes"]),
    ("server remove", &["sluice server remove notes"]),
    ("policy", &["sluice policy check policy.json", "sluice policy put notes readers policy.json"]),
    (
        "policy check",
        &[
            "sluice policy check policy.json",
            "sluice policy check policy.yaml --server notes --strict",
        ],
    ),
    (
        "policy test",
        &[
            "sluice policy test policy.json",
            "sluice policy test policies/a.json policies/b.yaml --tools tools.json",
        ],
    ),
    (
        "policy explain",
        &[
            r#"sluice policy explain policy.json --tool pay --args '{"amount": 5}'"#,
            "sluice policy explain policy.json --tool pay --at 2027-01-31T12:00:00Z --used pay_rate=9",
        ],
    ),
    ("policy import", &["sluice policy import rules.yaml > policy.json"]),
    (
        "policy diff",
        &[
            "sluice policy diff old.json new.json",
            "sluice policy diff old.json new.json --tools tools.json --exit-code",
        ],
    ),
    ("policy suggest", &["sluice policy suggest notes > policy.json"]),
    (
        "policy put",
        &[
            "sluice policy put notes readers policy.json",
            "sluice policy put notes readers - --strict",
        ],
    ),
    ("policy list", &["sluice policy list"]),
    ("policy show", &["sluice policy show notes readers > policy.json"]),
    ("policy history", &["sluice policy history notes readers"]),
    ("policy rollback", &["sluice policy rollback notes readers 91ae6c55"]),
    ("policy remove", &["sluice policy remove notes readers"]),
    ("policy schema", &["sluice policy schema > policy.schema.json"]),
    ("grant", &["sluice grant create notes laptop --policy readers", "sluice grant list"]),
    (
        "grant create",
        &[
            "sluice grant create notes laptop --policy readers > token",
            "sluice grant create notes files laptop --policy readers --expires 30d --principal ada",
        ],
    ),
    ("grant list", &["sluice grant list", "sluice grant list --json"]),
    ("grant show", &["sluice grant show laptop"]),
    (
        "grant edit",
        &["sluice grant edit laptop --policy writers", "sluice grant edit laptop --expires never"],
    ),
    ("grant rotate", &["sluice grant rotate laptop --overlap 10m > token"]),
    ("grant revoke", &["sluice grant revoke laptop"]),
    ("open", &["sluice open", "sluice open --no-browser"]),
    ("people", &["sluice people add ada@example.com --role policy-manager", "sluice people list"]),
    ("people list", &["sluice people list", "sluice people list --json"]),
    (
        "people add",
        &[
            "sluice people add ada@example.com --role admin",
            "sluice people add bob --role approver --server notes --server files",
        ],
    ),
    ("people show", &["sluice people show ada@example.com"]),
    (
        "people edit",
        &["sluice people edit bob --role viewer --all-servers", "sluice people edit bob --disable"],
    ),
    ("people invite", &["sluice people invite bob"]),
    ("people remove", &["sluice people remove bob"]),
    ("tokens", &["sluice tokens create ci --person ada@example.com", "sluice tokens list"]),
    ("tokens list", &["sluice tokens list", "sluice tokens list --json"]),
    (
        "tokens create",
        &["sluice tokens create ci --person ada@example.com --role viewer --expires 30d > token"],
    ),
    ("tokens revoke", &["sluice tokens revoke 01K9Z8Y7X6W5V4T3S2R1Q0P9N8"]),
    (
        "log",
        &[
            "sluice log --since 1h --outcome deny",
            "sluice log --follow --grant laptop",
            "sluice log --rule '(hidden)' --records --json",
        ],
    ),
    ("log verify", &["sluice log verify"]),
    (
        "log export",
        &["sluice log export --since 24h > log.ndjson", "sluice log export --format csv > log.csv"],
    ),
    ("status", &["sluice status", "sluice status --json"]),
    ("backup", &["sluice backup sluice-backup.tar"]),
    ("restore", &["sluice restore sluice-backup.tar"]),
    ("doctor", &["sluice doctor", "sluice doctor --trust-clock"]),
    ("stack", &["sluice stack", "sluice stack --scan --json"]),
    (
        "stack adopt",
        &["sluice stack adopt --all --dry-run", "sluice stack adopt filesystem github"],
    ),
    ("stack restore", &["sluice stack restore --dry-run", "sluice stack restore"]),
    ("stack hook", &["sluice stack hook --install", "sluice stack hook --accept filesystem"]),
    ("pharo", &["sluice pharo --port 8086 --timeout 1m"]),
    (
        "scan",
        &[
            "sluice scan -- npx -y @modelcontextprotocol/server-filesystem .",
            "sluice scan --url https://mcp.example.com/mcp --format policy > policy.json",
        ],
    ),
    ("classify", &["sluice classify tools.json", "sluice classify > classified.ndjson"]),
    ("catalog", &["sluice catalog search files --category write", "sluice catalog show github"]),
    (
        "catalog search",
        &[
            "sluice catalog search send mail",
            "sluice catalog search --category financial --limit 5",
        ],
    ),
    ("catalog show", &["sluice catalog show github", "sluice catalog show github --policy"]),
    ("catalog import", &["sluice catalog import tools.json --server notes"]),
    ("catalog remove", &["sluice catalog remove notes"]),
    ("catalog export", &["sluice catalog export --html pages"]),
    ("catalog stats", &["sluice catalog stats"]),
    ("config", &["sluice config", "sluice config --config /etc/sluice.toml --json"]),
    (
        "completions",
        &["sluice completions bash > ~/.local/share/bash-completion/completions/sluice"],
    ),
];
