//! The wire format of the authors' prototype, over sockets between this project's own programs. The
//! prototype itself has never been at the other end.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use mctls::config::Right;
use mctls::party::{ContextId, Position};
use mctls12::list::{Context, MiddleboxList, Place as Address};
use mctls12_io::prototype::{Nameless, Party, Verify, accept, connect};
use mctls12_io::{Roots, Timeouts};
use tandem_mc::certificates::{Files, For};
use tandem_mc::report::Outcome;
use tandem_mc::settings::{USAGE, authorities, identity};
use tokio::net::TcpListener;

use crate::common::{Daemon, Place, Ran, page, program};

const FORMAT: [&str; 3] = ["--protocol", "mctls12", "--prototype"];

/// A certificate with an RSA key: this format seals with it.
fn issue(place: &Place, name: &str, what: For) -> Files {
    let files = Files {
        cert: place.path(&format!("{name}.pem")),
        key: place.path(&format!("{name}.key")),
    };
    let usage = match what {
        For::Server => "extendedKeyUsage=serverAuth".to_owned(),
        For::Middlebox => format!("extendedKeyUsage={USAGE}"),
    };
    let made = Command::new("openssl")
        .current_dir(place.path("."))
        .args([
            "req", "-x509", "-nodes", "-days", "7", "-newkey", "rsa:2048",
        ])
        .args(["-subj", &format!("/CN={name}"), "-CA", "ca.pem"])
        .args(["-CAkey", "ca.key", "-addext", &usage])
        .args([
            "-addext",
            &format!("subjectAltName=DNS:{name},IP:127.0.0.1"),
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&files.key, Path::new("-out"), &files.cert])
        .output();
    let made = made.expect("openssl is installed");
    assert!(made.status.success(), "{made:?}");
    files
}

fn server(place: &Place, more: &[&str]) -> Daemon {
    let files = issue(place, "page.example", For::Server);
    let (root, trust) = (place.text("site"), place.text("ca.pem"));
    let arguments = ["serve", "--root", &root, "--trust", &trust];
    Daemon::start(&files, &[&arguments, &FORMAT[..], more].concat())
}

fn middlebox(place: &Place, name: &str, kind: &str, settings: &str) -> Daemon {
    let files = issue(place, name, For::Middlebox);
    place.write("box.toml", settings);
    let config = place.text("box.toml");
    let arguments = ["box", "--kind", kind, "--config", &config];
    Daemon::start(&files, &[&arguments[..], &FORMAT].concat())
}

fn get(place: &Place, path: &str, server: &str, via: &[&str], more: &[&str]) -> Ran {
    let more = [&FORMAT, more].concat();
    Ran::of(&mut place.get(path, server, via, &more))
}

