//! Against a real server, which each test starts: what is written is read by another proxy, and no
//! fault of the server holds anybody up.

mod support;
#[path = "servers/tls.rs"]
mod tls;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use support::{PATIENCE, RealServer, until};
use tandem_engine::PeerId;
use tandem_shared_store::{Access, Address, Fault, Login, Valkey, examine};
use tandem_tunnel::SharedStore as _;

const KEY: [u8; 32] = [7; 32];
const PEER: PeerId = PeerId([1; 32]);
const OTHER: PeerId = PeerId([2; 32]);

/// What a proxy of this key has, started.
fn proxy_with(address: &str, login: Option<Login>, key: &[u8; 32]) -> Valkey {
    let address: Address = address.parse().expect(address);
    let access = Access {
        login,
        ..address.into()
    };
    started(access, key)
}

fn started(access: Access, key: &[u8; 32]) -> Valkey {
    let proxy = Valkey::new(access, key);
    proxy.start().expect("a thread");
    proxy
}

fn proxy(address: &str) -> Valkey {
    proxy_with(address, None, &KEY)
}

/// What it has of this peer; `None` where it does not say.
fn recalled(proxy: &Valkey, peer: PeerId) -> Option<Vec<Vec<u8>>> {
    let (said, heard) = channel();
    proxy.recall(
        peer,
        Box::new(move |notes| said.send(notes).expect("the test waits")),
    );
    heard.recv_timeout(PATIENCE).ok()
}

fn number(proxy: &Valkey, name: &str) -> u64 {
    let numbers = proxy.numbers();
    let found = numbers.iter().find(|(it, _)| *it == name);
    found.expect(name).1
}

fn note(proxy: &Valkey, peer: PeerId, text: &str) {
    proxy.note(peer, text.as_bytes().to_vec());
}

/// Notes this, and waits until the server has it or has refused it.
fn written(proxy: &Valkey, peer: PeerId, text: &str) {
    note(proxy, peer, text);
    proxy.flush(PATIENCE);
}

fn texts(notes: &[Vec<u8>]) -> Vec<&str> {
    let text = |note| std::str::from_utf8(note).expect("text");
    notes.iter().map(Vec::as_slice).map(text).collect()
}

#[test]
fn what_one_proxy_noted_another_of_the_same_key_recalls_the_oldest_first() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let [one, two] = [(); 2].map(|()| proxy(&server.address()));
    let stranger = proxy_with(&server.address(), None, &[8; 32]);
    for text in ["first", "second", "third"] {
        note(&one, PEER, text);
    }
    one.flush(PATIENCE);
    let found = recalled(&two, PEER).expect("it answers");
    assert_eq!(texts(&found), ["first", "second", "third"]);
    assert_eq!(recalled(&two, OTHER), Some(vec![]));
    assert_eq!(recalled(&stranger, PEER), Some(vec![]));
    assert_eq!(number(&one, "shared_store_notes_written"), 3);
    assert_eq!(number(&two, "shared_store_notes_recalled"), 3);
    assert_eq!(
        (one.state(), two.state()),
        ("connected".into(), "connected".into())
    );
}

#[test]
fn a_peer_has_so_many_notes_and_they_are_not_kept_for_ever() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    for number in 0..100 {
        note(&proxy, PEER, &number.to_string());
    }
    proxy.flush(PATIENCE);
    let found = recalled(&proxy, PEER).expect("it answers");
    assert_eq!(found.len(), 64);
    assert_eq!(texts(&found).first(), Some(&"36"));
    assert_eq!(texts(&found).last(), Some(&"99"));
    let name = server.ask(&["KEYS", "*"]);
    assert_eq!(server.ask(&["LLEN", &name]), "64");
    let left: u32 = server.ask(&["TTL", &name]).parse().expect("seconds");
    assert!((86_000..=86_400).contains(&left), "{left}");
}

