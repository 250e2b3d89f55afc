//! Searches inputs for `tandem_shared_store::fuzzing::shared_store_reply`, which says what must
//! hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_shared_store::fuzzing::shared_store_reply(data));
