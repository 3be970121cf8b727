//! Any bytes as a policy in YAML.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::policy_yaml::check(data));
