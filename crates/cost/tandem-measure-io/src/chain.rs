//! What the certificates say that a server sends.
//!
//! Is not: whether they are to be trusted.

use tandem_measure::CertificateFacts;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Of certificates in DER, in their order. What cannot be read has its size alone.
pub(crate) fn facts(chain: &[Vec<u8>]) -> Vec<CertificateFacts> {
    chain.iter().map(|der| of_one(der)).collect()
}

fn of_one(der: &[u8]) -> CertificateFacts {
    let parsed = X509Certificate::from_der(der).ok();
    let text = |of: fn(&X509Certificate<'_>) -> String| {
        parsed
            .as_ref()
            .map_or_else(String::new, |(_, certificate)| of(certificate))
    };
    CertificateFacts {
        bytes: der.len(),
        subject: text(|certificate| certificate.subject().to_string()),
        issuer: text(|certificate| certificate.issuer().to_string()),
        key: text(key),
    }
}

/// The kind of key, with its size in bits.
fn key(certificate: &X509Certificate<'_>) -> String {
    let key = certificate.public_key();
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => format!("RSA-{}", rsa.key_size()),
        // 521 bits are 66 bytes.
        Ok(PublicKey::EC(point)) => format!("P-{}", point.key_size().min(521)),
        Ok(_) | Err(_) => key.algorithm.algorithm.to_id_string(),
    }
}
