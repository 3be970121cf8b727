//! What generated policies and calls are made of.

use serde_json::{Number, Value};

/// Tools, some of them named to be mistaken for something else.
pub(crate) const TOOLS: &[&str] = &[
    "send",
    "send_money",
    "Send",
    "get",
    "get_user",
    "get_get_user",
    "all_tools",
    "a/b~c",
    "é",
    "",
];

/// Patterns that are names.
pub(crate) const NAMES: &[&str] =
    &["send", "send_money", "get", "get_user", "all_tools", "a/b~c", "é", "", "send ", "other"];

/// Patterns with stars; enough of them that the engine searches instead of trying each.
pub(crate) const GLOBS: &[&str] = &[
    "*",
    "**",
    "send*",
    "*send",
    "*_*",
    "s*d*",
    "get*",
    "*get*get*",
    "*user",
    "*e*",
    "g*_*r",
    "a/*",
    "é*",
    "*é",
    "S*",
    "all_*",
    "ge*et",
    "*__*",
    "send*money",
];

pub(crate) const CATEGORIES: &[&str] =
    &["@read", "@write", "@execute", "@destructive", "@financial", "@other"];

/// Spellings of few different numbers.
pub(crate) const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "0.0",
    "-0e5",
    "1",
    "1.0",
    "10",
    "1e1",
    "1E+1",
    "10.0",
    "100e-1",
    "9.99",
    "-1",
    "-0.5",
    "-10",
    "99",
    "100",
    "1e2",
    "10000",
    "10000.0",
    "10000.0000000000000001",
    "9999.9999999999999999",
    "1e4",
    "0.1",
    "0.2",
    "0.3",
    "1e-18",
    "1e-19",
    "0.000000000000000001",
    "1e400",
    "-1e400",
    "1e-400",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "9007199254740993",
    "9007199254740992",
];

/// Numbers that only an argument may have: a policy's are bounded.
pub(crate) const WILD_NUMBERS: &[&str] =
    &["1e99999999999999999999", "-1e99999999999999999999", "0.1e-99999999999999999999"];

/// What limits allow.
pub(crate) const BOUNDS: &[&str] = &[
    "0",
    "1",
    "2",
    "10",
    "1e1",
    "9.5",
    "10.50",
    "100",
    "0.3",
    "10000",
    "1e400",
    "1e-19",
    "-0",
    "340282366920938463463374607431768211455",
    "0.999999999999999999999",
];

/// What counters read.
pub(crate) const READINGS: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "9",
    "9.5",
    "10",
    "0.3",
    "99",
    "9.499999999999999999",
    "10000",
    "340282366920938463463374607431768211455",
];

pub(crate) const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "abc",
    "abc\n",
    "ab",
    " abc",
    "abc ",
    "é",
    "e\u{301}",
    "10",
    "true",
    "null",
    "/srv/data/a",
    "https://api.example.com/",
    "\0",
    "\u{17f}tart",
    "*",
];

pub(crate) const REGEXES: &[&str] =
    &["", "^abc$", "b", "^$", "(?i)ABC", r"^\d+$", "a|é", "^/srv/", ".", r"\bapi\.", "(?m)c$"];

pub(crate) const DIRECTORIES: &[&str] =
    &["/srv/data", "/srv/data/", "/tmp", "/", "/srv/./x/../data", "//srv//data", "/é", "/etc/.."];

pub(crate) const FILES: &[&str] = &[
    "/srv/data",
    "/srv/data/",
    "/srv/data/a",
    "/srv/database",
    "/srv/data/../etc",
    "/srv/../tmp/x",
    "/srv//data/./a",
    "//srv/data/a",
    "///srv/data",
    "/../../tmp",
    "/..",
    "/",
    "//",
    "",
    ".",
    "srv/data",
    "./tmp",
    "../tmp",
    "~",
    "~/a",
    "/srv/data/~",
    "/srv/data/~root/../x",
    "/srv/data/a~",
    "/srv/data\\a",
    "C:\\tmp",
    "C:/tmp",
    "\\\\?\\C:\\x",
    "//./tmp",
    "//?/tmp",
    "/??/tmp",
    "/?/tmp",
    "//./",
    "//.",
    "/tmp/..",
    "/tmp/...",
    "/tmp/. ./x",
    "/tmp/\0",
    "/é/ü",
    "/TMP/x",
    "file:///tmp/x",
    "/tmp/%2e%2e/etc",
    " /tmp/x",
    "/tmp/x ",
    "/tmp\n",
    "//.//tmp",
];

