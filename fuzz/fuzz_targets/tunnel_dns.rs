//! Searches inputs for `tandem_tunnel::fuzzing::tunnel_dns`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_tunnel::fuzzing::tunnel_dns(data));
