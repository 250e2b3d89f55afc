//! Searches inputs for `tandem_barnraising::fuzzing::site_uri`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_barnraising::fuzzing::site_uri(data));
