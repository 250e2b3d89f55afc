//! Searches inputs for `tandem_key_log::fuzzing::key_log`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_key_log::fuzzing::key_log(data));
