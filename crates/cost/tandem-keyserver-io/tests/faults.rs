//! What goes wrong between a web server and its key servers: one that is gone, that starts again,
//! is slow or another one; and a client that asks too much.

mod common;

use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{
    Browser, LONG, Place, Served, Web, allow, message, patient, patient_options, short_of_room,
    wait_until,
};
use nix::sys::signal::Signal;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tandem_channel::{Connector, KeyExchange, Pin, Protocol};
use tandem_keyclient::{Client, KeyServer, Options, SignError};
use tandem_keyserver::{
    Answer, Content, Frames, KeyId, Outcome, Refusal, Request, RequestId, Scheme,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

const SCHEME: Scheme = Scheme::EcdsaP256Sha256;
const FULL: Option<HandshakeKind> = Some(HandshakeKind::Full);
const RESUMED: Option<HandshakeKind> = Some(HandshakeKind::Resumed);

/// A place with one P-256 key, which these peers may use, at this many key servers.
fn place(peers: &[(&str, u32)], servers: &[&str]) -> Place {
    let place = Place::new(&["p256"]);
    let tables: String = peers
        .iter()
        .map(|(peer, rate)| place.peer(peer, *rate) + &allow(peer, "p256"))
        .collect();
    for server in servers {
        place.settings(server, &["p256"], &tables);
    }
    place
}

fn id_of(place: &Place) -> KeyId {
    let chain = place.chain("p256");
    let parsed = rustls::server::ParsedCertificate::try_from(&chain[0]).expect("a certificate");
    KeyId::of_public_key(&parsed.subject_public_key_info())
}

#[test]
fn without_a_key_server_full_handshakes_fail_and_sessions_are_resumed() {
    let place = place(&[("web", 1_000)], &["a"]);
    let mut served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    let web = Web::start(&place, "p256", &client);
    let browsers = [&TLS12, &TLS13].map(|version| Browser::new(&place, "p256", version));
    for browser in &browsers {
        assert_eq!(browser.visit(&web), FULL);
    }
    served.kill();
    for browser in &browsers {
        assert_eq!(browser.visit(&web), RESUMED);
    }
    assert_eq!(Browser::new(&place, "p256", &TLS13).visit(&web), None);
    let signed = client.sign(id_of(&place), SCHEME, &message());
    assert_eq!(signed, Err(SignError::NoServer));
    for browser in &browsers {
        assert_eq!(browser.visit(&web), RESUMED);
    }
}

/// As many connections from each of these addresses as a key server ever took of one, which say
/// nothing.
fn silent(server: std::net::SocketAddr, from: &[&str]) -> Vec<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let connect = |from: &str| {
        let from = (from.parse::<std::net::IpAddr>().expect("an address"), 0);
        runtime.block_on(async move {
            let socket = TcpSocket::new_v4().expect("a descriptor");
            socket.bind(from.into()).expect("it is this machine's");
            let stream = socket.connect(server).await.expect("it listens");
            stream.into_std().expect("it is whole")
        })
    };
    let mut connections = Vec::new();
    for from in from {
        connections.extend((0..64).map(|_| connect(from)));
        // With more in its queue a listener has SYNs sent again, a second later.
        wait_until("taken", || none_waits(server.port()));
    }
    connections
}

/// Whether whoever listens there has taken all connections: those that wait are in its receive
/// queue (proc_pid_net(5)).
fn none_waits(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("it is there");
    let (port, listens) = (format!(":{port:04X}"), "0A");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(5).collect();
        matches!(fields[..], [_, local, _, state, queues]
            if local.ends_with(&port) && state == listens && queues.ends_with(":00000000"))
    })
}

#[test]
fn silent_strangers_of_one_network_keep_nobody_of_another_out() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let _crowd = silent(
        served.address,
        // More than all strangers get, if a network had no share.
        &[
            "127.1.0.2",
            "127.1.0.3",
            "127.1.1.2",
            "127.1.1.3",
            "127.1.2.2",
            "127.1.2.3",
            "127.1.3.2",
            "127.1.3.3",
        ],
    );
    // The crowd is given up after two seconds, and then everybody comes in: who has a place before
    // has it for as long.
    let begun = std::time::Instant::now();
    let mut neighbours = silent(served.address, &["127.2.0.1"]);
    let neighbour = &mut neighbours[0];
    neighbour.set_nonblocking(false).expect("a socket");
    let ended = neighbour.read(&mut [0]);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2), "no place");
    let client = patient(&place, "web", &[&served]);
    assert!(client.sign(id_of(&place), SCHEME, &message()).is_ok());
}

