//! All forms of a secret are found, wherever the chunks end.

use proptest::prelude::*;

use super::{KnownSecrets, MARK, Secrets};

const KEY: &str = "k/1+\"ä\\b=c d";

fn knowing(secrets: &[&str]) -> Secrets {
    let mut known = KnownSecrets::default();
    for secret in secrets {
        known.add(secret);
    }
    known.build()
}

/// An answer that arrives in these chunks, as it is passed on.
fn pass<'c>(secrets: &Secrets, chunks: impl IntoIterator<Item = &'c [u8]>) -> String {
    let mut stream = secrets.answer().unwrap();
    let mut passed = Vec::new();
    for chunk in chunks {
        match stream.push(chunk) {
            Some(bytes) => passed.extend(bytes),
            None => passed.extend_from_slice(chunk),
        }
    }
    passed.extend(stream.finish());
    String::from_utf8(passed).unwrap()
}

#[test]
fn each_form_of_a_secret_is_masked() {
    let secrets = knowing(&[KEY]);
    for form in [
        KEY,
        r#"k/1+\"ä\\b=c d"#,
        r#"k\/1+\"ä\\b=c d"#,
        r#"k/1+\"\u00e4\\b=c d"#,
        r"k/1\u002B\u0022\u00E4\u005Cb=c d",
        r#"k/1+\\\"ä\\\\b=c d"#,
        "k%2F1%2B%22%C3%A4%5Cb%3Dc%20d",
        "k%2f1%2b%22%c3%a4%5cb%3dc+d",
        "k/1+%22%C3%A4%5Cb=c%20d",
    ] {
        assert_eq!(secrets.mask(&format!("<{form}>")), format!("<{MARK}>"), "{form}");
    }
}

#[test]
fn base64_is_masked_at_each_alignment() {
    let secret = "s3cr3t-of-the-server";
    let secrets = knowing(&[secret]);
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{secret}{after}");
            let encoded = data_encoding::BASE64.encode(text.as_bytes());
            let masked = secrets.mask(&encoded).into_owned();
            assert!(masked.contains(MARK), "{text}: {masked}");
            assert!(masked.replace(MARK, "").len() <= encoded.len() - 24, "{text}: {masked}");
        }
    }
}

#[test]
fn short_secrets_are_masked_for_operators_only_and_shorter_ones_nowhere() {
    let secrets = knowing(&["hush", "abc", "12345678"]);
    assert_eq!(secrets.mask("hush abc"), "[secret] abc");
    assert_eq!(pass(&secrets, [&b"hush abc"[..]]), "hush abc");
    // A number stays one.
    assert_eq!(pass(&secrets, [&b"{\"n\":12345678}"[..]]), "{\"n\":11111111}");
    assert!(knowing(&["abc"]).is_empty());
    assert!(knowing(&["hush"]).answer().is_none());
}

#[test]
fn overlapping_secrets_are_removed_whole_and_once() {
    let secrets = knowing(&["abcdefgh", "abcdefghijkl", "efghXXXX"]);
    for text in ["<abcdefgh>", "<abcdefghijkl>", "<abcdefghXXXX>", "<ABCDEFGH>"] {
        for cut in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            let passed = pass(&secrets, [a, b]);
            // After the shorter secret the end of the longer one may still come.
            assert!(passed.starts_with("<[secret]") && passed.ends_with('>'), "{passed}");
            assert!(!passed.contains("efgh") && !passed.contains("XX"), "{passed}");
            assert!(!passed.contains('j'), "{passed}");
        }
    }
    let long = "a".repeat(100_000);
    assert_eq!(pass(&knowing(&["aaaaaaaa"]), long.as_bytes().chunks(7)), MARK);
}

#[test]
fn only_what_may_begin_a_secret_is_held_back() {
    let mut stream = knowing(&["abcdefgh"]).answer().unwrap();
    assert_eq!(stream.push(b"data: {}\n\n"), None);
    assert_eq!(stream.push(b"data: abc").as_deref(), Some(&b"data: "[..]));
    assert_eq!(stream.push(b"abd").as_deref(), Some(&b"abcabd"[..]));
    assert_eq!(stream.push(b"xabcdefg").as_deref(), Some(&b"x"[..]));
    assert_eq!(stream.push(b"h").as_deref(), Some(MARK.as_bytes()));
    assert_eq!(stream.finish(), b"");
}

#[test]
fn a_text_that_was_cut_within_a_secret_shows_no_part_of_it() {
    let secrets = knowing(&["s3cr3t-of-the-server"]);
    assert_eq!(secrets.mask_cut("token s3cr3t-of-th"), "token [secret]");
    assert_eq!(secrets.mask("token s3cr3t-of-th"), "token s3cr3t-of-th");
    let long = "0123456789abcdef".repeat(300);
    assert_eq!(knowing(&[&long]).mask(&format!("<{long}>")), format!("<{MARK}>"));
    let key = "-----BEGIN KEY-----\nMIIEvQIBADAN\n  abcdefgh\n-----END KEY-----";
    assert_eq!(knowing(&[key]).mask("it has MIIEvQIBADAN in it"), "it has [secret] in it");
}

#[test]
fn secrets_are_found_in_headers_urls_variables_and_commands() {
    let mut known = KnownSecrets::default();
    known.add_header("authorization", "Bearer of-the-header");
    known.add_header("authorization", "Basic dXNlcjpvZi1iYXNpYw==");
    known.add_header("cookie", "a=of-the-cookie; b=2");
    known.add_header("x-key", "of two words");
    known.add_url("https://me:of-user@h/mcp/a1b2c3d4e5f6a7b8c9d0?key=of%2Dquery&x=1#f");
    known.add_variable("LOG_LEVEL", "information", false);
    known.add_variable("PLAIN", "looked-up", true);
    known.add_variable("API_TOKEN", "by-its-name", false);
    known.add_variable("DB", "postgres://me:of-database@h/x", false);
    known.add_command(&["x".into(), "--token".into(), "of-command".into()]);
    let secrets = known.build();
    for secret in [
        "of-the-header",
        "of-basic",
        "of-the-cookie",
        "two words",
        "of-user",
        "of-query",
        "of%2Dquery",
        "a1b2c3d4e5f6a7b8c9d0",
        "looked-up",
        "by-its-name",
        "of-database",
        "of-command",
    ] {
        assert_eq!(secrets.mask(secret), MARK, "{secret}");
    }
    let shown = "https://h/mcp LOG_LEVEL information Bearer Basic";
    assert_eq!(secrets.mask(shown), shown);
    assert!(!format!("{secrets:?} {:?}", secrets.answer()).contains("of-"));
}

proptest! {
    #[test]
    fn chunks_make_no_difference(
        parts in proptest::collection::vec("abcdefgh|abcd|efgh|ghab|[a-h]|[xyz]", 0..40),
        sizes in proptest::collection::vec(1usize..9, 1..20),
    ) {
        let secrets = knowing(&["abcdefgh", "efghabcd", "ghabxyzx"]);
        let text = parts.concat();
        let whole = pass(&secrets, [text.as_bytes()]);
        let mut chunks = Vec::new();
        let mut rest = text.as_bytes();
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        // A mark stands for all secrets that overlap or touch.
        let merge = |text: String| text.replace("[secret][secret]", MARK);
        prop_assert_eq!(merge(pass(&secrets, chunks)), merge(whole.clone()));
        for secret in ["abcdefgh", "efghabcd", "ghabxyzx"] {
            prop_assert!(!whole.contains(secret));
        }
    }
}
