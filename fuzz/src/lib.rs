//! The assertions of all fuzz targets, as plain functions.
//!
//! A target is a module with a `check`, a line in [`TARGETS`], a file of the
//! same name in `fuzz_targets/` with its `[[bin]]`, and a folder of seeds.
//! `cargo test` replays all seeds on stable; the fuzzer itself needs nightly:
//!
//! ```sh
//! mkdir -p fuzz/corpus/wire
//! cargo +nightly fuzz run --features libfuzzer wire fuzz/corpus/wire fuzz/seeds/wire \
//!     -- -dict=fuzz/json.dict -max_total_time=300
//! ```

pub mod classify;
mod cuts;
pub mod http1;
pub mod paths;
mod policy;
pub mod policy_json;
pub mod policy_yaml;
pub mod records;
pub mod sealed;
pub mod sse;
pub mod urls;
pub mod wire;

/// Panics if the target's promises do not hold for the input.
pub type Check = fn(&[u8]);

/// Every target's name and its function.
pub const TARGETS: &[(&str, Check)] = &[
    ("classify", classify::check),
    ("http1", http1::check),
    ("paths", paths::check),
    ("policy_json", policy_json::check),
    ("policy_yaml", policy_yaml::check),
    ("records", records::check),
    ("sealed", sealed::check),
    ("sse", sse::check),
    ("urls", urls::check),
    ("wire", wire::check),
];
