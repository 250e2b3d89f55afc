//! Servers that answer otherwise than they should: what a fetch makes of it, whatever they send.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Place;
use mctls::config::Terms;
use mctls::party::ContextId;
use mctls_io::{Connected, Fallback, Server, ServerSettings, Session, Timeouts};
use tandem_mc::certificates::For;
use tandem_mc::discover::Discovery;
use tandem_mc::get::{Less, Url, Wanted, get};
use tandem_mc::report::{Outcome, Report};
use tandem_mc::settings::{authorities, identity};
use tokio::net::TcpListener;

const HEADERS: u8 = 3;
const BODY: u8 = 4;
const PATIENCE: Timeouts = Timeouts {
    handshake: Duration::from_secs(60),
    idle: Duration::from_secs(60),
};

/// What a server says, in contexts, and whether it closes behind it.
struct Script<'a> {
    says: &'a [(u8, &'a [u8])],
    ends: Ends,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Closed,
    Cut,
}

async fn speak(mut session: Session, script: &Script<'_>) {
    let asked = session.receiver.recv().await.expect("a request");
    assert!(asked.is_some());
    for (context, data) in script.says {
        // A client that has seen enough has gone.
        let _ = session.sender.send(ContextId(*context), data).await;
    }
    if script.ends == Ends::Closed {
        let _ = session.sender.close().await;
        while let Ok(Some(_)) = session.receiver.recv().await {}
    }
}

/// What a fetch makes of it, and what came out.
async fn fetched(place: &Place, script: Script<'_>) -> (Report, Vec<u8>) {
    let files = place.issue("page.example", For::Server);
    let server = Server::new(&ServerSettings {
        identity: identity(&files.cert, &files.key).expect("a certificate"),
        middlebox_roots: authorities(&place.path("ca.pem")).expect("an authority"),
        policy: Arc::new(|terms: &Terms| Some(terms.clone())),
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: PATIENCE,
    })
    .expect("settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let wanted = Wanted {
        url: Url::parse("https://page.example/").expect("a URL"),
        connect: Some(address),
        via: Vec::new(),
        discovery: Discovery::default(),
        contexts: 4,
        trust: authorities(&place.path("ca.pem")).expect("an authority"),
        headers: Vec::new(),
        timeout: PATIENCE.handshake,
        less: Less::Refuse,
    };
    let mut out = Vec::new();
    let serving = async {
        let (stream, _) = listener.accept().await.expect("a client");
        match server.accept(stream).await.expect("a session") {
            Connected::Session(session) => speak(*session, &script).await,
            Connected::Plain(_) => panic!("plain TLS"),
        }
    };
    let (report, ()) = tokio::join!(get(&wanted, &mut out), serving);
    (report.expect("it was tried"), out)
}

const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
const OPEN: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
const GZIP: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n";
const BROTLI: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";

#[tokio::test]
async fn an_answer_that_is_whole_comes_out_whatever_its_form() {
    let place = Place::new();
    for says in [
        &[(HEADERS, LENGTH), (BODY, b"page")][..],
        &[
            (HEADERS, INTERIM),
            (HEADERS, LENGTH),
            (BODY, b"pa"),
            (BODY, b"ge"),
        ],
        &[(HEADERS, OPEN), (BODY, b"page")],
    ] {
        let ends = Ends::Closed;
        let (report, out) = fetched(&place, Script { says, ends }).await;
        assert_eq!(report.outcome, Outcome::Complete, "{report:?}");
        assert_eq!((out.as_slice(), report.body_bytes), (&b"page"[..], 4));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_what_it_should_be_is_an_error_that_says_so() {
    let place = Place::new();
    for (says, word) in [
        (&[][..], "cut short"),
        (&[(HEADERS, LENGTH), (BODY, b"pa")], "cut short"),
        (&[(HEADERS, INTERIM)], "cut short"),
        (
            &[(HEADERS, LENGTH), (BODY, b"page"), (HEADERS, LENGTH)],
            "after the last",
        ),
        (&[(BODY, b"page")], "context of another"),
        (&[(HEADERS, LENGTH), (1, b"page")], "context of another"),
        (&[(HEADERS, LENGTH), (BODY, b"pages")], "context of another"),
        (&[(HEADERS, b"SSH-2.0\r\n\r\n")], "no HTTP/1.1"),
        (&[(HEADERS, GZIP), (BODY, b"page")], "no gzip"),
        (&[(HEADERS, BROTLI), (BODY, b"page")], "not asked for"),
    ] {
        let ends = Ends::Closed;
        let (report, _) = fetched(&place, Script { says, ends }).await;
        assert_eq!(report.outcome, Outcome::Failed, "{report:?}");
        let problem = report.problem.expect("words");
        assert!(problem.contains(word), "{word}: {problem}");
    }
}

#[tokio::test]
async fn an_answer_without_a_length_is_whole_only_with_the_word_of_the_server() {
    let place = Place::new();
    let says = &[(HEADERS, OPEN), (BODY, &b"page"[..])][..];
    let (report, _) = fetched(
        &place,
        Script {
            says,
            ends: Ends::Cut,
        },
    )
    .await;
    assert_eq!(report.outcome, Outcome::Failed, "{report:?}");
    assert!(report.problem.expect("words").contains("connection"));
}
