//! CII, the certificate intention indication (McVeety 2009, section 2.4.2): what a willing client
//! says in its hello of the chain that it may show later.
//!
//! Is: reading it, and the confirmation: which of its certificates are held, a bit each. Is not:
//! taken off; the server ignores an extension that it does not know, and both ends count it into
//! their transcript.
//!
//! ```text
//! CII   extension of the ClientHello: reference{1..32}, 16 bytes each, one for each certificate of the chain
//! ```
//!
//! Invariant: what is not exactly that is no intention.

use tandem_store::Store;
use tandem_wire::tls::{ClientHello, ExtensionType};

use tandem_delta::Reference;

/// The extension's number, unless another is configured: the thesis's, not assigned by IANA.
pub const EXTENSION: u16 = 0x009a;

/// Most certificates in one intention: a bit each in the confirmation.
pub const MAX_CERTIFICATES: usize = 32;

/// The certificates that a client may show, leaf first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intention(Vec<Reference>);

/// Which certificates of an intention are held at the other side: a bit each, the first in the
/// lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldBits(pub u32);

impl Intention {
    /// The intention in a ClientHello's body, in the extension of this number.
    pub fn of(hello: &[u8], extension: u16) -> Option<Self> {
        let hello = ClientHello::parse(hello).ok()?;
        let data = hello.extensions()?.find(ExtensionType(extension))?;
        let (references, rest) = data.as_chunks::<{ Reference::LEN }>();
        let valid = rest.is_empty() && (1..=MAX_CERTIFICATES).contains(&references.len());
        valid.then(|| Self(references.iter().copied().map(Reference).collect()))
    }

    /// Which of them `store` holds.
    pub fn held(&self, store: &mut impl Store) -> HeldBits {
        let held = |reference: &Reference| store.part_by_prefix(&reference.0).is_some();
        let bits = self.0.iter().map(held).enumerate();
        HeldBits(bits.fold(0, |bits, (index, held)| bits | u32::from(held) << index))
    }

    /// The certificates that these bits name.
    pub fn among(&self, held: HeldBits) -> Vec<Reference> {
        (0..)
            .zip(&self.0)
            .filter(|(index, _)| held.0 >> index & 1 == 1)
            .map(|(_, reference)| *reference)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{chain, hello_body, store};
    use tandem_store::{Digest, Site};

    fn extension(number: u16, data: &[u8]) -> Vec<u8> {
        let mut extension = number.to_be_bytes().to_vec();
        extension.extend((data.len() as u16).to_be_bytes());
        extension.extend(data);
        let mut block = (extension.len() as u16).to_be_bytes().to_vec();
        block.extend(extension);
        block
    }

    #[test]
    fn what_is_held_of_an_intention_comes_back_as_its_references() {
        let site = Site::Address(std::net::SocketAddr::from(([192, 0, 2, 1], 443)));
        let chain = chain(&[300, 400, 500]);
        let references: Vec<_> = chain.iter().map(|der| Digest::of(der).prefix16()).collect();
        let hello = hello_body(&extension(EXTENSION, references.as_flattened()));
        let intention = Intention::of(&hello, EXTENSION).expect("an intention");
        let mut held = store(&site, &[&chain[1..]]);
        assert_eq!(intention.held(&mut held), HeldBits(0b110));
        let among = intention.among(HeldBits(0b110));
        assert_eq!(among, [references[1], references[2]].map(Reference));
        assert_eq!(intention.among(HeldBits(!0)).len(), 3);
        assert_eq!(intention.among(HeldBits(0)), []);
    }

    #[test]
    fn what_is_not_exactly_a_list_of_references_is_no_intention() {
        for (number, data) in [
            (EXTENSION, vec![1; 15]),
            (EXTENSION, vec![1; 17]),
            (EXTENSION, vec![]),
            (EXTENSION, vec![1; 16 * (MAX_CERTIFICATES + 1)]),
            (EXTENSION + 1, vec![1; 16]),
        ] {
            let hello = hello_body(&extension(number, &data));
            assert_eq!(Intention::of(&hello, EXTENSION), None);
        }
        assert_eq!(Intention::of(&hello_body(&[]), EXTENSION), None);
        assert_eq!(Intention::of(b"no hello", EXTENSION), None);
        let most = hello_body(&extension(EXTENSION, &[1; 16 * MAX_CERTIFICATES]));
        assert!(Intention::of(&most, EXTENSION).is_some());
    }
}
