//! The help is what it was: a change of it is a change of the interface. `REGEN=1` writes it anew.

mod support;

use std::path::Path;

use support::{keytap, output};

#[test]
fn every_help_is_as_in_its_snapshot() {
    for command in ["", "relay", "receive", "keylog"] {
        let words = [command, "--help"];
        let words = words.iter().filter(|word| !word.is_empty());
        let help = keytap(words).output().expect("it was built").stdout;
        let help = String::from_utf8(help).expect("text");
        let name = format!("tandem-keytap-{command}.txt");
        let name = name.replace("-.", ".");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
        let path = path.join(name);
        if std::env::var_os("REGEN").is_some() {
            std::fs::write(&path, &help).expect("the snapshots are part of the source");
        }
        let snapshot = std::fs::read_to_string(&path).expect("it is part of the source");
        assert_eq!(help, snapshot, "{command}");
        let long = |line: &&str| line.starts_with("    tandem") && line.chars().count() > 80;
        assert_eq!(help.lines().find(long), None);
    }
}

#[test]
fn what_the_command_line_lacks_is_one_line_with_the_help_to_read() {
    for (words, said) in [
        (&["relay", "--socket", "s", "--key", "k"][..], "--to"),
        (&["keylog", "--socket", "s"], "--dangerous-keylog"),
        (&["keylogs"], "keylogs"),
    ] {
        let ran = output(words);
        let errors = String::from_utf8(ran.stderr).expect("text");
        assert_eq!(ran.status.code(), Some(2), "{errors}");
        assert!(errors.starts_with("tandem keytap: "), "{errors}");
        assert!(errors.contains(said), "{errors}");
        assert!(errors.contains("--help`"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
