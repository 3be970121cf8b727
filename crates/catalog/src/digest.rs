//! Digests: of a definition, to detect changes, and of a text.

use ring::digest::{Context, SHA256};
use sluice_wire::json::{Kind, Value};

/// The digest of a tool's whole definition, independent of white space.
pub(crate) fn of_definition(tool: Value<'_>) -> i64 {
    let mut context = Context::new(&SHA256);
    add(tool, &mut context);
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    i64::from_le_bytes(first)
}

/// Adds a value in an unambiguous encoding.
fn add(value: Value<'_>, context: &mut Context) {
    match value.kind() {
        Kind::List => {
            context.update(b"[");
            value.items().into_iter().flatten().for_each(|item| add(item, context));
            context.update(b"]");
        }
        Kind::Object => {
            context.update(b"{");
            for (key, member) in value.members().into_iter().flatten() {
                add(key, context);
                add(member, context);
            }
            context.update(b"}");
        }
        Kind::String => {
            let text = value.as_str().unwrap_or_default();
            context.update(b"\"");
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        }
        Kind::Null | Kind::Bool | Kind::Number => {
            context.update(value.raw().as_bytes());
            context.update(b",");
        }
    }
}

/// The digest of a text, as `length` characters that are valid in file names and URLs.
pub(crate) fn of_text(text: &str, length: usize) -> String {
    let digest = ring::digest::digest(&SHA256, text.as_bytes());
    let digits = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bytes = digest.as_ref().iter().take(length);
    bytes
        .map(|byte| char::from(digits.get(usize::from(byte & 31)).copied().unwrap_or(b'0')))
        .collect()
}

/// The digest of a text, as a small number.
pub(crate) fn number(text: &str) -> u32 {
    let digest = ring::digest::digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(3).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The full digest of some bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&SHA256, bytes).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use sluice_wire::json::{Bounds, Document};

    use super::of_definition;

    #[test]
    fn the_digest_of_a_definition_ignores_white_space_only() {
        let digest =
            |text: &str| of_definition(Document::parse(text, &Bounds::default()).unwrap().root());
        let first = digest(r#"{"name":"a","x":[1,true]}"#);
        assert_eq!(digest("{ \"name\" : \"a\",\n \"x\": [1, true] }"), first);
        for other in [
            r#"{"name":"a","x":[1],"true":0}"#,
            r#"{"name":"a","x":[11]}"#,
            r#"{"name":"b","x":[1,true]}"#,
        ] {
            assert_ne!(digest(other), first, "{other}");
        }
    }
}
