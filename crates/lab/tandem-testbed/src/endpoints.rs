//! What stands at the two ends of an experiment: which programs, which TLS, which certificates.
//!
//! Plain data, as an experiment file says it, and the named cases of the lab. How programs are run
//! is in `server` and `client`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::openssl::Openssl;
use crate::pki::{ChainSpec, KeyKind};
use crate::topology::Family;
use tandem_report::arm::Arm;

/// A server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ServerProgram {
    /// nginx. The default: it serves any number of connections at once.
    #[default]
    Nginx,
    /// `openssl s_server`. One connection at a time.
    SServer,
    /// The lab's example on rustls, which can compress certificates.
    Rustls,
}

/// A client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProgram {
    /// curl.
    Curl,
    /// `openssl s_client`.
    SClient,
    /// `gnutls-cli`.
    #[serde(rename = "gnutls-cli")]
    GnutlsCli,
    /// The lab's example on rustls.
    Rustls,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    /// TLS 1.0; OpenSSL needs security level 0 for it.
    #[serde(rename = "1.0")]
    Tls10,
    /// TLS 1.1; likewise.
    #[serde(rename = "1.1")]
    Tls11,
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

impl Version {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Tls10 => "1.0",
            Version::Tls11 => "1.1",
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        }
    }

    /// Whether OpenSSL speaks it only at security level 0.
    pub fn is_legacy(self) -> bool {
        match self {
            Version::Tls10 | Version::Tls11 => true,
            Version::Tls12 | Version::Tls13 => false,
        }
    }
}

/// What a client's hello offers. The server accepts the one version of the experiment only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// What the program offers when left alone.
    #[default]
    Default,
    /// The version of the experiment and no other, which makes a smaller hello.
    Only,
}

/// The two ends of an experiment. In a file, `name`, `client`, `version`, `key` and `chain` must be
/// said.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Endpoints {
    /// What rows and tables call it.
    pub name: String,
    /// Default: nginx.
    #[serde(default)]
    pub server: ServerProgram,
    /// The client's program.
    pub client: ClientProgram,
    /// What is spoken.
    pub version: Version,
    /// What the client offers. Default: what it offers by itself.
    #[serde(default)]
    pub offer: Offer,
    /// Of all keys of the chain.
    pub key: KeyKind,
    /// Certificates that the server sends, 1 to 3.
    pub chain: u8,
    /// The leaf's size, bytes of DER. Default: as it comes.
    #[serde(default)]
    pub leaf_bytes: Option<usize>,
    /// Each issuer's size, bytes of DER. Default: as it comes.
    #[serde(default)]
    pub issuer_bytes: Option<usize>,
    /// The server's cipher suites, in OpenSSL's words. Default: the program's own.
    #[serde(default)]
    pub suites: Option<String>,
    /// Which OpenSSL the ends are, where they are OpenSSL's own programs. Default: the system's.
    #[serde(default)]
    pub openssl: Openssl,
    /// The groups that both ends are told for the key exchange, in OpenSSL's words. Only OpenSSL's
    /// own programs are. Default: the program's own.
    #[serde(default)]
    pub groups: Option<String>,
    /// Whether addresses are IPv6. Default: IPv4.
    #[serde(default)]
    pub family: FamilyName,
    /// Whether the client names the server in its hello. Default: it does.
    #[serde(default)]
    pub server_name: ServerName,
    /// Certificates that the client shows, 1 to 3, and the server insists on. Default: 0, it shows
    /// none and is not asked.
    #[serde(default)]
    pub client_chain: u8,
    /// Clients that come one after the other, each with a certificate of its own (`client-chain =
    /// 1`), of elliptic keys. Default: 0, the same one in every trial.
    #[serde(default)]
    pub clients: usize,
    /// The client's leaf's size, bytes of DER. Default: as it comes.
    #[serde(default)]
    pub client_leaf_bytes: Option<usize>,
    /// The size of each issuer that the client sends, bytes of DER. Default: as it comes.
    #[serde(default)]
    pub client_issuer_bytes: Option<usize>,
    /// How long the ends' TCP waits for an acknowledgement before it repeats anything,
    /// milliseconds, and does not probe before. Default: as the system does, which on a busy
    /// machine repeats what is only late.
    #[serde(default)]
    pub repeat_after_ms: Option<u32>,
    /// The arms of the experiment that these ends take part in. Default: all of them.
    #[serde(default)]
    pub arms: Vec<Arm>,
    /// Whether sessions are resumed: an arm says it.
    #[serde(skip)]
    pub sessions: Sessions,
    /// How certificates are sent: an arm says it.
    #[serde(skip)]
    pub certificates: Certificates,
    /// Where an end releases its handshake keys, if one does: an arm says it.
    #[serde(skip)]
    pub release: Option<KeyRelease>,
}

