//! Cases as data: each file under `cases/` shows one behaviour of the language.
//!
//! A case has a `policy` (or its exact text in `policy_json` or `policy_yaml`)
//! and then either the `problems` it must be refused with, or `checks`: calls,
//! lists and other requests with what must come of them. `call` beside `expect`
//! is short for a single check. `bases` are the policies that it can extend, by name.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sluice_policy::{
    Amount, Call, Decimal, Decision, Explanation, Facts, Format, Limit, Outcome, Policy, Problem,
    ServerRequest, Timestamp, ToolFacts, explain, judge, load_extending, shows,
};
use sluice_wire::json::{Bounds, Document};

use crate::known_bases::KnownBases;

/// Fewer files than this means that cases were lost, not that all is well.
const AT_LEAST: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    policy: Option<Value>,
    policy_json: Option<String>,
    policy_yaml: Option<String>,
    tools: Option<Value>,
    call: Option<CallText>,
    expect: Option<Value>,
    #[serde(default)]
    checks: Vec<Check>,
    problems: Option<Vec<WantedProblem>>,
    #[serde(default)]
    bases: KnownBases,
    #[serde(default)]
    loads: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    tool: String,
    args: Option<Value>,
    args_json: Option<String>,
    at: Option<String>,
    #[serde(default)]
    used: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    call: Option<CallText>,
    list: Option<Vec<String>>,
    resource: Option<String>,
    prompt: Option<String>,
    server_request: Option<String>,
    method: Option<String>,
    sequence: Option<Vec<CallText>>,
    expect: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedProblem {
    line: Option<usize>,
    column: Option<usize>,
    has: String,
    hint_has: Option<String>,
}

#[test]
fn every_case_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() >= AT_LEAST, "only {} cases found", files.len());
    let failures: Vec<_> = files
        .iter()
        .filter_map(|file| {
            let why = run(&fs::read_to_string(file).unwrap()).err()?;
            Some(format!("{}: {why}", file.strip_prefix(&root).unwrap().display()))
        })
        .collect();
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

