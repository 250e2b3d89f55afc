//! Searches inputs for `tandem_split_io::fuzzing::origin_request`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_split_io::fuzzing::origin_request(data));
