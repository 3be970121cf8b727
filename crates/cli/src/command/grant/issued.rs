//! A token that was just made, and what to paste into an MCP client.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    api::Gateway,
    output::{Done, GOOD, STRONG, print, print_json, remark, visible},
};

#[derive(Debug, Deserialize)]
struct Issued {
    id: String,
    label: String,
    servers: Vec<String>,
    token: String,
}

/// Shows the token: alone on standard output, the rest beside it.
pub(super) fn show(gateway: &Gateway, answer: &Value, json: bool) -> anyhow::Result<Done> {
    if json {
        print_json(answer)?;
        return Ok(Done::Well);
    }
    let issued: Issued = serde_json::from_value(answer.clone())?;
    let (label, id) = (visible(&issued.label), visible(&issued.id));
    remark(&format!(
        "{GOOD}ok{GOOD:#}: grant `{label}` ({id})\n\n{STRONG}its token, which is not shown again{STRONG:#}\n"
    ))?;
    print(&format!("{}\n", visible(&issued.token)))?;
    let url = gateway.agents_url().unwrap_or_else(|| "https://GATEWAY".into());
    let config = serde_json::to_string_pretty(&client_config(&url, &issued))?;
    remark(&format!("\n{STRONG}for an MCP client{STRONG:#}\n{config}\n"))?;
    Ok(Done::Well)
}

/// What most MCP clients take as their configuration.
fn client_config(url: &str, issued: &Issued) -> Value {
    let mut servers = Map::new();
    for server in &issued.servers {
        let entry = json!({
            "type": "http",
            "url": format!("{url}/mcp/{server}"),
            "headers": { "Authorization": format!("Bearer {}", issued.token) },
        });
        servers.insert(server.clone(), entry);
    }
    json!({ "mcpServers": servers })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Issued, client_config};

    #[test]
    fn a_client_is_told_where_and_with_what() {
        let issued = Issued {
            id: "i".into(),
            label: "l".into(),
            servers: vec!["notes".into()],
            token: "sg_x".into(),
        };
        let expected = json!({ "mcpServers": { "notes": {
            "type": "http",
            "url": "http://127.0.0.1:8787/mcp/notes",
            "headers": { "Authorization": "Bearer sg_x" },
        } } });
        assert_eq!(client_config("http://127.0.0.1:8787", &issued), expected);
    }
}
