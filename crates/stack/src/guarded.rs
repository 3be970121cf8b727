//! Strings that may contain secrets, with a masked form for output.
//!
//! The values of variables and headers are masked completely. In arguments and URLs,
//! the parts that look like a secret are masked: the value after a name such as
//! `--token`, the user and query of a URL, and words that look like a key.

use std::fmt;

use url::Url;

/// The replacement of a secret.
pub(crate) const MASK: &str = "***";

/// A text of a client's file. Output and `Debug` use the masked form; [`Guarded::expose`] returns
/// the text itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Guarded {
    whole: String,
    shown: String,
}

impl Guarded {
    /// A text that is masked completely.
    pub fn secret(whole: impl Into<String>) -> Guarded {
        Guarded { whole: whole.into(), shown: MASK.into() }
    }

    /// A URL, with possible secrets masked.
    pub fn url(whole: impl Into<String>) -> Guarded {
        let whole = whole.into();
        let shown = masked_url(&whole).unwrap_or_else(|| masked_words(&whole));
        Guarded { whole, shown }
    }

    /// A program, which may be a whole command line.
    pub fn program(whole: impl Into<String>) -> Guarded {
        let whole = whole.into();
        let shown = masked_words(&whole);
        Guarded { whole, shown }
    }

    /// Arguments, each masked by its content and by the argument before it.
    pub fn arguments(given: &[String]) -> Vec<Guarded> {
        let mut is_value = Value::Plain;
        let mut guarded = Vec::with_capacity(given.len());
        for whole in given {
            let (shown, next) = masked_word(whole, is_value);
            guarded.push(Guarded { whole: whole.clone(), shown });
            is_value = next;
        }
        guarded
    }

    /// The text with its secrets masked.
    pub fn as_masked(&self) -> &str {
        &self.shown
    }

    /// The text itself, to be used and not printed.
    pub fn expose(&self) -> &str {
        &self.whole
    }

    /// Whether a part of it is masked.
    pub fn has_secret(&self) -> bool {
        self.whole != self.shown
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The kind of a word, as announced by the word before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Plain,
    /// It is the value of a flag that names a secret.
    Secret,
    /// It is a header or an assignment, of which only the name is shown.
    Pair,
}

/// Words that mark a name as that of a secret.
const TELLING: [&str; 16] = [
    "token",
    "secret",
    "passw",
    "pwd",
    "apikey",
    "api-key",
    "api_key",
    "accesskey",
    "access-key",
    "access_key",
    "auth",
    "credential",
    "bearer",
    "cookie",
    "private",
    "connection-string",
];
/// Flags whose value is a header or an assignment.
const PAIRS: [&str; 6] = ["--header", "-H", "-e", "--env", "--set-env", "--config-env"];
/// Prefixes of well-known kinds of keys.
const KEYS: [&str; 18] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "ASIA",
    "ya29.",
    "eyJ",
    "npm_",
    "hf_",
    "sg_",
    "sga_",
];

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
        || name.split(['-', '_', '.']).any(|part| ["key", "pat", "pass", "jwt"].contains(&part))
}

