//! The admin port: `/` for a browser, `/metrics` for Prometheus, `/status` for `tandem status`,
//! `/healthz`.
//!
//! Is not: a way to change anything. Names of sites are shown to those only who ask for the port
//! by its address; addresses of clients never are.
//!
//! Invariant: it runs on threads of its own and reads [`Board`] only, so that whoever reads it, and
//! however slowly, delays no packet.

use std::sync::Arc;

use tandem_daemon::admin::{AdminPort, Page};
use tandem_daemon::http::Server;
use tandem_daemon::metrics::Text;
use tandem_daemon::process::{self, Memory};

use crate::error::IoError;
use crate::metrics::Board;
use crate::status::Status;

/// Starts answering on `port`.
///
/// # Errors
/// A thread could not be started.
pub(crate) fn serve(port: AdminPort, board: Arc<Board>) -> Result<Server, IoError> {
    let html = Page::new("text/html; charset=utf-8", tandem_status::PAGE.to_owned())
        .with_policy(tandem_status::POLICY);
    let counted = Arc::clone(&board);
    let status = move || status(&board).json();
    Ok(port.serve_status(html, status, move || metrics(&counted))?)
}

fn status(board: &Board) -> Status {
    let snapshot = board.snapshot();
    let memory = Memory::now();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: board.facts.role.to_owned(),
        link: board.facts.link.clone(),
        mode: board.facts.mode.name().to_owned(),
        pid: std::process::id(),
        queue: board.facts.queue,
        uptime_seconds: board.started.elapsed().as_secs_f64(),
        cpu_seconds: process::cpu_seconds(),
        resident_bytes: memory.resident,
        peak_resident_bytes: memory.peak,
        counters: snapshot.counters,
        gauges: snapshot.gauges,
        notes: board
            .facts
            .mode_reason
            .map(|reason| ("mode_reason".to_owned(), reason.to_owned()))
            .into_iter()
            .collect(),
        tunnel: None,
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
    use crate::config::Mode;
    use crate::metrics::{Counting, Facts};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn it_serves_metrics_status_and_health_while_another_reader_stalls() {
        let free = "127.0.0.1:0".parse().expect("an address");
        let port = AdminPort::bind("admin", free).expect("a free port");
        let address = port.address();
        let busy = IoError::from(AdminPort::bind("admin", address).expect_err("taken"));
        assert!(matches!(busy, IoError::AdminBusy { .. }), "{busy:?}");
        let board = Board::new(Facts {
            role: "server-side",
            link: "tun0".into(),
            mode: Mode::Packet,
            mode_reason: Some("peer is not set"),
            queue: 1,
        });
        let mut counting = Counting::on(&board);
        counting.event("flows_opened", 3);
        counting.gauge("held_packets", 2);
        let server = serve(port, Arc::clone(&board)).expect("it starts");
        let mut stalled = TcpStream::connect(address).expect("it listens");
        stalled.write_all(b"GET /met").expect("it reads");

        let metrics = get(address, "/metrics");
        assert!(
            metrics.contains("\ntandem_packet_flows_opened_total 3\n"),
            "{metrics}"
        );
        assert!(metrics.contains("\ntandem_held_packets 2\n"));
        assert!(metrics.contains("\ntandem_queue_overflows_total 0\n"));
        assert!(metrics.contains("\nprocess_cpu_seconds_total "));
        assert!(metrics.ends_with("# EOF\n"));
        assert!(get(address, "/healthz").ends_with("\r\n\r\nok\n"));
        assert!(get(address, "/else").starts_with("HTTP/1.0 404"));
        let status = crate::status::fetch(address, Duration::from_secs(5)).expect("it answers");
        assert_eq!(status.role, "server-side");
        assert_eq!(status.notes["mode_reason"], "peer is not set");
        assert_eq!(status.counters["packet_flows_opened"], 3);
        assert!(status.peak_resident_bytes >= status.resident_bytes);
        assert!(status.resident_bytes > 0);
        drop(server);
    }
}