#[test]
fn silent_strangers_next_door_keep_no_web_server_out_that_came_before() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let sign = || {
        let client = patient(&place, "web", &[&served]);
        client.sign(id_of(&place), SCHEME, &message())
    };
    assert!(sign().is_ok());
    let _crowd = silent(
        served.address,
        &["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"],
    );
    assert!(sign().is_ok());
}

#[test]
fn a_key_server_that_starts_again_is_used_again() {
    let place = place(&[("web", 1_000)], &["a"]);
    let mut served = Served::start(&place, "a");
    let address = served.address.to_string();
    let client = patient(&place, "web", &[&served]);
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    assert!(sign().is_ok());
    served.kill();
    assert_eq!(sign(), Err(SignError::NoServer));
    let _again = Served::start_at(&place, "a", &address, &[]);
    wait_until("the key server", || sign().is_ok());
}

#[test]
fn many_processes_of_a_web_server_have_connections() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    // Each has a thread and connections of its own, as processes have.
    let clients: Vec<_> = (0..80)
        .map(|_| patient(&place, "web", &[&served]))
        .collect();
    for client in &clients {
        assert!(client.connect().is_ok());
    }
    for (at, client) in clients.iter().enumerate() {
        wait_until("a signature", || {
            let signed = client.sign(id_of(&place), SCHEME, &message());
            // Too many may knock at once, and come again.
            assert!(
                matches!(signed, Ok(_) | Err(SignError::NoServer)),
                "{at}: {signed:?}"
            );
            signed.is_ok()
        });
    }
}

#[test]
fn a_key_server_that_refuses_a_second_connection_is_used_over_the_first() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let (way, refused) = narrow_way(&served);
    let way = KeyServer {
        address: way,
        ..served.as_server()
    };
    let client = Client::new(Options {
        servers: vec![way],
        ..patient_options(&place, "web", &[&served])
    });
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    wait_until("a first signature", || sign().is_ok());
    let enough = refused.load(Ordering::SeqCst) + 2;
    wait_until("more refusals", || {
        assert!(sign().is_ok());
        refused.load(Ordering::SeqCst) >= enough
    });
}

/// A way to the key server that lets the first connection through and closes all others; and how
/// many it has closed.
fn narrow_way(served: &Served) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let refused = Arc::new(AtomicUsize::new(0));
    let (to, count) = (served.address, Arc::clone(&refused));
    thread::spawn(move || {
        let (ours, _) = listener.accept().expect("a client");
        let theirs = TcpStream::connect(to).expect("it listens");
        for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
            let mut from = from.try_clone().expect("a socket");
            let mut to = to.try_clone().expect("a socket");
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        for further in listener.incoming() {
            drop(further);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, refused)
}

#[test]
fn with_one_of_two_key_servers_gone_no_handshake_fails() {
    let place = place(&[("web", 1_000)], &["a", "b"]);
    let mut first = Served::start(&place, "a");
    let second = Served::start(&place, "b");
    let client = patient(&place, "web", &[&first, &second]);
    let web = Web::start(&place, "p256", &client);
    let visit = || Browser::new(&place, "p256", &TLS13).visit(&web);
    assert_eq!(visit(), FULL);
    first.kill();
    for _ in 0..5 {
        assert_eq!(visit(), FULL);
    }
    let of = |server: &str| place.text(&format!("{server}.audit")).lines().count();
    assert_eq!((of("a"), of("b")), (1, 5));
}

#[test]
fn with_one_of_two_key_servers_slow_no_handshake_fails() {
    let place = place(&[("web", 1_000)], &["a", "b"]);
    let first = Served::start(&place, "a");
    let second = Served::start(&place, "b");
    let client = Client::new(Options {
        patience: Duration::from_millis(20),
        ..patient_options(&place, "web", &[&first, &second])
    });
    let web = Web::start(&place, "p256", &client);
    first.stop();
    for _ in 0..5 {
        assert_eq!(Browser::new(&place, "p256", &TLS13).visit(&web), FULL);
    }
    assert_eq!(place.text("b.audit").lines().count(), 5);
}

#[test]
fn a_key_server_that_answers_nothing_has_failed_until_it_does() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let client = Client::new(Options {
        deadline: Duration::from_millis(500),
        ..patient_options(&place, "web", &[&served])
    });
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    wait_until("a first signature", || sign().is_ok());
    served.stop();
    let signed = sign();
    assert!(
        matches!(signed, Err(SignError::TooLate | SignError::NoServer)),
        "{signed:?}"
    );
    wait_until("an answer at once", || sign() == Err(SignError::NoServer));
    served.signal(Signal::SIGCONT);
    wait_until("the key server", || sign().is_ok());
}

