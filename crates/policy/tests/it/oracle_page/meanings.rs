//! Tests of absence, wrong types, look-alikes and paths.

use serde_json::{Value, json};

use super::{check, cond};

#[test]
fn a_condition_on_an_absent_path_is_false() {
    for (op, value) in [
        ("eq", json!(1)),
        ("neq", json!(1)),
        ("lt", json!(1)),
        ("in", json!([1])),
        ("not_in", json!([1])),
        ("regex", json!("")),
        ("contains", json!("")),
        ("path_within", json!(["/"])),
    ] {
        cond("args.a", op, value.clone(), json!({}), Ok(false));
        cond("args.a.b", op, value, json!({ "a": {} }), Ok(false));
    }
}

#[test]
fn exists_treats_null_as_absent() {
    for (args, there) in [
        (json!({ "a": 0 }), true),
        (json!({ "a": false }), true),
        (json!({ "a": null }), false),
        (json!({}), false),
    ] {
        cond("args.a", "exists", json!(true), args.clone(), Ok(there));
        cond("args.a", "exists", json!(false), args, Ok(!there));
    }
    let plain = json!({ "require": [{ "conditions": [{ "path": "args.a", "op": "exists" }] }] });
    check(plain.clone(), json!({ "a": 1 }), "allow");
    check(plain, json!({}), "deny /tools/t/require/args.a-exists");
}

#[test]
fn null_is_a_wrong_type_elsewhere() {
    for (op, value) in [
        ("eq", json!(1)),
        ("neq", json!("x")),
        ("gt", json!(1)),
        ("in", json!([null, 1])),
        ("contains", json!("a")),
    ] {
        cond("args.a", op, value, json!({ "a": null }), Err("type"));
    }
}

#[test]
fn a_wrong_type_cannot_be_judged() {
    for (op, value, argument) in [
        ("gt", json!(1), json!("2")),
        ("in", json!(["a"]), json!(["a"])),
        ("eq", json!(5), json!("5")),
        ("neq", json!("true"), json!(true)),
        ("not_in", json!(["a", true]), json!(1)),
        ("in", json!([]), json!(1)),
        ("eq", json!(1), json!({})),
        ("regex", json!("5"), json!(5)),
        ("starts_with", json!("5"), json!(5)),
        ("ends_with", json!("5"), json!(5)),
        ("contains", json!("5"), json!(5)),
        ("contains", json!(5), json!("5")),
        ("path_within", json!(["/"]), json!(["/"])),
        ("url_host_in", json!(["a"]), json!(1)),
    ] {
        cond("args.a", op, value, json!({ "a": argument }), Err("type"));
    }
    cond("args.a", "in", json!(["a", 1]), json!({ "a": "b" }), Ok(false));
    cond("args.a", "in", json!(["a", 1]), json!({ "a": 1 }), Ok(true));
    cond("args.a", "not_in", json!(["a", 1]), json!({ "a": 2 }), Ok(true));
}

#[test]
fn stepping_into_a_scalar_is_a_wrong_type() {
    for scalar in [json!("x"), json!(1), json!(true), json!(null)] {
        cond("args.a.b", "eq", json!(1), json!({ "a": scalar }), Err("type"));
        cond("args.a.b", "exists", json!(false), json!({ "a": scalar }), Err("type"));
    }
}

#[test]
fn look_alike_keys_deny_whether_or_not_the_exact_key_is_there() {
    for key in ["Amount", " amount", "amount\u{a0}", "am\0ount", "\0 AMOUNT\0"] {
        cond("args.amount", "gt", json!(1), object(&[(key, json!(5))]), Err("look-alike"));
        cond(
            "args.amount",
            "gt",
            json!(1),
            object(&[("amount", json!(5)), (key, json!(5))]),
            Err("look-alike"),
        );
        cond(
            "args.x.amount.y",
            "exists",
            json!(true),
            json!({ "x": object(&[(key, json!(5))]) }),
            Err("look-alike"),
        );
    }
    cond(
        "args.amount",
        "gt",
        json!(1),
        json!({ "amount": 5, "a mount": 5, "amounts": 5 }),
        Ok(true),
    );
    for (governed, other) in
        [("args.sk", "\u{17F}\u{212A}"), ("args.straße", "STRASSE"), ("args.ας", "ΑΣ")]
    {
        cond(governed, "exists", json!(false), object(&[(other, json!(1))]), Err("look-alike"));
    }
}

#[test]
fn a_look_alike_off_the_path_is_nobodys_business() {
    cond("args.a.b", "eq", json!(1), json!({ "a": { "b": 1 }, "c": { "B": 1 } }), Ok(true));
}

#[test]
fn paths_walk_lists_by_number() {
    let args = json!({ "items": [{ "id": 1 }, { "id": 2 }] });
    cond("args.items.1.id", "eq", json!(2), args.clone(), Ok(true));
    cond("args.items.2.id", "eq", json!(2), args.clone(), Ok(false));
    cond("args.items.99999999999999999999999.id", "exists", json!(false), args.clone(), Ok(true));
    cond("args.items.01.id", "eq", json!(2), args.clone(), Err("type"));
    cond("args.items.id", "eq", json!(2), args, Err("type"));
    cond("args.0", "eq", json!(2), json!({ "0": 2 }), Ok(true));
}

#[test]
fn a_star_is_every_element() {
    let gt = json!([{ "conditions": [{ "path": "args.i.*.n", "op": "gt", "value": 1 }] }]);
    let (require, deny_if) = (json!({ "require": gt }), json!({ "deny_if": gt }));
    let mixed = json!({ "i": [{ "n": 2 }, { "n": 1 }] });
    check(require.clone(), mixed.clone(), "deny /tools/t/require/args.i.*.n-gt");
    check(deny_if.clone(), mixed, "deny /tools/t/deny_if/args.i.*.n-gt");
    check(require.clone(), json!({ "i": [{ "n": 2 }, {}] }), "deny /tools/t/require/args.i.*.n-gt");
    check(require, json!({ "i": [{ "n": 2 }, { "n": 3 }] }), "allow");
    check(deny_if, json!({ "i": [{ "n": 1 }, { "n": 0 }] }), "allow");
    cond("args.i.*.n", "gt", json!(1), json!({ "i": [] }), Ok(false));
    cond("args.i.*.n", "exists", json!(false), json!({ "i": [] }), Ok(true));
    cond("args.i.*", "eq", json!(1), json!({ "i": { "*": 1 } }), Err("type"));
    cond("args.*", "eq", json!(1), json!({ " *": 1 }), Err("type"));
}

#[test]
fn the_first_problem_depth_first_decides() {
    cond(
        "args.i.*.n",
        "gt",
        json!(1),
        json!({ "i": [{ "n": 1 }, { "n": "x" }, { "N": 1 }] }),
        Err("type"),
    );
    cond(
        "args.i.*.n",
        "gt",
        json!(1),
        json!({ "i": [{ "n": 1 }, { "N": 1 }, { "n": "x" }] }),
        Err("look-alike"),
    );
    cond("args.i.*.n", "gt", json!(1), json!({ "i": [{ "n": "x", "N": 1 }] }), Err("look-alike"));
}

/// An object with keys that are not literals of the macro's kind.
fn object(pairs: &[(&str, Value)]) -> Value {
    Value::Object(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}
