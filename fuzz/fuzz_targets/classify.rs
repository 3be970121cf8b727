//! Any JSON as a tool's definition.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::classify::check(data));
