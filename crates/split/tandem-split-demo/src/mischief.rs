//! The helper that flips one bit of what it serves, so that it can be seen what a client does about
//! it.
//!
//! Is: a relay before an honest volunteer; a bad volunteer could do nothing worse with a record,
//! since it has no key that authenticates. Is not: a volunteer of its own.

use std::io;
use std::net::SocketAddr;

use tandem_daemon::metrics::Number;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::error::DemoError;

/// The content type of a record of application data (RFC 5246, section 6.2.1).
const APPLICATION_DATA: u8 = 23;
/// Bytes of a record's header.
const HEADER: usize = 5;
/// Which byte of a record's fragment is harmed: behind the initialisation vector.
const HARMED: usize = HEADER + 20;

/// See above.
pub(crate) struct Mischief {
    listener: TcpListener,
    address: SocketAddr,
    behind: SocketAddr,
    clients: Number,
    sent: Number,
}

impl Mischief {
    pub(crate) async fn bind(address: SocketAddr, behind: SocketAddr) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            behind,
            clients: Number::counter("tandem_split_volunteer_clients", "Connections of clients"),
            sent: Number::counter("tandem_split_volunteer_sent_bytes", "Bytes sent to clients"),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn numbers(&self) -> Vec<Number> {
        vec![self.clients.clone(), self.sent.clone()]
    }

    pub(crate) async fn serve(self) {
        while let Ok((client, _)) = self.listener.accept().await {
            self.clients.add(1);
            let (behind, sent) = (self.behind, self.sent.clone());
            // Either side may go away at any time.
            tokio::spawn(async move { relay(client, behind, &sent).await.ok() });
        }
    }
}

async fn relay(client: TcpStream, behind: SocketAddr, sent: &Number) -> io::Result<()> {
    let volunteer = TcpStream::connect(behind).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_volunteer, mut to_volunteer) = volunteer.into_split();
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_volunteer).await?;
        to_volunteer.shutdown().await
    };
    let down = async {
        let ended = harm_one(&mut from_volunteer, &mut to_client, sent).await;
        to_client.shutdown().await.and(ended)
    };
    // The client's last words go up also after it takes nothing more.
    let (upward, downward) = tokio::join!(up, down);
    upward.and(downward)
}

/// Passes records on until there are no more, and flips a bit in the first of application data.
async fn harm_one(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    sent: &Number,
) -> io::Result<()> {
    let mut is_harmed = false;
    loop {
        let mut record = vec![0; HEADER];
        from.read_exact(&mut record).await?;
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(HEADER + len, 0);
        from.read_exact(&mut record[HEADER..]).await?;
        if record[0] == APPLICATION_DATA && !is_harmed && record.len() > HARMED {
            record[HARMED] ^= 1;
            is_harmed = true;
        }
        to.write_all(&record).await?;
        sent.add(record.len() as u64);
    }
}
