//! What to type next, so that the server is held.

use sluice_admin::declare;

use crate::wrap::{Place, name};

/// The commands that hold a server, as they would be typed.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Writes the policy.
    pub(super) policy: String,
    /// For a client that starts a command.
    pub(super) wrap: String,
    /// Behind a gateway that runs.
    pub(super) gateway: Vec<String>,
}

impl Hold {
    /// For a server that was scanned with these headers, as they were typed.
    pub(crate) fn of(place: &Place, headers: &[String]) -> Hold {
        let server = match place {
            Place::Command(command) => {
                let words = declare::shown_command(command);
                format!("-- {}", words.iter().map(|word| typed(word)).collect::<Vec<_>>().join(" "))
            }
            Place::Url { url, .. } => {
                let headers =
                    headers.iter().map(|header| format!(" --header {}", typed(&hushed(header))));
                let url = declare::shown_command(std::slice::from_ref(url)).concat();
                format!("--url {}{}", typed(&url), headers.collect::<String>())
            }
        };
        let name = name::of(place).map_or_else(|_| "NAME".to_owned(), |name| name.to_string());
        Hold {
            policy: format!("sluice scan --format policy {server} > policy.json"),
            wrap: format!("sluice wrap --policy policy.json {server}"),
            gateway: vec![
                format!("sluice server add {name} {server}"),
                format!("sluice policy put {name} start policy.json"),
                format!("sluice grant create {name} my-agent --policy start"),
            ],
        }
    }
}

/// A header without its value, unless that only says where it is kept.
fn hushed(header: &str) -> String {
    match header.split_once(':') {
        Some((name, value))
            if !["env:", "file:"].iter().any(|kept| value.trim().starts_with(kept)) =>
        {
            format!("{name}: …")
        }
        _ => header.to_owned(),
    }
}

/// A word as a shell takes it for one.
fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::Hold;
    use crate::wrap::Place;

    #[test]
    fn commands_can_be_typed_and_tell_no_secrets() {
        let command = ["npx", "-y", "@a/notes", "my notes", "it's", "--api-key", "sesame"];
        let hold = Hold::of(&Place::Command(command.map(String::from).to_vec()), &[]);
        assert_eq!(
            hold.wrap,
            r"sluice wrap --policy policy.json -- npx -y @a/notes 'my notes' 'it'\''s' --api-key '…'"
        );
        assert_eq!(hold.gateway[1], "sluice policy put notes start policy.json");
        let url = "https://mcp.example.com/mcp".to_owned();
        let headers = ["Authorization: Bearer sesame", "X-Key: env:KEY"].map(String::from);
        let hold = Hold::of(&Place::Url { url, headers: Vec::new() }, &headers);
        assert_eq!(
            hold.policy,
            "sluice scan --format policy --url https://mcp.example.com/mcp \
             --header 'Authorization: …' --header 'X-Key: env:KEY' > policy.json"
        );
    }
}
