//! The key that signs the zone: one ECDSA P-256 key (algorithm 13) for records and keys alike,
//! which every registrar takes.
//!
//! Is: its file (PKCS#8 in PEM, 0600), its DNSKEY and DS records, and the form in which PowerDNS
//! wants it. Is not: a change of keys (`keys`).

use std::path::Path;

use hickory_proto::dnssec::crypto::EcdsaSigningKey;
use hickory_proto::dnssec::rdata::{CDNSKEY, CDS, DNSKEY, DNSSECRData, DS, RRSIG, SigInput};
use hickory_proto::dnssec::{Algorithm, DigestType, PublicKey as _, SigningKey, TBS};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType, SerialNumber};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::error::DnsError;
use crate::file;

/// Zone key and secure entry point: the one key is both (RFC 4034, section 2.1.1).
pub(crate) const FLAGS: u16 = 257;

const ALGORITHM: Algorithm = Algorithm::ECDSAP256SHA256;

/// Where the secret number stands in the PKCS#8 form of a P-256 key (RFC 5915 in RFC 5208), if it
/// begins so.
const SCALAR_AT: usize = 36;
const PKCS8_HEAD: [u8; 10] = [0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07];

/// From when until when signatures count, in seconds of Unix time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validity {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// The key.
pub(crate) struct ZoneKey {
    signing: EcdsaSigningKey,
    dnskey: DNSKEY,
    tag: u16,
    scalar: Vec<u8>,
}

impl std::fmt::Debug for ZoneKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZoneKey({})", self.tag)
    }
}

impl ZoneKey {
    /// The key in a file, which is made if it is missing.
    pub(crate) fn kept_in(path: &Path) -> Result<Self, DnsError> {
        let pem = match file::read_secret(path)? {
            Some(pem) => pem,
            None => {
                let pem = pem(EcdsaSigningKey::generate_pkcs8(ALGORITHM)
                    .map_err(DnsError::library)?
                    .secret_pkcs8_der());
                file::write_secret(path, pem.as_bytes())?;
                tracing::info!(path = %path.display(), "a new key signs the zone");
                pem.into_bytes()
            }
        };
        Self::parse(&pem, path)
    }

    /// The key that a file has, or is to have.
    pub(crate) fn parse(pem: &[u8], path: &Path) -> Result<Self, DnsError> {
        let wrong = || {
            DnsError::content(
                path,
                "is no PKCS#8 key of ECDSA P-256 in PEM; move it away, and a new one is made",
            )
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| wrong())?;
        let der = key.secret_pkcs8_der();
        let scalar = der
            .get(SCALAR_AT..SCALAR_AT + 32)
            .filter(|_| der.starts_with(&PKCS8_HEAD))
            .ok_or_else(wrong)?
            .to_vec();
        let signing = EcdsaSigningKey::from_pkcs8(&key, ALGORITHM).map_err(|_| wrong())?;
        let public = signing.to_public_key().map_err(DnsError::library)?;
        let dnskey = DNSKEY::with_flags(FLAGS, public);
        let tag = dnskey.calculate_key_tag().map_err(DnsError::library)?;
        Ok(Self {
            signing,
            dnskey,
            tag,
            scalar,
        })
    }

    /// Its record.
    pub(crate) fn dnskey(&self) -> DNSKEY {
        self.dnskey.clone()
    }

    /// Its tag (RFC 4034, appendix B).
    pub(crate) fn tag(&self) -> u16 {
        self.tag
    }

    fn digest(&self, zone: &Name) -> Result<Vec<u8>, DnsError> {
        let digest = self.dnskey.to_digest(zone, DigestType::SHA256);
        Ok(digest.map_err(DnsError::library)?.as_ref().to_vec())
    }

    /// What the zone's parent has to say of it, as a line of a zone file (RFC 4034, section 5;
    /// SHA-256, RFC 4509).
    pub(crate) fn ds(&self, zone: &Name) -> Result<String, DnsError> {
        let digest = data_encoding::HEXUPPER.encode(&self.digest(zone)?);
        let number = u8::from(ALGORITHM);
        Ok(format!("{zone} IN DS {} {number} 2 {digest}", self.tag))
    }

    /// Whether this record of the zone's parent is about it.
    pub(crate) fn is_named_by(&self, ds: &DS, zone: &Name) -> bool {
        let is_same = self.digest(zone).is_ok_and(|digest| digest == ds.digest());
        is_same && ds.key_tag() == self.tag && ds.digest_type() == DigestType::SHA256
    }

    /// The wish that the zone's parent say it (RFC 7344, section 3.1),
    pub(crate) fn cds(&self, zone: &Name) -> Result<CDS, DnsError> {
        let digest = self.digest(zone)?;
        Ok(CDS::new(
            self.tag,
            Some(ALGORITHM),
            DigestType::SHA256,
            digest,
        ))
    }

