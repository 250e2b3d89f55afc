//! What is not the handshake that packet mode is made for: hostile TLS, no TLS at all, a relay that
//! splits TCP between the proxies, IPv6 extension headers. All of it arrives as it was sent, and
//! the next ordinary handshake is served as ever.
//!
//! Is not: the parsers' own tests (`tandem-wire`, and the corpora of its fuzz targets). Root only;
//! skipped, with a message, otherwise.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;

use crate::support::real;
use real::*;

const FILE: &str = "file";

/// Where strangers talk, beside the web server.
const PORT: u16 = 8443;

/// What such a daemon may grow by, whatever strangers say: far less than they claim.
const GROWTH: u64 = 16 << 20;

fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fragment.len()).expect("a record");
    [&[content_type, 3, 3][..], &length.to_be_bytes(), fragment].concat()
}

fn message(kind: u8, claimed: usize, body: &[u8]) -> Vec<u8> {
    let claimed = u32::try_from(claimed).expect("24 bits").to_be_bytes();
    [&[kind][..], &claimed[1..], body].concat()
}

fn whole(kind: u8, body: &[u8]) -> Vec<u8> {
    message(kind, body.len(), body)
}

/// A ClientHello for the site that the proxies know, with these extensions beside its name.
fn hello(more: &[u8]) -> Vec<u8> {
    let length = u16::try_from(SITE.len()).expect("short");
    let name = [
        &[0, 0][..],
        &(length + 5).to_be_bytes(),
        &(length + 3).to_be_bytes(),
        &[0],
        &length.to_be_bytes(),
        SITE.as_bytes(),
    ]
    .concat();
    let extensions = [&name, more].concat();
    let body = [
        &[3, 3][..],
        &bytes(32),
        &[0, 0, 2, 0xc0, 0x2f, 1, 0],
        &u16::try_from(extensions.len())
            .expect("short")
            .to_be_bytes(),
        &extensions,
    ]
    .concat();
    whole(1, &body)
}

/// A ServerHello, which opens a flight.
fn server_hello() -> Vec<u8> {
    whole(2, &[&[3, 3][..], &bytes(32), &[0, 0xc0, 0x2f, 0]].concat())
}

/// A certificate list of these entries, with the right lengths around.
fn certificate(entries: &[u8]) -> Vec<u8> {
    let length = u32::try_from(entries.len()).expect("24 bits").to_be_bytes();
    whole(11, &[&length[1..], entries].concat())
}

/// What a client says, and what its server answers.
struct Talk {
    what: String,
    client: Vec<u8>,
    server: Vec<u8>,
}

fn talk(what: &str, client: Vec<u8>, server: Vec<u8>) -> Talk {
    Talk {
        what: what.to_owned(),
        client,
        server,
    }
}

