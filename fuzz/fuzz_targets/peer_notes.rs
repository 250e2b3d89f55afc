//! Searches inputs for `tandem_engine::fuzzing::peer_notes`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_engine::fuzzing::peer_notes(data));
