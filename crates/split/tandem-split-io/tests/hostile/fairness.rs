//! Clients that read nothing cost the origin a bounded amount; those of a volunteer that has
//! reached its limit leave the origin to those of others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::server::body;
use crate::common::{Site, eventually, ran};
use tandem_split_io::origin::Limits;
use tandem_split_io::tls::client::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

/// Clients that read nothing,
const STALLED: u64 = 300;
/// of this.
const LARGE: usize = 20_000_000;
/// What each may cost.
const AHEAD: u64 = 2_000_000;
/// What an honest one fetches, and how often.
const HONEST: usize = 1_000_000;
const FETCHES: u64 = 5;
/// Clients that read all that they get, and how much may be hashed for them each second.
const READING: u64 = 8;
const RATE: u64 = 1_000_000;
/// What is hashed at once.
const PIECE: u64 = 1 << 20;

/// A server that makes its bodies while they are taken: `/LEN`, the same bytes again and again.
fn endless(pattern: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let pattern = std::sync::Arc::new(pattern);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let pattern = std::sync::Arc::clone(&pattern);
            // Whoever asked may go away at any time.
            std::thread::spawn(move || answer(stream, &pattern).ok());
        }
    });
    address
}

fn answer(mut stream: TcpStream, pattern: &[u8]) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    head.read_line(&mut first)?;
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let mut left: usize = path.trim_start_matches('/').parse().unwrap_or(0);
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n"
    )?;
    while left > 0 {
        let len = left.min(pattern.len());
        stream.write_all(&pattern[..len])?;
        left -= len;
    }
    Ok(())
}

/// A client with a small buffer that asks, reads the answer's first byte, and nothing more.
async fn stalled(
    client: Client,
    volunteer: SocketAddr,
) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(2048)?;
    let mut tls = client.open(socket.connect(volunteer).await?).await?;
    let request = format!("GET /{LARGE} HTTP/1.1\r\nHost: split.test\r\n\r\n");
    tls.write_all(request.as_bytes()).await?;
    tls.flush().await?;
    tls.read_u8().await?;
    Ok(tls)
}

fn sealed(site: &Site) -> u64 {
    site.origin_counts("tandem_split_origin_body_bytes")
}

