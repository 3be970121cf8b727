//! The published package (npm or `PyPI`) that a command runs, by which the catalogue knows a server.

use crate::{Guarded, Transport};

/// A package registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    Npm,
    PyPi,
}

impl Registry {
    /// The prefix of sources in the catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Registry::Npm => "npm",
            Registry::PyPi => "pypi",
        }
    }
}

/// A package, identified by its registry and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub registry: Registry,
    /// The name without a version.
    pub name: String,
}

/// The meaning of a runner's option.
enum Meaning {
    /// Its value is the package.
    Package,
    /// Its value is something else.
    Valued,
    Plain,
    /// It may select another registry, or have a value that is not a package.
    Unknown,
}

impl Transport {
    /// The package that the command runs, if it is from npm or `PyPI`. A package of the same name
    /// from elsewhere does not count.
    pub fn package(&self) -> Option<Package> {
        let Transport::Command { program, args, env } = self else { return None };
        let words: Vec<&str> = std::iter::once(program).chain(args).map(Guarded::expose).collect();
        let (registry, words) = runner(&words)?;
        if env.iter().any(|(name, _)| registry.is_moved_by(name)) {
            return None;
        }
        registry.package(words).map(|name| Package { registry, name })
    }
}

/// The registry of the runner that a command starts, and its arguments.
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
        // On Windows, batch files are started through `cmd`.
        ("cmd", ["/c" | "/C", rest @ ..]) => runner(rest),
        _ => None,
    }
}

impl Registry {
    /// The first word that is not an option, unless an option names the package.
    fn package(self, words: &[&str]) -> Option<String> {
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == "--" {
                continue;
            }
            let Some(option) = word.strip_prefix('-') else { return self.package_of(word) };
            let (option, value) =
                option.split_once('=').map_or((option, None), |(o, v)| (o, Some(v)));
            match self.option(option) {
                Meaning::Package => return self.package_of(value.or_else(|| words.next())?),
                Meaning::Valued if value.is_none() => {
                    words.next();
                }
                Meaning::Valued | Meaning::Plain => {}
                Meaning::Unknown => return None,
            }
        }
        None
    }

    /// Parses an option, without its first dash.
    fn option(self, option: &str) -> Meaning {
        match (self, option) {
            (Registry::Npm, "p" | "-package") | (Registry::PyPi, "-from" | "-spec") => {
                Meaning::Package
            }
            (Registry::Npm, "-loglevel")
            | (Registry::PyPi, "p" | "-python" | "-with" | "-prerelease" | "-cache-dir") => {
                Meaning::Valued
            }
            (_, "q" | "-quiet" | "-offline")
            | (
                Registry::Npm,
                "y" | "-yes" | "s" | "-silent" | "-bun" | "-no-install" | "-prefer-offline"
                | "-prefer-online",
            )
            | (
                Registry::PyPi,
                "v" | "-verbose" | "n" | "-no-cache" | "U" | "-upgrade" | "-refresh" | "-isolated"
                | "-reinstall" | "-no-progress" | "-native-tls" | "-no-config",
            ) => Meaning::Plain,
            _ => Meaning::Unknown,
        }
    }

    /// Whether a variable may select another registry.
    fn is_moved_by(self, variable: &str) -> bool {
        let variable = variable.to_ascii_lowercase();
        match self {
            Registry::Npm => variable.starts_with("npm_config_"),
            Registry::PyPi => variable.starts_with("uv_") || variable.starts_with("pip_"),
        }
    }

    fn package_of(self, word: &str) -> Option<String> {
        let scope = match self {
            Registry::Npm if word.starts_with('@') => word.find('/')?,
            _ => 0,
        };
        let ends: &[char] = match self {
            Registry::Npm => &['@'],
            Registry::PyPi => &['@', '=', '<', '>', '~', '!', '[', ';'],
        };
        let (scope, rest) = word.split_at(scope);
        let (own, version) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let own = if scope.is_empty() { own } else { own.strip_prefix('/')? };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        // A path or a URL is not a package. The version part may also name another package or a
        // URL.
        let is_name = !own.is_empty() && !own.starts_with('.') && own.chars().all(is_plain);
        let is_scope = scope.chars().skip(1).all(is_plain) && scope != "@";
        let is_theirs = is_name && is_scope && !version.contains([':', '/']);
        is_theirs.then(|| word.split_at(word.len() - version.len()).0.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Package, Registry};
    use crate::{Guarded, Transport};

    fn check(command: &str, expected: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let program = Guarded::program(&words[0]);
        let args = Guarded::arguments(&words[1..]);
        let transport = Transport::Command { program, args, env: Vec::new() };
        let package = transport.package().map(|package| package.name);
        assert_eq!(package.as_deref(), expected, "{command}");
    }

    #[test]
    fn packages_are_distinguished_from_options_and_versions() {
        check("npx -y @scope/server .", Some("@scope/server"));
        check("npx --yes @scope/server@1.2.3 --flag", Some("@scope/server"));
        check("/usr/bin/npx server@latest", Some("server"));
        check("npx -p server@2 its-command", Some("server"));
        check("npx --package=server its-command", Some("server"));
        check("cmd /c npx.cmd -y server", Some("server"));
        check("npm exec -- server", Some("server"));
        check("npx --loglevel silent server", Some("server"));
        check("pnpm dlx server", Some("server"));
        check("uvx --python 3.12 mcp-server[extra]==1.0", Some("mcp-server"));
        check("uvx --from a.server@latest its-command", Some("a.server"));
        check("uv tool run mcp-server", Some("mcp-server"));
        check("pipx run --spec mcp-server~=1.0 command", Some("mcp-server"));
    }

    #[test]
    fn commands_that_run_no_registry_package_have_none() {
        for command in [
            "node server.js",
            "npx",
            "npx -y",
            "npx ./here",
            "uvx git+https://x.y/z",
            "sluice pharo",
            "npx user/repo",
            "npx server@npm:other",
            "npx server@https://x.y/z.tgz",
            "npx server@github:user/repo",
            "npx @scope",
            "npx @/server",
            "npx --registry=https://x.y server",
            "npx --registry https://x.y server",
            "npx --something other server",
            "uvx server@git+https://x.y/z",
            "uvx --default-index https://x.y server",
            "uvx -i https://x.y server",
        ] {
            check(command, None);
        }
        let moved = Transport::Command {
            program: Guarded::program("npx"),
            args: Guarded::arguments(&["server".into()]),
            env: vec![("npm_config_registry".into(), Guarded::secret("https://x.y"))],
        };
        assert_eq!(moved.package(), None);
    }

    #[test]
    fn the_runner_determines_the_registry_of_a_package() {
        let of = |program| Transport::Command {
            program: Guarded::program(program),
            args: Guarded::arguments(&["server".into()]),
            env: Vec::new(),
        };
        let package = |registry| Some(Package { registry, name: "server".into() });
        assert_eq!(of("npx").package(), package(Registry::Npm));
        assert_eq!(of("uvx").package(), package(Registry::PyPi));
    }
}
