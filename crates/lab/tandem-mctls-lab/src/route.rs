//! Who listens where, and under which name.

use std::net::{Ipv4Addr, SocketAddr};

use tandem_report::mctls_row::McArm;

/// The server's name.
pub(crate) const SERVER: &str = "server.test";

/// The middleboxes and then the server, by address.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) hops: Vec<Ipv4Addr>,
}

impl Route {
    /// Where a hop listens, counted from the client.
    pub(crate) fn hop(&self, number: usize, arm: McArm) -> SocketAddr {
        SocketAddr::from((self.hops[number], port(arm)))
    }

    /// Where the server listens.
    pub(crate) fn server(&self, arm: McArm) -> SocketAddr {
        self.hop(self.boxes(), arm)
    }

    /// How many middleboxes there are.
    pub(crate) fn boxes(&self) -> usize {
        self.hops.len() - 1
    }
}

/// The name of a middlebox, counted from 0.
pub(crate) fn box_name(number: usize) -> String {
    format!("box-{}.test", number + 1)
}

/// The port of an arm, at every party.
pub(crate) fn port(arm: McArm) -> u16 {
    match arm {
        McArm::Mctls13 => 4413,
        McArm::Mctls12 => 4412,
        McArm::SplitTls => 4402,
        McArm::EndToEndTls => 4401,
        McArm::None => 4400,
    }
}
