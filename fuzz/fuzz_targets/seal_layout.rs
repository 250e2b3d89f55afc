//! Searches inputs for `tandem_seal::fuzzing::seal_layout`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_seal::fuzzing::seal_layout(data));
