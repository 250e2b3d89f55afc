//! Searches inputs for `tandem_keyserver::fuzzing::key_frames`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_keyserver::fuzzing::key_frames(data));
