//! A resolver that answers as the first label of a name says, and notes who asked.
//!
//! Is not: a test.
//!
//! Invariant: it ends with the value that stands for it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

/// The address that it gives a name, and the one in what is forged.
pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const FORGED: [u8; 4] = [198, 51, 100, 1];

/// Length of a message's header (RFC 1035, section 4.1.1).
const HEADER: usize = 12;
const A: u16 = 1;
const SOA: u16 = 6;
const TXT: u16 = 16;
const TRUNCATED: u8 = 2;
const NXDOMAIN: u8 = 3;

/// A question that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) from: IpAddr,
    pub(crate) over: &'static str,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// See the module.
pub(crate) struct Resolver {
    pub(crate) address: SocketAddr,
    log: Log,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// At this address, in the network namespace of the caller; and at these other UDP ports.
    pub(crate) fn start(address: SocketAddr, more: &[u16]) -> Self {
        let (tcp, first) = both(address);
        let address = tcp.local_addr().expect("bound");
        let mut udp = vec![first];
        let others = more
            .iter()
            .map(|port| UdpSocket::bind((address.ip(), *port)));
        udp.extend(others.map(|socket| socket.expect("a free port")));
        tcp.set_nonblocking(true).expect("ours");
        for socket in &udp {
            socket.set_nonblocking(true).expect("ours");
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let log = Log::default();
        let thread = std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("it starts");
                runtime.block_on(async {
                    for socket in udp {
                        tokio::spawn(datagrams(socket, Arc::clone(&log)));
                    }
                    tokio::spawn(connections(tcp, log));
                    let _ = stopped.await;
                });
            }
        });
        Self {
            address,
            log,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// How often it was asked for this name.
    pub(crate) fn times(&self, name: &str) -> usize {
        let asked = self.asked().into_iter();
        asked.filter(|asked| asked.name == name).count()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both protocols at one port; where any port will do, one that is free in both.
fn both(address: SocketAddr) -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind(address).expect("a free port");
        match UdpSocket::bind(tcp.local_addr().expect("bound")) {
            Ok(udp) => return (tcp, udp),
            // Someone else has this one in UDP alone.
            Err(error) if address.port() == 0 && error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => panic!("a free port: {error}"),
        }
    }
}

async fn datagrams(socket: UdpSocket, log: Log) {
    let socket = tokio::net::UdpSocket::from_std(socket).expect("a socket");
    let mut message = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut message).await {
        let question = Question::read(&message[..length]);
        question.note(&log, from, "UDP");
        for reply in question.by_udp() {
            socket.send_to(&reply, from).await.expect("it is there");
        }
    }
}

async fn connections(listener: TcpListener, log: Log) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((mut stream, from)) = listener.accept().await {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(length) = stream.read_u16().await {
                let mut message = vec![0; usize::from(length)];
                stream.read_exact(&mut message).await.expect("a question");
                let question = Question::read(&message);
                question.note(&log, from, "TCP");
                let reply = question.by_tcp();
                let length = u16::try_from(reply.len()).expect("it fits");
                let framed = [&length.to_be_bytes()[..], &reply].concat();
                stream.write_all(&framed).await.expect("it reads");
            }
        });
    }
}

/// A question, as it came.
struct Question {
    /// Header and question.
    front: Vec<u8>,
    name: String,
}

/// A record of the name that was asked for.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("short");
    let mut record = vec![0xc0, 0x0c];
    record.extend(kind.to_be_bytes());
    record.extend(1_u16.to_be_bytes());
    record.extend(ttl.to_be_bytes());
    record.extend(length.to_be_bytes());
    record.extend(data);
    record
}

impl Question {
    fn read(message: &[u8]) -> Self {
        let mut labels = Vec::new();
        let mut at = HEADER;
        while message[at] != 0 {
            let end = at + 1 + usize::from(message[at]);
            labels.push(String::from_utf8_lossy(&message[at + 1..end]).to_lowercase());
            at = end;
        }
        Self {
            front: message[..at + 5].to_vec(),
            name: labels.join("."),
        }
    }

    fn note(&self, log: &Log, from: SocketAddr, over: &'static str) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(Asked {
            name: self.name.clone(),
            from: from.ip(),
            over,
        });
    }

    /// The datagrams of the answer.
    fn by_udp(&self) -> Vec<Vec<u8>> {
        match self.first() {
            "silent" => Vec::new(),
            "forged" => {
                let mut other_id = self.answer(&[record(A, 300, &FORGED)]);
                other_id[0] ^= 1;
                let mut other_name = self.answer(&[record(A, 300, &FORGED)]);
                other_name[HEADER + 1] ^= 1;
                let good = self.answer(&[record(A, 300, &ADDRESS)]);
                vec![other_id, other_name, good]
            }
            "long" => {
                let mut cut = self.answer(&[]);
                cut[2] |= TRUNCATED;
                vec![cut]
            }
            _ => vec![self.by_tcp()],
        }
    }

    fn by_tcp(&self) -> Vec<u8> {
        match self.first() {
            "gone" => {
                let numbers = [1_u32, 2, 3, 4, 60].map(u32::to_be_bytes).concat();
                let mut answer =
                    self.answer(&[record(SOA, 900, &[&[0, 0], &numbers[..]].concat())]);
                answer[3] |= NXDOMAIN;
                // The record is of the authority section.
                answer.swap(7, 9);
                answer
            }
            "long" => {
                let text = [&[200][..], &[b'x'; 200]].concat();
                self.answer(&vec![record(TXT, 300, &text); 20])
            }
            "loop" => {
                let mut record = record(A, 300, &ADDRESS);
                // The record's name is where the record itself is.
                let at = u16::try_from(self.front.len()).expect("short") | 0xc000;
                record[..2].copy_from_slice(&at.to_be_bytes());
                self.answer(&[record])
            }
            "brief" => self.answer(&[record(A, 1, &ADDRESS)]),
            "huge" => self.answer(&[record(A, u32::MAX >> 1, &ADDRESS)]),
            _ => self.answer(&[record(A, 300, &ADDRESS)]),
        }
    }

    fn first(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// With these records as answers.
    fn answer(&self, records: &[Vec<u8>]) -> Vec<u8> {
        let mut message = self.front.clone();
        // QR and RD, RA, the counts.
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[4..HEADER].fill(0);
        message[5] = 1;
        message[7] = u8::try_from(records.len()).expect("few");
        message.extend(records.concat());
        message
    }
}