#[test]
fn another_one_in_place_of_the_key_server_is_not_asked() {
    let place = place(&[("web", 1_000)], &["a", "b"]);
    let served = Served::start(&place, "a");
    let pinned = KeyServer {
        key: place.channel_key("b").name(),
        ..served.as_server()
    };
    let client = Client::new(Options::new(place.channel_key("web"), vec![pinned]));
    let signed = client.sign(id_of(&place), SCHEME, &message());
    assert_eq!(signed, Err(SignError::NoServer));
    assert_eq!(place.text("a.audit"), "");
}

#[test]
fn whoever_asks_too_often_is_refused_and_others_are_not() {
    let place = place(&[("greedy", 1), ("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let id = id_of(&place);
    let greedy = patient(&place, "greedy", &[&served]);
    let web = patient(&place, "web", &[&served]);
    let refused = Err(SignError::Refused(Refusal::Rate));
    wait_until("a refusal", || {
        greedy.sign(id, SCHEME, &message()) == refused
    });
    for _ in 0..5 {
        assert!(web.sign(id, SCHEME, &message()).is_ok());
    }
}

#[test]
fn more_who_wait_than_may_fail_at_once() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let client = Client::new(Options {
        max_waiting: 0,
        ..patient_options(&place, "web", &[&served])
    });
    let signed = client.sign(id_of(&place), SCHEME, &message());
    assert_eq!(signed, Err(SignError::TooManyWaiting));
}

#[test]
fn a_channel_key_that_had_no_room_is_made_at_the_next_start() {
    let place = Place::new(&[]);
    let path = place.path("late.channel");
    let key_in = |program: &mut Command| {
        let ran = program.arg("--channel-key").arg(&path).output();
        ran.expect("the program is built").status.success()
    };
    assert!(!key_in(&mut short_of_room(0)));
    assert!(key_in(&mut short_of_room(1)));
}

#[test]
fn a_line_that_the_audit_log_has_no_room_for_leaves_nothing() {
    let place = place(&[("web", 1_000)], &["a"]);
    // It and its neighbours are made by the first start.
    drop(Served::start(&place, "a"));
    let served = Served::start_short_of_room(&place, "a", 2);
    let client = patient(&place, "web", &[&served]);
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    wait_until("the log is full", || {
        sign() == Err(SignError::Refused(Refusal::Failed))
    });
    let log = place.text("a.audit");
    assert!(log.lines().count() > 0);
    assert!(log.ends_with("}\n"), "{log}");
}

#[test]
fn without_a_line_in_the_audit_log_there_is_no_signature() {
    let place = place(&[("web", 1_000)], &["a"]);
    let settings = place.text("a.toml");
    let audit = format!("{:?}", place.path("a.audit"));
    // Each write to it fails for want of room.
    place.write("a.toml", &settings.replace(&audit, "\"/dev/full\""));
    let served = Served::start_at(&place, "a", "127.0.0.1:0", &["--log", "off"]);
    let client = patient(&place, "web", &[&served]);
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    assert_eq!(sign(), Err(SignError::Refused(Refusal::Failed)));
    // With room again, as a signal tells.
    place.write("a.toml", &settings);
    served.signal(Signal::SIGHUP);
    wait_until("a signature", || sign().is_ok());
}

#[test]
fn a_client_that_is_taken_out_gets_nothing_over_its_old_connection() {
    let place = place(&[("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    let sign = || client.sign(id_of(&place), SCHEME, &message());
    assert!(sign().is_ok());
    place.settings("a", &["p256"], "");
    served.signal(Signal::SIGHUP);
    wait_until("the end", || sign() == Err(SignError::NoServer));
}

/// A channel to the key server, for what a client of ours does not do.
async fn channel(place: &Place, peer: &str, served: &Served) -> tandem_channel::ClientChannel {
    let protocol = Protocol {
        name: tandem_keyserver::PROTOCOL,
        key_exchange: KeyExchange::Hybrid,
    };
    let connector = Connector::new(protocol, &place.channel_key(peer), Pin::to(served.key));
    let stream = tokio::net::TcpStream::connect(served.address).await;
    let connector = connector.expect("settings");
    let channel = connector.open(stream.expect("it listens"));
    let mut channel = channel.await.expect("admitted");
    channel.read_exact(&mut [0; 2]).await.expect("a greeting");
    channel
}

fn frame(place: &Place, id: u32) -> Vec<u8> {
    let request = Request {
        id: RequestId(id),
        key: id_of(place),
        scheme: SCHEME,
        content: Content::Transcript32([1; 32]),
    };
    request.to_frame()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn a_flood_of_one_client_leaves_another_its_turn() {
    let place = place(&[("flood", 1_000_000), ("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let web = patient(&place, "web", &[&served]);
    let runtime = runtime();
    let bytes: Vec<u8> = (0..100).flat_map(|id| frame(&place, id)).collect();
    let mut floods = Vec::new();
    for _ in 0..8 {
        let channel = runtime.block_on(channel(&place, "flood", &served));
        let (mut from, mut to) = tokio::io::split(channel);
        let bytes = bytes.clone();
        floods.push(runtime.spawn(async move { while to.write_all(&bytes).await.is_ok() {} }));
        floods.push(runtime.spawn(async move {
            let mut piece = vec![0; 1 << 14];
            while from.read(&mut piece).await.is_ok_and(|len| len > 0) {}
        }));
    }
    for _ in 0..20 {
        let signed = web.sign(id_of(&place), SCHEME, &message());
        assert!(signed.is_ok(), "{signed:?}");
    }
    for flood in floods {
        flood.abort();
    }
}

#[test]
fn a_client_that_reads_no_answers_is_not_read_from_and_others_are_served() {
    let place = place(&[("deaf", 1_000_000), ("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let runtime = runtime();
    let bytes: Vec<u8> = (0..1_000).flat_map(|id| frame(&place, id)).collect();
    runtime.block_on(async {
        let mut deaf = channel(&place, "deaf", &served).await;
        // Far more than sockets hold: the key server stops reading, and closes in the end.
        let written = async {
            for _ in 0..2_000 {
                deaf.write_all(&bytes).await?;
                deaf.flush().await?;
            }
            Ok::<(), std::io::Error>(())
        };
        let outcome = tokio::time::timeout(LONG, written).await;
        assert!(outcome.expect("closed in time").is_err());
    });
    let web = patient(&place, "web", &[&served]);
    assert!(web.sign(id_of(&place), SCHEME, &message()).is_ok());
}

#[test]
fn frames_of_another_form_end_their_connection_alone() {
    let place = place(&[("bad", 1_000), ("web", 1_000)], &["a"]);
    let served = Served::start(&place, "a");
    let runtime = runtime();
    runtime.block_on(async {
        for bytes in [&[0xff, 0xff][..], &[0, 0], &[0, 4, 1, 2, 3, 4]] {
            let mut bad = channel(&place, "bad", &served).await;
            bad.write_all(bytes).await.expect("it reads");
            let ended = bad.read(&mut [0; 16]).await;
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        }
        // Two requests at once have two answers, each by its number.
        let mut good = channel(&place, "web", &served).await;
        let both = [frame(&place, 7), frame(&place, 8)].concat();
        good.write_all(&both).await.expect("it reads");
        let mut frames = Frames::of_answers();
        let mut ids = Vec::new();
        while ids.len() < 2 {
            let mut piece = [0; 256];
            let len = good.read(&mut piece).await.expect("it answers");
            frames.push(&piece[..len]);
            while let Some(body) = frames.next_body().expect("short") {
                let answer = Answer::read(&body).expect("an answer");
                assert!(matches!(answer.outcome, Outcome::Signed(_)), "{answer:?}");
                ids.push(answer.id.0);
            }
        }
        ids.sort_unstable();
        assert_eq!(ids, [7, 8]);
    });
}

#[test]
fn many_handshakes_at_once_share_two_connections() {
    let place = place(&[("web", 100_000)], &["a"]);
    let served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    let id = id_of(&place);
    let all: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.sign(id, SCHEME, &message()))
        })
        .collect();
    for each in all {
        assert!(each.join().expect("no panic").is_ok());
    }
}
