//! Every committed fuzz input of this crate's checks, replayed.

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn every_input_of_every_corpus_holds() {
    replay::every_input(&mctls12_prototype::fuzzing::CHECKS);
}
