//! Searches inputs for `tandem_record_key::fuzzing::record_key`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_record_key::fuzzing::record_key(data));
