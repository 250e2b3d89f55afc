//! Searches inputs for `mctls::fuzzing::mctls_short`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mctls::fuzzing::mctls_short(data));
