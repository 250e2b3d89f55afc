//! The admin port: `/metrics` for Prometheus, `/status` for `tandem status`, `/healthz`.
//!
//! Is not: a way to change anything. Names of sites and addresses of endpoints are never shown.
//!
//! Invariant: it runs on threads of its own and reads [`Board`] only, so that whoever reads it, and
//! however slowly, delays no packet.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Method, Response, Server};

use crate::error::IoError;
use crate::metrics::Board;
use crate::status::Status;

/// OpenMetrics 1.0, which Prometheus reads.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the end of the process waits for an answer that is being written.
const PATIENCE: Duration = Duration::from_millis(100);

/// An address that is listened on; nobody answers there yet.
#[derive(Debug)]
pub(crate) struct AdminPort {
    listener: TcpListener,
    address: SocketAddr,
}

/// The running server; dropping it closes the port.
pub(crate) struct AdminServer {
    server: Arc<Server>,
    /// Nothing is ever sent: it is cut off when the thread has ended.
    ended: mpsc::Receiver<()>,
}

impl AdminPort {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The port is in use, or the address is none of this machine.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, IoError> {
        let failed = |source: std::io::Error| match source.kind() {
            ErrorKind::AddrInUse => IoError::AdminBusy { address },
            _ => IoError::Admin { address, source },
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens, the port in numbers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering.
    ///
    /// # Errors
    /// A thread could not be started.
    pub(crate) fn serve(self, board: Arc<Board>) -> Result<AdminServer, IoError> {
        let address = self.address;
        let server =
            Server::from_listener(self.listener, None).map_err(|error| IoError::Admin {
                address,
                source: std::io::Error::other(error.to_string()),
            })?;
        let server = Arc::new(server);
        let (ending, ended) = mpsc::channel();
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn({
                let server = Arc::clone(&server);
                move || {
                    let _ending: mpsc::Sender<()> = ending;
                    answer_all(&server, &board);
                }
            })
            .map_err(|source| IoError::Admin { address, source })?;
        Ok(AdminServer { server, ended })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.server.unblock();
        // It may be writing to somebody who does not read; the process ends without it then.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

fn answer_all(server: &Server, board: &Arc<Board>) {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Numbers(Arc::clone(board))));
    // An error here is one of accepting connections, or the end.
    while let Ok(request) = server.recv() {
        let path = request.url().split('?').next().unwrap_or_default();
        let (code, kind, body) = match (request.method(), path) {
            (Method::Get | Method::Head, "/metrics") => {
                let mut body = String::new();
                match text::encode(&mut body, &registry) {
                    Ok(()) => (200, METRICS_TYPE, body),
                    Err(fmt::Error) => (500, "text/plain", "cannot encode\n".to_owned()),
                }
            }
            (Method::Get | Method::Head, "/status") => {
                (200, "application/json", status(board).json() + "\n")
            }
            (Method::Get | Method::Head, "/healthz") => (200, "text/plain", "ok\n".to_owned()),
            (Method::Get | Method::Head, _) => (
                404,
                "text/plain",
                "there are /metrics, /status and /healthz\n".to_owned(),
            ),
            _ => (405, "text/plain", "only GET\n".to_owned()),
        };
        let mut response = Response::from_string(body).with_status_code(code);
        if let Ok(header) = Header::from_bytes("Content-Type", kind) {
            response.add_header(header);
        }
        // Whoever asked may be gone.
        let _ = request.respond(response);
    }
}

fn status(board: &Board) -> Status {
    let snapshot = board.snapshot();
    let memory = memory();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: board.facts.role.to_owned(),
        link: board.facts.link.clone(),
        mode: board.facts.mode.name().to_owned(),
        pid: std::process::id(),
        queue: board.facts.queue,
        uptime_seconds: board.started.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds(),
        resident_bytes: memory.resident,
        peak_resident_bytes: memory.peak,
        counters: snapshot.counters,
        gauges: snapshot.gauges,
    }
}

/// Everything in `/metrics`.
#[derive(Debug)]
struct Numbers(Arc<Board>);

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = self.0.snapshot();
        for (name, value) in &snapshot.counters {
            counter(&mut encoder, &format!("tandem_{name}"), *value)?;
        }
        for (name, value) in &snapshot.gauges {
            let value = i64::try_from(*value).unwrap_or(i64::MAX);
            gauge(&mut encoder, &format!("tandem_{name}"), value)?;
        }
        // Names that Prometheus knows for every process (client library guidelines).
        let memory = memory();
        let resident = i64::try_from(memory.resident).unwrap_or(i64::MAX);
        let peak = i64::try_from(memory.peak).unwrap_or(i64::MAX);
        counter(&mut encoder, "process_cpu_seconds", cpu_seconds())?;
        gauge(&mut encoder, "process_resident_memory_bytes", resident)?;
        gauge(&mut encoder, "tandem_peak_resident_bytes", peak)?;
        let uptime = self.0.started.elapsed().as_secs_f64();
        gauge(&mut encoder, "tandem_uptime_seconds", uptime)
    }
}

fn counter<N>(encoder: &mut DescriptorEncoder<'_>, name: &str, value: N) -> Result<(), fmt::Error>
where
    ConstCounter<N>: EncodeMetric,
{
    let metric = ConstCounter::new(value);
    let help = help(name);
    metric.encode(encoder.encode_descriptor(name, &help, None, metric.metric_type())?)
}

fn gauge<N>(encoder: &mut DescriptorEncoder<'_>, name: &str, value: N) -> Result<(), fmt::Error>
where
    ConstGauge<N>: EncodeMetric,
{
    let metric = ConstGauge::new(value);
    let help = help(name);
    metric.encode(encoder.encode_descriptor(name, &help, None, metric.metric_type())?)
}

/// The name in words: the events name themselves.
fn help(name: &str) -> String {
    name.trim_start_matches("tandem_").replace('_', " ")
}

fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(|time| std::time::Duration::from(time).as_secs_f64())
        .unwrap_or_default()
}

#[derive(Debug, Default, Clone, Copy)]
struct Memory {
    resident: u64,
    peak: u64,
}

/// From `VmRSS` and `VmHWM` of proc(5); 0 where /proc is missing.
fn memory() -> Memory {
    let text = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|value| value.split_whitespace().next())
            .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    };
    Memory {
        resident: field("VmRSS:"),
        peak: field("VmHWM:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::metrics::{Counting, Facts};
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
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
        let port =
            AdminPort::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = port.address();
        let busy = AdminPort::bind(address).expect_err("taken");
        assert!(matches!(busy, IoError::AdminBusy { .. }), "{busy:?}");
        let board = Board::new(Facts {
            role: "server-side",
            link: "tun0".into(),
            mode: Mode::Packet,
            queue: 1,
        });
        let mut counting = Counting::on(&board);
        counting.event("flows_opened", 3);
        counting.gauge("held_packets", 2);
        let server = port.serve(Arc::clone(&board)).expect("it starts");
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
        assert_eq!(status.counters["packet_flows_opened"], 3);
        assert!(status.peak_resident_bytes >= status.resident_bytes);
        assert!(status.resident_bytes > 0);
        drop(server);
    }
}
