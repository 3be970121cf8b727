//! Parses a file as TOML, and reports syntax errors.

use std::ops::Range;

use toml::de::DeTable;

use super::{loader::Loader, section::Section, unquoted};

/// Parses the file's text as TOML, and calls `read` with its root table.
pub(super) fn with_root<T>(
    text: &[u8],
    loader: &mut Loader<'_>,
    read: impl Fn(&Section<'_>, &mut Loader<'_>) -> T,
) -> Option<T> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let place = error.valid_up_to();
            loader.findings.add(place..place + 1, "the file is not valid UTF-8");
            loader.findings.hide(0..text.len());
            return None;
        }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let result = read(&Section::root(table.get_ref()), loader);
    if errors.is_empty() {
        return Some(result);
    }
    // Problems that follow from a syntax error are noise; secrets that were found stay masked.
    loader.findings.forget_problems();
    let mut explained = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let secret = perhaps_secret(text, span.start);
        let is_secret = secret.is_some();
        if let Some(secret) = secret {
            loader.findings.hide(secret);
        }
        match unquoted::explain(text, span.start, is_secret) {
            // One mistake can have several errors.
            Some(found) if explained.contains(&found.span) => {}
            Some(found) => {
                explained.push(found.span.clone());
                loader.findings.add_with_hint(found.span, found.message, found.hint);
            }
            None => loader.findings.add(span, error.message()),
        }
    }
    None
}

/// The part of the line at `place` that may be a secret, which cannot be recognised because of the
/// syntax error: the value, or everything after the key if there is no `=`.
fn perhaps_secret(text: &str, place: usize) -> Option<Range<usize>> {
    let before = text.get(..place)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next().unwrap_or_default();
    let header = before.lines().rfind(|line| line.trim_start().starts_with('['));
    let indent = line.len() - line.trim_start().len();
    let key_end =
        line.trim_start().find(|c: char| !c.is_alphanumeric() && !"_-.\"'".contains(c))?;
    let (key, rest) = line.trim_start().split_at_checked(key_end)?;
    if PLAIN_KEYS.contains(&key) || !(holds_secrets(line) || header.is_some_and(holds_secrets)) {
        return None;
    }
    let assigned = rest.trim_start().strip_prefix('=').map_or(rest, str::trim_start);
    Some(start + indent + key_end + (rest.len() - assigned.len())..start + line.len())
}

/// Keys whose values are shown, even in a table that may hold secrets.
const PLAIN_KEYS: [&str; 14] = [
    "allow_private",
    "anonymous_policy",
    "bridge",
    "builtin",
    "expires",
    "file",
    "instances",
    "listen",
    "policy",
    "principal",
    "server",
    "servers",
    "start",
    "timeout",
];

/// Whether a line may contain a secret.
fn holds_secrets(line: &str) -> bool {
    let line = line.to_lowercase();
    ["token", "grant", "header", "auth", "key", "secret", "password", "url"]
        .iter()
        .any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::perhaps_secret;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let hidden = perhaps_secret(text, text.len()).unwrap_or(0..0);
        assert_eq!(text.get(hidden).unwrap(), expected, "{text}");
    }

    #[test]
    fn only_lines_that_may_hold_a_secret_are_hidden() {
        check("listen = 127.0.0.1", "");
        check("token = sg_bare", "sg_bare");
        check("  token sg_bare", " sg_bare");
        check("[servers.a]\nheaders = { X = \"a\"", "{ X = \"a\"");
        check("[servers.a]\nurl=https://u:p@example.com", "https://u:p@example.com");
        check("[servers.a.headers]\nX-Own: a", ": a");
        check("[grants.a]\ntokn = a", "a");
        check("[grants.a]\npolicy = dev", "");
        check("[grants.a]\n  servers = [files", "");
        check("[grants.a]\ntoken = a\n[limits]\nbody = 4 MiB", "");
    }
}
