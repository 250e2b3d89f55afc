//! A small HTTP/1.1 server: a function from requests to responses, on a thread of its own.
//!
//! Is not: for large uploads, nor for functions that block for long: all connections share the one
//! thread.
//!
//! Invariants: a client that sends or reads slowly delays no other; headers must be complete within
//! ten seconds, a body a minute later; connections and the length of bodies are bounded. Unless the
//! caller states a length, a request has no body.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::listener;

/// A request whose body has arrived.
pub type Request = hyper::Request<Bytes>;
/// A response.
pub type Response<B> = hyper::Response<B>;

/// Connections at a time; others wait in the system's queue.
const MAX_CONNECTIONS: usize = 64;
/// Longest wait for the headers of a request.
const MAX_HEADER_TIME: Duration = Duration::from_secs(10);
/// Longest wait for the body of a request.
const MAX_BODY_TIME: Duration = Duration::from_secs(60);
/// How long dropping a server waits for its thread.
const PATIENCE: Duration = Duration::from_millis(100);

/// The running server. Dropping it closes the port.
#[derive(Debug)]
pub struct Server {
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: mpsc::Receiver<Infallible>,
}

impl Server {
    /// Answers those who connect to `listener`, on a thread with this name. A connection whose
    /// request has a body is closed.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn start<B>(
        name: &str,
        listener: TcpListener,
        answer: impl Fn(Request) -> Response<B> + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        Self::start_with_bodies(name, listener, 0, answer)
    }

    /// The same, for requests whose bodies have up to `longest` bytes. 64 of them may be held at a
    /// time.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with_bodies<B>(
        name: &str,
        listener: TcpListener,
        longest: usize,
        answer: impl Fn(Request) -> Response<B> + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let (ending, ended) = mpsc::channel();
        let answer = Arc::new(answer);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _ending: mpsc::Sender<Infallible> = ending;
                let served = runtime.block_on(async {
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    let serving = listener::serve(listener, MAX_CONNECTIONS, |stream| {
                        converse(stream, longest, Arc::clone(&answer))
                    });
                    tokio::select! {
                        () = serving => {}
                        _ = stopped => {}
                    }
                    io::Result::Ok(())
                });
                if let Err(error) = served {
                    tracing::warn!(%error, "the port cannot be served");
                }
                // A response that nobody reads does not keep the thread.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            stop: Some(stop),
            ended,
        })
    }

    /// Lets it run until the process ends.
    pub fn detach(mut self) {
        std::mem::forget(self.stop.take());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            drop(stop);
            let _ = self.ended.recv_timeout(PATIENCE);
        }
    }
}

/// One connection to its end.
async fn converse<B>(
    stream: TcpStream,
    longest: usize,
    answer: Arc<impl Fn(Request) -> Response<B> + Send + Sync + 'static>,
) where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            if longest == 0 && !body.is_end_stream() {
                return Err(io::Error::other("a body that nobody asked for"));
            }
            let body = Limited::new(body, longest).collect();
            let body = tokio::time::timeout(MAX_BODY_TIME, body).await?;
            let body = body.map_err(io::Error::other)?.to_bytes();
            Ok::<_, io::Error>(answer(Request::from_parts(head, body)))
        }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEADER_TIME)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        // Less than a body is waited for.
        stream
            .set_read_timeout(Some(MAX_BODY_TIME / 2))
            .expect("a socket");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn requests_are_answered_while_another_client_stalls_until_it_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = Server::start_with_bodies("test", listener, 3, |request| {
            let body = format!("{} {}", request.uri(), request.body().len());
            Response::new(Full::from(body))
        })
        .expect("it starts");
        let mut stalled = std::net::TcpStream::connect(address).expect("it listens");
        stalled.write_all(b"GET /sta").expect("it reads");
        let answer = asked(address, "POST /a HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/a 3"), "{answer}");
        let answer = asked(address, "HEAD /b HTTP/1.0\r\n\r\n");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        let answer = asked(address, "POST /c HTTP/1.0\r\nContent-Length: 4\r\n\r\nabcd");
        assert_eq!(answer, "");
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_body_that_nobody_asked_for_is_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let _server = Server::start("test", listener, |_| {
            Response::new(Full::from("answered".to_owned()))
        })
        .expect("it starts");
        let answer = asked(address, "GET / HTTP/1.0\r\n\r\n");
        assert!(answer.ends_with("answered"), "{answer}");
        for (head, body) in [
            ("Content-Length: 1000000", "1\r\na\r\n"),
            ("Transfer-Encoding: chunked", "1\r\na\r\n"),
            // It is not waited for.
            ("Content-Length: 1", ""),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: here\r\n{head}\r\n\r\n{body}");
            assert_eq!(asked(address, &request), "", "{head}");
        }
    }
}
