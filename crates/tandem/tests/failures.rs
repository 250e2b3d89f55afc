//! What a user sees when something is wrong: one line that says what to do, and the documented exit code.

mod common;

use common::{run, tandem, unprivileged};

#[test]
fn without_a_command_the_usage_is_shown() {
    let ran = run(&mut tandem::<&str>(&[]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: tandem"), "{ran:?}");
}

#[test]
fn an_unknown_flag_is_named_with_the_nearest_one() {
    let ran = run(&mut tandem(&["client-side", "--lnk", "ppp0"]));
    assert_eq!(
        ran.failed_with(2),
        "unexpected argument '--lnk' found; a similar argument exists: '--link' (see `tandem client-side --help`)"
    );
}

#[test]
fn a_choice_that_there_is_not_is_answered_with_those_there_are() {
    let ran = run(&mut tandem(&["client-side", "--wire", "unsafe"]));
    let line = ran.failed_with(2);
    assert!(line.contains("[possible values: safe, mcveety]"), "{line}");
}
