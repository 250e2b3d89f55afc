//! The Python package (`extras/python`): built as a wheel, and tested in Python against this
//! program's server and middleboxes.
//!
//! Is not: the tests themselves, which are `extras/python/tests`. The tools are not Debian's:
//! `scripts/ensure-tools.sh python` installs them, and where it has not, this is not tried.

use std::path::{Path, PathBuf};
use std::process::Command;

use tandem_testkit::not_tried;

/// The package's folder.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../extras/python")
}

/// The programs of the virtual environment.
fn tools() -> Option<PathBuf> {
    let tools = std::env::var_os("TANDEM_TOOLS").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/tandem/tools"));
    let folder = tools.or_else(home)?.join("python");
    let wanted = std::fs::read(package().join("tools.txt")).ok();
    if wanted.is_some() && std::fs::read(folder.join("made-of")).ok() == wanted {
        return Some(folder.join("bin"));
    }
    not_tried("the Python package needs scripts/ensure-tools.sh python");
    None
}

/// Where this program was built. The wheel has other features of other crates, so it has a folder
/// of its own there.
fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_tandem-mc"));
    let target = program.ancestors().nth(2).expect("target/debug/tandem-mc");
    target.join("python")
}

fn ran(what: &str, command: &mut Command) {
    let output = command.output().expect("it is installed");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn the_wheel_does_what_its_tests_say() {
    let Some(tools) = tools() else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let (wheels, site) = (folder.path().join("wheels"), folder.path().join("site"));
    let mut build = Command::new(tools.join("maturin"));
    build
        .args([
            "build",
            "--locked",
            "--profile",
            "dev",
            "--auditwheel",
            "skip",
            "--interpreter",
        ])
        .arg(tools.join("python"))
        .arg("--manifest-path")
        .arg(package().join("Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .env("CARGO_TARGET_DIR", target());
    ran("maturin", &mut build);
    let wheel = std::fs::read_dir(&wheels).expect("a folder").next();
    let wheel = wheel.expect("a wheel").expect("a folder").path();
    let mut unpack = Command::new(tools.join("python"));
    unpack.args(["-m", "zipfile", "-e"]).args([&wheel, &site]);
    ran("zipfile", &mut unpack);
    let mut test = Command::new(tools.join("python"));
    test.args([
        "-B",
        "-m",
        "unittest",
        "discover",
        "--verbose",
        "--start-directory",
    ])
    .arg(package().join("tests"))
    .env("PYTHONPATH", &site)
    .env("MCTLS_PROGRAM", env!("CARGO_BIN_EXE_tandem-mc"));
    ran("unittest", &mut test);
}

#[test]
fn the_package_and_its_tests_have_sound_types() {
    let Some(tools) = tools() else { return };
    let mut check = Command::new(tools.join("python"));
    check
        .args([
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            "--cache-dir",
        ])
        .arg(target().join("mypy"))
        .args(["python", "tests"])
        .current_dir(package())
        .env("MYPYPATH", "python:tests");
    ran("mypy", &mut check);
}
