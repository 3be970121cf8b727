//! A host pattern and a URL through `url_host_in`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::urls::check(data));
