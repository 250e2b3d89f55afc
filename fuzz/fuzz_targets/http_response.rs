//! Searches inputs for `tandem_measure::fuzzing::http_response`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_measure::fuzzing::http_response(data));
