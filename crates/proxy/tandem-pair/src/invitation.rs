//! The invitation as text: what the client side needs to fetch the key, once.
//!
//! ```text
//! tandem1:gw.example.net:4433/DATA
//!
//!   0              32           48        52       56
//! +--------------+-------------+---------+--------+
//! | server's key | secret      | expires | check  |   DATA in base32 (RFC 4648, section 6)
//! +--------------+-------------+---------+--------+
//! ```
//!
//! `expires` is in seconds since 1970, big endian; `check` is the front of SHA-256 over the text up
//! to the slash and what stands before the check.
//!
//! Is not: a proof that anybody waits at the address. Whether it has expired is decided by the end
//! that made it: the other one may have no clock.
//!
//! Invariants: white space, case and digits that look like letters do not matter; any other change
//! of a single character is noticed.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest as _, Sha256};
use tandem_channel::{ChannelKey, KeyName};
use tandem_link::tunnel::Target;
use tandem_wire::clock::UnixTime;
use zeroize::Zeroizing;

use crate::error::PairError;

/// What it begins with, and what any version of it does.
const PREFIX: &str = "tandem1:";
const ANY_PREFIX: &str = "tandem";

/// The longest text that is looked at. The longest name takes 253 of it, white space the rest.
const MAX_TEXT: usize = 4096;

const SERVER: usize = 32;
const SECRET: usize = 16;
const EXPIRES: usize = 4;
const CHECK: usize = 4;
const BODY: usize = SERVER + SECRET + EXPIRES;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    address: Target,
    server: KeyName,
    secret: Zeroizing<[u8; SECRET]>,
    expires: u32,
}

/// Why a text is no invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvitationError {
    /// It is something else.
    #[error(
        "this is no invitation; one starts with `{PREFIX}`, and `tandem pair invite` prints it"
    )]
    Other,
    /// It is of another version.
    #[error("the invitation is of another version; install the same one on both sides")]
    Version,
    /// It is damaged.
    #[error("the invitation has a mistake in it, or a part is missing; copy it again, all of it")]
    Damaged,
}

impl Invitation {
    /// A new one: at `address`, by the holder of `server`, until `expires`.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new(
        address: Target,
        server: KeyName,
        expires: UnixTime,
    ) -> Result<Self, PairError> {
        let mut secret = Zeroizing::new([0; SECRET]);
        getrandom::fill(&mut *secret).map_err(|error| PairError::System {
            what: "random bytes",
            source: std::io::Error::other(error.to_string()),
        })?;
        Ok(Self {
            address,
            server,
            secret,
            expires: u32::try_from(expires.0).unwrap_or(u32::MAX),
        })
    }

    /// Where the end that has made it waits, by TCP.
    #[must_use]
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// Until when that end waits, by its clock.
    #[must_use]
    pub fn expires(&self) -> UnixTime {
        UnixTime(self.expires.into())
    }

    /// The key of the end that has made it.
    pub(crate) fn server(&self) -> KeyName {
        self.server
    }

    /// The key by which the other end shows that it has the invitation.
    pub(crate) fn guest_key(&self) -> Result<ChannelKey, PairError> {
        ChannelKey::derived_from(&*self.secret).map_err(PairError::tls)
    }

    /// The text up to the slash.
    fn head(&self) -> String {
        format!("{PREFIX}{}", self.address)
    }

    fn body(&self) -> Zeroizing<[u8; BODY]> {
        let mut body = Zeroizing::new([0; BODY]);
        let (server, rest) = body.split_at_mut(SERVER);
        let (secret, expires) = rest.split_at_mut(SECRET);
        server.copy_from_slice(&self.server.bytes());
        secret.copy_from_slice(&*self.secret);
        expires.copy_from_slice(&self.expires.to_be_bytes());
        body
    }
}

/// What shows that nothing was changed by mistake.
fn check(head: &str, body: &[u8; BODY]) -> [u8; CHECK] {
    let digest = Sha256::new()
        .chain_update(head)
        .chain_update(body)
        .finalize();
    let mut check = [0; CHECK];
    check.copy_from_slice(&digest[..CHECK]);
    check
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, body) = (self.head(), self.body());
        let all = Zeroizing::new([&body[..], &check(&head, &body)].concat());
        let data = Zeroizing::new(BASE32_NOPAD.encode(&all).to_ascii_lowercase());
        write!(f, "{head}/{}", *data)
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invitation({})", self.address)
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    fn from_str(text: &str) -> Result<Self, InvitationError> {
        if text.len() > MAX_TEXT {
            return Err(InvitationError::Other);
        }
        let text: Zeroizing<String> = Zeroizing::new(
            text.chars()
                .filter(|character| !character.is_ascii_whitespace())
                .map(|character| character.to_ascii_lowercase())
                .collect(),
        );
        let Some(rest) = text.strip_prefix(PREFIX) else {
            return Err(other(&text));
        };
        let (address, data) = rest.split_once('/').ok_or(InvitationError::Damaged)?;
        let address = target(address).ok_or(InvitationError::Damaged)?;
        let data = Zeroizing::new(data.bytes().map(letter).collect::<Vec<u8>>());
        let all = BASE32_NOPAD.decode(&data).map(Zeroizing::new);
        let all = all.map_err(|_| InvitationError::Damaged)?;
        let (body, said) = all
            .split_first_chunk::<BODY>()
            .ok_or(InvitationError::Damaged)?;
        let (server, rest) = body.split_at(SERVER);
        let (secret, expires) = rest.split_at(SECRET);
        let read = || {
            Some(Self {
                address,
                server: KeyName::from_bytes(server.try_into().ok()?),
                secret: Zeroizing::new(secret.try_into().ok()?),
                expires: u32::from_be_bytes(expires.try_into().ok()?),
            })
        };
        let read = read().ok_or(InvitationError::Damaged)?;
        if said != check(&read.head(), body) {
            return Err(InvitationError::Damaged);
        }
        Ok(read)
    }
}

