//! The paper's own protocol over sockets: what passes, what is blocked, what is refused, and how
//! many bytes its handshake has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mctls::config::Right;
use mctls::party::{ContextId, Position};
use mctls12::Mode;
use mctls12::auth::{Identity, Party, Refusal, Verify as _};
use mctls12::endpoint::Decision;
use mctls12::list::{Context, MiddleboxList, Place as Address};
use mctls12_io::middlebox::{Service, Settings, Verdict};
use mctls12_io::{Roots, Timeouts, accept, connect};
use tandem_mc::certificates::For;
use tandem_mc::report::Outcome;
use tandem_mc::settings::{authorities, identity};
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Daemon, Place, Ran, page};

#[path = "paper_attacks.rs"]
mod attacks;

const OLD: [&str; 2] = ["--protocol", "mctls12"];

fn server(place: &Place, more: &[&str]) -> Daemon {
    place.server(&[&OLD, more].concat())
}

fn middlebox(place: &Place, name: &str, kind: &str, settings: &str) -> Daemon {
    let files = place.issue(name, For::Middlebox);
    place.write("box.toml", settings);
    let config = place.text("box.toml");
    let arguments = ["box", "--kind", kind, "--config", &config];
    Daemon::start(&files, &[&arguments[..], &OLD].concat())
}

fn get(place: &Place, path: &str, server: &Daemon, via: &[&str], more: &[&str]) -> Ran {
    let more = [&OLD, more].concat();
    Ran::of(&mut place.get(path, &server.address, via, &more))
}

#[test]
fn a_page_comes_through_and_one_on_the_list_does_not() {
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
    for contexts in ["4", "1"] {
        let more = ["-o", &out, "--json", "--contexts", contexts];
        let ran = get(&place, "/", &server, &via, &more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("mctls12"), "{}", ran.stderr);
        assert!(ran.stderr.contains("is not safe"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&out).expect("a page"), page());
        let report = ran.report();
        assert_eq!(report.protocol, "mctls12");
        assert_eq!(
            (report.outcome, report.status),
            (Outcome::Complete, Some(200))
        );
        std::fs::remove_file(&out).expect("it was written");
        let ran = get(&place, "/%67ames.html", &server, &via, &more);
        // The protocol has no word for it: the connection is cut.
        let words = ran.failed_with(1);
        assert!(words.contains("cut before its end"), "{words}");
        assert!(words.contains("filter.example"), "{words}");
        assert!(!place.path("out").exists());
    }
}

#[test]
fn a_filter_from_which_the_server_withholds_its_half_takes_no_part() {
    let place = Place::new();
    place.write("serve.toml", "[[middlebox]]\nname = \"filter.example\"\n");
    let config = place.text("serve.toml");
    let server = server(&place, &["--config", &config]);
    let filter = middlebox(&place, "filter.example", "filter", super::BLOCKS);
    let via = format!("filter.example@{}=filter", filter.address);
    let ran = get(&place, "/", &server, &[&via], &[]);
    let words = ran.failed_with(1);
    assert!(words.contains("less than it needs"), "{words}");
}

#[test]
fn a_middlebox_or_server_without_the_certificate_for_its_name_is_refused() {
    let place = Place::new();
    let server = server(&place, &[]);
    let null = middlebox(&place, "null.example", "null", "");
    let via = format!("other.example@{}", null.address);
    let ran = get(&place, "/", &server, &[&via], &[]);
    // It does not find itself in the list.
    assert!(ran.failed_with(1).contains("alert 40"), "{ran:?}");
    let server = middlebox(&place, "page.example", "null", "");
    let ran = get(&place, "/", &server, &[], &[]);
    assert!(ran.failed_with(1).contains("alert 40"), "{ran:?}");
}

#[test]
fn a_certificate_is_good_for_its_name_its_use_and_its_authority_alone() {
    let (place, other) = (Place::new(), Place::new());
    let new = |name, what| {
        place.issue(name, what);
        issued(&place, name)
    };
    let verified = |roots: &Roots, party, who: &Identity, signed: &[u8]| {
        let signature = who.key.sign(b"message").expect("a signature");
        roots.verify(party, &who.chain, who.key.scheme(), signed, &signature)
    };
    let (server, filter) = ("page.example", "filter.example");
    let (page, middle) = (new(server, For::Server), new(filter, For::Middlebox));
    let first = Position::new(1).expect("a position");
    let (good, bad) = (roots(&place), Err(Refusal::Certificate));
    let listed = Party::Middlebox(first, filter);
    for (party, who) in [(Party::Server(server), &page), (listed, &middle)] {
        assert_eq!(verified(&good, party, who, b"message"), Ok(()));
        assert_eq!(verified(&roots(&other), party, who, b"message"), bad);
        let signature = verified(&good, party, who, b"massage");
        assert_eq!(signature, Err(Refusal::Signature));
    }
    for (party, who) in [
        (Party::Server("other.example"), &page),
        (Party::Server(filter), &middle),
        (Party::Middlebox(first, server), &page),
        (Party::Middlebox(first, "other.example"), &middle),
    ] {
        assert_eq!(verified(&good, party, who, b"message"), bad);
    }
}

#[test]
fn the_two_protocols_do_not_take_each_other_for_themselves() {
    let place = Place::new();
    let old = server(&place, &[]);
    let ran = Ran::of(&mut place.get("/", &old.address, &[], &[]));
    ran.failed_with(1);
    let new = place.server(&[]);
    let ran = get(&place, "/", &new, &[], &[]);
    ran.failed_with(1);
}