#[test]
fn two_proxies_that_write_at_once_both_find_the_notes_of_both() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxies = [(); 2].map(|()| proxy(&server.address()));
    std::thread::scope(|scope| {
        for (proxy, letter) in proxies.iter().zip(["a", "b"]) {
            scope.spawn(move || {
                for number in 0..30 {
                    note(proxy, PEER, &format!("{letter}{number}"));
                }
                proxy.flush(PATIENCE);
            });
        }
    });
    let [one, two] = proxies
        .each_ref()
        .map(|it| recalled(it, PEER).expect("it answers"));
    assert_eq!(one, two);
    for letter in ["a", "b"] {
        let of_one = texts(&one).into_iter().filter(|it| it.starts_with(letter));
        let expected: Vec<String> = (0..30).map(|number| format!("{letter}{number}")).collect();
        assert_eq!(of_one.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_server_that_is_killed_costs_notes_and_is_used_again_when_it_is_back() {
    let Some(mut server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "before");
    server.kill();
    note(&proxy, PEER, "lost");
    assert_eq!(recalled(&proxy, PEER), None);
    until("it is down", || proxy.state().starts_with("down: "));
    assert_eq!(number(&proxy, "shared_store_connected"), 0);
    assert_eq!(number(&proxy, "shared_store_notes_dropped"), 1);
    let tried = || number(&proxy, "shared_store_failures");
    until("it is tried again", || tried() >= 3);
    server.start_again();
    until("it is back", || proxy.state() == "connected");
    written(&proxy, PEER, "after");
    let found = recalled(&proxy, PEER).expect("it answers");
    assert_eq!(texts(&found), ["after"]);
}

#[test]
fn a_server_that_closes_after_its_greeting_is_tried_less_and_less_often() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("it came");
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"+PONG\r\n");
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let proxy = proxy(&format!("redis://{address}"));
    for _ in 0..300 {
        written(&proxy, PEER, "lost");
    }
    assert!(number(&proxy, "shared_store_failures") > 0);
    assert_eq!(number(&proxy, "shared_store_notes_dropped"), 300);
    let accepted = accepted.load(Ordering::Relaxed);
    assert!(accepted < 40, "{accepted}");
}

#[test]
fn a_user_that_may_not_let_notes_expire_is_refused_and_said() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    server.ask(&["ACL", "SETUSER", "default", "-expire"]);
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "refused");
    assert_eq!(number(&proxy, "shared_store_notes_written"), 0);
    let state = proxy.state();
    assert!(state.contains("NOPERM"), "{state}");
}

#[test]
fn a_server_that_became_a_replica_is_left() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "before");
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    written(&proxy, PEER, "refused");
    assert_eq!(number(&proxy, "shared_store_notes_dropped"), 1);
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    until("it is used again", || {
        written(&proxy, PEER, "after");
        number(&proxy, "shared_store_notes_written") > 1
    });
}

#[test]
fn a_wrong_password_is_said_and_the_right_one_works() {
    let Some(server) = RealServer::start(&["--requirepass", "open sesame"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a directory");
    let login = |text: &str| {
        let path = folder.path().join("password");
        std::fs::write(&path, text).expect("ours");
        Some(Login::read(&path).expect("a line"))
    };
    for (login, said) in [(login("wrong"), "WRONGPASS"), (None, "NOAUTH")] {
        let proxy = proxy_with(&server.address(), login, &KEY);
        note(&proxy, PEER, "lost");
        assert_eq!(recalled(&proxy, PEER), None);
        let state = proxy.state();
        assert!(
            state.starts_with("down: ") && state.contains(said),
            "{state}"
        );
        assert!(!state.contains("wrong"), "{state}");
    }
    let proxy = proxy_with(&server.address(), login("open sesame\n"), &KEY);
    written(&proxy, PEER, "kept");
    assert_eq!(
        texts(&recalled(&proxy, PEER).expect("it answers")),
        ["kept"]
    );
}

#[test]
fn garbage_in_it_is_counted_and_left_out() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "one");
    let name = server.ask(&["KEYS", "*"]);
    server.ask(&["LPUSH", &name, "garbage", "", &"long ".repeat(1_000)]);
    written(&proxy, PEER, "two");
    let found = recalled(&proxy, PEER).expect("it answers");
    assert_eq!(texts(&found), ["one", "two"]);
    assert_eq!(number(&proxy, "shared_store_notes_foreign"), 3);
    // A note of another peer, in this one's place.
    written(&proxy, OTHER, "of another");
    let names = server.ask(&["KEYS", "*"]);
    let other = names.lines().find(|it| *it != name).expect("two");
    server.ask(&["RENAME", other, &name]);
    assert_eq!(recalled(&proxy, PEER), Some(vec![]));
    // A string that is longer than any note ends the connection, and no more.
    server.ask(&["LPUSH", &name, &"x".repeat(60_000)]);
    assert_eq!(recalled(&proxy, PEER), None);
    // What is no list at all.
    server.ask(&["DEL", &name]);
    server.ask(&["SET", &name, "a text"]);
    until("it is connected again", || {
        number(&proxy, "shared_store_connected") == 1
    });
    assert_eq!(recalled(&proxy, PEER), None);
    note(&proxy, PEER, "refused");
    written(&proxy, OTHER, "taken");
    assert_eq!(number(&proxy, "shared_store_notes_refused"), 1);
    assert_eq!(
        texts(&recalled(&proxy, OTHER).expect("it answers")),
        ["taken"]
    );
}