/// How long an honest client takes, in the median.
fn honest(site: &Site, whole: &[u8]) -> Duration {
    let mut times: Vec<Duration> = (0..FETCHES)
        .map(|_| {
            let start = Instant::now();
            let out = ran(&mut site.curl(&format!("/{HONEST}")));
            let took = start.elapsed();
            assert!(out.stdout == whole, "{} bytes", out.stdout.len());
            took
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn three_hundred_clients_that_read_nothing_cost_a_bounded_amount() {
    // Each takes six descriptors of this process.
    let own = std::process::id().to_string();
    ran(Command::new("prlimit").args(["--pid", &own, "--nofile=4096:"]));
    let pattern = body(1 << 16, 7);
    let whole: Vec<u8> = pattern.iter().copied().cycle().take(HONEST).collect();
    let site = Site::in_front_of(endless(pattern));
    // Another volunteer than that of the honest client, on the same machine.
    let (crowded, _numbers) = site.another_volunteer(site.origin, site.origin_key, None);
    // From here on the origin knows the address, and takes any number of channels.
    ran(&mut site.curl_at(crowded, "/1000"));
    let alone = honest(&site, &whole);

    let before = sealed(&site);
    let client = Client::new("split.test", Path::new(site.pki.ca())).expect("a root");
    let open = site.runtime().block_on(async {
        let mut all = JoinSet::new();
        for _ in 0..STALLED {
            all.spawn(stalled(client.clone(), crowded));
        }
        let mut open = Vec::new();
        while let Some(ended) = all.join_next().await {
            let tls = ended.expect("nobody panics there");
            open.push(tls.expect("the volunteer has room"));
        }
        open
    });
    assert_eq!(open.len() as u64, STALLED);
    // A piece for each, at least.
    eventually("all of them are worked for", || {
        sealed(&site) - before >= STALLED * 1_000_000
    });
    let beside = honest(&site, &whole);
    let done = sealed(&site) - before;
    let most = STALLED * AHEAD + FETCHES * HONEST as u64;
    assert!(done <= most, "{done}");
    eprintln!("1 MB alone {alone:?}, beside {STALLED} clients that read nothing {beside:?}");
    drop(open);
}

/// A way to the origin from another address of this machine.
fn from_another_address(site: &Site) -> SocketAddr {
    let origin = site.origin;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("it can be");
    site.runtime().spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let socket = TcpSocket::new_v4()?;
                socket.bind(SocketAddr::from(([127, 0, 0, 2], 0)))?;
                let mut far = socket.connect(origin).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    address
}

/// A client that asks, and reads until its answer ends.
async fn reading(client: Client, volunteer: SocketAddr) -> std::io::Result<u64> {
    let stream = tokio::net::TcpStream::connect(volunteer).await?;
    let mut tls = client.open(stream).await?;
    let request = format!("GET /{LARGE} HTTP/1.1\r\nHost: split.test\r\n\r\n");
    tls.write_all(request.as_bytes()).await?;
    tls.flush().await?;
    tokio::io::copy(&mut tls, &mut tokio::io::sink()).await
}

#[test]
fn clients_of_a_volunteer_at_its_limit_get_its_rate_and_delay_nobody_of_another() {
    let pattern = body(1 << 16, 7);
    let whole: Vec<u8> = pattern.iter().copied().cycle().take(HONEST).collect();
    let limits = Limits {
        hashed: NonZeroU64::new(RATE),
        sent: None,
    };
    let site = Site::with_limits(endless(pattern), limits);
    let way = from_another_address(&site);
    let (other, _numbers) = site.another_volunteer(way, site.origin_key, None);
    let client = Client::new("split.test", Path::new(site.pki.ca())).expect("a root");
    let delayed = || site.origin_counts("tandem_split_origin_delayed_turns");

    let mut crowd = JoinSet::new();
    for _ in 0..READING {
        crowd.spawn_on(
            reading(client.clone(), site.volunteer),
            site.runtime().handle(),
        );
    }
    eventually("the crowd has used up its burst", || {
        delayed() >= READING && sealed(&site) >= 8 * RATE - PIECE
    });
    let (start, before) = (Instant::now(), sealed(&site));
    for _ in 0..FETCHES {
        let out = ran(&mut site.curl_at(other, &format!("/{HONEST}")));
        assert!(out.stdout == whole, "{} bytes", out.stdout.len());
    }
    let done = sealed(&site) - before - FETCHES * HONEST as u64;
    let seconds = start.elapsed().as_secs() + 1;
    // One piece of each may have been under way.
    assert!(
        done <= seconds * RATE + READING * PIECE,
        "{done}, {seconds} s"
    );
    let hashed = site.origin_counts("tandem_split_origin_hashed_bytes");
    assert!(hashed >= sealed(&site), "each piece has had its turn");
}

#[test]
fn channels_that_end_while_a_limit_holds_them_up_are_done_with_at_once() {
    let limits = Limits {
        // A piece takes ten seconds.
        hashed: NonZeroU64::new(RATE / 10),
        sent: None,
    };
    let site = Site::with_limits(endless(body(1 << 16, 7)), limits);
    let client = Client::new("split.test", Path::new(site.pki.ca())).expect("a root");
    let mut crowd = JoinSet::new();
    for _ in 0..READING {
        let client = client.clone();
        crowd.spawn_on(reading(client, site.volunteer), site.runtime().handle());
    }
    let delayed = || site.origin_counts("tandem_split_origin_delayed_turns");
    eventually("all of them wait", || delayed() >= READING - 1);
    let left = Instant::now();
    site.to_origin.cut_all();
    eventually("none of them is served any more", || {
        site.origin_counts("tandem_split_origin_cut_answers") >= READING - 1
    });
    // Those that came last would have to wait for half a minute.
    assert!(left.elapsed() < Duration::from_secs(20));
}

#[test]
fn answers_without_a_body_wait_for_the_limit_too() {
    let limits = Limits {
        hashed: None,
        sent: NonZeroU64::new(1_000),
    };
    let site = Site::with_limits(endless(body(1 << 16, 7)), limits);
    let mut curl = site.curl("/1");
    curl.args(["--head", "--fail"]);
    let url = curl
        .get_args()
        .find(|arg| arg.to_string_lossy().starts_with("https:"));
    let url = url.expect("one").to_owned();
    for _ in 0..200 {
        curl.arg(&url);
    }
    let start = Instant::now();
    ran(&mut curl);
    // Each answer is more than sixty bytes; eight thousand are sent at once.
    assert!(
        start.elapsed() > Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
}
