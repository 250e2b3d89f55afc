//! Searches inputs for `mctls::fuzzing::mctls_records`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mctls::fuzzing::mctls_records(data));
