//! Searches inputs for `tandem_trace::fuzzing::trace_capture`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tandem_trace::fuzzing::trace_capture(data));
