//! Searches inputs for `tandem_openssl_provider::fuzzing::provider_key_file`,
//! which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_openssl_provider::fuzzing::provider_key_file(data));
