//! What a key server costs nginx, over loopback: full handshakes with the private key in nginx and
//! with the provider, in turns; and as many as there can be.
//!
//! Is not: a network between web server and key server.

#![allow(missing_docs, reason = "a bench has no interface")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/openssl/servers.rs"]
mod servers;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{LONG, Place, Served, allow};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use servers::{Keys, Server, follow_the_guide};
use tandem_channel::crypto;
use tandem_testkit::bench::{median, report};

/// Handshakes one after the other with each server; a warm-up of a tenth comes before.
const SAMPLES: usize = 1_000;
/// Clients at once.
const CLIENTS: usize = 16;
const CAPACITY_FOR: Duration = Duration::from_secs(3);

fn main() {
    if !tandem_testkit::has(&["nginx", "openssl"]) {
        return;
    }
    let kinds = ["p256", "rsa"];
    let place = Place::new(&kinds);
    let rules = place.peer("web", 1_000_000) + &allow("web", "p256") + &allow("web", "rsa");
    place.settings("a", &kinds, &rules);
    let served = Served::start(&place, "a");
    follow_the_guide(&place, &kinds, &[&served], "");
    let workers = thread::available_parallelism().map_or(1, usize::from);
    for kind in kinds {
        // A worker waits for its signature, so with the provider more of them are of use.
        let arms = [
            ("own key", Keys::Private, workers),
            ("key server", Keys::AtKeyServer, workers),
            (
                "key server, four times the workers",
                Keys::AtKeyServer,
                4 * workers,
            ),
        ];
        let arms = arms.map(|(name, keys, workers)| {
            let server = Server::nginx_with(&place, &[kind], keys, workers);
            (name, Client::of(&place, kind, &server), server)
        });
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..SAMPLES + SAMPLES / 10 {
            for (times, (_, client, _)) in times.iter_mut().zip(&arms) {
                times.push(client.handshake().as_secs_f64() * 1e6);
            }
        }
        let [own, asked] = times.map(|mut times| median(&mut times[SAMPLES / 10..]));
        report(&format!("nginx, {kind}, own key"), own, "us");
        report(&format!("nginx, {kind}, key server"), asked, "us");
        report(&format!("nginx, {kind}, added"), asked - own, "us");
        for (name, client, _) in &arms {
            report(
                &format!("nginx, {kind}, {name}, capacity"),
                client.capacity(),
                "1/s",
            );
        }
    }
}

struct Client {
    config: Arc<ClientConfig>,
    port: u16,
}

impl Client {
    fn of(place: &Place, kind: &str, server: &Server) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in place.chain(kind) {
            roots.add(certificate).expect("a certificate");
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Self {
            config: Arc::new(config),
            port: server.port,
        }
    }

    /// From the connection to the client's Finished.
    fn handshake(&self) -> Duration {
        let begun = Instant::now();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::clone(&self.config), name).expect("settings");
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("nginx listens");
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).expect("a handshake");
        }
        begun.elapsed()
    }

    /// Handshakes a second.
    fn capacity(&self) -> f64 {
        let (number, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        self.handshake();
                        number.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            thread::sleep(CAPACITY_FOR);
            is_over.store(true, Ordering::Relaxed);
        });
        let number = u32::try_from(number.into_inner()).expect("a few thousand");
        f64::from(number) / begun.elapsed().as_secs_f64()
    }
}
