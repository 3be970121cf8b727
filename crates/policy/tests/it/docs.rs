//! The guide's examples: every policy in `docs/policy.md` is whole, loads, and
//! passes tests of its own, so that the guide cannot claim what does not hold.

use std::{fs, path::Path};

use sluice_policy::{
    Amount, BaseText, Call, Explanation, Facts, Format, MissingBase, Policy, ServerRequest,
    Timestamp, ToolFacts, explain, load, load_extending,
};
use sluice_wire::json::{Bounds, Document};

/// Fewer examples than this means that some were not found.
const AT_LEAST: usize = 15;

/// What a fenced block may be; only the first two are policies.
const TAGS: [&str; 5] = ["json", "yaml", "jsonc", "sh", "text"];

/// One fenced block that is a policy.
struct Example {
    /// The line of the guide before its first line.
    line: usize,
    format: Format,
    text: String,
    /// The policy before it in the guide.
    before: String,
}

/// What an example extends is the policy before it.
struct Bases<'b>(&'b str);

impl sluice_policy::Bases for Bases<'_> {
    fn own_name(&self) -> Option<&str> {
        None
    }

    fn find(&self, _name: &str, _from: Option<&BaseText>) -> Result<BaseText, MissingBase> {
        let text = self.0.as_bytes().to_vec();
        Ok(BaseText { text, format: Format::Json, place: String::new() })
    }
}

#[test]
fn every_example_passes_its_own_tests() {
    let examples = examples();
    assert!(examples.len() >= AT_LEAST, "only {} examples found", examples.len());
    let failures: Vec<_> = examples.iter().flat_map(Example::failures).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// What is not a tool call cannot stand in a policy's own tests.
#[test]
fn the_example_for_other_requests_means_what_the_guide_says() {
    let policy = example("\"server_requests\"");
    assert!(policy.permits_resource("file:///srv/docs/intro.md"));
    assert!(!policy.permits_resource("file:///srv/docs/../secret"));
    assert!(!policy.permits_resource("file:///etc/passwd"));
    assert!(policy.permits_prompt("summarise"));
    assert!(!policy.permits_prompt("summarise_all"));
    assert!(policy.permits_server_request(ServerRequest::Elicitation));
    assert!(!policy.permits_server_request(ServerRequest::Sampling));
    assert!(!policy.permits_server_request(ServerRequest::Roots));
    assert!(policy.permits_unknown_method("acme/reindex"));
    assert!(!policy.permits_unknown_method("other/reindex"));
}

/// Nor do a policy's own tests know categories.
#[test]
fn the_example_for_categories_means_what_the_guide_says() {
    let policy = example("\"@destructive\"");
    let list = r#"[
        { "name": "get_page", "annotations": { "readOnlyHint": true }, "inputSchema": {} },
        { "name": "delete_page", "annotations": { "destructiveHint": true }, "inputSchema": {} }
    ]"#;
    let list = Document::parse(list, &Bounds::default()).unwrap();
    let list = ToolFacts::from_list(list.root()).unwrap();
    let outcome = |tool| {
        let Explanation { outcome, rule, .. } = judged(&policy, tool, Some(&list));
        (outcome.name(), rule.unwrap_or_default())
    };
    assert_eq!(outcome("get_page"), ("allow", String::new()));
    assert_eq!(outcome("delete_page"), ("hide", "(hidden)".into()));
    assert_eq!(outcome("new_tool"), ("deny", "(unknown tool)".into()));
}

fn judged(policy: &Policy, tool: &str, list: Option<&[ToolFacts]>) -> Explanation {
    let call = Call::new(tool, None).unwrap();
    let at = Timestamp::from_millis(0);
    explain(Some(policy), &call, Facts::find(list, tool), at, |_| Amount::ZERO, |_| Amount::ZERO)
}

/// The first example that contains `part`.
fn example(part: &str) -> Policy {
    let examples = examples();
    let example = examples.iter().find(|example| example.text.contains(part)).unwrap();
    load(example.text.as_bytes(), example.format).unwrap()
}

fn examples() -> Vec<Example> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let guide = fs::read_to_string(guide).unwrap();
    let mut examples = Vec::new();
    let mut lines = guide.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(tag) = line.trim_start().strip_prefix("```") else { continue };
        assert!(TAGS.contains(&tag), "docs/policy.md:{}: block of kind `{tag}`", number + 1);
        let block: Vec<_> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let format = match tag {
            "json" => Format::Json,
            "yaml" => Format::Yaml,
            _ => continue,
        };
        let before = examples.last().map(|example: &Example| example.text.clone());
        let (text, before) = (block.join("\n"), before.unwrap_or_default());
        examples.push(Example { line: number + 1, format, text, before });
    }
    examples
}

impl Example {
    /// Everything wrong with the example, with lines of the guide.
    fn failures(&self) -> Vec<String> {
        let bases = Bases(&self.before);
        let policy = match load_extending(self.text.as_bytes(), self.format, &bases) {
            Ok(policy) => policy,
            Err(problems) => {
                let found = problems.iter().map(|problem| self.at(problem.line, &problem.message));
                return found.collect();
            }
        };
        let results = policy.run_tests();
        if results.is_empty() {
            return vec![self.at(1, "the example has no `tests`")];
        }
        let failing = results.iter().filter_map(|result| {
            let line = 1 + self.text.bytes().take(result.offset).filter(|b| *b == b'\n').count();
            let failure = result.failure.as_ref()?;
            Some(self.at(line, &format!("{}: {failure}", result.name)))
        });
        failing.collect()
    }

    fn at(&self, line: usize, message: &str) -> String {
        format!("docs/policy.md:{}: {message}", self.line + line)
    }
}
