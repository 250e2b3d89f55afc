//! How a client connects in each arm.
//!
//! Is not: what it then asks for. What can be prepared is, so that it is not in what is timed.

use std::sync::Arc;
use std::time::Duration;

use mctls::config::{Context, PathMode, Right};
use mctls::party::ContextId;
use mctls::suite::Suite;
use mctls_io::{Client, ClientSettings, Connected, Fallback, KeyExchange, Timeouts, Via};
use mctls12::list::{MiddleboxList, Place};
use mctls12_io::Roots;
use tandem_report::mctls_row::McArm;
use tandem_testbed::LabError;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use crate::connection::{Connection, failed};
use crate::pki::Pki;
use crate::route::{Route, SERVER, box_name};
use crate::tls;

/// Longer than any link of the plan needs.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(60),
    idle: Duration::from_secs(300),
};

/// A client of one arm.
#[derive(Clone)]
pub(crate) struct Dialer {
    arm: McArm,
    route: Arc<Route>,
    how: How,
}

#[derive(Clone)]
enum How {
    Mctls13(Client),
    Mctls12(MiddleboxList, Arc<Roots>),
    Tls(TlsConnector),
    Plain,
}

impl Dialer {
    /// One that grants every middlebox this right in each of so many contexts.
    ///
    /// # Errors
    /// `Command` where nothing can be configured so.
    pub(crate) fn new(
        arm: McArm,
        pki: &Pki,
        route: &Arc<Route>,
        contexts: u8,
        right: Right,
    ) -> Result<Self, LabError> {
        let how = match arm {
            McArm::Mctls13 => How::Mctls13(mctls13(pki, route, contexts, right)?),
            McArm::Mctls12 => {
                let list = mctls12(route, contexts, right)?;
                let roots = Roots::new(Arc::clone(&pki.roots), Arc::clone(&pki.roots));
                How::Mctls12(list, Arc::new(roots))
            }
            McArm::SplitTls | McArm::EndToEndTls => How::Tls(tls::connector(&pki.roots)?),
            McArm::None => How::Plain,
        };
        Ok(Self {
            arm,
            route: Arc::clone(route),
            how,
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// `Command`.
    pub(crate) async fn connect(&self) -> Result<Connection, LabError> {
        let wrong = |error: &dyn std::fmt::Display| failed(self.arm, error);
        let first = self.route.hop(0, self.arm);
        match &self.how {
            How::Mctls13(client) => {
                let server = self.route.server(self.arm).to_string();
                let connected = client.connect(&server, SERVER).await;
                match connected.map_err(|error| wrong(&error))? {
                    Connected::Session(session) => Ok(Connection::Mctls13(session)),
                    Connected::Plain(_) => Err(wrong(&"the server speaks plain TLS")),
                }
            }
            How::Mctls12(list, roots) => {
                let roots = Arc::clone(roots);
                let session = mctls12_io::connect(list.clone(), roots, TIMEOUTS).await;
                let session = session.map_err(|error| wrong(&error))?;
                Ok(Connection::Mctls12(Box::new(session)))
            }
            How::Tls(connector) => {
                let stream = tcp(first).await.map_err(|error| wrong(&error))?;
                let stream = connector.connect(tls::server_name()?, stream).await;
                let stream = stream.map_err(|error| wrong(&error))?;
                Ok(Connection::Tls(Box::new(TlsStream::Client(stream))))
            }
            How::Plain => {
                let stream = tcp(first).await.map_err(|error| wrong(&error))?;
                Ok(Connection::Plain(stream))
            }
        }
    }
}

/// A connection that does not wait for more to send.
pub(crate) async fn tcp(to: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn mctls13(pki: &Pki, route: &Route, contexts: u8, right: Right) -> Result<Client, LabError> {
    let boxes = route.boxes();
    let context = |id| Context {
        id: ContextId(id),
        purpose: String::new(),
        path: PathMode::Off,
        rights: vec![right; boxes],
    };
    let via = |number| Via {
        address: route.hop(number, McArm::Mctls13).to_string(),
        name: box_name(number),
    };
    let client = Client::new(ClientSettings {
        roots: Arc::clone(&pki.roots),
        middlebox_roots: Arc::clone(&pki.roots),
        via: (0..boxes).map(via).collect(),
        contexts: (1..=contexts).map(context).collect(),
        least: Vec::new(),
        suites: Suite::ALL.to_vec(),
        key_exchange: KeyExchange::Classical,
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: TIMEOUTS,
    });
    client.map_err(|error| failed(McArm::Mctls13, &error))
}

fn mctls12(route: &Route, contexts: u8, right: Right) -> Result<MiddleboxList, LabError> {
    let boxes = route.boxes();
    let place = |name: String, number| Place {
        name,
        address: route.hop(number, McArm::Mctls12).to_string(),
    };
    let context = |id| mctls12::list::Context {
        id: ContextId(id),
        purpose: String::new(),
        rights: vec![right; boxes],
    };
    let middleboxes = (0..boxes).map(|number| place(box_name(number), number));
    let list = MiddleboxList::new(
        place(SERVER.to_owned(), boxes),
        middleboxes.collect(),
        (1..=contexts).map(context).collect(),
    );
    list.map_err(|error| failed(McArm::Mctls12, &error))
}
