//! The live view: a page on loopback, and the figures that it asks for twice a second.
//!
//! Is not: part of the site. It is plain HTTP and never leaves this machine.

use std::net::{SocketAddr, TcpListener};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use tandem_daemon::http::{Request, Response, Server};

use crate::error::DemoError;
use crate::state::State;

const PAGE: &str = include_str!("view.html");

/// See above.
pub(crate) struct View {
    listener: TcpListener,
    address: SocketAddr,
}

impl View {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until what is returned is dropped; without it the demonstration goes on unseen.
    pub(crate) fn serve(self, state: State) -> Option<Server> {
        Server::start("view", self.listener, move |request| {
            answer(&request, &state)
        })
        .ok()
    }
}

fn answer(request: &Request, state: &State) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, "text/html; charset=utf-8", Full::from(PAGE))
        }
        (&Method::GET | &Method::HEAD, "/state.json") => {
            (StatusCode::OK, "application/json", Full::from(state.json()))
        }
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            Full::from("there are / and /state.json\n"),
        ),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
