//! Searches inputs for `tandem_estimate::fuzzing::estimate_capture`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_estimate::fuzzing::estimate_capture(data));
