//! Tells the program what it is built from and with: the commit, the features and the target.
//! Without git, or outside a checkout of this project, the commit is `unknown`;
//! `SLUICE_BUILD_COMMIT` in the environment names it then.

#![expect(clippy::disallowed_methods, reason = "cargo passes what it builds in variables")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const COMMIT: &str = "SLUICE_BUILD_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = env::var(COMMIT).ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| read_commit(&root)).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={COMMIT}={commit}");
    println!("cargo::rustc-env=SLUICE_BUILD_FEATURES={}", list_features());
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=SLUICE_BUILD_TARGET={target}");
}

/// The cargo features of this build.
fn list_features() -> String {
    let features = env::vars().filter_map(|(name, _)| {
        Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"))
    });
    let features: Vec<_> = features.filter(|feature| feature != "default").collect();
    if features.is_empty() { "none".to_owned() } else { features.join(", ") }
}

/// The commit that is checked out, if this folder is a checkout of its own.
fn read_commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(run_git(root, &["rev-parse", "--show-toplevel"])?);
    // A tarball may lie in a checkout of another project.
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let branch = run_git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = root.join(run_git(root, &["rev-parse", "--git-path", name])?);
        // A path that does not exist would run this each time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    run_git(root, &["rev-parse", "--short=12", "HEAD"])
}

fn run_git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
