//! A lab that is put up, entered and taken down by the command line.

use std::process::{Command, Output};

use crate::common;

/// The lab's own program.
const LAB: &str = env!("CARGO_BIN_EXE_tandem-lab");

fn run(words: &[&str]) -> std::io::Result<Output> {
    Command::new(LAB).args(words).output()
}

#[test]
fn a_standing_lab_serves_until_it_is_taken_down() -> std::io::Result<()> {
    const NAME: &str = "a_standing_lab_serves_until_it_is_taken_down";
    if !common::may_run(NAME) {
        return Ok(());
    }
    let up = run(&[
        "up", "--up", "10000000", "--down", "10000000", "--delay", "1",
    ])?;
    if up.status.code() == Some(4) {
        // Somebody's own lab stands; the test leaves it alone.
        return Ok(());
    }
    let words = String::from_utf8_lossy(&up.stdout).into_owned();
    let fetched = words
        .lines()
        .find_map(|line| line.trim().strip_prefix("tandem lab shell client -- "))
        .map(|command| {
            let command = format!("{command} --silent --show-error");
            run(&["shell", "client", "--", "sh", "-c", &command])
        });
    let code = run(&["shell", "server", "--", "sh", "-c", "exit 7"])?;
    let again = run(&["up"])?;
    // Taken down before anything is asserted, so that a failure leaves nothing behind.
    let down = run(&["down"])?;
    let gone = run(&["shell", "client", "--", "true"])?;

    assert!(
        up.status.success(),
        "{}",
        String::from_utf8_lossy(&up.stderr)
    );
    let fetched = fetched
        .transpose()?
        .map(|output| output.stdout)
        .unwrap_or_default();
    assert_eq!(
        String::from_utf8_lossy(&fetched),
        tandem_testbed::server::BODY
    );
    assert_eq!(
        code.status.code(),
        Some(7),
        "a command's exit code comes through"
    );
    assert_eq!(again.status.code(), Some(4), "one lab stands at a time");
    assert!(down.status.success());
    assert_eq!(gone.status.code(), Some(2));
    Ok(())
}
