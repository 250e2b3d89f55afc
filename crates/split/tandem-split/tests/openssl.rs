//! Real servers and clients at both ends: the bytes are those of OpenSSL, and its client takes
//! ours.
//!
//! Is not: the rustls-facing side of an origin, or browsers.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a test starts programs and prints what it skips; the crate does not"
)]

mod support;

use support::{Volunteer, body, converse, knows, openssls};
use tandem_split::Suite;
use tandem_split::suite::Format;

/// Runs `test` with every program that knows the suite.
fn with_each(run: impl Fn(&str, Suite)) {
    for openssl in openssls() {
        for suite in Suite::ALL {
            if knows(&openssl, suite) {
                run(&openssl, suite);
            } else {
                // Every OpenSSL has the older ones; TLS 1.3's came with 3.4.
                assert_eq!(suite.format(), Format::Integrity, "{openssl} lacks {suite}");
            }
        }
    }
}

#[test]
fn a_client_gets_its_file_in_the_very_records_that_the_server_wrote() {
    with_each(|openssl, suite| {
        let conversation = converse(openssl, suite, Volunteer::Honest);
        let said = String::from_utf8_lossy(&conversation.client.stderr).into_owned();
        assert!(
            conversation.client.stdout.ends_with(&body()),
            "{openssl}, {suite}: {said}"
        );
        assert_eq!(conversation.request, support::REQUEST, "{suite}");
        assert!(conversation.exact > 6, "{suite}: {}", conversation.exact);
        let saved = conversation.records - conversation.stubs;
        assert!(saved > body().len() - 1_000, "{suite}: {saved} bytes saved");
    });
}

#[test]
fn a_client_refuses_a_file_that_its_volunteer_changed() {
    with_each(|openssl, suite| {
        let conversation = converse(openssl, suite, Volunteer::Flips);
        let said = String::from_utf8_lossy(&conversation.client.stderr).into_owned();
        assert!(
            said.contains("bad record mac"),
            "{openssl}, {suite}: {said}"
        );
        assert!(conversation.client.stdout.len() < 1_000, "{suite}");
    });
}
