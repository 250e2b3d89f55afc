//! Searches inputs for `tls12_experiment::fuzzing::tls12_experiment_holder`, which says what must
//! hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tls12_experiment::fuzzing::tls12_experiment_holder(data));
