//! The next commands to run, to restrict the server. They never contain secrets, also because
//! people paste them elsewhere.

use sluice_stack::Guarded;

use crate::{
    output::quote_for_shell,
    wrap::{Place, name},
};

/// A placeholder for a URL that contains a secret.
const YOUR_URL: &str = "<your URL>";

/// The commands that restrict a server, ready to type.
#[derive(Debug)]
pub(crate) struct NextSteps {
    /// The command that writes the policy.
    pub(super) policy: String,
    /// The command for a client that starts its server.
    pub(super) wrap: String,
    /// The commands for a running gateway.
    pub(super) gateway: Vec<String>,
    /// The placeholder that must be filled in before the commands can be used.
    pub(super) missing: Option<&'static str>,
}

impl NextSteps {
    /// Builds the commands for a server that was scanned with these headers, as they were typed.
    pub(crate) fn of(place: &Place, headers: &[String]) -> NextSteps {
        let (server, missing) = match place {
            Place::Command(command) => {
                let words = guard_words(command);
                let is_whole = !words.iter().any(Guarded::has_secret);
                let missing = "Fill in the masked values, shown as `***`.";
                let words: Vec<_> =
                    words.iter().map(|word| quote_for_shell(word.as_masked())).collect();
                (format!("-- {}", words.join(" ")), Some(missing).filter(|_| !is_whole))
            }
            Place::Url { url, .. } => {
                let is_whole = !Guarded::url(url).has_secret();
                let url = if is_whole { url.as_str() } else { YOUR_URL };
                let hushed: Vec<String> = headers.iter().map(|header| hide_value(header)).collect();
                let is_whole = is_whole && hushed == headers;
                let missing = "Fill in the masked values, shown as `<your …>`.";
                let headers =
                    hushed.iter().map(|header| format!(" --header {}", quote_for_shell(header)));
                let server =
                    format!("--url {}{}", quote_for_shell(url), headers.collect::<String>());
                (server, Some(missing).filter(|_| !is_whole))
            }
        };
        let name = derive_name(place);
        NextSteps {
            policy: format!("sluice scan --format policy {server} > policy.json"),
            wrap: format!("sluice wrap --policy policy.json {server}"),
            gateway: vec![
                format!("sluice server add {name} {server}"),
                format!("sluice policy put {name} start policy.json"),
                format!("sluice grant create {name} my-agent --policy start"),
            ],
            missing,
        }
    }
}

/// A URL or command for display.
pub(crate) fn display_place(place: &Place) -> String {
    match place {
        Place::Command(command) => {
            let words = guard_words(command);
            words.iter().map(Guarded::as_masked).collect::<Vec<_>>().join(" ")
        }
        Place::Url { url, .. } => Guarded::url(url).as_masked().to_owned(),
    }
}

/// The words of a command, with secrets hidden.
fn guard_words(command: &[String]) -> Vec<Guarded> {
    let Some((program, arguments)) = command.split_first() else { return Vec::new() };
    std::iter::once(Guarded::program(program)).chain(Guarded::arguments(arguments)).collect()
}

/// A name for the server, derived from the parts that are displayed.
fn derive_name(place: &Place) -> String {
    let shown = match place {
        Place::Command(command) => {
            let words = guard_words(command);
            Place::Command(words.iter().map(|word| word.as_masked().to_owned()).collect())
        }
        Place::Url { url, .. } => {
            Place::Url { url: Guarded::url(url).as_masked().to_owned(), headers: Vec::new() }
        }
    };
    name::of(&shown).map_or_else(|_| "NAME".to_owned(), |name| name.to_string())
}

/// A header without its value, unless the value only names where the secret is stored.
fn hide_value(header: &str) -> String {
    let Some((name, value)) = header.split_once(':') else { return header.to_owned() };
    let value = value.trim();
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    if ["env:", "file:"].iter().any(|kept| value.starts_with(kept)) {
        return header.to_owned();
    }
    format!("{name}: <your value>")
}

#[cfg(test)]
mod tests {
    use super::{NextSteps, display_place};
    use crate::wrap::Place;

    fn command(words: &[&str]) -> Place {
        Place::Command(words.iter().map(ToString::to_string).collect())
    }

    fn url(url: &str) -> Place {
        Place::Url { url: url.into(), headers: Vec::new() }
    }

    #[test]
    fn suggested_commands_can_be_typed() {
        let place = command(&["npx", "-y", "@a/notes", "my notes", "it's"]);
        let next_steps = NextSteps::of(&place, &[]);
        let expected = r"sluice wrap --policy policy.json -- npx -y @a/notes 'my notes' 'it'\''s'";
        assert_eq!((next_steps.wrap.as_str(), next_steps.missing), (expected, None));
        assert_eq!(next_steps.gateway[1], "sluice policy put notes start policy.json");
        let kept = ["X-Key: env:KEY", "Authorization: Bearer env:TOKEN", "X-Two: file:/a/b"];
        let next_steps =
            NextSteps::of(&url("https://mcp.example.com/mcp"), &kept.map(String::from));
        assert_eq!(
            (next_steps.policy.as_str(), next_steps.missing),
            (
                "sluice scan --format policy --url https://mcp.example.com/mcp \
                 --header 'X-Key: env:KEY' --header 'Authorization: Bearer env:TOKEN' \
                 --header 'X-Two: file:/a/b' > policy.json",
                None
            )
        );
    }

    #[test]
    fn suggested_commands_replace_secrets_by_placeholders() {
        let place = command(&["npx", "@a/notes", "--api-key", "sesame", "https://h/x#sesame"]);
        let next_steps = NextSteps::of(&place, &[]);
        assert!(next_steps.wrap.contains("--api-key '***'"), "{}", next_steps.wrap);
        assert!(
            next_steps.missing.is_some() && !format!("{next_steps:?}").contains("sesame"),
            "{next_steps:?}"
        );
        assert!(!display_place(&place).contains("sesame"), "{}", display_place(&place));
        let place = url("https://h.example/s/5f1e0c7b9a3d4e2f8c6b/mcp?k=sesame#sesame");
        let next_steps = NextSteps::of(&place, &["Authorization: Bearer sesame".into()]);
        assert_eq!(
            next_steps.wrap,
            "sluice wrap --policy policy.json --url '<your URL>' \
             --header 'Authorization: <your value>'"
        );
        for told in [format!("{next_steps:?}"), display_place(&place)] {
            assert!(!told.contains("sesame") && !told.contains("5f1e0c"), "{told}");
        }
        assert!(next_steps.missing.is_some());
    }
}
