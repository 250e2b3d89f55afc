//! Captures at the endpoints, and the comparison that is the oracle of every transparent row: both
//! see the same TCP payload streams.
//!
//! Invariant: a capture is started before it is returned, and read after `tcpdump` has ended.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcap::PcapReader;
use tandem_wire::{Seq, TcpFlags, TcpOption, TcpPacket};

use super::{Host, wait_until};

/// Bytes before the IP packet in a capture of an Ethernet device.
const ETHERNET_HEADER: usize = 14;

/// A timestamp so far behind the newest is no reordering: a quarter of an hour, at a millisecond a
/// tick.
const FAR_PAST: u32 = 900_000;

/// The servers' port.
const PORT: u16 = 443;

/// `tcpdump` at an Ethernet device, as long as it is wanted.
#[derive(Debug)]
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
}

/// What one endpoint of a connection sent: the bytes from the first on.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    bytes: Vec<u8>,
    has: Vec<bool>,
    first: Option<Seq>,
    newest: Option<u32>,
    finished: bool,
    reset: bool,
    /// The longest packet.
    pub(crate) longest: usize,
}

/// All connections of a capture: what went from an address to another.
pub(crate) type Streams = BTreeMap<(SocketAddr, SocketAddr), Stream>;

impl Capture {
    /// Starts to capture what passes `device` of `host` from and to the servers' port.
    pub(crate) fn start(host: &Host, device: &str, file: PathBuf) -> Self {
        let mut child = host.spawn(
            Command::new("tcpdump")
                .args([
                    "-i",
                    device,
                    "-U",
                    "--immediate-mode",
                    "-B",
                    "8192",
                    "-Z",
                    "root",
                    "-w",
                ])
                .arg(&file)
                .arg("tcp port 443")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        );
        let errors = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("listening on")),
            "tcpdump starts"
        );
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, file }
    }

    /// Waits until both ends of this many connections have said that they are done, and gives what
    /// was sent.
    #[track_caller]
    pub(crate) fn streams(self, connections: usize) -> Streams {
        wait_until("the capture holds whole connections", || {
            let streams = read(&self.file);
            ended(&streams) >= connections
        });
        read(&self.file)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// How many connections are over: closed from both ends, or reset.
fn ended(streams: &Streams) -> usize {
    streams
        .iter()
        .filter(|((from, to), stream)| {
            // Each connection once, by the direction towards the server.
            to.port() == PORT
                && streams.get(&(*to, *from)).is_some_and(|back| {
                    stream.reset || back.reset || stream.finished && back.finished
                })
        })
        .count()
}

/// The streams of a capture file that may still grow.
fn read(file: &PathBuf) -> Streams {
    let mut streams = Streams::new();
    let Ok(mut reader) = PcapReader::new(File::open(file).expect("tcpdump made it")) else {
        return streams;
    };
    while let Some(Ok(record)) = reader.next_packet() {
        let Some(Ok(packet)) = record.data.get(ETHERNET_HEADER..).map(TcpPacket::parse) else {
            continue;
        };
        for option in packet.options() {
            assert!(
                !matches!(option, TcpOption::Experiment { .. }),
                "an endpoint sees what the proxies say to each other: {:?}",
                packet.bytes()
            );
        }
        let stream = streams
            .entry((packet.source(), packet.destination()))
            .or_default();
        stream.segment(&packet);
    }
    streams
}

impl Stream {
    fn segment(&mut self, packet: &TcpPacket<'_>) {
        if packet.flags().contains(TcpFlags::SYN) {
            self.first = Some(packet.seq().wrapping_add(1));
        }
        let Some(first) = self.first else { return };
        if self.is_refused(packet) {
            return;
        }
        self.longest = self.longest.max(packet.bytes().len());
        self.finished |= packet.flags().contains(TcpFlags::FIN);
        self.reset |= packet.flags().contains(TcpFlags::RST);
        let payload = packet.payload();
        if payload.is_empty() {
            return;
        }
        // A keep-alive begins before what was sent.
        let Ok(start) = usize::try_from(packet.seq().distance_from(first)) else {
            return;
        };
        let end = start + payload.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
            self.has.resize(end, false);
        }
        for (offset, byte) in payload.iter().enumerate() {
            let at = start + offset;
            assert!(
                !self.has[at] || self.bytes[at] == *byte,
                "byte {at} of a stream has two values"
            );
            self.has[at] = true;
            self.bytes[at] = *byte;
        }
    }

    /// Whether the receiver's TCP does not look at this segment, for its timestamp is of the far
    /// past (RFC 7323, section 5.3): a copy of a rewritten one that comes so late that its
    /// connection has left the proxies.
    fn is_refused(&mut self, packet: &TcpPacket<'_>) -> bool {
        let Some(stamps) = packet.timestamps() else {
            return false;
        };
        let behind = self
            .newest
            .map_or(0, |newest| newest.wrapping_sub(stamps.value));
        if behind == 0 || behind >= 1 << 31 {
            self.newest = Some(stamps.value);
        }
        (FAR_PAST..1 << 31).contains(&behind)
    }

    /// The bytes, if none is missing.
    fn whole(&self) -> Option<&[u8]> {
        self.has.iter().all(|has| *has).then_some(&self.bytes)
    }
}

/// Asserts that both endpoints saw the same connections, and in each the same bytes both ways.
#[track_caller]
pub(crate) fn assert_same_streams(client: &Streams, server: &Streams) {
    assert_eq!(
        client.keys().collect::<Vec<_>>(),
        server.keys().collect::<Vec<_>>()
    );
    for (key, stream) in client {
        let (here, there) = (stream.whole(), server[key].whole());
        assert!(
            here.is_some() && there.is_some(),
            "bytes of {key:?} were not captured"
        );
        assert!(here == there, "{key:?}: the endpoints saw other bytes");
        assert!(!stream.bytes.is_empty(), "{key:?}: nothing was sent");
    }
}
