//! A client's line that can be held up.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::Site;

/// A client's line to the volunteer, on which only so many bytes come back, with a small buffer.
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    passes: watch::Sender<u64>,
    /// Whether the client's end is told to the volunteer though the client goes on reading.
    pub(crate) half_closed: watch::Sender<bool>,
}

impl Line {
    /// One on which so many bytes come back until more may.
    pub(crate) fn to(site: &Site, passes: u64) -> Self {
        let (passes, passing) = watch::channel(passes);
        let (half_closed, closing) = watch::channel(false);
        let volunteer = site.volunteer;
        let bound = TcpListener::bind("127.0.0.1:0");
        let listener = site.runtime().block_on(bound).expect("a free port");
        let address = listener.local_addr().expect("bound");
        site.runtime().spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.set_recv_buffer_size(2048).expect("it can be small");
                let far = socket.connect(volunteer).await.expect("it listens");
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_far, mut to_far) = far.into_split();
                let (mut passing, mut closing) = (passing.clone(), closing.clone());
                let up = tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_client, &mut to_far) => {}
                        _ = closing.wait_for(|is| *is) => {}
                    }
                    let _ = to_far.shutdown().await;
                });
                tokio::spawn(async move {
                    let (mut buffer, mut passed) = (vec![0; 1 << 14], 0);
                    loop {
                        let Ok(until) = passing.wait_for(|until| *until > passed).await.map(|u| *u)
                        else {
                            break;
                        };
                        let most = buffer.len().min((until - passed) as usize);
                        let Ok(len @ 1..) = from_far.read(&mut buffer[..most]).await else {
                            break;
                        };
                        passed += len as u64;
                        if to_client.write_all(&buffer[..len]).await.is_err() {
                            break;
                        }
                    }
                    let _ = to_client.shutdown().await;
                    drop(up);
                });
            }
        });
        Self {
            address,
            passes,
            half_closed,
        }
    }

    pub(crate) fn lets_pass(&self, bytes: u64) {
        self.passes.send_replace(bytes);
    }
}
