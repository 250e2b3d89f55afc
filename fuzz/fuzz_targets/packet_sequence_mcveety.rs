//! Searches inputs for `tandem_packet::fuzzing::packet_sequence_mcveety`, which says what must
//! hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_packet::fuzzing::packet_sequence_mcveety(data));