/// Masks a text of several words, such as a shell command line.
fn masked_words(text: &str) -> String {
    let mut is_value = Value::Plain;
    let words = text.split(' ').map(|word| {
        let (shown, next) = masked_one(word, is_value);
        is_value = if word.is_empty() { is_value } else { next };
        shown
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Masks one argument, and returns what it announces about the next.
fn masked_word(word: &str, is_value: Value) -> (String, Value) {
    let is_one = !word.contains(' ')
        || joined_pair(word).is_some()
        || masked_url(word).is_some()
        || masked_other(word).is_some();
    if is_value == Value::Plain && !is_one {
        return (masked_words(word), Value::Plain);
    }
    masked_one(word, is_value)
}

fn masked_one(word: &str, is_value: Value) -> (String, Value) {
    match is_value {
        // Another flag is never the value of the flag before it.
        Value::Secret if !word.starts_with('-') => {
            let next = if is_scheme(word) { Value::Secret } else { Value::Plain };
            return (masked_value(word), next);
        }
        Value::Pair => return masked_pair(word),
        Value::Secret | Value::Plain => {}
    }
    if PAIRS.contains(&word) {
        return (word.to_owned(), Value::Pair);
    }
    if let Some((flag, pair)) = joined_pair(word) {
        let (shown, next) = masked_pair(pair);
        return (format!("{flag}{shown}"), next);
    }
    if word.starts_with('-') && !word.contains(['=', ':']) {
        let next = if is_telling(word) { Value::Secret } else { Value::Plain };
        return (if is_key(word) { MASK.into() } else { word.to_owned() }, next);
    }
    if let Some(shown) = masked_url(word).or_else(|| masked_other(word)) {
        return (shown, Value::Plain);
    }
    let shown = match word.split_once('=') {
        Some((name, value)) if is_telling(name) || is_variable(name) => {
            format!("{name}={}", masked_value(value))
        }
        Some((name, value)) => {
            let value = masked_url(value)
                .or_else(|| masked_other(value))
                .unwrap_or_else(|| if is_key(value) { MASK.into() } else { value.to_owned() });
            masked_named(&format!("{name}={value}"), &['=', ':'])
        }
        // `Authorization:…` as one word, and the scheme before a credential.
        None => match word.split_once(':') {
            Some((name, value)) if is_telling(name) && !value.is_empty() => {
                format!("{name}:{MASK}")
            }
            _ if is_key(word) => MASK.into(),
            _ => masked_named(word, &['=', ':']),
        },
    };
    let next = if is_scheme(word) { Value::Secret } else { Value::Plain };
    (shown, next)
}

/// Whether the next word is a credential.
fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].contains(&word.to_ascii_lowercase().as_str())
        || (word.ends_with(':') && is_telling(word))
}

/// Whether this could be a variable's name, whose value may be a secret.
fn is_variable(name: &str) -> bool {
    name.len() > 1
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Masks a secret, but not a reference to one.
fn masked_value(value: &str) -> String {
    let is_reference = value.starts_with("${") && value.ends_with('}') && !value.contains(":-");
    if is_reference { value.to_owned() } else { MASK.into() }
}

/// Splits a flag from the header or assignment that is joined to it.
fn joined_pair(word: &str) -> Option<(&str, &str)> {
    if let Some((flag, _)) = word.split_once('=').filter(|(flag, _)| PAIRS.contains(flag)) {
        return word.split_at_checked(flag.len() + 1);
    }
    let (flag, pair) = word.split_at_checked(2)?;
    let is_pair = match flag {
        "-e" => pair.split_once('=').is_some_and(|(name, _)| is_variable(name)),
        "-H" => pair.contains(':'),
        _ => false,
    };
    is_pair.then_some((flag, pair))
}

/// Masks the value in `NAME=VALUE` or `Name: value`; also returns what kind of word follows.
fn masked_pair(word: &str) -> (String, Value) {
    match word.find(['=', ':']) {
        Some(at) => {
            let (name, rest) = word.split_at(at);
            let sign = rest.chars().next().unwrap_or_default();
            let value = rest.get(1..).unwrap_or_default().trim_start();
            if value.is_empty() {
                return (word.to_owned(), Value::Secret);
            }
            let value = value.strip_prefix("Bearer ").unwrap_or(value);
            // A reference to a value is not a secret.
            let is_named = value.strip_prefix("env:").is_some_and(is_variable);
            let shown = if is_named { word.to_owned() } else { format!("{name}{sign}{MASK}") };
            (shown, if is_scheme(value) { Value::Secret } else { Value::Plain })
        }
        // A variable without a value, which is passed on.
        None if is_variable(word) => (word.to_owned(), Value::Plain),
        None => (MASK.into(), Value::Plain),
    }
}

/// Masks the value after each name of a secret and one of these signs, up to the next pair, as in
/// connection strings.
fn masked_named(text: &str, signs: &[char]) -> String {
    let ends = ['&', ';', ',', '?', ' '];
    let pieces = text.split_inclusive(ends).map(|piece| {
        let (pair, end) = piece.split_at(piece.trim_end_matches(ends).len());
        let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        for (at, sign) in pair.match_indices(signs) {
            let (before, rest) = pair.split_at(at);
            let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
            let value = rest.strip_prefix(sign).unwrap_or_default();
            if is_telling(name) && !value.is_empty() {
                return format!("{before}{sign}{}{end}", masked_value(value));
            }
        }
        piece.to_owned()
    });
    pieces.collect()
}

/// Masks the user, the query's values, the fragment and key-like path segments of a URL; `None` if
/// the text is not a URL.
fn masked_url(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix("jdbc:") {
        return masked_url(inner).map(|shown| format!("jdbc:{shown}"));
    }
    let (scheme, rest) = text.split_once("://")?;
    if scheme.is_empty()
        || !scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        return None;
    }
    // A text that the URL standard rejects is masked completely.
    if Url::parse(text).is_err() && !rest.contains("${") {
        return Some(format!("{scheme}://{MASK}"));
    }
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, _)| (rest, "#***"));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map(|(_, host)| format!("{MASK}@{host}"));
    let host = host.unwrap_or_else(|| authority.to_owned());
    let shown = |part| if is_path_key(part) { MASK } else { part };
    let path: Vec<_> = path.split('/').map(shown).collect();
    let query = query.map(masked_query).unwrap_or_default();
    let whole = format!("{scheme}://{host}{}{query}{fragment}", path.join("/"));
    // Only `=`, because a colon precedes a port.
    Some(masked_named(&whole, &['=']))
}

