//! Every committed seed through its target, without a fuzzer.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use sluice_fuzz::TARGETS;

fn entries(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn stems(folder: &str) -> BTreeSet<String> {
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries(folder).into_iter().map(stem).collect()
}

#[test]
fn every_seed_passes() {
    for (name, check) in TARGETS {
        let seeds = entries(&format!("seeds/{name}"));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in seeds {
            // Captured, and shown only if the seed fails.
            println!("{}", seed.display());
            check(&fs::read(&seed).unwrap());
        }
    }
}

#[test]
fn every_target_is_replayed() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), listed);
    assert_eq!(stems("seeds"), listed);
}
