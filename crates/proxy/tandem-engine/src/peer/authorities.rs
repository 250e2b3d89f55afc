//! Certificates of authorities that a proxy has been given, each by its number: what both proxies
//! hold before the first handshake.
//!
//! Is not: trust in any of them, or where they come from. Invariant: the same certificates have the
//! same numbers and the same name, in whatever order they were given.

use std::sync::Arc;

use tandem_store::{Digest, ObjectId};

/// Certificates of authorities, in the order of their digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    id: ObjectId,
    certificates: Vec<(Digest, Arc<[u8]>)>,
}

impl Authorities {
    /// These certificates, DER; `None` where there are none.
    pub fn new(certificates: impl IntoIterator<Item = Vec<u8>>) -> Option<Self> {
        let named = |der: Vec<u8>| (Digest::of(&der), Arc::from(der));
        let mut certificates: Vec<(Digest, Arc<[u8]>)> =
            certificates.into_iter().map(named).collect();
        certificates.sort_by_key(|(digest, _)| *digest);
        certificates.dedup_by_key(|(digest, _)| *digest);
        let digests: Vec<&[u8]> = certificates
            .iter()
            .map(|(digest, _)| digest.as_bytes().as_slice())
            .collect();
        let id = ObjectId::of(&digests);
        (!certificates.is_empty()).then_some(Self { id, certificates })
    }

    /// What they are called, all together.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.certificates.len()
    }

    /// The number of this certificate, counted from 0, and itself as it is held.
    pub(crate) fn find(&self, der: &[u8]) -> Option<(u32, &Arc<[u8]>)> {
        let digest = Digest::of(der);
        let found = self.certificates.binary_search_by_key(&digest, |it| it.0);
        let index = found.ok()?;
        let (_, certificate) = self.certificates.get(index)?;
        Some((u32::try_from(index).ok()?, certificate))
    }

    /// The certificate of this number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Arc<[u8]>> {
        let index = usize::try_from(number).ok()?;
        self.certificates.get(index).map(|(_, der)| der)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorities(ders: &[&[u8]]) -> Option<Authorities> {
        Authorities::new(ders.iter().map(|der| der.to_vec()))
    }

    #[test]
    fn the_same_certificates_are_the_same_set_in_any_order_and_given_twice() {
        let ders: [&[u8]; 3] = [b"one", b"two", b"three"];
        let set = authorities(&ders).expect("some");
        assert_eq!(
            authorities(&[b"three", b"one", b"two", b"one"]),
            Some(set.clone())
        );
        assert_eq!(set.count(), 3);
        let other = authorities(&ders[..2]).expect("some");
        assert_ne!(other.id(), set.id());
        assert_eq!(authorities(&[]), None);
    }

    #[test]
    fn each_certificate_is_found_by_its_number() {
        let ders: [&[u8]; 3] = [b"one", b"two", b"three"];
        let set = authorities(&ders).expect("some");
        for der in ders {
            let (number, held) = set.find(der).expect("it is there");
            assert_eq!(&**held, der);
            assert_eq!(set.numbered(number), Some(held));
        }
        assert_eq!(set.find(b"another"), None);
        assert_eq!(set.numbered(3), None);
    }
}
