//! TOML values as JSON, for the options of built-in servers.

use serde_json::{Number, Value};
use toml::de::DeValue;

/// The value in JSON; `None` for what JSON has no way to write.
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

#[cfg(test)]
mod tests {
    use serde_json::json as expected;
    use toml::de::DeValue;

    use super::json;

    #[test]
    fn options_become_json() {
        let value =
            DeValue::parse(r#"{ port = 0x1f, on = true, list = [1.5, "a"], t = 2026-01-01 }"#)
                .unwrap();
        let found = json(value.get_ref()).unwrap().to_string();
        let written = expected!({ "list": [1.5, "a"], "on": true, "port": 31, "t": "2026-01-01" });
        assert_eq!(found, written.to_string());
        assert!(json(DeValue::parse("[nan]").unwrap().get_ref()).is_none());
    }
}