#[test]
fn a_kind_that_changes_data_is_not_there() {
    let place = Place::new();
    let files = place.issue("zip.example", For::Middlebox);
    let text = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let (cert, key) = (text(&files.cert), text(&files.key));
    let mut command = super::program();
    command.args(["box", "--kind", "compress", "--listen", "127.0.0.1:0"]);
    command.args(["--cert", &cert, "--key", &key]).args(OLD);
    let ran = Ran::of(&mut command);
    let words = "--kind compress: over mctls12 there are null, filter and ids";
    assert_eq!(ran.failed_with(2), words);
}

/// Believes the place's authority.
fn roots(place: &Place) -> Roots {
    let roots = authorities(&place.path("ca.pem")).expect("an authority");
    Roots::new(Arc::clone(&roots), roots)
}

/// Whose certificate the place has.
fn issued(place: &Place, name: &str) -> Identity {
    let [cert, key] = ["pem", "key"].map(|ending| place.path(&format!("{name}.{ending}")));
    let files = identity(&cert, &key).expect("a certificate");
    mctls12_io::identity(&files).expect("a key")
}

/// Passes everything on.
struct Nothing;

impl Service for Nothing {
    fn inspect(&mut self, _: mctls::party::Direction, _: &Context, _: &[u8]) -> Verdict {
        Verdict::Forward
    }
}

async fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

fn patience() -> Timeouts {
    Timeouts {
        handshake: std::time::Duration::from_secs(60),
        idle: std::time::Duration::from_secs(60),
    }
}

/// Bytes both ways on the client's link, until both ends have a session.
async fn handshake(place: &Place, boxes: usize, contexts: u8, mode: Mode) -> usize {
    let verify = Arc::new(roots(place));
    let (listener, mut next) = listening().await;
    let server = Address {
        name: "page.example".into(),
        address: next.clone(),
    };
    let (own, roots) = (issued(place, "page.example"), Arc::clone(&verify));
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let decide = |list: &MiddleboxList| {
            let rights = list.rights();
            Some(Decision { mode, rights })
        };
        accept(stream, own, roots, decide, patience()).await
    });
    let mut middleboxes = Vec::new();
    for number in (1..=boxes).rev() {
        let (listener, address) = listening().await;
        let name = format!("box-{number}.example");
        let settings = Settings {
            identity: issued(place, &name),
            permits: Arc::new(|_: &str| true),
            service: Arc::new(|| Box::new(Nothing)),
            timeouts: patience(),
        };
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            mctls12_io::middlebox::serve(stream, &settings).await
        });
        next = address.clone();
        middleboxes.insert(0, Address { name, address });
    }
    // The client's link counts.
    let (listener, address) = listening().await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(next).await.expect("the next hop");
        let (from_client, mut to_client) = client.split();
        let (from_server, mut to_server) = server.split();
        let mut from_client = Counting(from_client, Arc::clone(&counted));
        let mut from_server = Counting(from_server, counted);
        let _ = tokio::join!(
            copy(&mut from_client, &mut to_server),
            copy(&mut from_server, &mut to_client),
        );
    });
    let mut server = server;
    let first = middleboxes.first_mut().unwrap_or(&mut server);
    first.address = address;
    let contexts_of = (1..=contexts).map(|id| Context {
        id: ContextId(id),
        purpose: String::new(),
        rights: vec![Right::Write; boxes],
    });
    let list = MiddleboxList::new(server, middleboxes, contexts_of.collect()).expect("good");
    let session = connect(list, verify, patience()).await;
    let mut client = session.expect("a session");
    let served = serving.await.expect("it has not panicked");
    let mut server = served.expect("a session");
    let bytes = count.load(Ordering::SeqCst);
    assert_eq!(client.mode, mode);
    client
        .sender
        .send(ContextId(contexts), b"data")
        .await
        .expect("sent");
    let delivery = server.receiver.recv().await.expect("it came");
    assert_eq!(delivery.expect("data").data, b"data");
    bytes
}

/// Counts what is read.
struct Counting<R>(R, Arc<AtomicUsize>);

impl<R: tokio::io::AsyncRead + Unpin> tokio::io::AsyncRead for Counting<R> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = std::pin::Pin::new(&mut self.0).poll_read(context, buffer);
        self.1
            .fetch_add(buffer.filled().len() - before, Ordering::SeqCst);
        polled
    }
}

/// Shown with `--nocapture`. Figures vary by some bytes: signatures and addresses have no fixed
/// length. The prototype's certificates were others (RSA), so the comparison is a rough one.
#[tokio::test]
async fn what_a_handshake_costs_on_the_clients_link() {
    /// The prototype's, for 1, 4, 8 and 16 contexts.
    const PROTOTYPE: [[usize; 4]; 3] = [
        [2160, 2990, 4086, 6318],
        [3899, 5535, 7695, 12_087],
        [5638, 8080, 11_303, 17_856],
    ];
    let place = Place::new();
    place.issue("page.example", For::Server);
    for number in 1..=4 {
        place.issue(&format!("box-{number}.example"), For::Middlebox);
    }
    for mode in [Mode::Contributory, Mode::ClientDistributes] {
        for boxes in 0..=4 {
            let mut row = Vec::new();
            for contexts in [1, 4, 8, 16] {
                row.push(handshake(&place, boxes, contexts, mode).await);
            }
            let theirs = PROTOTYPE.get(boxes);
            println!("{mode:?}, {boxes} middleboxes: {row:?}, the prototype {theirs:?}");
            assert!(row.is_sorted(), "{row:?}");
            for (ours, theirs) in row.iter().zip(theirs.into_iter().flatten()) {
                assert!(ours < theirs, "{boxes} middleboxes: {ours} and {theirs}");
            }
        }
    }
}