/// How a program releases its handshake keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRelease {
    /// Who releases them.
    pub by: Releases,
    /// The library that is loaded into it.
    pub library: PathBuf,
    /// The UNIX socket that they go to.
    pub socket: PathBuf,
}

/// What a program has in its environment to release its handshake keys: this library, and the UNIX
/// socket that they go to.
pub fn releasing<P>(library: P, socket: P) -> [(&'static str, P); 2] {
    [("LD_PRELOAD", library), ("TANDEM_KEYTAP_SOCKET", socket)]
}

/// Who releases handshake keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Releases {
    /// The server.
    Server,
    /// The client.
    Client,
}

/// What server and client keep of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sessions {
    /// Nothing: every handshake is a full one.
    #[default]
    None,
    /// The client keeps a ticket (RFC 5077).
    Tickets,
    /// The server keeps the session, the client its identifier.
    Identifiers,
}

/// How a server sends its certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Certificates {
    /// As they are.
    #[default]
    Whole,
    /// Compressed with Brotli (RFC 8879), to clients that say that they can undo it.
    Compressed,
}

/// Whether a client's hello has the server's name (RFC 6066, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum ServerName {
    /// It has. The default.
    #[default]
    Sent,
    /// It has not. Only `s_client` can do without.
    Withheld,
}

/// A family of addresses, as a file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum FamilyName {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl FamilyName {
    /// For the topology.
    pub fn family(self) -> Family {
        match self {
            FamilyName::Ipv4 => Family::V4,
            FamilyName::Ipv6 => Family::V6,
        }
    }
}

impl Endpoints {
    /// What a program at this end has in its environment to release its keys.
    pub(crate) fn released_by(&self, end: Releases) -> Vec<(&'static str, &Path)> {
        match &self.release {
            Some(KeyRelease {
                by,
                library,
                socket,
            }) if *by == end => releasing(library.as_path(), socket.as_path()).to_vec(),
            Some(_) | None => Vec::new(),
        }
    }

    /// The case *one*: the TLS-1.2-only hello of `s_client`, an RSA-2048 leaf of 926 bytes alone,
    /// no tickets. 926 bytes is the leaf of the thesis.
    pub fn one() -> Self {
        Self {
            name: "one".to_owned(),
            server: ServerProgram::Nginx,
            client: ClientProgram::SClient,
            version: Version::Tls12,
            offer: Offer::Only,
            key: KeyKind::Rsa2048,
            chain: 1,
            leaf_bytes: Some(926),
            issuer_bytes: None,
            suites: None,
            openssl: Openssl::System,
            groups: None,
            family: FamilyName::Ipv4,
            server_name: ServerName::Sent,
            client_chain: 0,
            clients: 0,
            client_leaf_bytes: None,
            client_issuer_bytes: None,
            repeat_after_ms: None,
            arms: Vec::new(),
            sessions: Sessions::None,
            certificates: Certificates::Whole,
            release: None,
        }
    }

    /// The case *three*: as *one*, with two issuers of about 900 bytes.
    pub fn three() -> Self {
        Self {
            name: "three".to_owned(),
            chain: 3,
            issuer_bytes: Some(900),
            ..Self::one()
        }
    }

    /// The case *curl*: as *three*, with curl's default hello.
    pub fn curl() -> Self {
        Self {
            name: "curl".to_owned(),
            client: ClientProgram::Curl,
            offer: Offer::Default,
            ..Self::three()
        }
    }

    /// The named case.
    ///
    /// # Errors
    /// `Usage` for a name that is none.
    pub fn case(name: &str) -> Result<Self, LabError> {
        match name {
            "one" => Ok(Self::one()),
            "three" => Ok(Self::three()),
            "curl" => Ok(Self::curl()),
            _ => Err(LabError::usage(
                format!("endpoints {name}"),
                "is neither a case (one, three, curl) nor an [[endpoint]] of the file",
            )),
        }
    }

    /// The chain that the server has.
    pub fn chain_spec(&self) -> ChainSpec {
        ChainSpec {
            key: self.key,
            length: self.chain,
            leaf_bytes: self.leaf_bytes,
            issuer_bytes: self.issuer_bytes,
        }
    }

    /// The chain that the client has; `None` where it has none.
    pub fn client_chain_spec(&self) -> Option<ChainSpec> {
        (self.client_chain > 0).then_some(ChainSpec {
            key: self.key,
            length: self.client_chain,
            leaf_bytes: self.client_leaf_bytes,
            issuer_bytes: self.client_issuer_bytes,
        })
    }
}
