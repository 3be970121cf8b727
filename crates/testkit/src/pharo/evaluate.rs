//! The expressions that the fake image can evaluate.

use sluice_wire::json::Quoted;

use super::envelope::Raised;

/// The value of an expression.
#[derive(Debug)]
pub(super) enum Value {
    Json(String),
    /// JSON has no form for an instance of that class.
    Unserialisable(String),
}

/// Evaluates an expression that is known here. Others cannot be compiled.
pub(super) fn evaluate(code: &str) -> Result<Value, Raised> {
    let code = code.trim();
    if let Some(text) = code.strip_suffix(" size") {
        return Ok(Value::Json(text.trim_matches('\'').chars().count().to_string()));
    }
    let json = match code {
        "1 + 1" | "5 - 3" | "5 rem: 3" => "2",
        "2 * 3" => "6",
        "10 / 2" => "5",
        "1 / 3" => "0.3333333333333333",
        "'Hello', ' World'" => "\"Hello World\"",
        "42 factorial" => "1405006117752879898543142606244511569936384000000000",
        "1000 factorial" => return Ok(Value::Json(factorial(1000))),
        "#(1 $a nil true)" => "[1,\"a\",null,true]",
        "nil" => "null",
        "Object new" => return Ok(Value::Unserialisable("Object".into())),
        "1 / 0" => return Err(Raised::new("ZeroDivide", "SmallInteger", "1")),
        "Dictionary new zork" => {
            let description =
                "MessageNotUnderstood: Instance of Dictionary did not understand #zork";
            let raised = Raised::new(description, "Dictionary", "a Dictionary()");
            return Err(raised.with_variables("\"tally\":\"0\",\"array\":\"#(nil nil nil)\""));
        }
        _ => return Err(not_compiled(code)),
    };
    Ok(Value::Json(json.to_owned()))
}

fn not_compiled(code: &str) -> Raised {
    let description = format!("CodeError: unknown expression {}", Quoted(code));
    Raised::new(description, "OpalCompiler", "an OpalCompiler")
}

/// All its digits.
fn factorial(number: u32) -> String {
    // Decimal digits, the least first.
    let mut digits = vec![1_u32];
    for factor in 2..=number {
        let mut carry = 0;
        for digit in &mut digits {
            let product = *digit * factor + carry;
            (*digit, carry) = (product % 10, product / 10);
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
    }
    digits.iter().rev().filter_map(|digit| char::from_digit(*digit, 10)).collect()
}
