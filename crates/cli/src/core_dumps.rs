//! Keeps this process out of core dumps: its memory holds tokens, keys and the credentials of
//! servers.

use rustix::process::{Resource, getrlimit, setrlimit};
use sluice_config::Environment;

/// Set to `allow` by people who debug this program.
const VARIABLE: &str = "SLUICE_CORE_DUMPS";

/// Turns core dumps of this process off, unless the environment allows them. On Linux, other
/// processes of the same user cannot read its memory then either.
pub(crate) fn turn_off(environment: &Environment) {
    if environment.setting(VARIABLE).is_some_and(|value| value == "allow") {
        return;
    }
    // The commands of servers inherit the limit, but may raise it again.
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    // A system that refuses this cannot be told more, and a smaller limit is no reason not to
    // start.
    let _ = setrlimit(Resource::Core, limit);
    hide_memory();
}

/// The limit does not hold where dumps are piped to a program.
#[cfg(target_os = "linux")]
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn hide_memory() {}
