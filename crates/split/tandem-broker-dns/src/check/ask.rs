//! One question to a resolver: over UDP, over TCP where the answer was cut, again where nothing
//! came.
//!
//! Is not: validation. A resolver that fails (SERVFAIL, REFUSED) has said nothing.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{Stream, stream};
use hickory_net::NetError;
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_net::xfer::DnsHandle;
use hickory_proto::op::{DnsRequest, DnsResponse, ResponseCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long each try over UDP waits.
const PATIENCE: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(5),
];

/// How long TCP may take.
const PATIENCE_TCP: Duration = Duration::from_secs(10);

/// Somebody who asks one resolver.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    resolver: SocketAddr,
    failures: Arc<AtomicU64>,
}

impl Asker {
    pub(super) fn new(resolver: SocketAddr) -> Self {
        Self {
            resolver,
            failures: Arc::default(),
        }
    }

    /// How many questions have had no answer.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl DnsHandle for Asker {
    type Response = Pin<Box<dyn Stream<Item = Result<DnsResponse, NetError>> + Send>>;
    type Runtime = TokioRuntimeProvider;

    fn send(&self, request: DnsRequest) -> Self::Response {
        let (resolver, failures) = (self.resolver, Arc::clone(&self.failures));
        Box::pin(stream::once(async move {
            let answer = exchange(resolver, request).await;
            if answer.is_err() {
                failures.fetch_add(1, Ordering::Relaxed);
            }
            answer
        }))
    }
}

async fn exchange(resolver: SocketAddr, request: DnsRequest) -> Result<DnsResponse, NetError> {
    let question = request.to_vec().map_err(message)?;
    let mut answer = over_udp(resolver, &request, &question).await;
    if !answer
        .as_ref()
        .is_ok_and(|answer| !answer.metadata.truncation)
    {
        answer = over_tcp(resolver, &request, &question).await;
    }
    let answer = answer?;
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => Ok(answer),
        code => Err(message(format!("the resolver says {code}"))),
    }
}

async fn over_udp(
    resolver: SocketAddr,
    request: &DnsRequest,
    question: &[u8],
) -> Result<DnsResponse, NetError> {
    let any: SocketAddr = match resolver {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await.map_err(message)?;
    socket.connect(resolver).await.map_err(message)?;
    for patience in PATIENCE {
        socket.send(question).await.map_err(message)?;
        let answer = timeout(patience, async {
            let mut buffer = vec![0; usize::from(u16::MAX)];
            loop {
                let length = socket.recv(&mut buffer).await?;
                if let Some(answer) = fitting(request, &buffer[..length]) {
                    return Ok::<_, std::io::Error>(answer);
                }
            }
        });
        match answer.await {
            Ok(answer) => return answer.map_err(message),
            Err(_) => continue,
        }
    }
    Err(NetError::Timeout)
}

async fn over_tcp(
    resolver: SocketAddr,
    request: &DnsRequest,
    question: &[u8],
) -> Result<DnsResponse, NetError> {
    let answer = timeout(PATIENCE_TCP, async {
        let mut stream = TcpStream::connect(resolver).await?;
        let length = u16::try_from(question.len()).map_err(|_| ErrorKind::InvalidInput)?;
        stream
            .write_all(&[&length.to_be_bytes()[..], question].concat())
            .await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        fitting(request, &answer).ok_or_else(|| ErrorKind::InvalidData.into())
    });
    match answer.await {
        Ok(answer) => answer.map_err(|error: std::io::Error| message(error)),
        Err(_) => Err(NetError::Timeout),
    }
}

/// The answer that these bytes are, if they are one to this question.
fn fitting(request: &DnsRequest, bytes: &[u8]) -> Option<DnsResponse> {
    let answer = DnsResponse::from_buffer(bytes.to_vec()).ok()?;
    let same = answer.metadata.id == request.metadata.id && answer.queries == request.queries;
    same.then_some(answer)
}

fn message(error: impl std::fmt::Display) -> NetError {
    NetError::from(error.to_string())
}
