//! An id that a client carries, through the seal.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::sealed::check(data));
