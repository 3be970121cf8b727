//! The package that a command fetches and runs, by which a server is known
//! elsewhere too.

use crate::{Guarded, Transport};

/// How the runners of a registry are called, and read.
#[derive(Debug, Clone, Copy)]
enum Registry {
    Npm,
    PyPi,
}

impl Transport {
    /// The package's name without its version, if the command runs one of npm or
    /// `PyPI`.
    pub fn package(&self) -> Option<String> {
        let Transport::Command { program, args, .. } = self else { return None };
        let words: Vec<&str> = std::iter::once(program).chain(args).map(Guarded::expose).collect();
        let (registry, words) = runner(&words)?;
        registry.package(words)
    }
}

/// Which registry's runner a command starts, and the words after that.
fn runner<'w>(words: &'w [&'w str]) -> Option<(Registry, &'w [&'w str])> {
    let (program, rest) = words.split_first()?;
    let file = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = file.rsplit_once('.').map_or(file, |(name, _)| name);
    match (name, rest) {
        ("npx" | "bunx", rest) => Some((Registry::Npm, rest)),
        ("npm", ["exec" | "x", rest @ ..]) | ("pnpm" | "yarn", ["dlx", rest @ ..]) => {
            Some((Registry::Npm, rest))
        }
        ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) | ("pipx", ["run", rest @ ..]) => {
            Some((Registry::PyPi, rest))
        }
        // Windows has batch files started by its shell.
        ("cmd", ["/c" | "/C", rest @ ..]) => runner(rest),
        _ => None,
    }
}

impl Registry {
    /// The first word that is no option, unless an option names the package.
    fn package(self, words: &[&str]) -> Option<String> {
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == "--" {
                continue;
            }
            let Some(option) = word.strip_prefix('-') else { return self.name(word) };
            let (option, value) =
                option.split_once('=').map_or((option, None), |(o, v)| (o, Some(v)));
            match (self, option) {
                (Registry::Npm, "p" | "-package") | (Registry::PyPi, "-from" | "-spec") => {
                    return self.name(value.or_else(|| words.next())?);
                }
                (Registry::PyPi, "p" | "-python" | "-with" | "-index-url") if value.is_none() => {
                    words.next();
                }
                _ => {}
            }
        }
        None
    }

    fn name(self, word: &str) -> Option<String> {
        let end = match self {
            // The first `@` begins a scope.
            Registry::Npm => word.rfind('@').filter(|place| *place > 0),
            Registry::PyPi => word.find(['@', '=', '<', '>', '~', '!', '[', ';']),
        };
        let name = word.get(..end.unwrap_or(word.len()))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "@/._-".contains(c);
        // A path is no package, and neither is an address.
        let is_path = name.starts_with(['.', '/']) || name.contains("//");
        (!name.is_empty() && !is_path && name.chars().all(is_name)).then(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Guarded, Transport};

    fn check(command: &str, expected: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let program = Guarded::program(&words[0]);
        let args = Guarded::arguments(&words[1..]);
        let transport = Transport::Command { program, args, env: Vec::new() };
        assert_eq!(transport.package().as_deref(), expected, "{command}");
    }

    #[test]
    fn packages_are_told_from_options_and_versions() {
        check("npx -y @scope/server .", Some("@scope/server"));
        check("npx --yes @scope/server@1.2.3 --flag", Some("@scope/server"));
        check("/usr/bin/npx server@latest", Some("server"));
        check("npx -p server@2 its-command", Some("server"));
        check("npx --package=server its-command", Some("server"));
        check("cmd /c npx.cmd -y server", Some("server"));
        check("npm exec -- server", Some("server"));
        check("pnpm dlx server", Some("server"));
        check("uvx --python 3.12 mcp-server[extra]==1.0", Some("mcp-server"));
        check("uvx --from a.server@latest its-command", Some("a.server"));
        check("uv tool run mcp-server", Some("mcp-server"));
        check("pipx run --spec mcp-server~=1.0 command", Some("mcp-server"));
    }

    #[test]
    fn what_runs_no_package_has_none() {
        for command in [
            "node server.js",
            "npx",
            "npx -y",
            "npx ./here",
            "uvx git+https://x.y/z",
            "sluice pharo",
        ] {
            check(command, None);
        }
    }
}
