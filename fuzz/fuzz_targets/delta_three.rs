//! Searches inputs for `tandem_delta::fuzzing::delta_three`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_delta::fuzzing::delta_three(data));
