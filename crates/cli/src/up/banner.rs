//! The text printed at startup: the addresses, and the configuration for clients.

use std::path::Path;

use sluice_admin::Live as _;
use sluice_stack::Access;

use super::{Addresses, live::LiveGateway};
use crate::{
    clients::for_usual_clients,
    output::{FAINT, STRONG, remark, visible},
};

/// The facts to print.
pub(crate) struct Facts<'f> {
    pub(crate) addresses: &'f Addresses,
    pub(crate) data: &'f Path,
    pub(crate) live: &'f LiveGateway,
    /// The path that signs the owner of the data directory in, once.
    pub(crate) sign_in: &'f str,
}

/// Prints the text.
pub(crate) fn show(facts: &Facts<'_>) -> std::io::Result<()> {
    let Addresses { agents_url, admin_url, .. } = facts.addresses;
    let in_force = facts.live.in_force();
    let names: Vec<_> = in_force.servers.iter().map(|server| server.name.as_str()).collect();
    let servers = match &*names {
        [] => "none yet: `sluice server add NAME --url URL`, or sluice.toml".to_owned(),
        names => names.join(", "),
    };
    let data = visible(&facts.data.display().to_string());
    remark(&format!(
        "{STRONG}Sluicegate is up.{STRONG:#}\n\
         \x20 agents   {agents_url}/mcp/<server>\n\
         \x20 admin    {admin_url}{}\n\
         \x20 data     {data}\n\
         \x20 servers  {servers}\n",
        facts.sign_in
    ))?;
    match &facts.live.demo {
        Some(demo) => remark(&demo_lines(agents_url, &data, demo.token.expose())),
        None => remark(&format!(
            "{FAINT}A token for an agent: sluice grant create SERVER LABEL --policy NAME{FAINT:#}\n"
        )),
    }
}

/// Few lines, so that they are read; the last one is what to type next.
fn demo_lines(agents_url: &str, data: &str, token: &str) -> String {
    let url = format!("{agents_url}/mcp/demo");
    let program =
        std::env::current_exe().map_or_else(|_| "sluice".into(), |path| path.display().to_string());
    let program = format!("{} --data '{data}'", visible(&program));
    let call = format!("{program} call demo");
    let tries = [
        ("denied: the policy hides it", r#"delete_note --args '{"id": "note-1"}'"#),
        (
            "held: refused, and waits for approval",
            r#"pay_invoice --args '{"invoice": "INV-1003", "amount": 250}'"#,
        ),
        ("allowed; type this next", "list_notes"),
    ];
    let commands =
        tries.map(|(what, rest)| format!("  {FAINT}# {what}{FAINT:#}\n  {call} {rest}\n")).concat();
    let access = Access { name: "demo", url: &url, token };
    format!(
        "\n{}\
         \x20 {FAINT}# the settings of each client, with a grant of its own{FAINT:#}\n\
         \x20 {program} grant create demo NAME --policy demo\n\n\
         {STRONG}Try it{STRONG:#} from another terminal:\n\
         \x20 {FAINT}# the fourth hits its limit{FAINT:#}\n\
         \x20 for i in 1 2 3 4; do {call} ping_demo; done\n{commands}",
        for_usual_clients(&access)
    )
}
