//! Searches inputs for `tandem_pair::fuzzing::pair_invitation`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_pair::fuzzing::pair_invitation(data));
