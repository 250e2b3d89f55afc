//! Searches inputs for `tandem_wire::fuzzing::udp_packet`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_wire::fuzzing::udp_packet(data));