pub(crate) const HOSTS: &[&str] = &[
    "api.example.com",
    "*.example.com",
    "example.com",
    "*.com",
    "127.0.0.1",
    "[::1]",
    "localhost",
    "bücher.example",
    "*.xn--bcher-kva.example",
    "EXAMPLE.com",
    "*.EXAMPLE.org",
    "0x7f.1",
    "evil.net",
];

pub(crate) const URLS: &[&str] = &[
    "https://api.example.com/x",
    "https://API.EXAMPLE.COM:8443",
    "https://example.com",
    "https://.example.com/",
    "https://a.b.example.com",
    "https://xexample.com",
    "https://a..example.com",
    "https://api.example.com./",
    "https://example.com..",
    "https://user@api.example.com/",
    "https://user:pw@evil.net",
    "https://:@api.example.com",
    "https://@api.example.com/",
    "https://api.example.com@evil.net",
    "https://api.example.com\\@evil.net/",
    "https://evil.net/@api.example.com",
    "https://api.example.com/@/../x",
    "https://evil.net?@a",
    "https://evil.net#@api.example.com",
    "http://127.0.0.1/",
    "http://0x7f.1",
    "http://2130706433/",
    "http://127.1",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]",
    "http://[::ffff:127.0.0.1]",
    "http://0177.0.0.1",
    "http://127.0.0.1.",
    "http://bücher.example/",
    "http://xn--bcher-kva.example",
    "http://b%C3%BCcher.example",
    "http://a.BÜCHER.example",
    "http://ａｐｉ.example.com/",
    "http://api。example.com",
    "//api.example.com",
    "api.example.com",
    "api.example.com:80",
    "https:api.example.com",
    "https:/api.example.com",
    "https:\\\\api.example.com",
    " https://api.example.com ",
    "ht\ntps://api.example.com",
    "https://api.exa\tmple.com",
    "https://api.example.com:0",
    "https://api.example.com:99999",
    "https://",
    "https:///api.example.com",
    "mailto:a@example.com",
    "data:text/html,api.example.com",
    "file:///etc/passwd",
    "file://api.example.com/x",
    "javascript:alert(1)",
    "foo://api.example.com/x",
    "foo://API.example.com",
    "foo:///x",
    "foo://@evil.net/",
    "foo:/@evil.net/",
    "blob:https://api.example.com/x",
    "ws://api.example.com",
    "https://api.example.com%00",
    "https://api.example.com%2eevil.net",
    "https://exa mple.com",
    "https://evil.net/../api.example.com",
    "",
    "https://a@/../b",
    "https://evil.net/a@b/../c",
];

/// Keys of resources, of which some climb.
pub(crate) const URIS: &[&str] = &[
    "file:///srv/a",
    "file:///srv/",
    "file:///srv",
    "file:///etc/a",
    "file:///srv/../etc/a",
    "file:///srv/%2e%2e/etc",
    "file:///srv/%2E./etc",
    "file:///srv/..%2fetc",
    "file:///srv/x%2F..%2Fy",
    "file:///srv/..%5cetc",
    "file:///srv/..\\etc",
    "file:///srv/..a",
    "file:///srv/a..",
    "file:///srv/%2f..a",
    "file:///srv/.\t./etc",
    "note://1",
    "note://..",
    "note://1?..",
    "note://1?q=..",
    "",
    "..",
];

pub(crate) const URI_PATTERNS: &[&str] =
    &["file:///srv/*", "note://*", "*", "file:///srv", "*etc*", ""];

pub(crate) const PROMPTS: &[&str] = &["greet", "greet_all", "bye", "Greet", ""];

pub(crate) const PROMPT_PATTERNS: &[&str] = &["greet*", "bye", "*", "g*t"];

pub(crate) const METHODS: &[&str] = &["x/y", "x/", "x", "y/x", "tasks/list", ""];

pub(crate) const METHOD_PATTERNS: &[&str] = &["x/*", "*/x", "*", "tasks/list"];

/// A value from its text.
pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// A number that stays as it is spelt. Parsing would turn `1E+1` and `1e1` into one
/// text, so this takes the constructor that `serde_json` keeps for tests.
pub(crate) fn number(text: &str) -> Value {
    Value::Number(Number::from_string_unchecked(text.to_owned()))
}
