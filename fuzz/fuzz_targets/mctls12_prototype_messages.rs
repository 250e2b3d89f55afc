//! Searches inputs for the function of this name in `mctls12_prototype::fuzzing`, which says what
//! must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mctls12_prototype::fuzzing::mctls12_prototype_messages(data);
});
