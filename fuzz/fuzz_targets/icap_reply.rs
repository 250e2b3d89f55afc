//! Searches inputs for `tandem_mc::fuzzing::icap_reply`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_mc::fuzzing::icap_reply(data));
