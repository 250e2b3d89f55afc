//! The help is what it was: a change of it is a change of the interface. `REGEN=1` writes it anew.

use std::path::Path;
use std::process::Command;

#[test]
fn the_help_is_as_in_its_snapshot() {
    let output = Command::new(env!("CARGO_BIN_EXE_tandem-keyserver"))
        .arg("--help")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/help.txt");
    if std::env::var_os("REGEN").is_some() {
        std::fs::write(&path, &help).unwrap();
    }
    assert_eq!(help, std::fs::read_to_string(&path).unwrap());
    let long = |line: &&str| line.starts_with("    tandem") && line.chars().count() > 80;
    assert_eq!(help.lines().find(long), None);
}
