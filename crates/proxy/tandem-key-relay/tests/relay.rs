//! `relay` and `receive` as processes, over the loopback interface.

mod support;

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use nix::sys::signal::Signal;
use support::{Place, Process, free_port, is_there, key, keytap, output, wait_until};
use tandem_key_socket::hand_in;
use tandem_record_key::{RecordKey, Suite};

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn receive_command(place: &Place, port: u16, key: &str) -> Command {
    let mut command = keytap(["receive", "--listen", &local(port), "--key"]);
    command
        .arg(place.path(key))
        .arg("--socket")
        .arg(place.path("proxy"));
    command
}

fn receive(place: &Place, port: u16) -> Process {
    let process = Process::start(receive_command(place, port, "one.key"));
    wait_until("it listens", || TcpStream::connect(local(port)).is_ok());
    process
}

/// A relay with this key, whose socket has this name.
fn relay(place: &Place, port: u16, key: &str, socket: &str) -> Process {
    let mut command = keytap(["relay", "--to", &local(port), "--key"]);
    command
        .arg(place.path(key))
        .arg("--socket")
        .arg(place.path(socket));
    let process = Process::start(command);
    let taken = UnixDatagram::unbound().expect("a socket");
    wait_until("its socket is there", || {
        taken.connect(place.path(socket)).is_ok()
    });
    process
}

/// Hands a key in until it has come out.
#[track_caller]
fn comes_through(place: &Place, socket: &str, key: &RecordKey) {
    place.forget();
    wait_until("a key comes through", || {
        let _ = hand_in(&place.path(socket), key);
        place.has_one()
    });
    place.forget();
}

#[test]
fn keys_come_to_the_proxy_as_they_were_handed_in() {
    let (place, port) = (Place::new(), free_port());
    let receive = receive(&place, port);
    let relay = relay(&place, port, "one.key", "keys");
    relay.says("keys go to");
    for (number, suite) in (1..).zip(Suite::ALL) {
        let key = key(suite, number);
        hand_in(&place.path("keys"), &key).expect("it is taken");
        assert_eq!(place.next(), *key.to_datagram());
    }
    let (code, log) = relay.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("3 keys passed on, 0 dropped, 0 malformed"),
        "{log}"
    );
    assert!(!is_there(&place.path("keys")), "the socket goes with it");
    receive.says("is lost");
    let (code, log) = receive.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("3 keys passed on, 0 dropped, 0 malformed"),
        "{log}"
    );
}

#[test]
fn who_has_another_key_or_none_is_refused_and_harms_nobody() {
    let (place, port) = (Place::new(), free_port());
    let receive = receive(&place, port);
    let stranger = relay(&place, port, "other.key", "strange");
    stranger.says("cannot be reached, and is tried again");
    hand_in(&place.path("strange"), &key(Suite::Aes128Gcm, 1)).expect("its socket takes it");
    for nonsense in [&b"\x16\x03\x01\xff\xff"[..], b"GET / HTTP/1.0\r\n\r\n", b""] {
        let mut stream = TcpStream::connect(local(port)).expect("it listens");
        stream.write_all(nonsense).expect("it reads");
    }
    let _silent = TcpStream::connect(local(port)).expect("it listens");

    let relay = relay(&place, port, "one.key", "keys");
    relay.says("keys go to");
    let good = key(Suite::Aes128Gcm, 2);
    hand_in(&place.path("keys"), &good).expect("it is taken");
    assert_eq!(place.next(), *good.to_datagram());
    assert!(!place.has_one(), "the stranger's key has gone nowhere");
    assert!(!stranger.log().contains("keys go to"), "{}", stranger.log());
    let (_, log) = receive.end(Signal::SIGTERM);
    assert!(log.contains("1 keys passed on"), "{log}");
}

#[test]
fn a_relay_whose_other_end_has_another_key_sends_it_nothing() {
    let (place, port) = (Place::new(), free_port());
    let _impostor = Process::start(receive_command(&place, port, "other.key"));
    wait_until("it listens", || TcpStream::connect(local(port)).is_ok());
    let relay = relay(&place, port, "one.key", "keys");
    relay.says("cannot be reached, and is tried again");
    hand_in(&place.path("keys"), &key(Suite::Aes128Gcm, 1)).expect("its socket takes it");
    let (code, log) = relay.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("0 keys passed on"), "{log}");
    assert!(!place.has_one());
}

