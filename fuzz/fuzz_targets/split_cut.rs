//! Searches inputs for `tandem_split::fuzzing::split_cut`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_split::fuzzing::split_cut(data));
