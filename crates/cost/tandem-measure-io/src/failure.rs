//! Which error of the system or of the TLS library is which kind of failure.

use std::io;

use nix::errno::Errno;
use rustls::{AlertDescription, CertificateError};
use tandem_measure::Fault;

/// A failure of one connection or request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its kind.
    pub(crate) fault: Fault,
    /// In the words of where it comes from; empty where the kind says all.
    pub(crate) detail: String,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            detail: String::new(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self {
            fault: of_system(&error),
            detail: error.to_string(),
        }
    }
}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Self {
        Self {
            fault: of_tls(&error),
            detail: error.to_string(),
        }
    }
}

fn of_system(error: &io::Error) -> Fault {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => Fault::Refused,
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EHOSTDOWN | Errno::ENETDOWN) => {
            Fault::Unreachable
        }
        Some(Errno::ETIMEDOUT) => Fault::ConnectTimedOut,
        Some(Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED) => Fault::Reset,
        Some(Errno::EMFILE | Errno::ENFILE) => Fault::NoDescriptors,
        Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => Fault::NoPorts,
        Some(_) | None => Fault::System,
    }
}

fn of_tls(error: &rustls::Error) -> Fault {
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Fault::Expired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Fault::WrongName
            }
            CertificateError::UnknownIssuer => Fault::Untrusted,
            _ => Fault::Certificate,
        },
        // RFC 8446, section 6.2: what a server answers that cannot agree.
        rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity,
        )
        | rustls::Error::PeerIncompatible(_) => Fault::NothingInCommon,
        // RFC 8446, section 6.2: what a server answers to a certificate of the client, or to none.
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => Fault::ClientCertificate,
        _ => Fault::Tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_has_its_kind() {
        for (errno, fault) in [
            (Errno::ECONNREFUSED, Fault::Refused),
            (Errno::EHOSTUNREACH, Fault::Unreachable),
            (Errno::ECONNRESET, Fault::Reset),
            (Errno::EPIPE, Fault::Reset),
            (Errno::EMFILE, Fault::NoDescriptors),
            (Errno::EADDRNOTAVAIL, Fault::NoPorts),
            (Errno::ENOMEM, Fault::System),
        ] {
            assert_eq!(of_system(&errno.into()), fault, "{errno}");
        }
    }

    #[test]
    fn an_error_of_tls_has_its_kind() {
        let certificate = rustls::Error::InvalidCertificate;
        for (error, fault) in [
            (certificate(CertificateError::Expired), Fault::Expired),
            (
                certificate(CertificateError::NotValidForName),
                Fault::WrongName,
            ),
            (
                certificate(CertificateError::UnknownIssuer),
                Fault::Untrusted,
            ),
            (certificate(CertificateError::Revoked), Fault::Certificate),
            (
                rustls::Error::AlertReceived(AlertDescription::ProtocolVersion),
                Fault::NothingInCommon,
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                Fault::ClientCertificate,
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::InternalError),
                Fault::Tls,
            ),
        ] {
            assert_eq!(of_tls(&error), fault, "{error}");
        }
    }
}
