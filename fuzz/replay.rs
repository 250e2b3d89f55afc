//! Replays every committed fuzz input on stable Rust: what once broke a check, or covers a corner
//! of it, must not fail again.
//!
//! Is not: a fuzzer. A module of the test `corpus.rs` of each crate that has fuzz targets.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads files; a core, to whom that is not allowed, does not"
)]

use std::path::Path;

/// Inputs are meant to be read by people, too.
const MAX_INPUT_LEN: usize = 2048;

/// Fewer tell little.
const MIN_INPUTS: usize = 5;

/// A check, by the name of its corpus.
type Check = (&'static str, fn(&[u8]));

/// Runs each check on the inputs of its corpus.
pub(crate) fn every_input(checks: &[Check]) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    for (name, check) in checks {
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
        assert!(inputs >= MIN_INPUTS, "{name} has {inputs} inputs");
    }
}