#[test]
fn a_server_that_stands_still_makes_nobody_wait() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "before");
    server.signal("STOP");
    let since = Instant::now();
    for _ in 0..20_000 {
        note(&proxy, PEER, "of no use");
    }
    proxy.recall(PEER, Box::new(drop));
    // Nothing of that waits for the server, which is given a second.
    assert!(since.elapsed() < PATIENCE, "{:?}", since.elapsed());
    assert!(number(&proxy, "shared_store_notes_dropped") > 10_000);
    until("it is given up", || proxy.state().starts_with("down: "));
    server.signal("CONT");
    until("it is back", || proxy.state() == "connected");
    assert!(recalled(&proxy, PEER).is_some());
}

#[test]
fn a_full_server_takes_no_notes_and_still_gives_those_it_has() {
    let Some(server) = RealServer::start(&["--maxmemory-policy", "noeviction"]) else {
        return;
    };
    let proxy = proxy(&server.address());
    written(&proxy, PEER, "before");
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    written(&proxy, PEER, "no room");
    assert_eq!(number(&proxy, "shared_store_notes_refused"), 1);
    let state = proxy.state();
    assert!(state.starts_with("refuses notes: OOM"), "{state}");
    assert_eq!(
        texts(&recalled(&proxy, PEER).expect("it answers")),
        ["before"]
    );
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    written(&proxy, PEER, "after");
    assert_eq!(proxy.state(), "connected");
}

#[test]
fn a_peer_takes_little_more_memory_there_than_its_notes() {
    const PEERS: u8 = 20;
    const LEN: usize = 4_600;
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let proxy = proxy(&server.address());
    proxy.flush(PATIENCE);
    let used = || {
        let memory = server.ask(&["INFO", "memory"]);
        let line = memory
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        let used = line.expect("it says so").trim().parse::<usize>();
        used.expect("a number")
    };
    let before = used();
    for peer in 0..PEERS {
        for number in 0..64 {
            proxy.note(PeerId([peer; 32]), vec![number; LEN]);
        }
        proxy.flush(PATIENCE);
    }
    assert_eq!(
        number(&proxy, "shared_store_notes_written"),
        64 * u64::from(PEERS)
    );
    let each = (used() - before) / usize::from(PEERS);
    eprintln!("64 notes of {LEN} bytes take {each} bytes in the server");
    assert!(each < 64 * (LEN + 1_000), "{each}");
}

#[test]
fn what_is_no_such_server_is_given_up() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"$999999999\r\n",
        b"*1000000\r\n",
        b"",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("it came");
                let _ = stream.read(&mut [0; 64]);
                let _ = stream.write_all(answer);
            }
        });
        let proxy = proxy(&format!("redis://{address}"));
        note(&proxy, PEER, "lost");
        assert_eq!(recalled(&proxy, PEER), None, "{answer:?}");
        let state = proxy.state();
        assert!(state.starts_with("down: "), "{answer:?}: {state}");
    }
}

