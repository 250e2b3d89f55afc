//! A relay on the loopback address that keeps what a client and a server said to each other.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{JoinHandle, scope, spawn};

use super::Conversation;

/// Takes one connection and carries it to a server.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where the client finds it.
    pub(crate) port: u16,
    thread: JoinHandle<Option<Conversation>>,
}

impl Relay {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        Self {
            port,
            thread: spawn(move || carry(&listener, server)),
        }
    }

    /// What was said once both have closed. Call it after the client has ended.
    #[track_caller]
    pub(crate) fn conversation(self) -> Conversation {
        // A client that never came must not leave the relay waiting for it.
        let _ = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
        let conversation = self.thread.join().expect("the relay does not fail");
        let conversation = conversation.expect("the server is there");
        assert!(!conversation.client.is_empty(), "the client said something");
        conversation
    }
}

fn carry(listener: &TcpListener, server: u16) -> Option<Conversation> {
    let (client, _) = listener.accept().ok()?;
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).ok()?;
    Some(scope(|scope| {
        let up = scope.spawn(|| pass(&client, &server));
        let down = pass(&server, &client);
        Conversation {
            client: up.join().expect("reading does not fail"),
            server: down,
        }
    }))
}

/// Carries one direction to its end, and keeps it.
fn pass(mut from: &TcpStream, mut to: &TcpStream) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
    kept
}
