//! Every `--help` is what it was: a change of it is a change of the interface. `REGEN=1` writes it
//! anew.

use std::path::Path;
use std::process::Command;

const COMMANDS: [&str; 9] = [
    "",
    "serve",
    "box",
    "get",
    "explain",
    "gateway",
    "gateway client",
    "gateway server",
    "demo",
];

#[test]
fn every_help_is_as_in_its_snapshot() {
    for command in COMMANDS {
        let output = Command::new(env!("CARGO_BIN_EXE_tandem-mc"))
            .args(command.split_whitespace())
            .arg("--help")
            .env("COLUMNS", "100")
            .output()
            .expect("the program was built for this test");
        let help = String::from_utf8(output.stdout).expect("UTF-8");
        let name = match command {
            "" => "all".to_owned(),
            command => command.replace(' ', "-"),
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os("REGEN").is_some() {
            std::fs::write(&path, &help).expect("part of the source");
        }
        let snapshot = std::fs::read_to_string(&path).expect("part of the source");
        assert_eq!(help, snapshot, "{name}");
        let long = |line: &&str| line.starts_with("    tandem") && line.chars().count() > 80;
        assert_eq!(help.lines().find(long), None, "{name}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_tandem-mc"))
        .arg("--manual")
        .arg(folder.path())
        .output()
        .expect("the program was built for this test");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"");
    for command in COMMANDS {
        let name = format!("tandem-mc {command}").trim_end().replace(' ', "-");
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1")));
        let page = page.expect("a page for each command");
        let synopsis = format!("tandem mc {command}");
        assert!(page.contains(synopsis.trim_end()), "{page}");
    }
}
