//! The sites of a soak: what serves each, what is kept there of a session, and whether clients show
//! a certificate.
//!
//! Is not: the servers' settings ([`crate::interop::servers`]).

use serde::Serialize;
use tandem_testbed::endpoints::{Sessions, Version};

use crate::interop::servers::Server;

/// What a site asks of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing.
    Nothing,
    /// A certificate.
    Certificate,
}

/// A site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) server: Server,
    pub(crate) port: u16,
    pub(crate) sessions: Sessions,
    pub(crate) asked: Asked,
}

/// Servers that take many connections at a time. Those of nginx are the ones of a quick run.
pub(crate) const SITES: [Row; 9] = [
    row(Server::Nginx, 443, Sessions::None, Asked::Nothing),
    row(Server::Haproxy, 444, Sessions::None, Asked::Nothing),
    row(Server::Apache, 445, Sessions::None, Asked::Nothing),
    row(Server::Go, 446, Sessions::None, Asked::Nothing),
    row(Server::Java, 447, Sessions::None, Asked::Nothing),
    row(Server::Nginx, 448, Sessions::Identifiers, Asked::Nothing),
    row(Server::Haproxy, 449, Sessions::Tickets, Asked::Nothing),
    row(Server::Haproxy, 450, Sessions::None, Asked::Certificate),
    row(Server::Nginx, 451, Sessions::Tickets, Asked::Certificate),
];

const fn row(server: Server, port: u16, sessions: Sessions, asked: Asked) -> Row {
    Row {
        server,
        port,
        sessions,
        asked,
    }
}

/// Which handshake a connection began with; of one that failed, which the client had asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    Full,
    Resumed,
}

/// What a handshake was, as far as the proxies treat it in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The server alone shows its chain.
    Full,
    /// The client shows its own, too.
    Mutual,
    /// The client has returned with a session identifier (RFC 5246, section 7.3).
    Identifier,
    /// With a ticket (RFC 5077; RFC 8446, section 2.2).
    Ticket,
    /// With a ticket, and had shown a certificate before.
    MutualTicket,
}

impl Kind {
    /// All, as tables have them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Full,
        Self::Mutual,
        Self::Identifier,
        Self::Ticket,
        Self::MutualTicket,
    ];

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Mutual => "full, with a client certificate",
            Self::Identifier => "resumed by session id",
            Self::Ticket => "resumed by ticket",
            Self::MutualTicket => "resumed by ticket, of a client that had shown a certificate",
        }
    }
}

impl Row {
    /// How the lab's own clients are told to visit it: `r` to return with a session, `c` to show a
    /// certificate.
    pub(crate) fn word(&self) -> String {
        let returns = match self.sessions {
            Sessions::None => "",
            Sessions::Tickets | Sessions::Identifiers => "r",
        };
        let shows = match self.asked {
            Asked::Nothing => "",
            Asked::Certificate => "c",
        };
        format!("{}{returns}{shows}", self.port)
    }

    /// Whether any client can visit it.
    pub(crate) fn is_plain(&self) -> bool {
        self.sessions == Sessions::None && self.asked == Asked::Nothing
    }

    /// What a handshake here was. TLS 1.3 knows tickets only.
    pub(crate) fn kind(&self, version: &str, handshake: Handshake) -> Kind {
        let by_identifier =
            self.sessions == Sessions::Identifiers && version != Version::Tls13.name();
        match (handshake, self.asked) {
            (Handshake::Full, Asked::Nothing) => Kind::Full,
            (Handshake::Full, Asked::Certificate) => Kind::Mutual,
            (Handshake::Resumed, Asked::Nothing) if by_identifier => Kind::Identifier,
            (Handshake::Resumed, Asked::Nothing) => Kind::Ticket,
            (Handshake::Resumed, Asked::Certificate) => Kind::MutualTicket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sites_word_and_kinds_say_what_is_kept_and_shown_there() {
        let kind = |port, version, handshake| {
            let site = SITES.iter().find(|site| site.port == port);
            site.map(|site| site.kind(version, handshake))
        };
        let words: Vec<String> = SITES.iter().map(Row::word).collect();
        assert_eq!(words[4..], ["447", "448r", "449r", "450c", "451rc"]);
        for (port, version, handshake, expected) in [
            (443, "1.2", Handshake::Full, Kind::Full),
            (448, "1.2", Handshake::Full, Kind::Full),
            (448, "1.2", Handshake::Resumed, Kind::Identifier),
            (448, "1.3", Handshake::Resumed, Kind::Ticket),
            (449, "1.0", Handshake::Resumed, Kind::Ticket),
            (450, "1.2", Handshake::Full, Kind::Mutual),
            (451, "1.2", Handshake::Resumed, Kind::MutualTicket),
        ] {
            assert_eq!(kind(port, version, handshake), Some(expected), "{port}");
        }
    }
}