/// The text of every case's policy that is plain JSON, and whether it loads.
pub(crate) fn policies() -> Vec<(String, Value, bool)> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"), &mut files);
    files
        .iter()
        .filter_map(|file| {
            let case = parse(&fs::read_to_string(file).unwrap()).unwrap();
            let text = case.policy_json.or_else(|| case.policy.map(|policy| policy.to_string()))?;
            // A text that is not JSON at all says nothing about its shape.
            let policy = serde_json::from_str(&text).ok()?;
            Some((file.display().to_string(), policy, case.problems.is_none()))
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

fn parse(text: &str) -> Result<Case, String> {
    // Only `true` and `false` are booleans in YAML 1.2; `n` and `on` are text.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("bad case: {error}"))
}

fn run(text: &str) -> Result<(), String> {
    let case = parse(text)?;
    let loaded = match (&case.policy, &case.policy_json, &case.policy_yaml) {
        (Some(policy), None, None) => {
            load_extending(policy.to_string().as_bytes(), Format::Json, &case.bases)
        }
        (None, Some(text), None) => load_extending(text.as_bytes(), Format::Json, &case.bases),
        (None, None, Some(text)) => load_extending(text.as_bytes(), Format::Yaml, &case.bases),
        _ => return Err("bad case: give the policy in exactly one way".into()),
    };
    match (loaded, &case.problems) {
        (Ok(_), Some(_)) => Err("loads, but should have problems".into()),
        (Err(found), Some(wanted)) => compare_problems(&found, wanted),
        (Err(found), None) => Err(format!("does not load: {found:?}")),
        (Ok(policy), None) => check_all(&policy, case),
    }
}

fn compare_problems(found: &[Problem], wanted: &[WantedProblem]) -> Result<(), String> {
    let fits = |(found, wanted): (&Problem, &WantedProblem)| {
        let hint = found.hint.as_deref().unwrap_or_default();
        wanted.line.is_none_or(|line| line == found.line)
            && wanted.column.is_none_or(|column| column == found.column)
            && found.message.contains(&wanted.has)
            && wanted.hint_has.as_ref().is_none_or(|has| hint.contains(has))
    };
    if found.len() == wanted.len() && found.iter().zip(wanted).all(fits) {
        return Ok(());
    }
    let found: Vec<_> = found
        .iter()
        .map(|p| {
            format!("{}:{} {} ({})", p.line, p.column, p.message, p.hint.as_deref().unwrap_or("-"))
        })
        .collect();
    Err(format!("other problems:\n    {}", found.join("\n    ")))
}

fn check_all(policy: &Policy, case: Case) -> Result<(), String> {
    let definitions = case.tools.map(|tools| document(&tools.to_string()));
    let tools = definitions.as_ref().map(|list| ToolFacts::from_list(list.root()).unwrap());
    let tools = tools.as_deref();
    let mut checked = usize::from(case.loads);
    if let (Some(call), Some(expect)) = (&case.call, &case.expect) {
        checked += 1;
        compare(&explanation(policy, tools, call), expect)?;
    }
    for check in &case.checks {
        checked += 1;
        run_check(policy, tools, check)?;
    }
    if checked == 0 { Err("bad case: nothing is checked".into()) } else { Ok(()) }
}

fn run_check(policy: &Policy, tools: Option<&[ToolFacts]>, check: &Check) -> Result<(), String> {
    let expect = check.expect.clone().unwrap_or_default();
    let access = |permits: bool| {
        let outcome = if permits { "allow" } else { "deny" };
        if expect == outcome { Ok(()) } else { Err(format!("expected {expect}, got {outcome}")) }
    };
    match check {
        Check { call: Some(call), .. } => compare(&explanation(policy, tools, call), &expect),
        Check { list: Some(wanted), .. } => {
            let all = tools.unwrap_or_default().iter();
            let shown: Vec<_> = all
                .filter(|tool| shows(Some(policy), tool.name(), Facts::Known(tool)))
                .map(|tool| tool.name().to_owned())
                .collect();
            if shown == *wanted { Ok(()) } else { Err(format!("shows {shown:?}, not {wanted:?}")) }
        }
        Check { resource: Some(uri), .. } => access(policy.permits_resource(uri)),
        Check { prompt: Some(name), .. } => access(policy.permits_prompt(name)),
        Check { method: Some(name), .. } => access(policy.permits_unknown_method(name)),
        Check { server_request: Some(name), .. } => {
            access(policy.permits_server_request(ServerRequest::from_name(name).unwrap()))
        }
        Check { sequence: Some(calls), .. } => sequence(policy, tools, calls, &expect),
        _ => Err("bad case: an empty check".into()),
    }
}

/// Calls one after the other, each charging what it is allowed to.
fn sequence(
    policy: &Policy,
    tools: Option<&[ToolFacts]>,
    calls: &[CallText],
    expect: &Value,
) -> Result<(), String> {
    let mut counters: HashMap<(String, Timestamp), Amount> = HashMap::new();
    let mut outcomes = Vec::new();
    for text in calls {
        let args = arguments(text);
        let call = Call::new(&text.tool, args.as_ref().map(Document::root)).unwrap();
        let at = moment(text);
        let key = |limit: &Limit| (limit.counter().to_owned(), limit.window().start(at));
        let decision = judge(Some(policy), &call, Facts::find(tools, &text.tool), at);
        outcomes.push(match decision.under_enforcement() {
            Decision::Deny(denial) => denial.outcome().name(),
            Decision::Hold(_) => "hold",
            Decision::Allow(allow) => {
                let reading =
                    |limit: &Limit| counters.get(&key(limit)).copied().unwrap_or_default();
                let admitted = allow.admit(reading, |_| Amount::ZERO).is_ok();
                for charge in allow.charges().filter(|_| admitted) {
                    let counter = counters.entry(key(charge.limit)).or_default();
                    *counter = counter.checked_add(charge.amount).unwrap();
                }
                if admitted { "allow" } else { "deny" }
            }
        });
    }
    if json!(outcomes) == *expect { Ok(()) } else { Err(format!("got {outcomes:?}")) }
}

fn explanation(policy: &Policy, tools: Option<&[ToolFacts]>, text: &CallText) -> Explanation {
    let args = arguments(text);
    let call = Call::new(&text.tool, args.as_ref().map(Document::root)).unwrap();
    let used = |name: &str| text.used.get(name).map_or(Amount::ZERO, |text| amount(text));
    explain(
        Some(policy),
        &call,
        Facts::find(tools, &text.tool),
        moment(text),
        |limit| used(limit.counter()),
        |concurrency| used(concurrency.rule()),
    )
}

fn arguments(text: &CallText) -> Option<Document> {
    let args = text.args_json.clone().or_else(|| text.args.as_ref().map(Value::to_string));
    args.map(|args| document(&args))
}

fn moment(text: &CallText) -> Timestamp {
    let at = text.at.as_deref().unwrap_or("2026-01-01T00:00:00Z");
    Timestamp::from_rfc3339(at).unwrap()
}

fn document(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).unwrap()
}

fn amount(text: &str) -> Amount {
    Amount::exactly(Decimal::read(text)).unwrap()
}

/// Compares the members that the case names.
fn compare(found: &Explanation, expect: &Value) -> Result<(), String> {
    let expect = expect.as_object().ok_or("bad case: `expect` is not an object")?;
    let message = found.message.clone().unwrap_or_default();
    for (key, wanted) in expect {
        let actual = match key.as_str() {
            "outcome" => json!(found.outcome),
            "rule" => json!(found.rule),
            "message_has" if message.contains(wanted.as_str().unwrap_or_default()) => continue,
            "message" | "message_has" => json!(message),
            "shadow" => json!(found.shadow),
            "base" => json!(found.base),
            "retry_after_ms" => json!(found.retry_after_ms),
            "approval" => json!({ "approvers": found.approvers, "expires": found.expires_seconds }),
            "charges" => json!(found.charges.iter().map(charge).collect::<Vec<_>>()),
            other => return Err(format!("bad case: unknown key `{other}` in `expect`")),
        };
        if !same(&actual, wanted) {
            return Err(format!(
                "`{key}`: expected {wanted}, got {actual} ({} {})",
                found.outcome.name(),
                found.rule.as_deref().unwrap_or_default()
            ));
        }
    }
    if found.outcome == Outcome::Allow || expect.contains_key("rule") {
        return Ok(());
    }
    Err("bad case: `rule` is needed where the outcome is not `allow`".into())
}

/// Equal, whatever the order of keys and the type numbers are held in.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a.to_string() == b.to_string(),
        (a, b) => a == b,
    }
}

/// A charge as cases write it: numbers as text.
fn charge(charge: &sluice_policy::ChargeReport) -> Value {
    let mut map = Map::new();
    map.insert("counter".into(), json!(charge.counter));
    map.insert("scope".into(), json!(charge.scope));
    map.insert("window".into(), charge.window.clone());
    map.insert("amount".into(), json!(charge.amount.to_string()));
    map.insert("max".into(), json!(charge.max.to_string()));
    map.insert("used".into(), json!(charge.used.to_string()));
    Value::Object(map)
}
