//! Chromium and Firefox before everything that somebody between them and the origin can do: each
//! gets the right bytes or refuses.
//!
//! Is not: what they do at an honest site, nor the other clients (`make clients`).

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest as _, Sha256};
use tandem_testkit::browser::{Browser, Driven};
use tandem_testkit::free_port;

use crate::common::pki::Pki;
use crate::common::relay::{Harm, harmful};
use crate::common::server::body;
use crate::common::talk::{head, server};
use crate::common::{Site, eventually};

const NAME: &str = "split.test";
/// The name of another site, with no certificate here.
const OTHER_NAME: &str = "bank.test";
const FILE: usize = 300_000;
/// What `/cut` says that it will send, and what it sends.
const CUT: (usize, usize) = (1_000_000, 500_000);

#[test]
fn chromium_gets_the_right_bytes_or_refuses() {
    gets_the_right_bytes_or_refuses(Browser::Chromium);
}

#[test]
fn firefox_gets_the_right_bytes_or_refuses() {
    gets_the_right_bytes_or_refuses(Browser::Firefox);
}

fn gets_the_right_bytes_or_refuses(browser: Browser) {
    if !tandem_testkit::has(browser.needs()) {
        return;
    }
    let (liar, lied_to) = liar();
    let site = Site::in_front_of(server(move |stream| serve(stream, liar)));
    let names = [NAME, OTHER_NAME];
    let root = site.pki.ca().as_ref();
    let mut client = browser.start(site.pki.path(), &names, root);
    let file = body(FILE, 1);
    let requests = || site.origin_counts("tandem_split_origin_requests");

    let said = at(&mut client, site.volunteer, "/file 30 get");
    assert!(said.iter().any(|line| line.starts_with("secure secure")));
    assert!(said.contains(&answer(&file)), "an honest one: {said:?}");

    for harm in Harm::ENDING.into_iter().chain([Harm::Stall]) {
        let refused = || site.origin_counts("tandem_split_origin_refused_by_clients");
        let before = (refused(), requests());
        // Where nothing more comes, it waits until it is told not to.
        let job = match harm {
            Harm::Stall => "/file 3 get",
            _ => "/file 30 get",
        };
        let said = at(&mut client, harmful(site.volunteer, harm), job);
        refuses(&said, &file);
        assert!(
            requests() >= before.1 + 2,
            "{harm:?}: it came to the file: {said:?}"
        );
        match harm {
            Harm::Flip | Harm::Drop | Harm::Reorder | Harm::Replay => {
                eventually(&format!("{harm:?} is told to the origin"), || {
                    refused() > before.0
                });
            }
            Harm::Truncate | Harm::Clog | Harm::Stall => {}
        }
    }

    let before = requests();
    let said = at(&mut client, site.volunteer, "/cut 30 get");
    refuses(&said, &body(CUT.1, 1));
    assert!(requests() >= before + 2, "it was asked for: {said:?}");

    let said = at(&mut client, site.volunteer, "/dir 30 follow");
    let https = format!("at https://{NAME}:{}/dir/", site.volunteer.port());
    assert!(said.contains(&https), "{said:?}");
    assert!(said.contains(&answer(b"right")), "{said:?}");
    assert_eq!(lied_to.load(Ordering::Relaxed), 0, "nobody asked the liar");

    let url = format!("https://{OTHER_NAME}:{}/file", site.volunteer.port());
    let said = client.does(&url, 30, "follow");
    assert!(only_fails(&said), "another site: {said:?}");

    let impostor = Impostor::start();
    let said = at(&mut client, impostor.address, "/ 30 follow");
    assert!(only_fails(&said), "another authority: {said:?}");

    let said = at(&mut client, site.volunteer, "/file 30 get");
    assert!(said.contains(&answer(&file)), "after all that: {said:?}");
}

/// Has the browser do a job, `PATH SECONDS JOB`, at the site by this way.
fn at(client: &mut Driven, way: SocketAddr, job: &str) -> Vec<String> {
    let mut words = job.split(' ');
    let mut word = || words.next().expect("three words");
    let url = format!("https://{NAME}:{}{}", way.port(), word());
    let seconds = word().parse().expect("a number");
    client.does(&url, seconds, word())
}

/// The line about a whole answer with this body.
fn answer(body: &[u8]) -> String {
    format!("answer 200 {} {}", body.len(), digits(body))
}

/// What it had was a beginning of these bytes, and it knew that this was no whole answer.
fn refuses(said: &[String], whole: &[u8]) {
    assert!(
        said.iter().any(|line| line.starts_with("secure ")),
        "the page came: {said:?}"
    );
    let last = said.last().expect("it says something");
    match last.split(' ').collect::<Vec<_>>().as_slice() {
        ["failed", ..] => {}
        ["cut", "200", len, sum, ..] => {
            let len: usize = len.parse().expect("a number");
            assert_eq!(*sum, digits(&whole[..len]), "{said:?}");
        }
        _ => panic!("{said:?}"),
    }
}

fn only_fails(said: &[String]) -> bool {
    matches!(said, [line] if line.starts_with("failed "))
}

fn digits(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server behind the origin. It tells whoever asks for `/dir` of the liar's port, in clear.
fn serve(mut stream: TcpStream, liar: SocketAddr) {
    let head = head(&mut stream);
    let (status, lines, len, body) = match head.split(' ').nth(1).unwrap_or_default() {
        "/page" => ("200 OK", String::new(), 4, b"page".to_vec()),
        "/file" => ("200 OK", String::new(), FILE, body(FILE, 1)),
        "/cut" => ("200 OK", String::new(), CUT.0, body(CUT.1, 1)),
        "/dir" => {
            let to = format!("Location: http://{NAME}:{}/dir/\r\n", liar.port());
            ("301 Moved Permanently", to, 0, Vec::new())
        }
        "/dir/" => ("200 OK", String::new(), 5, b"right".to_vec()),
        _ => ("404 Not Found", String::new(), 0, Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{lines}Content-Type: text/html\r\nContent-Length: {len}\r\n\r\n"
    );
    // A client that left is tested elsewhere.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

/// Somebody who answers in the site's name, in clear, and how often that was asked for.
fn liar() -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let address = server(move |mut stream| {
        if head(&mut stream).starts_with("get /dir/ ") {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n";
        let _ = stream.write_all(format!("{head}forged").as_bytes());
    });
    (address, asked)
}

/// A server with a certificate for the site by an authority of its own making.
struct Impostor {
    address: SocketAddr,
    process: Child,
    _pki: Pki,
}

impl Impostor {
    fn start() -> Self {
        let pki = Pki::new();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let process = Command::new("openssl")
            .args(["s_server", "-quiet", "-www", "-accept"])
            .arg(address.to_string())
            .arg("-cert")
            .arg(&pki.certificate)
            .arg("-key")
            .arg(&pki.key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("openssl runs");
        eventually("it listens", || TcpStream::connect(address).is_ok());
        Self {
            address,
            process,
            _pki: pki,
        }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
