//! What a wrapped server is called where nobody has said: after its command or
//! its URL, so that it is the same each time.

use std::path::Path;

use sluice_store::{Name, NameError};

use super::Place;

/// Programs that run others, whose own name says nothing.
const RUNNERS: [&str; 12] = [
    "bash", "bunx", "deno", "docker", "env", "node", "npx", "pipx", "python", "python3", "sh",
    "uvx",
];
/// The longest a name may be.
const LONGEST: usize = 32;

/// The name of a server.
pub(crate) fn of(place: &Place) -> Result<Name, NameError> {
    match place {
        Place::Command(command) => of_command(command),
        Place::Url { url, .. } => {
            let host = url::Url::parse(url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
            made(&host.unwrap_or_default())
        }
    }
}

/// The name of a policy, after its file.
pub(super) fn of_file(path: &str) -> Result<Name, NameError> {
    made(stem(path))
}

fn of_command(command: &[String]) -> Result<Name, NameError> {
    let program = command.first().map_or("", |program| stem(program));
    if !RUNNERS.contains(&program) {
        return made(program);
    }
    let named = command.iter().skip(1).find(|argument| !argument.starts_with('-'));
    made(named.map_or(program, |named| package(named)))
}

/// A file's or package's name, without folder, scope, version and ending.
fn package(text: &str) -> &str {
    let name = text.rsplit('/').next().unwrap_or(text);
    let name = name.split('@').find(|part| !part.is_empty()).unwrap_or(name);
    stem(name)
}

fn stem(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path);
    let ending = name.rsplit_once('.').filter(|(before, after)| {
        !before.is_empty() && after.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    ending.map_or(name, |(before, _)| before)
}

/// A name as near to a text as a name can be.
pub(crate) fn made(text: &str) -> Result<Name, NameError> {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(fits).take(LONGEST).collect();
    let name = name.trim_matches('-');
    Name::new(if name.is_empty() { "wrapped" } else { name })
}

#[cfg(test)]
mod tests {
    use super::{made, of_command, of_file};

    #[test]
    fn commands_name_their_server() {
        let check = |line: &str, expected: &str| {
            let command: Vec<_> = line.split(' ').map(String::from).collect();
            assert_eq!(of_command(&command).unwrap().as_str(), expected, "{line}");
        };
        check("npx -y @modelcontextprotocol/server-everything stdio", "server-everything");
        check("npx -y some-server@1.2.3", "some-server");
        check("uvx mcp-server-git --repository .", "mcp-server-git");
        check("node ./dist/index.js", "index");
        check("/opt/My_Server.sh x", "my-server");
        check("npx", "npx");
        check("…", "wrapped");
    }

    #[test]
    fn any_text_makes_a_name() {
        assert_eq!(made("").unwrap().as_str(), "wrapped");
        assert_eq!(made("mcp.example.com").unwrap().as_str(), "mcp-example-com");
        assert_eq!(made(&"x".repeat(99)).unwrap().as_str().len(), 32);
        assert_eq!(of_file("/a/strict.yaml").unwrap().as_str(), "strict");
    }
}
