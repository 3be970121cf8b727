//! Any bytes as a policy in JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::policy_json::check(data));