/// Masks texts as a whole: JSON, and a user and password before a host.
fn masked_other(word: &str) -> Option<String> {
    if word.trim_start().starts_with(['{', '[']) {
        return Some(MASK.to_owned());
    }
    let (user, host) = word.rsplit_once('@')?;
    // In `--flag=value`, the value is checked by itself.
    let has_password = user.contains(':') && !user.contains('/') && !word.starts_with('-');
    has_password.then(|| format!("{MASK}@{host}"))
}

fn masked_query(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", masked_value(value)),
        None => MASK.to_owned(),
    });
    format!("?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Whether a path segment looks like a key, which may contain other signs there.
fn is_path_key(part: &str) -> bool {
    !part.starts_with("${") && (is_key(part) || is_key(&part.replace(['.', ':', '%', ','], "-")))
}

/// Whether a word looks like a key: a well-known kind, or long and mixed.
fn is_key(word: &str) -> bool {
    if word.starts_with("${") {
        return false;
    }
    let word = word.trim_matches(['"', '\'']);
    let is_known = word.len() >= 12 && KEYS.iter().any(|prefix| word.starts_with(prefix));
    let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+=~".contains(&b));
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let has = |kind: fn(&u8) -> bool| word.bytes().any(|b| kind(&b));
    let is_mixed =
        digits >= 4 || (digits >= 1 && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
    let is_random = is_plain && word.len() >= 20 && is_mixed && has(u8::is_ascii_alphabetic);
    is_known || is_random
}

#[cfg(test)]
mod tests {
    use super::Guarded;

    fn check(line: &str, expected: &str) {
        let given: Vec<_> = line.split('|').map(String::from).collect();
        let shown: Vec<_> =
            Guarded::arguments(&given).iter().map(|one| one.as_masked().to_owned()).collect();
        assert_eq!(shown.join("|"), expected, "{line}");
        let debug = format!("{:?}", Guarded::arguments(&given));
        assert_eq!(debug, format!("[{}]", shown.join(", ")));
    }

    #[test]
    fn secrets_in_arguments_are_masked() {
        check(
            "-y|@modelcontextprotocol/server-github@2025.4.8",
            "-y|@modelcontextprotocol/server-github@2025.4.8",
        );
        check("--api-key|hunter2|--port|8080", "--api-key|***|--port|8080");
        check("--api-key=hunter2|--root=/srv", "--api-key=***|--root=/srv");
        check("--token|--verbose", "--token|--verbose");
        check("run|-e|GITHUB_TOKEN|-e|KEY=hunter2|img", "run|-e|GITHUB_TOKEN|-e|KEY=***|img");
        check(
            "mcp-remote|https://a.b/sse|--header|Authorization: Bearer x",
            "mcp-remote|https://a.b/sse|--header|Authorization:***",
        );
        check(
            "--header|X-Key: env:SLUICE_KEY|--url|env:SLUICE_UPSTREAM_URL",
            "--header|X-Key: env:SLUICE_KEY|--url|env:SLUICE_UPSTREAM_URL",
        );
        check("postgresql://me:pw@db/app", "postgresql://***@db/app");
        check("ghp_0123456789abcdef0123", "***");
        check(
            "https://h.example/s/5f1e0c7b9a3d4e2f8c6b/mcp?key=v&x=1#f",
            "https://h.example/s/***/mcp?key=***&x=***#***",
        );
        check(
            "-c|TOKEN=hunter2 exec srv --password pw1 /x",
            "-c|TOKEN=*** exec srv --password *** /x",
        );
        check("Authorization:hunter2", "Authorization:***");
        check("--api-key|${KEY}", "--api-key|${KEY}");
        check("--token|${T:-hunter2}", "--token|***");
        check("Bearer|hunter2", "Bearer|***");
        check("Authorization: Bearer hunter2", "Authorization: *** ***");
        check("--header=Authorization: Bearer hunter2", "--header=Authorization:***");
        check("--header=X-Api-Key: hunter2", "--header=X-Api-Key:***");
        check("-HAuthorization:hunter2", "-HAuthorization:***");
        check("--config|{\"apiKey\":\"hunter2\"}", "--config|***");
        check("--dsn=me:hunter2@db:5432/app|me:hunter2@db", "--dsn=***@db:5432/app|***@db");
        check("me:a=b@db", "***@db");
        check("git@github.com:org/repo", "git@github.com:org/repo");
        check("/home/me/projects/mcp-servers/index.js", "/home/me/projects/mcp-servers/index.js");
    }

    #[test]
    fn secrets_within_words_are_masked() {
        check("--header=X-Api-Key:hunter2", "--header=X-Api-Key:***");
        check("--env=API_TOKEN=hunter2", "--env=API_TOKEN=***");
        check("--env=LEVEL=hunter2|-eLEVEL=hunter2", "--env=LEVEL=***|-eLEVEL=***");
        check("-HX-Other: hunter2|-env=x", "-HX-Other:***|-env=x");
        check(
            "jdbc:postgresql://h/db?user=me&password=hunter2",
            "jdbc:postgresql://h/db?user=***&password=***",
        );
        check(
            "jdbc:sqlserver://h;user=sa;password=hunter2",
            "jdbc:sqlserver://h;user=sa;password=***",
        );
        check("Server=db;User Id=sa;Password=hunter2", "Server=db;User Id=sa;Password=***");
        check("host=db,password=hunter2,port=1", "host=db,password=***,port=1");
        check("--dsn=user=me;pwd:hunter2;x=1", "--dsn=user=me;pwd:***;x=1");
        check(
            "curl -H \"X-Other: hunter2\" --header='X-More: hunter2' x",
            "curl -H \"X-Other: *** --header='X-More: *** x",
        );
        check("https://auth.example.com:8443/mcp", "https://auth.example.com:8443/mcp");
        for key in ["bot1234567:AAHdqTcvCH1vGW", "a1.b2.c3.d4.e5.f6.g7", "A1%2Fb2c3d4e5f6g7h8i9"] {
            check(&format!("https://h/{key}/mcp"), "https://h/***/mcp");
        }
    }

    #[test]
    fn secrets_programs_and_urls_are_masked() {
        assert_eq!(Guarded::secret("x").as_masked(), "***");
        assert_eq!(Guarded::program("npx -y s --token t1").as_masked(), "npx -y s --token ***");
        assert_eq!(
            Guarded::url("https://u:p@h/${TENANT}?a=${A}").as_masked(),
            "https://***@h/${TENANT}?a=${A}"
        );
        assert_eq!(Guarded::url("https://exa mple").as_masked(), "https://***");
        assert!(Guarded::url("https://h/?a=b").has_secret());
        assert!(!Guarded::url("https://h/mcp").has_secret());
    }
}
