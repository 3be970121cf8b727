//! Derives the default name of a wrapped server from its command or URL, so that it is the
//! same each time.

use std::{ffi::OsStr, path::Path};

use sluice_store::{Name, NameError};

use super::Place;

/// Programs that run others, so their own name does not identify the server.
const RUNNERS: [&str; 17] = [
    "bash", "bun", "bunx", "deno", "docker", "env", "node", "npm", "npx", "pipx", "pnpm", "python",
    "sh", "tsx", "uv", "uvx", "yarn",
];
/// Subcommands of these programs that run something.
const VERBS: [&str; 6] = ["dlx", "exec", "run", "start", "tool", "x"];
/// File names that many servers share.
const COMMON_FILES: [&str; 12] = [
    "__init__", "__main__", "app", "cli", "index", "main", "mcp", "mod", "program", "run",
    "server", "start",
];
/// Folder names that many servers share.
const COMMON_FOLDERS: [&str; 17] = [
    "",
    ".",
    "..",
    ".bin",
    ".venv",
    "bin",
    "build",
    "cjs",
    "debug",
    "dist",
    "esm",
    "lib",
    "node_modules",
    "out",
    "release",
    "src",
    "target",
];
/// The maximum length of a name.
const LONGEST: usize = 32;

/// The name of a server.
pub(crate) fn of(place: &Place) -> Result<Name, NameError> {
    match place {
        Place::Command(command) => {
            let folder = std::env::current_dir().ok();
            let folder = folder.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
            of_command(command, folder)
        }
        Place::Url { url, .. } => {
            let host = url::Url::parse(url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
            name_from(&host.unwrap_or_default())
        }
    }
}

/// The name of a policy, from its file.
pub(super) fn of_file(path: &str) -> Result<Name, NameError> {
    name_from(stem(path))
}

fn of_command(command: &[String], folder: Option<&str>) -> Result<Name, NameError> {
    let program = command.first().map_or("", String::as_str);
    if !is_runner(program) {
        return name_from(telling(program, stem(program), folder));
    }
    let says_nothing = |word: &String| {
        word.starts_with('-')
            || word.contains('=')
            || VERBS.contains(&word.as_str())
            || is_runner(word)
    };
    match command.iter().skip(1).find(|word| !says_nothing(word)) {
        Some(word) => name_from(telling(word, package(word), folder)),
        None => name_from(stem(program)),
    }
}

/// Whether a program runs others; some have a version in their name.
fn is_runner(program: &str) -> bool {
    let name = stem(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUNNERS.contains(&name)
}

/// The file's name. If many servers share it, the name of the nearest folder that is more specific:
/// first those in the path, then the working directory.
fn telling<'t>(path: &'t str, name: &'t str, folder: Option<&'t str>) -> &'t str {
    if !COMMON_FILES.contains(&name) {
        return name;
    }
    let folders = path.split(['/', '\\']).rev().skip(1);
    let mut folders = folders.filter(|part| !part.starts_with('@')).chain(folder);
    folders.find(|part| !COMMON_FOLDERS.contains(part)).unwrap_or(name)
}

/// A file's or package's name, without folder, scope, version and ending.
fn package(text: &str) -> &str {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let name = name.strip_suffix(".__main__").unwrap_or(name);
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

/// The valid name that is closest to a text.
pub(crate) fn name_from(text: &str) -> Result<Name, NameError> {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(fits).take(LONGEST).collect();
    let name = name.trim_matches('-');
    Name::new(if name.is_empty() { "wrapped" } else { name })
}

#[cfg(test)]
mod tests {
    use super::{name_from, of_command, of_file};

    #[test]
    fn commands_name_their_server() {
        let check = |line: &str, expected: &str| {
            let command: Vec<_> = line.split(' ').map(String::from).collect();
            let name = of_command(&command, Some("My Work"));
            assert_eq!(name.unwrap().as_str(), expected, "{line}");
        };
        check("npx -y @modelcontextprotocol/server-everything stdio", "server-everything");
        check("npx -y some-server@1.2.3", "some-server");
        check("uvx mcp-server-git --repository .", "mcp-server-git");
        check("node build/notes.js", "notes");
        check("python3.12 -m mcp_server_time", "mcp-server-time");
        check("docker run -i --rm mcp/fetch", "fetch");
        check("uv run weather.py", "weather");
        check("/opt/My_Server.sh x", "my-server");
        check("npx", "npx");
        check("…", "wrapped");
    }

    #[test]
    fn a_common_file_name_is_replaced_by_its_folder() {
        let check = |line: &str, folder, expected: &str| {
            let command: Vec<_> = line.split(' ').map(String::from).collect();
            assert_eq!(of_command(&command, folder).unwrap().as_str(), expected, "{line}");
        };
        check("node /opt/notes/dist/index.js", None, "notes");
        check("node node_modules/@scope/server-files/dist/index.js", None, "server-files");
        check("npx tsx notes/src/index.ts", None, "notes");
        check("python /srv/My.Weather/main.py", None, "my-weather");
        check("uv run /srv/weather/server.py", None, "weather");
        check("python -m weather.__main__", None, "weather");
        check("/opt/notes/target/release/server", None, "notes");
        check("deno run -A C:\\notes\\src\\cli.ts", None, "notes");
        // If the path is not specific, the working directory gives the name.
        check("node ./dist/index.js", Some("notes"), "notes");
        check("node dist/index.js", None, "index");
        check("python main.py", Some("src"), "main");
    }

    #[test]
    fn any_text_makes_a_name() {
        assert_eq!(name_from("").unwrap().as_str(), "wrapped");
        assert_eq!(name_from("mcp.example.com").unwrap().as_str(), "mcp-example-com");
        assert_eq!(name_from(&"x".repeat(99)).unwrap().as_str().len(), 32);
        assert_eq!(of_file("/a/strict.yaml").unwrap().as_str(), "strict");
    }
}
