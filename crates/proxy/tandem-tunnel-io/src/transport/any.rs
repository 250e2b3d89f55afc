//! A tunnel over either transport, as one type.
//!
//! Is not: a choice between them (`keeper.rs`).

use tandem_channel::KeyName;
use tokio::time::Instant;

use super::quic::{self, Quic};
use super::tcp::{self, Tcp};
use super::{Broken, Counts, Datagrams, Lost, Over, Receiving, Sending, Stopped, Stream, Tunnel};

/// A connection to the other proxy.
#[derive(Clone, Debug)]
pub(crate) enum Any {
    Udp(Quic),
    Tcp(Tcp),
}

impl From<Quic> for Any {
    fn from(tunnel: Quic) -> Self {
        Self::Udp(tunnel)
    }
}

impl From<Tcp> for Any {
    fn from(tunnel: Tcp) -> Self {
        Self::Tcp(tunnel)
    }
}

impl Any {
    /// Who is at the other end, at the side that accepts: the name of the key that it has shown.
    pub(crate) fn holder(&self) -> Option<KeyName> {
        match self {
            Self::Udp(tunnel) => tunnel.holder(),
            Self::Tcp(tunnel) => tunnel.holder(),
        }
    }
}

/// The half of a stream that sends.
#[derive(Debug)]
pub(crate) enum Out {
    Udp(quic::Out),
    Tcp(tcp::Out),
}

/// The half of a stream that receives.
#[derive(Debug)]
pub(crate) enum In {
    Udp(quic::In),
    Tcp(tcp::In),
}

/// What crosses beside a stream.
pub(crate) enum Beside {
    Udp(quic::Beside),
    Tcp(tcp::Beside),
}

fn over_udp(stream: Stream<quic::Out, quic::In>) -> Stream<Out, In> {
    Stream {
        sending: Out::Udp(stream.sending),
        receiving: In::Udp(stream.receiving),
    }
}

fn over_tcp(stream: Stream<tcp::Out, tcp::In>) -> Stream<Out, In> {
    Stream {
        sending: Out::Tcp(stream.sending),
        receiving: In::Tcp(stream.receiving),
    }
}

impl Tunnel for Any {
    type Sending = Out;
    type Receiving = In;

    async fn open(&self) -> Result<Stream<Out, In>, Lost> {
        match self {
            Self::Udp(tunnel) => tunnel.open().await.map(over_udp),
            Self::Tcp(tunnel) => tunnel.open().await.map(over_tcp),
        }
    }

    async fn accept(&self) -> Result<Stream<Out, In>, Lost> {
        match self {
            Self::Udp(tunnel) => tunnel.accept().await.map(over_udp),
            Self::Tcp(tunnel) => tunnel.accept().await.map(over_tcp),
        }
    }

    async fn closed(&self) -> Lost {
        match self {
            Self::Udp(tunnel) => tunnel.closed().await,
            Self::Tcp(tunnel) => tunnel.closed().await,
        }
    }

    fn close(&self) {
        match self {
            Self::Udp(tunnel) => tunnel.close(),
            Self::Tcp(tunnel) => tunnel.close(),
        }
    }

    async fn farewell(&self) {
        match self {
            Self::Udp(tunnel) => tunnel.farewell().await,
            Self::Tcp(tunnel) => tunnel.farewell().await,
        }
    }

    fn counts(&self) -> Counts {
        match self {
            Self::Udp(tunnel) => tunnel.counts(),
            Self::Tcp(tunnel) => tunnel.counts(),
        }
    }

    fn nudge(&self) {
        match self {
            Self::Udp(tunnel) => tunnel.nudge(),
            Self::Tcp(tunnel) => tunnel.nudge(),
        }
    }

    fn over(&self) -> Over {
        match self {
            Self::Udp(tunnel) => tunnel.over(),
            Self::Tcp(tunnel) => tunnel.over(),
        }
    }
}

impl Sending for Out {
    type Datagrams = Beside;

    fn datagrams(&self) -> Beside {
        match self {
            Self::Udp(half) => Beside::Udp(half.datagrams()),
            Self::Tcp(half) => Beside::Tcp(half.datagrams()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        match self {
            Self::Udp(half) => half.write(bytes).await,
            Self::Tcp(half) => half.write(bytes).await,
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Udp(half) => half.finish(),
            Self::Tcp(half) => half.finish(),
        }
    }

    fn reset(&mut self, code: u32) {
        match self {
            Self::Udp(half) => half.reset(code),
            Self::Tcp(half) => half.reset(code),
        }
    }

    fn lower_priority(&mut self) {
        match self {
            Self::Udp(half) => half.lower_priority(),
            Self::Tcp(half) => half.lower_priority(),
        }
    }

    fn stopped(&self) -> Stopped {
        match self {
            Self::Udp(half) => half.stopped(),
            Self::Tcp(half) => half.stopped(),
        }
    }
}

impl Receiving for In {
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match self {
            Self::Udp(half) => half.read().await,
            Self::Tcp(half) => half.read().await,
        }
    }

    fn stop(&mut self, code: u32) {
        match self {
            Self::Udp(half) => half.stop(code),
            Self::Tcp(half) => half.stop(code),
        }
    }
}

impl Datagrams for Beside {
    async fn room(&self, bytes: usize, since: Instant) {
        match self {
            Self::Udp(beside) => beside.room(bytes, since).await,
            Self::Tcp(beside) => beside.room(bytes, since).await,
        }
    }

    fn max_len(&self) -> Option<usize> {
        match self {
            Self::Udp(beside) => beside.max_len(),
            Self::Tcp(beside) => beside.max_len(),
        }
    }

    fn send(&self, payload: &[u8]) {
        match self {
            Self::Udp(beside) => beside.send(payload),
            Self::Tcp(beside) => beside.send(payload),
        }
    }

    async fn receive(&self) -> Vec<u8> {
        match self {
            Self::Udp(beside) => beside.receive().await,
            Self::Tcp(beside) => beside.receive().await,
        }
    }
}
