//! Every committed fuzz input, replayed on stable Rust: what once broke a check, or covers a corner of it, must not fail again.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads files; the crate does not"
)]

use std::path::Path;

use tandem_packet::fuzzing::CHECKS;

/// Inputs are meant to be read by people, too.
const MAX_INPUT_LEN: usize = 2048;

#[test]
fn every_input_of_every_corpus_holds() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in CHECKS {
        let folder = corpora.join(name);
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs = 0;
        for entry in entries {
            let path = entry.expect("the entry is readable").path();
            let input = std::fs::read(&path).expect("the input is readable");
            assert!(
                input.len() <= MAX_INPUT_LEN,
                "{} is too long",
                path.display()
            );
            // Shown only where the check fails.
            eprintln!("{}", path.display());
            check(&input);
            inputs += 1;
        }
        assert!(inputs >= 5, "{name} has {inputs} inputs");
    }
}