fn hostile() -> Vec<Talk> {
    let good = || record(22, &hello(&[]));
    let flight = |body: &[u8]| record(22, &[&server_hello(), body].concat());
    let many_extensions: Vec<u8> = (0..10_000u16)
        .flat_map(|number| [&(1_000 + number).to_be_bytes()[..], &[0, 0]].concat())
        .collect();
    let one_byte_entries: Vec<u8> = [0, 0, 1, 0x30].repeat(3_000);
    let mut talks = vec![
        talk("random bytes", bytes(60_000), bytes(90_000)),
        talk(
            "a mail server, and TLS later",
            [&b"EHLO a\r\nSTARTTLS\r\n"[..], &good()].concat(),
            [
                &b"220 b\r\n250 STARTTLS\r\n220 go ahead\r\n"[..],
                &flight(&[]),
            ]
            .concat(),
        ),
        talk(
            "an SSLv2 hello",
            [&[0x80, 0x2e, 1, 3, 1, 0, 5, 0, 0, 0, 16][..], &bytes(37)].concat(),
            flight(&[]),
        ),
        talk(
            "a message of 16 MB",
            good(),
            [
                record(
                    22,
                    &[server_hello(), message(11, 0xff_ffff, &bytes(10_000))].concat(),
                ),
                record(22, &bytes(16_000)).repeat(8),
            ]
            .concat(),
        ),
        talk("ten thousand extensions", record(22, &hello(&[])), {
            let body = [&[3, 3][..], &bytes(32), &[0, 0xc0, 0x2f, 0]].concat();
            let length = u16::try_from(many_extensions.len()).expect("40,000");
            let hello = [&body, &length.to_be_bytes()[..], &many_extensions].concat();
            let hello = whole(2, &hello);
            hello
                .chunks(16_000)
                .flat_map(|part| record(22, part))
                .collect()
        }),
        talk("certificates of one byte", good(), {
            let certificates = certificate(&one_byte_entries);
            let flight = [server_hello(), certificates, whole(14, &[])].concat();
            flight
                .chunks(16_000)
                .flat_map(|part| record(22, part))
                .collect()
        }),
        talk(
            "no certificates",
            good(),
            flight(&[certificate(&[]), whole(14, &[])].concat()),
        ),
        talk(
            "records of no bytes",
            good(),
            record(22, &[]).repeat(20_000),
        ),
        talk("records longer than allowed", good(), {
            let long = [&[22, 3, 3, 0xff, 0xff][..], &bytes(0xffff)].concat();
            [record(22, &server_hello()), long].concat()
        }),
        talk("a flight of a byte a record", good(), {
            let flight = [server_hello(), certificate(&bytes(900)), whole(14, &[])].concat();
            flight
                .iter()
                .flat_map(|byte| record(22, &[*byte]))
                .collect()
        }),
        talk(
            "a client that claims a flight of its own",
            [
                good(),
                record(22, &certificate(&one_byte_entries)),
                record(20, &[1]),
            ]
            .concat(),
            flight(&[certificate(&one_byte_entries), whole(14, &[])].concat()),
        ),
    ];
    // Every length of the hello, and of the server's flight, wrong by a little and by a lot.
    let client = good();
    let server = flight(&[certificate(&one_byte_entries[..400]), whole(14, &[])].concat());
    for at in [3, 4, 6, 7, 8, 43, 45, 50, 51] {
        for wrong in [1, 0x80] {
            let mut client = client.clone();
            client[at] ^= wrong;
            talks.push(talk(
                &format!("byte {at} of the hello"),
                client,
                server.clone(),
            ));
        }
    }
    for at in [3, 4, 6, 7, 8, 43, 48, 49, 50, 51, 52, 53] {
        for wrong in [1, 0x80] {
            let mut server = server.clone();
            server[at] ^= wrong;
            talks.push(talk(
                &format!("byte {at} of the flight"),
                client.clone(),
                server,
            ));
        }
    }
    talks
}

/// Both ends say their part at once and hear the other's to its end.
fn exchange(stream: TcpStream, said: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writing = &stream;
            writing.write_all(said).expect("the other end reads");
            stream.shutdown(Shutdown::Write).expect("it is open");
        });
        (&stream)
            .read_to_end(&mut heard)
            .expect("the other end goes on");
    });
    heard
}

#[test]
fn what_is_no_handshake_passes_as_it_is_and_harms_no_other() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = bytes(10_000);
    Server::publish(&net, FILE, &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let spec = PairSpec::new(&net).more(&["--ports", "443,8443"]);
    let pair = Pair::start(&net, &spec);
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    let before = [&pair.a, &pair.b].map(|daemon| daemon.status().resident_bytes);
    let learned = [&pair.a, &pair.b].map(|daemon| daemon.counter("packet_chains_learned"));

    let address = SocketAddr::new(net.server_address(Family::V4), PORT);
    let listener = net
        .server
        .inside(|| TcpListener::bind(address))
        .expect("the port is free");
    for talk in hostile() {
        let (client, server) = std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let (stream, _) = listener.accept().expect("the client comes");
                exchange(stream, &talk.server)
            });
            let stream = net
                .client
                .inside(|| TcpStream::connect_timeout(&address, PATIENCE))
                .expect("the server is there");
            let client = exchange(stream, &talk.client);
            (client, server.join().expect("it does not panic"))
        });
        assert!(
            client == talk.server,
            "{}: the client heard something else",
            talk.what
        );
        assert!(
            server == talk.client,
            "{}: the server heard something else",
            talk.what
        );
    }
    assert_eq!(
        [&pair.a, &pair.b].map(|daemon| daemon.counter("packet_chains_learned")),
        learned,
        "strangers taught something"
    );
    for (daemon, before) in [&pair.a, &pair.b].into_iter().zip(before) {
        let status = daemon.status();
        let more = status.resident_bytes.saturating_sub(before);
        assert!(more < GROWTH, "{more} bytes");
        assert_eq!(status.counters["verdicts_overdue"], 0);
    }
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

