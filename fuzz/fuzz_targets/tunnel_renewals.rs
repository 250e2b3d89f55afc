//! Searches inputs for `tandem_link::fuzzing::tunnel_renewals`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_link::fuzzing::tunnel_renewals(data));
