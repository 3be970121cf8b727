//! Prints a new token, and the configuration for MCP clients.

use serde::Deserialize;
use serde_json::Value;
use sluice_stack::Access;

use super::Shown;
use crate::{
    api::Gateway,
    clients::for_all_clients,
    output::{Done, FAINT, GOOD, STRONG, print, print_json, remark, visible},
};

/// Stands for the token in the configuration for clients, which often ends up in logs of
/// terminals.
const PLACEHOLDER: &str = "$SLUICE_TOKEN";

#[derive(Debug, Deserialize)]
struct Issued {
    id: String,
    label: String,
    servers: Vec<String>,
    token: String,
}

/// Prints the token alone on standard output, and everything else on standard error.
pub(super) fn show(gateway: &Gateway, answer: &Value, shown: &Shown) -> anyhow::Result<Done> {
    if shown.json {
        print_json(answer)?;
        return Ok(Done::Well);
    }
    let issued: Issued = serde_json::from_value(answer.clone())?;
    let (label, id) = (visible(&issued.label), visible(&issued.id));
    remark(&format!(
        "{GOOD}ok{GOOD:#}: grant `{label}` ({id})\n\n{STRONG}Token (shown once):{STRONG:#}\n"
    ))?;
    print(&format!("{}\n", visible(&issued.token)))?;
    let url = gateway.client_url().unwrap_or_else(|| "https://GATEWAY".into());
    let (name, url_of) = issued.access(&url);
    let (name, token) = (visible(&name), visible(&issued.token));
    let token = if shown.show_config { &token } else { PLACEHOLDER };
    let access = Access { name: &name, url: &url_of, token };
    remark(&format!("\n{}", for_all_clients(&access)))?;
    if !shown.show_config {
        remark(&format!(
            "{FAINT}Set SLUICE_TOKEN to the token before a command, and write the token in a file; \
             `--show-config` prints it in place.{FAINT:#}\n"
        ))?;
    }
    if let [_, _, ..] = &*issued.servers {
        let one = visible(&issued.servers.join("|"));
        remark(&format!(
            "{FAINT}One server alone, its tools by their own names: {url}/mcp/{{{one}}}{FAINT:#}\n"
        ))?;
    }
    Ok(Done::Well)
}

impl Issued {
    /// The name and URL for clients: the one server of the grant, or the URL of all servers.
    fn access(&self, gateway: &str) -> (String, String) {
        match &*self.servers {
            [server] => (server.clone(), format!("{gateway}/mcp/{server}")),
            _ => (self.label.clone(), format!("{gateway}/mcp")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Issued;

    fn access(servers: &[&str]) -> (String, String) {
        let issued = Issued {
            id: "i".into(),
            label: "laptop".into(),
            servers: servers.iter().map(|&server| server.into()).collect(),
            token: "sg_x".into(),
        };
        issued.access("http://127.0.0.1:8787")
    }

    #[test]
    fn several_servers_have_one_url() {
        assert_eq!(access(&["notes"]), ("notes".into(), "http://127.0.0.1:8787/mcp/notes".into()));
        assert_eq!(access(&["a", "b"]), ("laptop".into(), "http://127.0.0.1:8787/mcp".into()));
    }
}