    /// and the same for a parent that makes the digest itself (section 3.2).
    pub(crate) fn cdnskey(&self) -> CDNSKEY {
        let public = self.dnskey.public_key().public_bytes().to_vec();
        CDNSKEY::with_flags(FLAGS, Some(ALGORITHM), public)
    }

    /// The signature of a set of records (RFC 4034, section 3): all of one name, type and time to
    /// live.
    pub(crate) fn sign(
        &self,
        zone: &Name,
        records: &[Record],
        validity: Validity,
    ) -> Result<Record, DnsError> {
        let first = records
            .first()
            .ok_or_else(|| DnsError::library("a set without records"))?;
        let kind = first.record_type();
        // Times are numbers modulo 2^32, as RFC 4034, section 3.1.5 has them.
        let input = SigInput {
            type_covered: kind,
            algorithm: ALGORITHM,
            num_labels: first.name.num_labels(),
            original_ttl: first.ttl,
            sig_expiration: SerialNumber::new(validity.until as u32),
            sig_inception: SerialNumber::new(validity.from as u32),
            key_tag: self.tag,
            signer_name: zone.clone(),
        };
        let bytes = TBS::from_input(&first.name, DNSClass::IN, &input, records.iter())
            .map_err(DnsError::library)?;
        let signature = self.signing.sign(&bytes).map_err(DnsError::library)?;
        let data = DNSSECRData::RRSIG(RRSIG::from_sig(input, signature));
        debug_assert_ne!(kind, RecordType::RRSIG);
        Ok(Record::from_rdata(
            first.name.clone(),
            first.ttl,
            RData::DNSSEC(data),
        ))
    }

    /// The key in the form of BIND's key files, which PowerDNS reads.
    pub(crate) fn private_text(&self) -> String {
        let secret = data_encoding::BASE64.encode(&self.scalar);
        format!("Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: {secret}\n")
    }
}

fn pem(der: &[u8]) -> String {
    let text = data_encoding::BASE64.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use hickory_proto::dnssec::Verifier as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_stays_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zone.key");
        let zone = Name::from_ascii("www.example.org.").expect("a name");
        let ds = ZoneKey::kept_in(&path)
            .expect("made")
            .ds(&zone)
            .expect("a digest");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = ZoneKey::kept_in(&path)
            .expect("read")
            .ds(&zone)
            .expect("a digest");
        assert_eq!(ds, again);
        assert!(ds.starts_with("www.example.org. IN DS "), "{ds}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("own file");
        assert!(
            ZoneKey::kept_in(&path).is_err(),
            "a key that others may read is refused"
        );
    }

    #[test]
    fn a_signature_says_what_it_covers_and_for_how_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = ZoneKey::kept_in(&folder.path().join("zone.key")).expect("made");
        let zone = Name::from_ascii("example.org.").expect("a name");
        let name = Name::from_ascii("www.example.org.").expect("a name");
        let address = RData::A(std::net::Ipv4Addr::new(192, 0, 2, 1).into());
        let records = [Record::from_rdata(name.clone(), 300, address)];
        let validity = Validity {
            from: 1_800_000_000,
            until: 1_800_100_000,
        };
        let signature = key.sign(&zone, &records, validity).expect("signed");
        let RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) = &signature.data else {
            panic!("{signature} is no signature");
        };
        key.dnskey()
            .verify_rrsig(&name, DNSClass::IN, rrsig, records.iter())
            .expect("it verifies");
        assert_eq!(rrsig.input().signer_name, zone);
        assert_eq!(rrsig.input().type_covered, RecordType::A);
        // A resolver keeps a record no longer than its original TTL, nor than its signature counts
        // (RFC 4035, section 5.3.3); outside the validity it takes nothing.
        let kept = |now| rrsig.authenticated_ttl(&records[0], now);
        assert_eq!(kept(1_800_000_000), 300);
        assert_eq!(kept(1_800_100_000 - 100), 100);
        assert_eq!(
            rrsig.input().sig_inception,
            SerialNumber::new(1_800_000_000)
        );
        assert_eq!(
            rrsig.input().sig_expiration,
            SerialNumber::new(1_800_100_000)
        );
    }

    #[test]
    fn a_file_that_is_no_such_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zone.key");
        for wrong in ["", "a key", &pem(&[0x30; 138])] {
            let _ = std::fs::remove_file(&path);
            file::write_secret(&path, wrong.as_bytes()).expect("written");
            assert!(ZoneKey::kept_in(&path).is_err());
            assert_eq!(std::fs::read(&path).expect("kept"), wrong.as_bytes());
        }
    }
}
