//! A volunteer that puts one file's payload under another file's MACs: an honest one, and this
//! double between it and the origin.
//!
//! Is not: a volunteer's code with its digest check taken out. The double changes which payload the
//! origin's stubs name, so the honest volunteer fetches and checks a payload that is not the one
//! that the MACs vouch for: the same records leave it as would without a check.
//!
//! A run's object is replaced by the object of the same number of the client that was learned.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tandem_channel::{
    Acceptor, Admission, ChannelKey, ClientChannel, Connector, KeyName, Pin, ServerChannel,
};
use tandem_split_io::SPLIT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};

use tandem_testbed::LabError;

/// A stub of application data (the thesis's figure 3-2), and the encoding that is a run.
const DATA_STUB: u8 = 0x97;
const RUN: [u8; 2] = [0, 4];
/// Where in the message of a run its object's name is: after the header, the encoding and the
/// length of what follows.
const NAME: std::ops::Range<usize> = 9..41;
/// What the origin says of a client that is done: the next one's runs count from zero.
const OVER: u8 = b'O';

type Names = Arc<Mutex<Vec<[u8; 32]>>>;

/// The double, listening for the honest volunteer.
pub(super) struct Swapper {
    pub(super) address: SocketAddr,
    pub(super) key: KeyName,
    harms: Arc<AtomicBool>,
    learned: Names,
}

impl Swapper {
    /// Between a volunteer and this origin.
    pub(super) async fn start(origin: SocketAddr, origin_key: KeyName) -> Result<Self, LabError> {
        let other = |error: Box<dyn std::error::Error + Send + Sync>| {
            LabError::io("start the double that swaps payloads")(io::Error::other(error))
        };
        let own = ChannelKey::fleeting().map_err(|error| other(error.into()))?;
        let acceptor =
            Acceptor::new(SPLIT, &own, Admission::Any).map_err(|error| other(error.into()))?;
        let connector = Connector::new(SPLIT, &own, Pin::to(origin_key))
            .map_err(|error| other(error.into()))?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| other(error.into()))?;
        let swapper = Self {
            address: listener.local_addr().map_err(|error| other(error.into()))?,
            key: own.name(),
            harms: Arc::default(),
            learned: Arc::default(),
        };
        let (harms, learned) = (Arc::clone(&swapper.harms), Arc::clone(&swapper.learned));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, connector) = (acceptor.clone(), connector.clone());
                let (harms, learned) = (Arc::clone(&harms), Arc::clone(&learned));
                tokio::spawn(async move {
                    let near = acceptor.open(stream, Arc::default()).await?;
                    let far = connector.open(TcpStream::connect(origin).await?).await?;
                    relay(near, far, &harms, &learned).await
                });
            }
        });
        Ok(swapper)
    }

    /// From now on, objects are learned.
    pub(super) fn learn(&self) {
        self.harms.store(false, Ordering::Relaxed);
        self.names().clear();
    }

    /// From now on, what was learned is put in the place of what is served.
    pub(super) fn swap(&self) {
        self.harms.store(true, Ordering::Relaxed);
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Vec<[u8; 32]>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn relay(
    near: ServerChannel,
    far: ClientChannel,
    harms: &AtomicBool,
    learned: &Names,
) -> io::Result<()> {
    let (mut from_volunteer, to_volunteer) = tokio::io::split(near);
    let (from_origin, mut to_origin) = tokio::io::split(far);
    let up = async {
        tokio::io::copy(&mut from_volunteer, &mut to_origin).await?;
        to_origin.shutdown().await
    };
    let down = pass_down(from_origin, to_volunteer, harms, learned);
    tokio::try_join!(up, down).map(|_| ())
}

/// Message by message, each with the header of a TLS record.
async fn pass_down(
    mut from: ReadHalf<ClientChannel>,
    mut to: WriteHalf<ServerChannel>,
    harms: &AtomicBool,
    learned: &Names,
) -> io::Result<()> {
    let mut number = 0;
    loop {
        let mut message = vec![0; 5];
        match from.read_exact(&mut message).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return to.shutdown().await;
            }
            Err(error) => return Err(error),
        }
        let len = usize::from(u16::from_be_bytes([message[3], message[4]]));
        message.resize(5 + len, 0);
        from.read_exact(&mut message[5..]).await?;
        if message[0] == OVER {
            number = 0;
        }
        if message[0] == DATA_STUB && message[5..7] == RUN {
            let mut names = learned.lock().unwrap_or_else(PoisonError::into_inner);
            if !harms.load(Ordering::Relaxed) {
                let mut name = [0; 32];
                name.copy_from_slice(&message[NAME]);
                names.push(name);
            } else if let Some(name) = names.get(number) {
                message[NAME].copy_from_slice(name);
            }
            number += 1;
        }
        to.write_all(&message).await?;
        to.flush().await?;
    }
}
