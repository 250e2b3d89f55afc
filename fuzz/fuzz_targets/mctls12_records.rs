//! Searches inputs for `mctls12::fuzzing::mctls12_records`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mctls12::fuzzing::mctls12_records(data));