#[test]
fn nonsense_at_the_relay_s_socket_is_counted_and_keys_go_on() {
    let (place, port) = (Place::new(), free_port());
    let _receive = receive(&place, port);
    let relay = relay(&place, port, "one.key", "keys");
    relay.says("keys go to");
    let program = UnixDatagram::unbound().expect("a socket");
    for nonsense in [&b""[..], b"nonsense", &[1; 1_000]] {
        let sent = program.send_to(nonsense, place.path("keys"));
        sent.expect("it is taken");
    }
    let good = key(Suite::Aes256Gcm, 1);
    hand_in(&place.path("keys"), &good).expect("it is taken");
    assert_eq!(place.next(), *good.to_datagram());
    let (_, log) = relay.end(Signal::SIGTERM);
    assert!(
        log.contains("1 keys passed on, 0 dropped, 3 malformed"),
        "{log}"
    );
}

#[test]
fn an_end_that_is_killed_holds_up_no_program_and_the_next_one_takes_over() {
    let (place, port) = (Place::new(), free_port());
    let receive_1 = receive(&place, port);
    let relay_1 = relay(&place, port, "one.key", "keys");
    let good = key(Suite::Aes128Gcm, 1);
    comes_through(&place, "keys", &good);

    receive_1.end(Signal::SIGKILL);
    relay_1.says("is lost");
    // More than a socket or a channel has room for: what is not taken comes back at once.
    for _ in 0..1_000 {
        match hand_in(&place.path("keys"), &good).map_err(|error| error.kind()) {
            Ok(()) | Err(io::ErrorKind::WouldBlock) => {}
            Err(kind) => panic!("{kind}"),
        }
    }
    let _receive = receive(&place, port);
    comes_through(&place, "keys", &good);

    relay_1.end(Signal::SIGKILL);
    let gone = hand_in(&place.path("keys"), &good).map_err(|error| error.kind());
    assert_eq!(gone, Err(io::ErrorKind::ConnectionRefused));
    let _relay = relay(&place, port, "one.key", "keys");
    comes_through(&place, "keys", &good);
}

#[test]
fn without_a_proxy_keys_are_dropped_and_its_return_is_enough() {
    let (place, port) = (Place::new(), free_port());
    let mut command = keytap(["receive", "--listen", &local(port), "--key"]);
    command.arg(place.path("one.key"));
    command.arg("--socket").arg(place.path("later"));
    let receive = Process::start(command);
    let relay = relay(&place, port, "one.key", "keys");
    relay.says("keys go to");
    let good = key(Suite::Aes128Gcm, 1);
    hand_in(&place.path("keys"), &good).expect("it is taken");
    let later = UnixDatagram::bind(place.path("later")).expect("a socket");
    later.set_nonblocking(true).expect("a socket can");
    wait_until("a key comes through", || {
        hand_in(&place.path("keys"), &good).expect("it is taken");
        later.recv(&mut [0; 1 << 10]).is_ok()
    });
    let (code, log) = receive.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn what_does_not_fit_is_said_at_the_start() {
    let place = Place::new();
    let (key, proxy) = (place.path("one.key"), place.path("proxy"));
    let [key, proxy] = [key, proxy].map(|path| path.display().to_string());
    let missing = place.path("absent.key").display().to_string();
    let to = local(free_port());
    // A proxy has it.
    let ran = output(["relay", "--socket", &proxy, "--to", &to, "--key", &key]);
    let said = String::from_utf8(ran.stderr).expect("text");
    assert_eq!(ran.status.code(), Some(4), "{said}");
    assert!(said.contains("is there already"), "{said}");
    let socket = place.path("keys").display().to_string();
    let ran = output(["relay", "--socket", &socket, "--to", &to, "--key", &missing]);
    let said = String::from_utf8(ran.stderr).expect("text");
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("absent.key"), "{said}");
    let ran = output([
        "receive", "--socket", &proxy, "--listen", &to, "--key", &proxy,
    ]);
    assert!(!ran.status.success(), "a socket is no key");
}