/// What is wrong with a text that does not begin as an invitation of this version.
fn other(text: &str) -> InvitationError {
    let version = text
        .strip_prefix(ANY_PREFIX)
        .and_then(|rest| rest.split_once(':'))
        .map(|(version, _)| version);
    match version {
        Some(version) if version.parse::<u32>().is_ok() => InvitationError::Version,
        Some(_) | None => InvitationError::Other,
    }
}

/// `HOST:PORT`, with brackets around an IPv6 address.
fn target(text: &str) -> Option<Target> {
    let (host, port) = text.rsplit_once(':')?;
    Target::new(host, port.parse().ok()?).ok()
}

/// Base32 has none of these digits: whoever reads one has mistaken a letter for it.
fn letter(byte: u8) -> u8 {
    match byte {
        b'0' => b'O',
        b'1' => b'L',
        b'8' => b'B',
        other => other.to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation(host: &str) -> Invitation {
        Invitation {
            address: Target::new(host, 4433).expect("a host"),
            server: KeyName::from_bytes([7; 32]),
            secret: Zeroizing::new([9; SECRET]),
            expires: 1_800_000_000,
        }
    }

    #[test]
    fn what_is_written_is_read_and_always_has_the_same_form() {
        for host in ["gw.example.net", "192.0.2.1", "2001:db8::1"] {
            let written = invitation(host);
            let text = written.to_string();
            assert!(text.parse() == Ok(written), "{text}");
        }
        // Changed only together with the version.
        assert_eq!(
            invitation("gw.example.net").to_string(),
            "tandem1:gw.example.net:4433/\
             a4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqscijbeeqscijbeeqscij\
             beeqs22j2iaglnhs5y"
        );
    }

    #[test]
    fn line_breaks_case_and_digits_for_letters_do_not_matter() {
        let written = invitation("GW.example.net");
        let text = written.to_string();
        let (head, data) = text.split_once('/').expect("it has one");
        let mistaken = data
            .replace('o', "0")
            .replace('l', "1")
            .to_ascii_uppercase();
        let (front, back) = mistaken.split_at(30);
        let text = format!("  {head}/{front}\r\n  {back}\n");
        assert!(text.parse() == Ok(written), "{text}");
    }

    #[test]
    fn a_single_wrong_missing_or_added_character_is_noticed() {
        let text = invitation("gw.example.net").to_string();
        for place in 0..text.len() {
            for character in "a2.:/".chars() {
                let mut changed = text.clone();
                changed.replace_range(place..=place, &character.to_string());
                if changed != text {
                    assert!(changed.parse::<Invitation>().is_err(), "{changed}");
                }
                let mut longer = text.clone();
                longer.insert(place, character);
                assert!(longer.parse::<Invitation>().is_err(), "{longer}");
            }
            let mut shorter = text.clone();
            shorter.remove(place);
            assert!(shorter.parse::<Invitation>().is_err(), "{shorter}");
        }
    }

    #[test]
    fn what_is_no_invitation_is_told_from_one_that_is_damaged_or_of_another_version() {
        for (text, expected) in [
            ("", InvitationError::Other),
            ("tandem", InvitationError::Other),
            ("tandem:x", InvitationError::Other),
            ("https://example.org/", InvitationError::Other),
            ("tandem2:gw:4433/aa", InvitationError::Version),
            ("tandem1:", InvitationError::Damaged),
            ("tandem1:gw:4433", InvitationError::Damaged),
            ("tandem1:gw/aa", InvitationError::Damaged),
            ("tandem1:gw:0/aa", InvitationError::Damaged),
            ("tandem1:gw:4433/", InvitationError::Damaged),
            ("tandem1:gw:4433/é", InvitationError::Damaged),
        ] {
            assert_eq!(text.parse::<Invitation>(), Err(expected), "{text}");
        }
        let long = "tandem1:".to_owned() + &"a".repeat(MAX_TEXT);
        assert_eq!(long.parse::<Invitation>(), Err(InvitationError::Other));
    }

    #[test]
    fn no_debug_output_shows_the_secret() {
        let shown = format!("{:?}", invitation("gw.example.net"));
        assert_eq!(shown, "Invitation(gw.example.net:4433)");
    }
}