/// A relay in this host that ends each connection to `address` here and makes another in its place,
/// as accelerators on satellite links do.
fn split_tcp(host: &Host, address: SocketAddr) -> mpsc::Receiver<()> {
    /// Any free port of the relay's.
    const RELAY: u16 = 3128;
    let redirect = format!(
        "-A PREROUTING -p tcp -d {} --dport {} -j REDIRECT --to-ports {RELAY}",
        address.ip(),
        address.port()
    );
    host.rules(Family::V4, "nat", &[&redirect]);
    let listener = host
        .inside(|| TcpListener::bind(("0.0.0.0", RELAY)))
        .expect("the port is free");
    let (split, splits) = mpsc::channel();
    let handle = host.handle();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = handle.inside(|| TcpStream::connect_timeout(&address, PATIENCE)) else {
                return;
            };
            if split.send(()).is_err() {
                return;
            }
            for (from, to) in [(&near, &far), (&far, &near)] {
                let copies = from
                    .try_clone()
                    .and_then(|from| Ok((from, to.try_clone()?)));
                let Ok((mut from, mut to)) = copies else {
                    return;
                };
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    splits
}

#[test]
fn a_relay_that_splits_tcp_between_the_proxies_hides_them_from_each_other_and_all_is_well() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Router);
    let file = bytes(200_000);
    Server::publish(&net, FILE, &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let address = net.server_address(Family::V4);
    let fetch = Fetch::new(address, FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));

    let splits = split_tcp(net.middle(), SocketAddr::new(address, 443));
    let before = pair.rewritten();
    for _ in 0..3 {
        fetch.curl(&net.client).is(&file);
    }
    assert_eq!(splits.try_iter().count(), 3, "the relay was in the way");
    assert_eq!(pair.rewritten(), before);
    pair.a.wait_for("packet_flows_given_up_no_answer", 3);

    // And where it is gone, all is as before.
    net.middle().rules(Family::V4, "nat", &["-F PREROUTING"]);
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}

/// A TLS client whose every segment has a destination options header (RFC 8200, section 4.6): what
/// the server sent goes to standard output.
const WITH_EXTENSION_HEADERS: &str = r#"
import socket, ssl, sys
address, port, path, name = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
plain = socket.socket(socket.AF_INET6)
plain.settimeout(30)
plain.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
plain.connect((address, port))
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.maximum_version = ssl.TLSVersion.TLSv1_2
with context.wrap_socket(plain, server_hostname=name) as stream:
    stream.sendall(f"GET /{path} HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
    answer = b""
    while part := stream.recv(65536):
        answer += part
sys.stdout.buffer.write(answer.split(b"\r\n\r\n", 1)[1])
"#;

#[test]
fn segments_with_ipv6_extension_headers_are_no_obstacle() {
    if !can_run() {
        return;
    }
    if !has(&["python3"]) {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = bytes(50_000);
    Server::publish(&net, FILE, &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let address = net.server_address(Family::V6);
    let fetch = Fetch::new(address, FILE);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    let counted = "-A INPUT -m ipv6header --header ipv6-opts --soft -j ACCEPT";
    net.server.rules(Family::V6, "filter", &[counted]);
    for _ in 0..2 {
        let mut client = Command::new("python3");
        client
            .args(["-c", WITH_EXTENSION_HEADERS])
            .args([address.to_string(), "443".to_owned()])
            .args([FILE, SITE]);
        let output = net.client.output(&mut client);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        assert!(output.stdout == file, "other bytes arrived");
    }
    let saved = net.server.run("ip6tables-save -c");
    let met = |line: &str| line.contains("--header") && !line.starts_with("[0:0]");
    assert!(saved.lines().any(met), "no header came: {saved}");
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}