#[test]
fn a_page_comes_through_two_middleboxes_and_one_on_the_list_does_not() {
    let place = Place::new();
    let server = server(&place, &[]);
    let filter = middlebox(&place, "filter.example", "filter", super::BLOCKS);
    let null = middlebox(&place, "null.example", "null", "");
    let via = [
        format!("filter.example@{}=filter", filter.address),
        format!("null.example@{}", null.address),
    ];
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let out = place.text("out");
    for contexts in ["4", "1", "120"] {
        let more = ["-o", &out, "--json", "--contexts", contexts];
        let ran = get(&place, "/", &server.address, &via, &more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for words in [
            "is not safe",
            "almost nothing is\nprotected",
            "never run against",
        ] {
            assert!(ran.stderr.contains(words), "{}", ran.stderr);
        }
        assert_eq!(std::fs::read_to_string(&out).expect("a page"), page());
        let report = ran.report();
        assert_eq!(
            (report.outcome, report.status),
            (Outcome::Complete, Some(200))
        );
        std::fs::remove_file(&out).expect("it was written");
        let ran = get(&place, "/%67ames.html", &server.address, &via, &more);
        let words = ran.failed_with(1);
        assert!(words.contains("cut before its end"), "{words}");
        assert!(!place.path("out").exists());
    }
    let more = ["--contexts", "121"];
    let ran = get(&place, "/", &server.address, &via, &more);
    let words = ran.failed_with(1);
    assert!(words.contains("have room for 120"), "{words}");
}

#[test]
fn a_middlebox_is_known_by_its_address_and_its_certificate() {
    let place = Place::new();
    let server = server(&place, &[]);
    let null = middlebox(&place, "null.example", "null", "");
    // Another name than the certificate's, and another address than it listens on.
    let other = format!("other.example@{}", null.address);
    let words = get(&place, "/", &server.address, &[&other], &[]);
    let words = words.failed_with(1).to_owned();
    assert!(words.contains("certificate of middlebox 1"), "{words}");
    let port = null.address.rsplit_once(':').expect("a port").1;
    let named = format!("null.example@localhost:{port}");
    let ran = get(&place, "/", &server.address, &[&named], &[]);
    assert!(ran.failed_with(1).contains("alert 40"), "{ran:?}");
    // A middlebox where the server should be.
    let ran = get(&place, "/", &null.address, &[], &[]);
    assert!(ran.failed_with(1).contains("alert 40"), "{ran:?}");
}

#[test]
fn the_formats_do_not_take_each_other_for_themselves() {
    let place = Place::new();
    let theirs = server(&place, &[]);
    let own = ["--protocol", "mctls12"];
    let ran = Ran::of(&mut place.get("/", &theirs.address, &[], &own));
    ran.failed_with(1);
    let ran = Ran::of(&mut place.get("/", &theirs.address, &[], &[]));
    ran.failed_with(1);
    let ours = place.server(&own);
    let ran = get(&place, "/", &ours.address, &[], &[]);
    ran.failed_with(1);
}

#[test]
fn the_flag_needs_its_protocol_and_an_rsa_key() {
    let place = Place::new();
    let ran = Ran::of(&mut place.get("/", "127.0.0.1:1", &[], &["--prototype"]));
    let words = "--prototype: belongs to --protocol mctls12";
    assert_eq!(ran.failed_with(2), words);
    let files = place.issue("null.example", For::Middlebox);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (cert, key) = (text(&files.cert), text(&files.key));
    let mut command = program();
    command.args(["box", "--kind", "null", "--listen", "127.0.0.1:0"]);
    command.args(["--cert", &cert, "--key", &key]).args(FORMAT);
    let ran = Ran::of(&mut command);
    let words = ran.failed_with(2);
    assert!(words.contains("needs an RSA key"), "{words}");
}

/// A server is told no names; a client is. Authority, use and kind of key count for both.
#[test]
fn a_certificate_is_good_for_its_use_its_authority_and_an_rsa_key() {
    let (place, other) = (Place::new(), Place::new());
    let roots = |place: &Place| {
        let roots = authorities(&place.path("ca.pem")).expect("an authority");
        Arc::new(Roots::new(Arc::clone(&roots), roots))
    };
    let chain = |files: &Files| {
        let files = identity(&files.cert, &files.key).expect("a certificate");
        let chain = files.chain.iter();
        chain.map(|one| one.to_vec()).collect::<Vec<_>>()
    };
    let page = chain(&issue(&place, "page.example", For::Server));
    let rsa = chain(&issue(&place, "filter.example", For::Middlebox));
    let ec = chain(&place.issue("ec.example", For::Middlebox));
    let first = Position::new(1).expect("a position");
    let named = Party::Middlebox(first, "filter.example");
    let unnamed = Party::Middlebox(first, "127.0.0.2");
    let (own, others) = (roots(&place), roots(&other));
    let (server, strange) = (Nameless(Arc::clone(&own)), Nameless(Arc::clone(&others)));
    let client: &dyn Verify = own.as_ref();
    let stranger: &dyn Verify = others.as_ref();
    type Row<'a> = (&'a dyn Verify, Party<'a>, &'a [Vec<u8>], bool);
    let table: [Row<'_>; 12] = [
        (client, Party::Server("page.example"), &page, true),
        (client, Party::Server("other.example"), &page, false),
        (client, Party::Server("filter.example"), &rsa, false),
        (client, named, &rsa, true),
        (client, unnamed, &rsa, false),
        (client, Party::Middlebox(first, "ec.example"), &ec, false),
        (stranger, named, &rsa, false),
        (&server, unnamed, &rsa, true),
        (&server, unnamed, &page, false),
        (&server, unnamed, &ec, false),
        (&strange, unnamed, &rsa, false),
        (&server, unnamed, &[], false),
    ];
    for (number, (who, party, chain, is_good)) in table.into_iter().enumerate() {
        let verified = who.verify(party, chain);
        assert_eq!(verified.is_ok(), is_good, "{number}: {party:?}");
    }
}