/// What a look at it finds.
fn found(address: &str, password: Option<&str>) -> Result<(), Fault> {
    let address: Address = address.parse().expect(address);
    let folder = tempfile::tempdir().expect("a directory");
    let login = password.map(|text| {
        let path = folder.path().join("password");
        std::fs::write(&path, text).expect("ours");
        Login::read(&path).expect("a line")
    });
    look(&Access {
        login,
        ..address.into()
    })
}

fn look(access: &Access) -> Result<(), Fault> {
    let round_trip = examine(access, &KEY)?;
    assert!(!round_trip.is_zero() && round_trip < PATIENCE);
    Ok(())
}

#[test]
fn a_look_finds_why_it_cannot_be_used_and_changes_nothing() {
    let Some(mut server) = RealServer::start(&[]) else {
        return;
    };
    let address = server.address();
    assert_eq!(found(&address, None), Ok(()));
    assert_eq!(found(&address, Some("any")), Err(Fault::TakesNoPassword));
    assert_eq!(server.ask(&["DBSIZE"]), "0");
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(found(&address, None), Err(Fault::Replica));
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(found(&address, None), Err(Fault::Full));
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    server.ask(&["CONFIG", "SET", "requirepass", "secret"]);
    assert_eq!(found(&address, None), Err(Fault::WantsPassword));
    assert_eq!(found(&address, Some("guess")), Err(Fault::WrongPassword));
    assert_eq!(found(&address, Some("secret")), Ok(()));
    server.signal("STOP");
    assert_eq!(found(&address, Some("secret")), Err(Fault::Silent));
    server.signal("CONT");
    server.kill();
    assert!(matches!(found(&address, None), Err(Fault::NotThere(_))));
}

#[test]
fn a_look_finds_what_a_user_may_not_do_with_and_without_transactions() {
    let Some(server) = RealServer::start(&["--requirepass", "secret"]) else {
        return;
    };
    let admin = |words: &[&str]| {
        let words = [&["-a", "secret", "--no-auth-warning"], words].concat();
        server.ask(&words)
    };
    let all = ["+ping", "+ltrim", "+expire", "+lrange"];
    for more in [&["+multi", "+discard"][..], &[]] {
        let rules = [
            &["ACL", "SETUSER", "tandem", "reset", "on", ">pass", "~*"][..],
            &all,
            more,
        ];
        assert_eq!(admin(&rules.concat()), "OK");
        // By its port, since a UNIX socket's address names no user.
        let port = tandem_testkit::free_port();
        admin(&["CONFIG", "SET", "port", &port.to_string()]);
        let address = format!("redis://tandem@127.0.0.1:{port}");
        let outcome = found(&address, Some("pass"));
        match more {
            // What cannot be tried without writing is not found.
            [] => assert_eq!(outcome, Ok(())),
            _ => assert!(
                matches!(outcome, Err(Fault::NotPermitted(_))),
                "{outcome:?}"
            ),
        }
        admin(&["ACL", "SETUSER", "tandem", "+lpush"]);
        assert_eq!(found(&address, Some("pass")), Ok(()));
        assert_eq!(admin(&["DBSIZE"]), "0");
        admin(&["ACL", "SETUSER", "tandem", "-ltrim"]);
        let outcome = found(&address, Some("pass"));
        assert!(
            matches!(outcome, Err(Fault::NotPermitted(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_look_tells_another_program_a_closed_port_and_a_name_that_leads_nowhere_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("redis://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it comes");
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    assert!(matches!(found(&address, None), Err(Fault::NotThis(_))));
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("redis://{}", closed.local_addr().expect("bound"));
    drop(closed);
    assert!(matches!(found(&address, None), Err(Fault::NotThere(_))));
    // Reserved for what is not there (RFC 2606, section 2).
    let outcome = found("redis://nowhere.invalid", None);
    assert!(
        matches!(outcome, Err(Fault::NameNotFound(_))),
        "{outcome:?}"
    );
}
