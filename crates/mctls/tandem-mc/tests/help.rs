//! Every `--help` is what it was: a change of it is a change of the interface. `REGEN=1` writes it
//! anew.

use std::path::Path;
use std::process::Command;

#[test]
fn every_help_is_as_in_its_snapshot() {
    for command in [
        "",
        "serve",
        "box",
        "get",
        "explain",
        "gateway",
        "gateway client",
        "gateway server",
        "demo",
    ] {
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
