//! The live view: a page on loopback, and the figures that it asks for twice a second.
//!
//! Is not: part of the site. It is plain HTTP and never leaves this machine.

use std::io;
use std::net::{SocketAddr, TcpListener};

use tiny_http::{Header, Method, Response, Server};

use crate::error::DemoError;
use crate::state::State;

const PAGE: &str = include_str!("view.html");

/// See above.
pub(crate) struct View {
    server: Server,
    address: SocketAddr,
}

impl View {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            server: Server::from_listener(listener, None)
                .map_err(|error| failed(io::Error::other(error.to_string())))?,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the process ends.
    pub(crate) fn serve(self, state: State) {
        std::thread::spawn(move || {
            while let Ok(request) = self.server.recv() {
                let (code, kind, body) = match (request.method(), request.url()) {
                    (Method::Get | Method::Head, "/") => {
                        (200, "text/html; charset=utf-8", PAGE.to_owned())
                    }
                    (Method::Get | Method::Head, "/state.json") => {
                        (200, "application/json", state.json())
                    }
                    _ => (
                        404,
                        "text/plain",
                        "there are / and /state.json\n".to_owned(),
                    ),
                };
                let mut response = Response::from_string(body).with_status_code(code);
                if let Ok(header) = Header::from_bytes("Content-Type", kind) {
                    response.add_header(header);
                }
                // Whoever asked may be gone.
                let _ = request.respond(response);
            }
        });
    }
}
