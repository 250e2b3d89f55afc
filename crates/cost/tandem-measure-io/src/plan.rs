//! What is to be measured, and how.

use std::path::PathBuf;
use std::time::Duration;

use tandem_measure::{Asked, Load, Mix};

use crate::error::MeasureError;
use crate::offers::{Group, Offers};
use crate::target::Target;

/// A TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}

impl TlsVersion {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        }
    }
}

/// By which means sessions are resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// Whichever the server gives.
    Any,
    /// Session identifiers of TLS 1.2: tickets are not asked for.
    Id,
    /// Tickets of TLS 1.2; by an identifier where the server gives none.
    Ticket,
    /// Pre-shared keys of TLS 1.3, with a new key agreement.
    Psk,
    /// The same, and the first request goes with the hello.
    ZeroRtt,
    /// No means: nothing is kept, nothing is asked for.
    None,
}

impl Resumption {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Id => "id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
            Self::ZeroRtt => "0rtt",
            Self::None => "none",
        }
    }

    /// The TLS version that it belongs to.
    fn version(self) -> Option<TlsVersion> {
        match self {
            Self::Id | Self::Ticket => Some(TlsVersion::V12),
            Self::Psk | Self::ZeroRtt => Some(TlsVersion::V13),
            Self::Any | Self::None => None,
        }
    }
}

/// Whose certificates are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the system's issuers.
    System,
    /// Those of the issuers in this file of PEM.
    File(PathBuf),
    /// Anybody's. Signatures are checked all the same, for the sake of what they cost.
    Anybody,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is measured.
    pub target: Target,
    /// How connections are made.
    pub load: Load,
    /// How long it is measured once the state is steady.
    pub duration: Duration,
    /// How long a connection and its first request, or a later request, may take.
    pub timeout: Duration,
    /// The only TLS version; both if there is none.
    pub tls: Option<TlsVersion>,
    /// By which means sessions are resumed.
    pub resumption: Resumption,
    /// What each connection offers.
    pub offers: Offers,
    /// What is asked for.
    pub mix: Mix,
    /// The mix as it was given.
    pub mix_name: String,
    /// Requests on a connection; none means as many as the server allows.
    pub keep_alive: Option<u32>,
    /// Of arrivals and requests.
    pub seed: u64,
    /// Whose certificates are taken.
    pub trust: Trust,
}

impl Plan {
    /// The versions to offer.
    ///
    /// # Errors
    /// `Options`: the means of resumption, or the group, belongs to the other version; there is no
    /// TLS.
    pub(crate) fn version(&self) -> Result<Option<TlsVersion>, MeasureError> {
        if self.target.name.is_none() && !self.offers.is_default() {
            return Err(MeasureError::Options(
                "--group, --cipher and --client-cert need a URL with https://",
            ));
        }
        let version = self.version_of_resumption()?;
        let is_in_tls12 = self.offers.group.is_none_or(Group::is_in_tls12);
        match version {
            Some(TlsVersion::V12) if !is_in_tls12 => Err(MeasureError::Options(
                "--group X25519MLKEM768 is of TLS 1.3; leave out TLS 1.2",
            )),
            _ => Ok(version),
        }
    }

    /// What the result says of it.
    pub(crate) fn asked(&self) -> Asked {
        let offers = &self.offers;
        Asked {
            tls: self.tls.map(|version| version.name().to_owned()),
            group: offers.group.map(|group| group.name().to_owned()),
            cipher: offers.cipher.map(|cipher| cipher.name().to_owned()),
            client_certificate: offers.identity.is_some(),
        }
    }

    fn version_of_resumption(&self) -> Result<Option<TlsVersion>, MeasureError> {
        match (self.tls, self.resumption.version()) {
            (Some(TlsVersion::V12), Some(TlsVersion::V13)) => Err(MeasureError::Options(
                "--resumption psk and 0rtt are of TLS 1.3; leave out --tls 1.2",
            )),
            (Some(TlsVersion::V13), Some(TlsVersion::V12)) => Err(MeasureError::Options(
                "--resumption id and ticket are of TLS 1.2; leave out --tls 1.3",
            )),
            (asked, needed) => match asked.or(needed) {
                Some(_) if self.target.name.is_none() => Err(MeasureError::Options(
                    "--tls and --resumption need a URL with https://",
                )),
                version => Ok(version),
            },
        }
    }
}
