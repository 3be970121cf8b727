//! What a server sends through the parsers of HTTP/1.1 answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::http1::check(data));
