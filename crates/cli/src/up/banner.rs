//! The text printed at startup: the addresses, and the configuration for clients.

use std::{net::SocketAddr, path::Path};

use sluice_admin::Live as _;
use sluice_stack::Access;

use super::live::LiveGateway;
use crate::{
    clients::for_all_clients,
    output::{FAINT, STRONG, remark, visible},
};

/// The facts to print.
pub(crate) struct Facts<'f> {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) is_tls: bool,
    pub(crate) data: &'f Path,
    pub(crate) live: &'f LiveGateway,
}

/// Prints the text.
pub(crate) fn show(facts: &Facts<'_>) -> std::io::Result<()> {
    let scheme = if facts.is_tls { "https" } else { "http" };
    let Facts { listen, admin, .. } = facts;
    let in_force = facts.live.in_force();
    let names: Vec<_> = in_force.servers.iter().map(|server| server.name.as_str()).collect();
    let servers = match &*names {
        [] => "none yet: `sluice server add NAME --url URL`, or sluice.toml".to_owned(),
        names => names.join(", "),
    };
    let data = visible(&facts.data.display().to_string());
    remark(&format!(
        "{STRONG}Sluicegate is up.{STRONG:#}\n\
         \x20 agents   {scheme}://{listen}/mcp/<server>\n\
         \x20 people   http://{admin}/\n\
         \x20 data     {data}\n\
         \x20 servers  {servers}\n"
    ))?;
    match &facts.live.demo {
        Some(demo) => remark(&demo_lines(scheme, *listen, &data, demo.token.expose())),
        None => remark(&format!(
            "{FAINT}A token for an agent: sluice grant create SERVER LABEL --policy NAME{FAINT:#}\n"
        )),
    }
}

fn demo_lines(scheme: &str, listen: SocketAddr, data: &str, token: &str) -> String {
    let url = format!("{scheme}://{listen}/mcp/demo");
    let program =
        std::env::current_exe().map_or_else(|_| "sluice".into(), |path| path.display().to_string());
    let call = format!("{} --data '{data}' call demo", visible(&program));
    let tries = [
        ("allowed", "list_notes"),
        ("denied: the policy hides it", r#"delete_note --args '{"id": "note-1"}'"#),
        (
            "held: refused, and waits for a person",
            r#"pay_invoice --args '{"invoice": "INV-1003", "amount": 250}'"#,
        ),
    ];
    let mut lines = vec![format!("\n{STRONG}Try it{STRONG:#} from another terminal:\n")];
    lines
        .extend(tries.map(|(what, rest)| format!("  {FAINT}# {what}{FAINT:#}\n  {call} {rest}\n")));
    lines.push(format!("  {FAINT}# the fourth hits its limit{FAINT:#}\n  for i in 1 2 3 4; do {call} ping_demo; done\n"));
    let access = Access { name: "demo", url: &url, token };
    lines.push(format!(
        "\n{}  {FAINT}# Inspector{FAINT:#}\n  npx -y @modelcontextprotocol/inspector@latest --cli {url} --transport http --header \"Authorization: Bearer {token}\" --method tools/list\n\n",
        for_all_clients(&access)
    ));
    lines.concat()
}
