//! The server of every arm.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mctls::config::Terms;
use mctls_io::{Connected, Fallback, Server, ServerSettings};
use mctls12::Mode;
use mctls12::endpoint::Decision;
use mctls12::list::MiddleboxList;
use mctls12_io::Roots;
use tandem_report::mctls_row::McArm;
use tandem_testbed::LabError;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::connection::{Connection, failed};
use crate::dial::TIMEOUTS;
use crate::exchange;
use crate::pki::Pki;
use crate::route::port;
use crate::tls;

/// Listens for every arm, and answers in tasks of the runtime.
///
/// # Errors
/// `Io`, `Command`.
pub(crate) async fn serve(pki: Arc<Pki>, at: Ipv4Addr) -> Result<(), LabError> {
    for arm in McArm::ALL {
        let how = Arc::new(How::new(arm, &pki)?);
        let work = move |stream| {
            let how = Arc::clone(&how);
            async move { exchange::answer(how.accept(stream).await?).await }
        };
        listen(SocketAddr::from((at, port(arm))), work).await?;
    }
    Ok(())
}

/// Has each connection served in a task of its own. What fails there fails the client, who says so.
///
/// # Errors
/// `Io`.
pub(crate) async fn listen<F>(
    at: SocketAddr,
    work: impl Fn(TcpStream) -> F + Send + 'static,
) -> Result<(), LabError>
where
    F: Future<Output = Result<(), LabError>> + Send + 'static,
{
    let listener = TcpListener::bind(at).await;
    let listener = listener.map_err(LabError::io(format!("listen at {at}")))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if stream.set_nodelay(true).is_ok() {
                tokio::spawn(work(stream));
            }
        }
    });
    Ok(())
}

enum How {
    Mctls13(Server),
    Mctls12(mctls12::auth::Identity, Arc<Roots>),
    Tls(TlsAcceptor),
    Plain,
}

impl How {
    fn new(arm: McArm, pki: &Pki) -> Result<Self, LabError> {
        Ok(match arm {
            McArm::Mctls13 => {
                let server = Server::new(&ServerSettings {
                    identity: pki.server(),
                    middlebox_roots: Arc::clone(&pki.roots),
                    policy: Arc::new(|terms: &Terms| Some(terms.clone())),
                    fallback: Fallback::Refuse,
                    plain_protocols: Vec::new(),
                    timeouts: TIMEOUTS,
                });
                Self::Mctls13(server.map_err(|error| failed(arm, &error))?)
            }
            McArm::Mctls12 => {
                let identity = mctls12_io::identity(&pki.server());
                let roots = Roots::new(Arc::clone(&pki.roots), Arc::clone(&pki.roots));
                Self::Mctls12(
                    identity.map_err(|error| failed(arm, &error))?,
                    Arc::new(roots),
                )
            }
            McArm::SplitTls | McArm::EndToEndTls => Self::Tls(tls::acceptor(pki.server())?),
            McArm::None => Self::Plain,
        })
    }

    async fn accept(&self, stream: TcpStream) -> Result<Connection, LabError> {
        match self {
            Self::Mctls13(server) => match server.accept(stream).await {
                Ok(Connected::Session(session)) => Ok(Connection::Mctls13(session)),
                Ok(Connected::Plain(_)) => Err(failed(McArm::Mctls13, &"plain TLS")),
                Err(error) => Err(failed(McArm::Mctls13, &error)),
            },
            Self::Mctls12(identity, roots) => {
                let (identity, roots) = (identity.clone(), Arc::clone(roots));
                let session = mctls12_io::accept(stream, identity, roots, decide, TIMEOUTS);
                let session = session.await;
                let session = session.map_err(|error| failed(McArm::Mctls12, &error))?;
                Ok(Connection::Mctls12(Box::new(session)))
            }
            Self::Tls(acceptor) => {
                let stream = acceptor.accept(stream).await;
                let stream = stream.map_err(|error| failed(McArm::EndToEndTls, &error))?;
                Ok(Connection::Tls(Box::new(TlsStream::Server(stream))))
            }
            Self::Plain => Ok(Connection::Plain(stream)),
        }
    }
}

/// The paper's default: both endpoints make half of each key, and the server grants what is asked.
#[expect(
    clippy::unnecessary_wraps,
    reason = "a server may refuse, and this is the shape in which it does"
)]
fn decide(list: &MiddleboxList) -> Option<Decision> {
    Some(Decision {
        mode: Mode::Contributory,
        rights: list.rights(),
    })
}
