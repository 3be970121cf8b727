//! The fields of records, through the database and its export.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::records::check(data));
