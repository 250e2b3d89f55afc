//! The admin port: `/` for a browser, `/metrics` for Prometheus, `/status` for `tandem status`,
//! `/healthz`.
//!
//! Is not: a way to change anything. Names of sites are shown to those only who ask for the port
//! by its address; addresses of clients never are.
//!
//! Invariant: it runs on a thread of its own and reads [`Board`] only, so that whoever reads it,
//! and however slowly, delays no connection.

use std::sync::Arc;

use tandem_daemon::admin::{AdminPort, Page};
use tandem_daemon::http::Server;
use tandem_daemon::metrics::Text;
use tandem_daemon::process::{self, Memory};
use tandem_status::Status;

use crate::board::Board;
use crate::error::TunnelError;

/// Starts answering on `port`.
///
/// # Errors
/// A thread could not be started.
pub(crate) fn serve(port: AdminPort, board: Arc<Board>) -> Result<Server, TunnelError> {
    let html = Page::new("text/html; charset=utf-8", tandem_status::PAGE.to_owned())
        .with_policy(tandem_status::POLICY);
    let counted = Arc::clone(&board);
    let status = move || status(&board).json();
    Ok(port.serve_status(html, status, move || metrics(&counted))?)
}

/// In the form that packet mode's daemons have.
fn status(board: &Board) -> Status {
    let snapshot = board.snapshot();
    let memory = Memory::now();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: board.facts.role.to_owned(),
        link: board.facts.link.clone(),
        mode: "tunnel".to_owned(),
        pid: std::process::id(),
        // There is no packet queue.
        queue: 0,
        uptime_seconds: board.started.elapsed().as_secs_f64(),
        cpu_seconds: process::cpu_seconds(),
        resident_bytes: memory.resident,
        peak_resident_bytes: memory.peak,
        counters: snapshot.counters,
        gauges: snapshot.gauges,
        notes: snapshot.notes,
        tunnel: Some(board.tunnel_state()),
        activity: board.activity(),
    }
}

/// Everything in `/metrics`.
fn metrics(board: &Board) -> String {
    let snapshot = board.snapshot();
    let mut text = Text::default();
    text.named(&snapshot.counters, &snapshot.gauges);
    process::show(&mut text, board.started.elapsed());
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Facts, Tally};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    fn answer(address: SocketAddr, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    fn body(address: SocketAddr, path: &str) -> String {
        let answer = answer(address, path, "");
        let (_, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        body.to_owned()
    }

    #[test]
    fn what_names_sites_is_shown_to_those_alone_who_ask_by_address() {
        let board = Board::new(Facts {
            role: "server-side",
            link: String::new(),
        });
        let free = "127.0.0.1:0".parse().expect("an address");
        let port = AdminPort::bind("--admin", free).expect("a free port");
        let address = port.address();
        let server = serve(port, board).expect("it starts");
        for (path, is_shown) in [("/metrics", true), ("/", false), ("/status", false)] {
            let rebound = answer(address, path, "Host: rebound.example\r\n");
            assert_eq!(rebound.contains(" 200 "), is_shown, "{path}: {rebound}");
            let by_address = answer(address, path, &format!("Host: {address}\r\n"));
            assert!(by_address.contains(" 200 "), "{path}: {by_address}");
        }
        drop(server);
    }

    #[test]
    fn it_serves_metrics_and_a_status() {
        let board = Board::new(Facts {
            role: "server-side",
            link: "192.0.2.1:4433".to_owned(),
        });
        board.count(Tally::ServersConnected, 3);
        let free = "127.0.0.1:0".parse().expect("an address");
        let port = AdminPort::bind("--admin", free).expect("a free port");
        let address = port.address();
        let server = serve(port, Arc::clone(&board)).expect("it starts");
        let metrics = body(address, "/metrics");
        assert!(
            metrics.contains("\ntandem_servers_connected_total 3\n"),
            "{metrics}"
        );
        assert!(metrics.contains("\ntandem_relays 0\n"), "{metrics}");
        assert!(
            metrics.contains("\nprocess_cpu_seconds_total "),
            "{metrics}"
        );
        assert!(metrics.ends_with("# EOF\n"));
        let status: serde_json::Value =
            serde_json::from_str(&body(address, "/status")).expect("JSON");
        assert_eq!(status["mode"], "tunnel");
        assert_eq!(status["counters"]["servers_connected"], 3);
        drop(server);
    }
}
