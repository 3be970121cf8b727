//! Prints a value as compact JSON.

use std::fmt;

use super::{
    read::plain_prefix,
    tape::{Kind, Value},
};

impl fmt::Display for Value<'_> {
    /// Compact JSON that parses to the same tree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::Null | Kind::Bool | Kind::Number => f.write_str(self.raw()),
            Kind::String => write_string(f, self.as_str().unwrap_or_default()),
            Kind::List => {
                f.write_str("[")?;
                for (position, item) in self.items().into_iter().flatten().enumerate() {
                    if position > 0 {
                        f.write_str(",")?;
                    }
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Kind::Object => {
                f.write_str("{")?;
                for (position, (key, value)) in self.members().into_iter().flatten().enumerate() {
                    if position > 0 {
                        f.write_str(",")?;
                    }
                    key.fmt(f)?;
                    f.write_str(":")?;
                    value.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes `text` as a JSON string, with only the necessary escapes.
pub fn write_string(out: &mut impl fmt::Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    // Nearly all texts need no escapes and are copied.
    let (plain, rest) = text.split_at_checked(plain_prefix(text.as_bytes())).unwrap_or(("", text));
    out.write_str(plain)?;
    for character in rest.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control))?,
            other => out.write_char(other)?,
        }
    }
    out.write_char('"')
}

/// A text that displays as a JSON string, for use in `format!`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'t>(pub &'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_string(f, self.0)
    }
}
