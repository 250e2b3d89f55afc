//! Searches inputs for `tandem_split_io::fuzzing::origin_response`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_split_io::fuzzing::origin_response(data));
