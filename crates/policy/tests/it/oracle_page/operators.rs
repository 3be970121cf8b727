//! Tests of the operators on text, lists, paths and hosts.

use serde_json::json;

use super::cond;

/// Checks one operator on `args.a`.
#[track_caller]
fn op(op: &str, value: serde_json::Value, argument: serde_json::Value, holds: Result<bool, &str>) {
    cond("args.a", op, value, json!({ "a": argument }), holds);
}

#[test]
fn text_compares_code_point_by_code_point() {
    op("eq", json!("é"), json!("é"), Ok(true));
    op("eq", json!("é"), json!("e\u{301}"), Ok(false));
    op("eq", json!("a"), json!("A"), Ok(false));
    op("eq", json!("a"), json!("a "), Ok(false));
    op("eq", json!(true), json!(true), Ok(true));
    op("neq", json!(true), json!(false), Ok(true));
}

#[test]
fn regex_searches_anywhere_and_dollar_is_the_very_end() {
    op("regex", json!("b+"), json!("abbc"), Ok(true));
    op("regex", json!("^b"), json!("abbc"), Ok(false));
    op("regex", json!("^a$"), json!("a"), Ok(true));
    op("regex", json!("^a$"), json!("a\n"), Ok(false));
}

#[test]
fn contains_starts_with_and_ends_with() {
    op("contains", json!("bc"), json!("abcd"), Ok(true));
    op("contains", json!("bd"), json!("abcd"), Ok(false));
    op("contains", json!("b"), json!(["a", "b"]), Ok(true));
    op("contains", json!("b"), json!(["ab"]), Ok(false));
    op("contains", json!(1), json!(["1", 1.0]), Ok(true));
    op("contains", json!(1), json!(["1"]), Ok(false));
    op("contains", json!(1), json!([]), Ok(false));
    op("starts_with", json!("ab"), json!("abc"), Ok(true));
    op("starts_with", json!("ab"), json!("cab"), Ok(false));
    op("ends_with", json!("ab"), json!("cab"), Ok(true));
    op("ends_with", json!("ab"), json!("abc"), Ok(false));
}

#[test]
fn path_within_resolves_lexically_by_whole_segments() {
    let within = json!(["/srv/data/", "/tmp"]);
    for (path, holds) in [
        ("/srv/data", true),
        ("/srv/data/", true),
        ("/srv/data/x", true),
        ("/srv//data/./x/../y", true),
        ("/../srv/data/x", true),
        ("//srv/data/x", true),
        ("/srv/data/..", false),
        ("/srv/data/../../etc", false),
        ("/srv/database", false),
        ("/", false),
        ("/srv/data/a~", true),
    ] {
        op("path_within", within.clone(), json!(path), Ok(holds));
    }
    op("path_within", json!(["/"]), json!("/etc"), Ok(true));
    for path in [
        "",
        "srv/data",
        "./srv",
        "~",
        "/srv/data/~",
        "/srv/data/~root/../x",
        "/srv/data/a\0",
        "/srv/data\\x",
        "C:/x",
        "//./srv/data",
        "//?/srv",
    ] {
        op("path_within", within.clone(), json!(path), Err("type"));
    }
}

#[test]
fn url_host_in_matches_hosts_and_hosts_below() {
    let hosts = json!(["api.example.com", "*.example.org"]);
    for (url, holds) in [
        ("https://api.example.com/x?y#z", true),
        ("https://API.Example.com:8443", true),
        ("  https:\\\\api.example.com\\x", true),
        ("https://api.example.com.evil.net/", false),
        ("https://example.com/", false),
        ("https://a.example.org", true),
        ("https://a.b.example.org", true),
        ("https://example.org", false),
        ("https://badexample.org", false),
        ("https://evil.net/#api.example.com", false),
    ] {
        op("url_host_in", hosts.clone(), json!(url), Ok(holds));
    }
    for url in [
        "",
        "api.example.com",
        "//api.example.com",
        "/x",
        "https://u@api.example.com/",
        "https://u:p@api.example.com",
        "https://",
    ] {
        op("url_host_in", hosts.clone(), json!(url), Err("type"));
    }
    op("url_host_in", json!(["127.0.0.1"]), json!("http://0x7f.1/"), Ok(true));
    op("url_host_in", json!(["[::1]"]), json!("http://[0:0::1]/"), Ok(true));
    op("url_host_in", json!(["Bücher.example"]), json!("http://bücher.EXAMPLE/"), Ok(true));
}
