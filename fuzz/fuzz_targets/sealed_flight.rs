//! Searches inputs for `tandem_engine::fuzzing::sealed_flight`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_engine::fuzzing::sealed_flight(data));
