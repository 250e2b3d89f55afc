//! What can go wrong with one connection or request, as the result counts it, and what to do.
//!
//! Is not: which error of the system or of TLS is which; that is where they occur.

use serde::Serialize;

/// Why a connection or a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nobody listens.
    Refused,
    /// No way there.
    Unreachable,
    /// No TCP connection in time.
    ConnectTimedOut,
    /// No end of the handshake in time.
    HandshakeTimedOut,
    /// No end of the answer in time.
    AnswerTimedOut,
    /// The other side reset the connection.
    Reset,
    /// The other side closed before the handshake was done.
    ClosedInHandshake,
    /// The other side closed before the answer was complete.
    ClosedInAnswer,
    /// We have no descriptor left.
    NoDescriptors,
    /// We have no port left.
    NoPorts,
    /// The certificate is for another name.
    WrongName,
    /// The certificate has expired, or is not valid yet.
    Expired,
    /// The certificate's issuer is not trusted.
    Untrusted,
    /// Something else is wrong with the certificate.
    Certificate,
    /// The server has no TLS version, suite or group in common with us.
    NothingInCommon,
    /// The server wants a certificate of the client, or not this one.
    ClientCertificate,
    /// The server ended the handshake with another alert, or broke the protocol.
    Tls,
    /// The answer is no HTTP/1.
    NotHttp,
    /// An answer with a status of 400 to 499.
    Status4xx,
    /// An answer with a status of 500 or above.
    Status5xx,
    /// Another failure of the system.
    System,
}

impl Fault {
    /// Whether the time that was waited is a lower bound of the latency.
    #[must_use]
    pub fn is_time_out(self) -> bool {
        match self {
            Self::ConnectTimedOut | Self::HandshakeTimedOut | Self::AnswerTimedOut => true,
            Self::Refused
            | Self::Unreachable
            | Self::Reset
            | Self::ClosedInHandshake
            | Self::ClosedInAnswer
            | Self::NoDescriptors
            | Self::NoPorts
            | Self::WrongName
            | Self::Expired
            | Self::Untrusted
            | Self::Certificate
            | Self::NothingInCommon
            | Self::ClientCertificate
            | Self::Tls
            | Self::NotHttp
            | Self::Status4xx
            | Self::Status5xx
            | Self::System => false,
        }
    }

    /// A line for the result: what happened; what to do.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Refused => "connection refused; start the server, or correct the port",
            Self::Unreachable => "no route to the server; check its address and the network",
            Self::ConnectTimedOut => {
                "no connection in time; the server's queue of connections is full, or a firewall \
                 drops packets"
            }
            Self::HandshakeTimedOut => {
                "no handshake in time; the server is overloaded, or its port is not one of TLS"
            }
            Self::AnswerTimedOut => "no whole answer in time; the server is overloaded",
            Self::Reset => "connection reset by the server; its log says why",
            Self::ClosedInHandshake => {
                "closed by the server during the handshake; its log says why"
            }
            Self::ClosedInAnswer => "closed by the server within an answer; its log says why",
            Self::NoDescriptors => {
                "this side has no descriptors left; raise them (ulimit -n), or use fewer \
                 connections or a lower rate"
            }
            Self::NoPorts => {
                "this side has no ports left; widen net.ipv4.ip_local_port_range, or use a lower \
                 rate or more machines"
            }
            Self::WrongName => {
                "the certificate is not for the name in the URL; use a name that is in it"
            }
            Self::Expired => "the certificate has expired, or is not valid yet; renew it",
            Self::Untrusted => {
                "the certificate's issuer is not trusted, or the server does not send it; give \
                 the issuer with --ca, or measure without trust by --insecure"
            }
            Self::Certificate => {
                "the certificate is not valid for a server; replace it, or measure without trust \
                 by --insecure"
            }
            Self::NothingInCommon => {
                "the server has no TLS version, cipher suite or group in common with this \
                 client; leave out --tls, --group and --cipher, or choose others; a server of TLS \
                 1.2 that wants a client certificate says the same"
            }
            Self::ClientCertificate => {
                "the server wants a client certificate, or another one; give one that it trusts with \
                 --client-cert and --client-key"
            }
            Self::Tls => {
                "the server ended the handshake with an alert or broke TLS; its log says why"
            }
            Self::NotHttp => "the answer is not HTTP/1",
            Self::Status4xx => "answers with a status of 400 to 499; check the path in the URL",
            Self::Status5xx => "answers with a status of 500 or above; the server's log says why",
            Self::System => "a failure of this side's system",
        }
    }
}
