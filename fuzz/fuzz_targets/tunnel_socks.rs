//! Searches inputs for `tandem_tunnel_io::fuzzing::tunnel_socks`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_tunnel_io::fuzzing::tunnel_socks(data));