fn patience() -> Timeouts {
    Timeouts {
        handshake: std::time::Duration::from_secs(60),
        idle: std::time::Duration::from_secs(60),
    }
}

fn list(address: &str) -> MiddleboxList {
    let server = Address {
        name: "page.example".into(),
        address: address.into(),
    };
    // As the prototype's client calls them.
    let contexts = [2, 3].map(|slice| Context {
        id: ContextId(slice - 1),
        purpose: format!("slices_{slice}"),
        rights: Vec::<Right>::new(),
    });
    MiddleboxList::new(server, vec![], contexts.to_vec()).expect("good")
}

/// As the prototype's client asks: in each context, and with `Get`.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_as_the_prototypes_does_gets_one_answer() {
    let place = Place::new();
    let server = server(&place, &[]);
    let roots = authorities(&place.path("ca.pem")).expect("an authority");
    let roots = Arc::new(Roots::new(Arc::clone(&roots), roots));
    let session = connect(list(&server.address), roots, patience()).await;
    let mut session = session.expect("a session");
    for context in [1, 2] {
        let request = b"Get /index.html HTTP/1.1\r\nUser-Agent:SVA-0\r\nHost: h:1\r\n\r\n";
        let sent = session.sender.send(ContextId(context), request).await;
        sent.expect("it is sent");
    }
    let mut answer = Vec::new();
    while let Some(delivery) = session.receiver.recv().await.expect("vouched for") {
        answer.extend(delivery.data);
    }
    session.sender.close().await.expect("it is there");
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{}", page())));
}

/// As the prototype's server answers: without a head, in pieces of any context, until the end.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_as_the_prototypes_server_gives_it_is_taken_as_it_is() {
    let place = Place::new();
    let files = issue(&place, "page.example", For::Server);
    let own = identity(&files.cert, &files.key).expect("a certificate");
    let own = mctls12_io::prototype::identity(&own).expect("a key");
    let roots = authorities(&place.path("ca.pem")).expect("an authority");
    let roots = Arc::new(Nameless(Arc::new(Roots::new(Arc::clone(&roots), roots))));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let decide = Arc::new(|list: &MiddleboxList| Some(list.rights()));
        let session = accept(stream, own, roots, decide, patience()).await;
        let mut session = session.expect("a session");
        let asked = session.receiver.recv().await.expect("vouched for");
        assert!(asked.expect("a request").data.starts_with(b"GET / "));
        for (context, piece) in [(1, "one "), (3, "two "), (2, "three")] {
            let sent = session.sender.send(ContextId(context), piece.as_bytes());
            sent.await.expect("it is sent");
        }
        session.sender.close().await.expect("it is there");
        // Until the client has closed its side too.
        while session
            .receiver
            .recv()
            .await
            .is_ok_and(|more| more.is_some())
        {}
    });
    let ran = tokio::task::spawn_blocking(move || get(&place, "/", &address, &[], &[])).await;
    let ran = ran.expect("it has not panicked");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, b"one two three");
    serving.await.expect("it has not panicked");
}
