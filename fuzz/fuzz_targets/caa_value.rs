//! Searches inputs for `tandem_barnraising::fuzzing::caa_value`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_barnraising::fuzzing::caa_value(data));
