//! Searches inputs for `tandem_wire::fuzzing::tls_stream`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_wire::fuzzing::tls_stream(data));
