//! Policies that extend others, when the file's and the store's are put together: only then it shows
//! whether each base is there.

use sluice_admin::{FileProblem, TakeError};
use sluice_policy::Problem;
use sluice_store::{AttachedPolicy, Source};

/// The policies that are not in force because of what they extend. Their grants are denied
/// everything on that server.
pub(crate) fn find_problems(all: &[AttachedPolicy]) -> Vec<FileProblem> {
    let broken = filter_extending(all).filter_map(|policy| {
        let first = policy.compile(all).err()?.into_iter().next();
        Some((policy, first))
    });
    broken
        .map(|(policy, first)| {
            let Problem { line, column, message, hint, .. } =
                first.unwrap_or_else(|| Problem::at(b"", 0, "it cannot be loaded".into()));
            let file = describe(policy);
            let message = format!("not in force, so that nothing is allowed: {message}");
            FileProblem { file, line, column, message, hint }
        })
        .collect()
}

/// Refuses a configuration in which a policy of the file cannot be put in force because of what it
/// extends, or no longer one of the store that could before.
pub(crate) fn refuse_broken(
    all: &[AttachedPolicy],
    before: &[AttachedPolicy],
) -> Result<(), TakeError> {
    for policy in filter_extending(all) {
        let Some((message, hint)) = find_fault(policy, all) else { continue };
        let was_sound = || {
            let is_same =
                |one: &&AttachedPolicy| one.server == policy.server && one.name == policy.name;
            let old = before.iter().find(is_same);
            old.is_some_and(|old| find_fault(old, before).is_none())
        };
        if policy.source == Source::File || was_sound() {
            let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            return Err(TakeError(format!("{}: {message}{hint}", describe(policy))));
        }
    }
    Ok(())
}

/// The first problem or failing test of a policy among others, with a hint.
fn find_fault(policy: &AttachedPolicy, all: &[AttachedPolicy]) -> Option<(String, Option<String>)> {
    match policy.compile(all) {
        Ok(compiled) => compiled.run_tests().into_iter().find_map(|test| {
            Some((format!("test `{}` fails: {}", test.name, test.failure?), None))
        }),
        Err(problems) => problems.into_iter().next().map(|one| (one.message, one.hint)),
    }
}

fn filter_extending(all: &[AttachedPolicy]) -> impl Iterator<Item = &AttachedPolicy> {
    all.iter().filter(|policy| policy.extends_another())
}

fn describe(policy: &AttachedPolicy) -> String {
    format!("policy `{}` of server `{}`", policy.name, policy.server)
}
