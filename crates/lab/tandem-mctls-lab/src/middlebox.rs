//! The middlebox of every arm. In each it passes on what comes, unchanged: with contexts, as one
//! that may read or write; in split TLS, by opening and sealing everything; blindly elsewhere.
//!
//! Where a middlebox has one next hop it connects there as soon as a client has connected.

use std::net::SocketAddr;
use std::sync::Arc;

use mctls::config::Context;
use mctls::party::Direction;
use mctls_io::{Middlebox, MiddleboxSettings, NextHop, Service, Verdict};
use tandem_report::mctls_row::McArm;
use tandem_testbed::LabError;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;

use crate::connection::failed;
use crate::dial::{TIMEOUTS, tcp};
use crate::pki::Pki;
use crate::route::Route;
use crate::server::listen;
use crate::tls;

/// What a relay reads at once: a record of TLS.
const READ_LEN: usize = 1 << 14;

/// Listens for every arm, as the middlebox of this number from 0, and serves in tasks of the
/// runtime.
///
/// # Errors
/// `Io`, `Command`.
pub(crate) async fn serve(pki: Arc<Pki>, route: Arc<Route>, number: usize) -> Result<(), LabError> {
    for arm in McArm::ALL {
        let (at, next) = (route.hop(number, arm), route.hop(number + 1, arm));
        match arm {
            McArm::Mctls13 => {
                let middlebox = Middlebox::new(&MiddleboxSettings {
                    identity: pki.middlebox(number),
                    next: NextHop::Named,
                    permits: Arc::new(|_: &str| true),
                    service: Arc::new(|| Box::new(Forwards)),
                    timeouts: TIMEOUTS,
                });
                let middlebox = middlebox.map_err(|error| failed(arm, &error))?;
                listen(at, move |stream| {
                    let middlebox = middlebox.clone();
                    async move {
                        let served = middlebox.serve(stream).await;
                        served.map_err(|error| failed(arm, &error))
                    }
                })
                .await?;
            }
            McArm::Mctls12 => {
                let identity = mctls12_io::identity(&pki.middlebox(number));
                let settings = mctls12_io::middlebox::Settings {
                    identity: identity.map_err(|error| failed(arm, &error))?,
                    permits: Arc::new(|_: &str| true),
                    service: Arc::new(|| Box::new(Forwards)),
                    timeouts: TIMEOUTS,
                };
                listen(at, move |stream| {
                    let settings = settings.clone();
                    async move {
                        let served = mctls12_io::middlebox::serve(stream, &settings).await;
                        served.map_err(|error| failed(arm, &error))
                    }
                })
                .await?;
            }
            McArm::SplitTls => {
                let acceptor = tls::acceptor(pki.impostor())?;
                let connector = tls::connector(&pki.roots)?;
                listen(at, move |stream| {
                    let (acceptor, connector) = (acceptor.clone(), connector.clone());
                    async move {
                        let upwards = async {
                            let stream = tcp(next).await.map_err(|error| failed(arm, &error))?;
                            let stream = connector.connect(tls::server_name()?, stream).await;
                            stream.map_err(|error| failed(arm, &error))
                        };
                        let downwards = async {
                            let stream = acceptor.accept(stream).await;
                            stream.map_err(|error| failed(arm, &error))
                        };
                        let (client, server) = tokio::try_join!(downwards, upwards)?;
                        pass(client, server, arm).await
                    }
                })
                .await?;
            }
            McArm::EndToEndTls | McArm::None => {
                listen(at, move |stream| blindly(stream, next, arm)).await?;
            }
        }
    }
    Ok(())
}

async fn blindly(client: TcpStream, next: SocketAddr, arm: McArm) -> Result<(), LabError> {
    let server = tcp(next).await.map_err(|error| failed(arm, &error))?;
    pass(client, server, arm).await
}

async fn pass(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    arm: McArm,
) -> Result<(), LabError> {
    let sizes = (READ_LEN, READ_LEN);
    let passed = copy_bidirectional_with_sizes(&mut client, &mut server, sizes.0, sizes.1).await;
    passed.map(drop).map_err(|error| failed(arm, &error))
}

/// A service that looks, and changes nothing.
struct Forwards;

impl Service for Forwards {
    fn inspect(&mut self, _: Direction, _: &Context, _: &[u8]) -> Verdict {
        Verdict::Forward
    }
}

impl mctls12_io::middlebox::Service for Forwards {
    fn inspect(
        &mut self,
        _: Direction,
        _: &mctls12::list::Context,
        _: &[u8],
    ) -> mctls12_io::middlebox::Verdict {
        mctls12_io::middlebox::Verdict::Forward
    }
}
