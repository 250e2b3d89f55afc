//! The secret of a line, and its record keys.
//!
//! Is not: a key schedule; Finished and application keys cannot be had here.

use std::fmt;

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, MAX_KEY_LEN, RecordKey, Suite};
use zeroize::Zeroizing;

/// Length of the longest secret in bytes: SHA-384's.
const MAX_SECRET_LEN: usize = 48;

/// A handshake traffic secret of one end of a connection.
pub struct HandshakeSecret {
    direction: Direction,
    client_random: [u8; CLIENT_RANDOM_LEN],
    secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for HandshakeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeSecret")
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl HandshakeSecret {
    /// The secret in a line, without the line's end. `None` for a line about another secret, and
    /// for what is no line.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let direction = match words.next()? {
            b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => Direction::FromServer,
            b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Direction::FromClient,
            _ => return None,
        };
        let client_random = decode(words.next()?)?;
        let client_random = client_random.as_slice().try_into().ok()?;
        let secret = decode(words.next()?)?;
        let read = Self {
            direction,
            client_random,
            secret,
        };
        let is_one = words.next().is_none() && read.suites().next().is_some();
        is_one.then_some(read)
    }

    /// Whose records it protects.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The suites that the connection may use: those whose hash is as long as the secret (RFC 8446,
    /// section 7.1). A line does not say which of them it is.
    pub fn suites(&self) -> impl Iterator<Item = Suite> {
        let length = self.secret.len();
        let suites = Suite::ALL.into_iter();
        suites.filter(move |suite| hash_len(*suite) == length)
    }

    /// The record key and IV with this suite; `None` where no connection with it has this secret.
    #[must_use]
    pub fn record_key(&self, suite: Suite) -> Option<RecordKey> {
        if self.secret.len() != hash_len(suite) {
            return None;
        }
        let mut key = Zeroizing::new([0; MAX_KEY_LEN]);
        let key = &mut key[..suite.key_len()];
        let mut iv = Zeroizing::new([0; IV_LEN]);
        expand_label(suite, &self.secret, b"key", key)?;
        expand_label(suite, &self.secret, b"iv", &mut *iv)?;
        RecordKey::new(self.direction, suite, self.client_random, &iv, key).ok()
    }
}

/// Bytes from hexadecimal digits, [`MAX_SECRET_LEN`] at most.
fn decode(digits: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > MAX_SECRET_LEN {
        return None;
    }
    // All of it has room at once, so that no shorter copy is left behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET_LEN));
    for [high, low] in pairs {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
    }
    Some(bytes)
}

/// Length of the hash of a suite in bytes, which is that of its secrets.
const fn hash_len(suite: Suite) -> usize {
    match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => 32,
        Suite::Aes256Gcm => MAX_SECRET_LEN,
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let label = [b"tls13 ", label].concat();
    let mut info = u16::try_from(out.len()).ok()?.to_be_bytes().to_vec();
    info.push(u8::try_from(label.len()).ok()?);
    info.extend(label);
    info.push(0);
    match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => {
            let secret = Hkdf::<Sha256>::from_prk(secret).ok()?;
            secret.expand(&info, out).ok()
        }
        Suite::Aes256Gcm => {
            let secret = Hkdf::<Sha384>::from_prk(secret).ok()?;
            secret.expand(&info, out).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 8448, section 3.
    const RANDOM: &str = "cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7";
    const SERVER: &str = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";
    const CLIENT: &str = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21";

    fn line(label: &str, secret: &str) -> Vec<u8> {
        format!("{label} {RANDOM} {secret}").into_bytes()
    }

    fn server_line() -> Vec<u8> {
        line("SERVER_HANDSHAKE_TRAFFIC_SECRET", SERVER)
    }

    fn shown(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn key(line: &[u8], suite: Suite) -> Option<RecordKey> {
        HandshakeSecret::of_line(line)?.record_key(suite)
    }

    #[test]
    fn key_and_iv_are_those_of_the_rfc() {
        let server = key(&server_line(), Suite::Aes128Gcm).expect("its own");
        assert_eq!(server.direction(), Direction::FromServer);
        assert_eq!(shown(server.client_random()), RANDOM);
        assert_eq!(shown(server.key()), "3fce516009c21727d0f2e4e86ee403bc");
        assert_eq!(shown(server.iv()), "5d313eb2671276ee13000b30");
        let client = line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", CLIENT);
        let client = key(&client, Suite::Aes128Gcm).expect("its own");
        assert_eq!(client.direction(), Direction::FromClient);
        assert_eq!(shown(client.key()), "dbfaa693d1762c5b666af5d950258d01");
        assert_eq!(shown(client.iv()), "5bd3c71b836e0b76bb73265f");
    }

    #[test]
    fn the_length_of_a_secret_says_which_suites_it_may_be_of() {
        let suites = |secret: &str| {
            let line = line("SERVER_HANDSHAKE_TRAFFIC_SECRET", secret);
            let secret = HandshakeSecret::of_line(&line)?;
            Some(secret.suites().collect::<Vec<_>>())
        };
        let short = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305];
        assert_eq!(suites(SERVER), Some(short.to_vec()));
        let long = format!("{SERVER}{}", &SERVER[..32]);
        assert_eq!(suites(&long), Some(vec![Suite::Aes256Gcm]));
        assert_eq!(suites(&SERVER[2..]), None);
        assert!(key(&server_line(), Suite::Aes256Gcm).is_none());
    }

    #[test]
    fn digits_of_either_case_are_read() {
        let [label, random, secret] = ["SERVER_HANDSHAKE_TRAFFIC_SECRET", RANDOM, SERVER];
        let upper = [random, secret].map(str::to_ascii_uppercase).join(" ");
        let upper = key(format!("{label} {upper}").as_bytes(), Suite::Aes128Gcm);
        let lower = key(&server_line(), Suite::Aes128Gcm);
        let [upper, lower] = [upper, lower].map(|key| key.expect("a line").to_datagram().to_vec());
        assert_eq!(upper, lower);
    }

    #[test]
    fn no_other_secret_is_read() {
        for label in [
            "CLIENT_RANDOM",
            "CLIENT_EARLY_TRAFFIC_SECRET",
            "EARLY_EXPORTER_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
            "EXPORTER_SECRET",
            "ECH_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRETS",
            "",
        ] {
            assert!(
                HandshakeSecret::of_line(&line(label, SERVER)).is_none(),
                "{label}"
            );
        }
    }

    #[test]
    fn a_line_that_is_not_whole_or_has_more_is_none() {
        let line = server_line();
        for length in 0..line.len() {
            assert!(
                HandshakeSecret::of_line(&line[..length]).is_none(),
                "{length}"
            );
        }
        for end in [&b" "[..], b" 00", b"00", b"0", b"x", b"\n"] {
            let longer = [&line[..], end].concat();
            assert!(HandshakeSecret::of_line(&longer).is_none());
        }
    }

    #[test]
    fn debug_output_shows_no_byte_of_the_connection() {
        let secret = HandshakeSecret::of_line(&server_line()).expect("a line");
        let shown = format!("{secret:?}");
        assert_eq!(shown, "HandshakeSecret { direction: FromServer, .. }");
    }

    proptest! {
        #[test]
        fn no_line_panics(at in 0_usize..160, byte in any::<u8>()) {
            let mut line = server_line();
            if let Some(place) = line.get_mut(at) {
                *place = byte;
            }
            crate::fuzzing::key_log(&line);
        }
    }
}
