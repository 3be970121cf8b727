//! Options of built-in servers: TOML in the file, JSON inside, TOML in `sluice config`.

use serde_json::{Number, Value};
use toml::de::DeValue;

/// Converts a value to JSON; `None` if JSON cannot represent it.
pub(super) fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.as_ref().to_owned()),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Boolean(word) => Value::Bool(*word),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(list) => {
            Value::Array(list.iter().map(|one| json(one.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(key, one)| Some((key.get_ref().as_ref().to_owned(), json(one.get_ref())?)))
                .collect::<Option<_>>()?,
        ),
    })
}

/// Converts such a value back to TOML. Numbers are converted by hand, because `serde_json`
/// serialises those of arbitrary precision in its own form.
pub(super) fn toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Bool(word) => toml::Value::Boolean(*word),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => toml::Value::Integer(whole),
            None => toml::Value::Float(number.as_f64()?),
        },
        Value::Array(list) => toml::Value::Array(list.iter().map(toml).collect::<Option<_>>()?),
        Value::Object(members) => toml::Value::Table(
            members
                .iter()
                .map(|(key, one)| Some((key.clone(), toml(one)?)))
                .collect::<Option<_>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json as expected;
    use toml::de::DeValue;

    use super::{json, toml};

    #[test]
    fn options_become_json() {
        let value =
            DeValue::parse(r#"{ port = 0x1f, on = true, list = [1.5, "a"], t = 2026-01-01 }"#)
                .unwrap();
        let found = json(value.get_ref()).unwrap().to_string();
        let written = expected!({ "list": [1.5, "a"], "on": true, "port": 31, "t": "2026-01-01" });
        assert_eq!(found, written.to_string());
        let again = toml(&json(value.get_ref()).unwrap()).unwrap();
        assert_eq!(again["port"].as_integer(), Some(31));
        assert_eq!(again["list"][0].as_float(), Some(1.5));
        assert!(json(DeValue::parse("[nan]").unwrap().get_ref()).is_none());
    }
}
