//! Searches inputs for `tandem_barnraising::fuzzing::volunteer_list`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_barnraising::fuzzing::volunteer_list(data));
