//! Phrases: byte sequences that nearly every TLS handshake contains, each sent as a frame of one
//! byte.
//!
//! Is: the headers around key exchange and Finished. They lie between fresh bytes, where a delta
//! would not pay for its check. Is not: a reading of TLS; a phrase means its bytes wherever they
//! stand.
//!
//! Invariants: the phrases belong to the version of the tunnel; each is longer than the frames that
//! set it apart.

/// The phrases, by number.
const PHRASES: [&[u8]; Phrase::COUNT as usize] = [
    // ChangeCipherSpec, and the header of Finished with AES-GCM (RFC 5288), ChaCha20-Poly1305 (RFC
    // 7905), AES-CBC with SHA-1 and with SHA-256 (RFC 5246).
    &[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40],
    &[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 32],
    &[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 64],
    &[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 80],
    // ClientKeyExchange up to the key: X25519, P-256 (RFC 8422), RSA with 2,048 bits (RFC 5246).
    &[22, 3, 3, 0, 37, 16, 0, 0, 33, 32],
    &[22, 3, 3, 0, 70, 16, 0, 0, 66, 65, 4],
    &[22, 3, 3, 1, 6, 16, 0, 1, 2, 1, 0],
    // ChangeCipherSpec in front of what TLS 1.3 encrypts (RFC 8446, appendix D.4).
    &[20, 3, 3, 0, 1, 1, 23, 3, 3],
];

/// Bytes of a record's type and version, with which each phrase begins.
const FRONT: usize = 3;

/// How far phrases are searched in what is sent at once: a handshake's flight is not longer.
const LOOKED_AT: usize = 1 << 12;

/// One of the phrases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Phrase(u8);

impl Phrase {
    /// How many there are.
    pub const COUNT: u8 = 8;

    /// The phrase of this number.
    pub fn new(number: u8) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// What it stands for.
    pub fn bytes(self) -> &'static [u8] {
        PHRASES[usize::from(self.0)]
    }

    /// The first phrase in these bytes, and where it begins.
    pub fn first_in(bytes: &[u8]) -> Option<(usize, Self)> {
        let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
        let fronts = bytes.windows(FRONT).enumerate();
        let mut fronts = fronts.filter(|(_, front)| matches!(front, [20 | 22, 3, 3]));
        fronts.find_map(|(at, _)| {
            let begins = |phrase: &Self| bytes[at..].starts_with(phrase.bytes());
            let phrase = (0..Self::COUNT).map(Self).find(begins)?;
            Some((at, phrase))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phrase_is_found_where_it_begins_and_is_worth_its_frames() {
        for number in 0..Phrase::COUNT {
            let phrase = Phrase::new(number).expect("there is one");
            assert_eq!(phrase.number(), number);
            // A frame of its own, and one for what stands before it.
            assert!(phrase.bytes().len() > 1 + 4);
            let said = [&[3, 3, 20][..], phrase.bytes(), phrase.bytes()].concat();
            assert_eq!(Phrase::first_in(&said), Some((3, phrase)));
            assert_eq!(Phrase::first_in(&said[..phrase.bytes().len() + 2]), None);
        }
        assert_eq!(Phrase::new(Phrase::COUNT), None);
        assert_eq!(Phrase::first_in(&[]), None);
    }

    #[test]
    fn phrases_far_behind_are_not_looked_for() {
        let phrase = Phrase(0);
        let at = |at: usize| Phrase::first_in(&[&vec![0; at][..], phrase.bytes()].concat());
        let last = LOOKED_AT - phrase.bytes().len();
        assert_eq!(at(last), Some((last, phrase)));
        assert_eq!(at(last + 1), None);
    }
}
