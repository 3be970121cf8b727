//! A directory and a path through `path_within`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::paths::check(data));
