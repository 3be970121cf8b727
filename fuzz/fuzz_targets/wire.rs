//! Any bytes through the JSON reader and the envelope.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::wire::check(data));
