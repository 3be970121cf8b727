//! A stream of events through its decoder.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::sse::check(data));
