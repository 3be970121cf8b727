//! Tests of exact decimals, alone and in conditions.

use crate::oracle::Decimal;
use serde_json::Value;

use super::cond;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
}

#[test]
fn numbers_compare_as_exact_decimals_from_the_wire() {
    let args: Value = serde_json::from_str(r#"{"a": 10000.0000000000000001}"#).unwrap();
    cond("args.a", "gt", 10000.into(), args.clone(), Ok(true));
    cond("args.a", "lte", 10000.into(), args.clone(), Ok(false));
    cond("args.a", "eq", 10000.into(), args, Ok(false));
    let args: Value = serde_json::from_str(r#"{"a": 1.50e1}"#).unwrap();
    cond("args.a", "eq", 15.into(), args.clone(), Ok(true));
    cond("args.a", "gte", 15.into(), args.clone(), Ok(true));
    cond("args.a", "lt", 15.into(), args.clone(), Ok(false));
    cond("args.a", "in", serde_json::json!([1, 15]), args, Ok(true));
    let args: Value = serde_json::from_str(r#"{"a": 9007199254740993}"#).unwrap();
    cond("args.a", "eq", 9_007_199_254_740_992_u64.into(), args, Ok(false));
}

#[test]
fn huge_exponents_compare_rightly() {
    let ordered = [
        "-1e99999999999999999999",
        "-2",
        "-1.5",
        "-0",
        "1e-99999999999999999999",
        "0.1",
        "1",
        "1.01",
        "2",
        "10",
        "9e5",
        "1e99999999999999999999",
    ];
    for (at, left) in ordered.iter().enumerate() {
        for (other, right) in ordered.iter().enumerate() {
            assert_eq!(decimal(left).cmp(&decimal(right)), at.cmp(&other), "{left} {right}");
        }
    }
    let args: Value = serde_json::from_str(r#"{"a": 1e99999999999999999999}"#).unwrap();
    cond("args.a", "gt", 5.into(), args, Ok(true));
}

#[test]
fn decimals_print_plainly_and_add_exactly() {
    for (text, plain) in [
        ("1.50", "1.5"),
        ("0.05", "0.05"),
        ("-2e3", "-2000"),
        ("12e-1", "1.2"),
        ("-0.0", "0"),
        ("1E+2", "100"),
        ("100", "100"),
    ] {
        assert_eq!(decimal(text).to_string(), plain);
    }
    assert_eq!(decimal("0.1").plus(&decimal("0.2")).to_string(), "0.3");
    assert_eq!(decimal("0.5").plus(&decimal("99.5")), Decimal::from(100));
    assert_eq!(Decimal::from(0).plus(&Decimal::from(0)).to_string(), "0");
    for bad in ["", "-", "x", ".5", "1e", "1_0", "+1", " 1"] {
        assert_eq!(Decimal::parse(bad), None, "{bad}");
    }
}
