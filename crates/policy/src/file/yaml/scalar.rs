//! Resolves unquoted YAML scalars by the core schema.

use super::Content;

/// The maximum number of digits in a number; more would be a mistake, and slow to compare.
const LONGEST_NUMBER: usize = 1024;

/// Resolves a scalar, or says why it is invalid.
pub(super) fn resolve(text: &str) -> Result<Content, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" => Content::Bool(true),
        "false" | "False" | "FALSE" => Content::Bool(false),
        _ if is_not_finite(text) => {
            return Err(format!("`{text}` is not a number a policy can compare with"));
        }
        _ if is_too_large(text) => {
            return Err(format!("`{text}` is too large: write it as a decimal number"));
        }
        _ => match number(text) {
            Some(number) if number.len() > LONGEST_NUMBER => {
                return Err(format!("number longer than {LONGEST_NUMBER} bytes"));
            }
            Some(number) => Content::Number(number.into()),
            None => Content::String(text.into()),
        },
    })
}

fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// Whether this is a number in base 8 or 16 with more than 128 bits.
fn is_too_large(text: &str) -> bool {
    [("0o", 8), ("0x", 16)].iter().any(|(prefix, base)| {
        text.strip_prefix(prefix).is_some_and(|digits| {
            let well_formed = digits.chars().all(|digit| digit.is_digit(*base));
            !digits.is_empty() && well_formed && radix(digits, *base).is_none()
        })
    })
}

/// The JSON spelling of a YAML number.
fn number(text: &str) -> Option<String> {
    if let Some(octal) = text.strip_prefix("0o") {
        return radix(octal, 8);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return radix(hexadecimal, 16);
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent_digits.is_none_or(|text| !text.is_empty() && digits(text));
    if !well_formed {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    let exponent = exponent.map(|text| format!("e{text}")).unwrap_or_default();
    Some(format!("{sign}{whole}{point}{fraction}{exponent}"))
}

fn radix(digits: &str, radix: u32) -> Option<String> {
    let unsigned = !digits.starts_with(['+', '-']);
    unsigned.then(|| u128::from_str_radix(digits, radix).ok())?.map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Content, resolve};

    fn check(text: &str, expected: &str) {
        let found = match resolve(text) {
            Ok(Content::Null) => "null".into(),
            Ok(Content::Bool(truth)) => truth.to_string(),
            Ok(Content::Number(number)) => number.to_string(),
            Ok(Content::String(text)) => format!("'{text}'"),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn scalars_are_resolved_by_the_core_schema() {
        check("", "null");
        check("~", "null");
        check("True", "true");
        check("yes", "'yes'");
        check("on", "'on'");
        check("10", "10");
        check("+007", "7");
        check("-0", "-0");
        check("0x1F", "31");
        check("0o17", "15");
        check("0x-1", "'0x-1'");
        check(".5", "0.5");
        check("1.", "1");
        check("1.50", "1.50");
        check("1e3", "1e3");
        check("-.5E-2", "-0.5e-2");
        check("1_000", "'1_000'");
        check("1e", "'1e'");
        check(".", "'.'");
        check("10000.0000000000000001", "10000.0000000000000001");
        check("1.2.3", "'1.2.3'");
        assert!(resolve(".nan").is_err());
        assert!(resolve("-.inf").is_err());
        check("0x", "'0x'");
        check("0xffffffffffffffffffffffffffffffff", "340282366920938463463374607431768211455");
        assert!(resolve("0x100000000000000000000000000000000").is_err());
    }
}
