//! The signed list of a site's volunteers.
//!
//! ```text
//!  "TBL" form 1 | length of the site's name (1) | name | version (8) | issued (8) | ends (8) | members (2)
//!  then for each member
//!    form 1: key 32 | family (1: 4 or 6) | address (4 or 16) | the same again | port (2)
//!    form 2: key 32 | addresses (1: 1 or 2) | each: family (1) | address (4 or 16) | port (2)
//!  then: Ed25519 signature (64) over "tandem barnraising list ", the form's digit, and all bytes before
//! ```
//!
//! Form 1 is for volunteers that know of one address only: of a member with two it has the first.
//!
//! Is: its form, and when it counts. Is not: the signing: a core has no key. Who calls brings a
//! signer or a verifier (RFC 8032).
//!
//! Invariants: a [`List`] that came from somebody else has been verified for its site;
//! [`List::supersedes`] lets a volunteer go back neither to an older list nor to an older
//! signature.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tandem_wire::UnixTime;

use crate::member::{Peer, PublicKey};
use crate::uri::Name;

/// Most members of a list: in form 1, with IPv6 alone, it then has 278,528 bytes and a head.
pub const MAX_MEMBERS: usize = 4096;

/// Longest list in bytes.
pub const MAX_LEN: usize =
    4 + 1 + Name::MAX_LEN + 24 + 2 + MAX_MEMBERS * (32 + 17 + 19) + SIGNATURE_LEN;

/// Length of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// With one address of each member.
    #[default]
    One,
    /// With all of them.
    All,
}

impl Form {
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::One => *b"TBL\x01",
            Self::All => *b"TBL\x02",
        }
    }

    /// What is signed before the list itself.
    const fn label(self) -> &'static [u8] {
        match self {
            Self::One => b"tandem barnraising list 1",
            Self::All => b"tandem barnraising list 2",
        }
    }

    /// That of a list as it crosses.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let magic: &[u8; 4] = bytes.first_chunk()?;
        [Self::One, Self::All]
            .into_iter()
            .find(|form| form.magic() == *magic)
    }
}

/// A site's volunteers at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The site.
    pub site: Name,
    /// Grows with each change.
    pub version: u64,
    /// When the broker signed it.
    pub issued: UnixTime,
    /// From when on it does not count any more.
    pub ends: UnixTime,
    /// The volunteers, at most [`MAX_MEMBERS`].
    pub members: Vec<Peer>,
}

/// Why bytes are no list that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// They have not the form of a list.
    #[error("not a list of volunteers, or one of a later version of Tandem")]
    Malformed,
    /// The signature is not the broker's.
    #[error("the list of volunteers is not signed by this broker")]
    Signature,
    /// It is another site's.
    #[error("the list of volunteers is another site's")]
    Site,
    /// More members than a list has room for.
    #[error("more than {MAX_MEMBERS} volunteers")]
    TooMany,
}

impl List {
    /// The list as it crosses, signed by what `sign` does with the bytes it is given.
    ///
    /// # Errors
    /// [`ListError::TooMany`].
    pub fn signed(
        &self,
        form: Form,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN],
    ) -> Result<Vec<u8>, ListError> {
        let count = u16::try_from(self.members.len())
            .ok()
            .filter(|count| usize::from(*count) <= MAX_MEMBERS)
            .ok_or(ListError::TooMany)?;
        let mut message = form.label().to_vec();
        message.extend(form.magic());
        let site = self.site.as_str().as_bytes();
        // A name has at most 253 bytes.
        message.push(u8::try_from(site.len()).unwrap_or(u8::MAX));
        message.extend(site);
        for number in [self.version, self.issued.0, self.ends.0] {
            message.extend(number.to_be_bytes());
        }
        message.extend(count.to_be_bytes());
        for member in &self.members {
            put_member(&mut message, member, form);
        }
        let signature = sign(&message);
        let mut list = message.split_off(form.label().len());
        list.extend(signature);
        Ok(list)
    }

    /// Reads somebody else's list. `verify` is given what was signed and the signature, and says
    /// whether it is the broker's.
    ///
    /// # Errors
    /// [`ListError`] says why it does not count.
    pub fn open(
        bytes: &[u8],
        site: &Name,
        verify: impl FnOnce(&[u8], &[u8; SIGNATURE_LEN]) -> bool,
    ) -> Result<Self, ListError> {
        if bytes.len() > MAX_LEN {
            return Err(ListError::Malformed);
        }
        let (body, signature) = bytes.split_last_chunk().ok_or(ListError::Malformed)?;
        let form = Form::of(body).ok_or(ListError::Malformed)?;
        // Nothing is made of bytes before it is known whose they are.
        if !verify(&[form.label(), body].concat(), signature) {
            return Err(ListError::Signature);
        }
        let list = parse(body, form).ok_or(ListError::Malformed)?;
        if list.site == *site {
            Ok(list)
        } else {
            Err(ListError::Site)
        }
    }

    /// Whether this list counts in place of `held`, which counted before: it is of a later version,
    /// or the same one signed anew, since a list ends although nobody has come or gone; or it
    /// is that one, said again. How long it counts is not asked here.
    #[must_use]
    pub fn supersedes(&self, held: Option<&List>) -> bool {
        let age = |list: &List| (list.version, list.issued);
        held.is_none_or(|held| age(held) <= age(self))
    }

    /// For how long it counts from when it was signed.
    #[must_use]
    pub fn life(&self) -> Duration {
        Duration::from_secs(self.ends.0.saturating_sub(self.issued.0))
    }
}

fn put_member(to: &mut Vec<u8>, member: &Peer, form: Form) {
    to.extend(member.key.0);
    match form {
        Form::One => {
            for address in member.addresses().take(1) {
                // Where browsers go, and where volunteers ask: the same for all that join.
                put_address(to, address.ip());
                put_address(to, address.ip());
                to.extend(address.port().to_be_bytes());
            }
        }
        Form::All => {
            to.push(if member.addresses().count() == 1 {
                1
            } else {
                2
            });
            for address in member.addresses() {
                put_address(to, address.ip());
                to.extend(address.port().to_be_bytes());
            }
        }
    }
}

fn put_address(to: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            to.push(4);
            to.extend(address.octets());
        }
        IpAddr::V6(address) => {
            to.push(6);
            to.extend(address.octets());
        }
    }
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.array::<1>()? {
            [4] => self.array::<4>().map(IpAddr::from),
            [6] => self.array::<16>().map(IpAddr::from),
            _ => None,
        }
    }

    fn socket(&mut self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.address()?, self.short()?))
    }

    fn member(&mut self, form: Form) -> Option<Peer> {
        let key = PublicKey(self.array()?);
        match form {
            Form::One => {
                let address = self.address()?;
                let peers = self.socket()?;
                (address == peers.ip()).then_some(Peer::at(key, peers))
            }
            Form::All => match self.array()? {
                [1] => Some(Peer::at(key, self.socket()?)),
                [2] => match (self.socket()?, self.socket()?) {
                    (SocketAddr::V4(v4), SocketAddr::V6(v6)) => Some(Peer::at_both(key, v4, v6)),
                    _ => None,
                },
                _ => None,
            },
        }
    }
}

fn parse(body: &[u8], form: Form) -> Option<List> {
    let mut rest = Rest(body);
    if rest.array()? != form.magic() {
        return None;
    }
    let [length] = rest.array()?;
    let (site, after) = rest.0.split_at_checked(usize::from(length))?;
    rest = Rest(after);
    let text = std::str::from_utf8(site).ok()?;
    let site = Name::parse(text).filter(|name| name.as_str() == text)?;
    let version = rest.number()?;
    let (issued, ends) = (UnixTime(rest.number()?), UnixTime(rest.number()?));
    let count = usize::from(rest.short()?);
    if count > MAX_MEMBERS {
        return None;
    }
    let members = (0..count)
        .map(|_| rest.member(form))
        .collect::<Option<_>>()?;
    rest.0.is_empty().then_some(List {
        site,
        version,
        issued,
        ends,
        members,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    /// Not a signature: whoever knows the scheme can make one. It is as long, and says whether the
    /// bytes are the same.
    fn sign(message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let digest: [u8; 32] = Sha256::digest(message).into();
        let mut signature = [0; SIGNATURE_LEN];
        signature[..32].copy_from_slice(&digest);
        signature
    }

    fn verify(message: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
        sign(message) == *signature
    }

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn list(members: Vec<Peer>) -> List {
        List {
            site: name("www.example.org"),
            version: 7,
            issued: UnixTime(1_000),
            ends: UnixTime(2_000),
            members,
        }
    }

    const FORMS: [Form; 2] = [Form::One, Form::All];

    fn member() -> impl Strategy<Value = Peer> {
        (
            any::<[u8; 32]>(),
            any::<IpAddr>(),
            any::<u16>(),
            any::<Option<(IpAddr, u16)>>(),
        )
            .prop_map(|(key, address, port, other)| {
                let peer = Peer::at(PublicKey(key), (address, port).into());
                other.map_or(peer, |other| peer.and(other.into()))
            })
    }

    /// As it is read where one address of a member is known.
    fn shortened(list: &List) -> List {
        let first = |peer: &Peer| peer.addresses().next().expect("one at least");
        let members = list.members.iter();
        List {
            members: members
                .map(|peer| Peer::at(peer.key, first(peer)))
                .collect(),
            ..list.clone()
        }
    }

    proptest! {
        #[test]
        fn what_was_signed_is_read(members in proptest::collection::vec(member(), 0..20)) {
            let list = list(members);
            for (form, read) in [(Form::One, shortened(&list)), (Form::All, list.clone())] {
                let bytes = list.signed(form, sign).expect("few");
                prop_assert!(bytes.len() <= MAX_LEN);
                prop_assert_eq!(List::open(&bytes, &list.site, verify), Ok(read));
            }
        }

        #[test]
        fn no_bytes_harm_whatever_they_are_signed_with(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let site = name("www.example.org");
            let _ = List::open(&bytes, &site, |_, _| true);
            for form in FORMS {
                let mut opened = form.magic().to_vec();
                opened.extend(&bytes);
                let _ = List::open(&opened, &site, |_, _| true);
            }
        }
    }

    fn peer(address: IpAddr) -> Peer {
        Peer::at(PublicKey([1; 32]), (address, 9).into())
    }

    #[test]
    fn a_list_of_the_first_form_is_written_as_ever() {
        let bytes = list(vec![peer([192, 0, 2, 1].into())])
            .signed(Form::One, |_| [0; SIGNATURE_LEN])
            .expect("one");
        let expected = [
            &b"TBL\x01\x0fwww.example.org"[..],
            &7_u64.to_be_bytes(),
            &1_000_u64.to_be_bytes(),
            &2_000_u64.to_be_bytes(),
            &[0, 1],
            &[1; 32],
            &[4, 192, 0, 2, 1, 4, 192, 0, 2, 1, 0, 9],
            &[0; SIGNATURE_LEN],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn addresses_of_a_member_have_one_order_and_one_of_each_family() {
        let four = peer([192, 0, 2, 1].into());
        let both = four.and(([0xfe; 16], 9).into());
        let bytes = |member: Peer| list(vec![member]).signed(Form::All, sign).expect("one");
        let (one, two) = (bytes(four), bytes(both));
        let head = one.len() - SIGNATURE_LEN - 8;
        assert_eq!(one[head..head + 8], [1, 4, 192, 0, 2, 1, 0, 9]);
        let site = name("www.example.org");
        let open = |tail: &[u8]| {
            let body = [&one[..head], tail, &[0; SIGNATURE_LEN]].concat();
            List::open(&body, &site, |_, _| true).map(|list| list.members)
        };
        let entry = &two[head..two.len() - SIGNATURE_LEN];
        assert_eq!(open(entry), Ok(vec![both]));
        let (v4, v6) = entry[1..].split_at(7);
        for wrong in [
            [&[2], v6, v4].concat(),
            [&[2], v4, v4].concat(),
            [&[2], v6, v6].concat(),
            [&[0][..], &[]].concat(),
            [&[3], v4, v6, v4].concat(),
        ] {
            assert_eq!(open(&wrong), Err(ListError::Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn a_list_that_was_changed_cut_or_is_of_another_site_does_not_count() {
        let one = peer([192, 0, 2, 1].into()).and(([0xfe; 16], 9).into());
        let list = list(vec![one]);
        for form in FORMS {
            let bytes = list.signed(form, sign).expect("one");
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                let refused = match at {
                    // No form that is known.
                    0..4 => ListError::Malformed,
                    _ => ListError::Signature,
                };
                let opened = List::open(&other, &list.site, verify);
                assert_eq!(opened, Err(refused), "{at}");
                let cut = List::open(&bytes[..at], &list.site, |_, _| true);
                assert_eq!(cut, Err(ListError::Malformed), "{at}");
            }
            let mut other = bytes.clone();
            let [one, all] = FORMS.map(Form::magic);
            let swapped = if bytes.starts_with(&one) { all } else { one };
            other[..4].copy_from_slice(&swapped);
            let opened = List::open(&other, &list.site, verify);
            assert_eq!(opened, Err(ListError::Signature), "signed as another form");
            let other = List::open(&bytes, &name("other.example.org"), verify);
            assert_eq!(other, Err(ListError::Site));
        }
        let many = super::tests::list(vec![one; MAX_MEMBERS + 1]);
        assert_eq!(many.signed(Form::All, sign), Err(ListError::TooMany));
        let longest = List {
            members: vec![one; MAX_MEMBERS],
            ..list
        };
        for form in FORMS {
            assert!(
                longest
                    .signed(form, sign)
                    .expect("as many as it takes")
                    .len()
                    <= MAX_LEN
            );
        }
    }

    #[test]
    fn a_list_may_be_as_long_as_it_can_get_and_no_longer() {
        let member = peer(IpAddr::from([0xfe; 16]));
        let labels = [&"a".repeat(63)[..]; 4].join(".");
        let mut longest = list(vec![member; MAX_MEMBERS]);
        longest.site = name(&labels[..Name::MAX_LEN]);
        let mut bytes = longest
            .signed(Form::One, sign)
            .expect("as many as it takes");
        assert_eq!(bytes.len(), MAX_LEN);
        assert_eq!(
            List::open(&bytes, &longest.site, verify).as_ref(),
            Ok(&longest)
        );
        bytes.push(0);
        let refused = List::open(&bytes, &longest.site, |_, _| panic!("far too long"));
        assert_eq!(refused, Err(ListError::Malformed));
    }

    #[test]
    fn more_members_than_a_list_has_are_refused_whoever_signed_them() {
        let member = peer([192, 0, 2, 1].into());
        let full = list(vec![member; MAX_MEMBERS]);
        let bytes = full.signed(Form::One, sign).expect("as many as it takes");
        assert_eq!(List::open(&bytes, &full.site, verify).as_ref(), Ok(&full));
        let one = list(vec![member]).signed(Form::One, sign).expect("one");
        let none = list(Vec::new()).signed(Form::One, sign).expect("none");
        let head = none.len() - SIGNATURE_LEN;
        let mut body = bytes[..bytes.len() - SIGNATURE_LEN].to_vec();
        body.extend(&one[head..one.len() - SIGNATURE_LEN]);
        let count = u16::try_from(MAX_MEMBERS + 1).expect("16 bits");
        body[head - 2..head].copy_from_slice(&count.to_be_bytes());
        body.extend([0; SIGNATURE_LEN]);
        assert!(body.len() <= MAX_LEN);
        let refused = List::open(&body, &full.site, |_, _| true);
        assert_eq!(refused, Err(ListError::Malformed));
    }

    #[test]
    fn a_list_lives_from_its_signature_to_its_end() {
        assert_eq!(list(Vec::new()).life(), Duration::from_secs(1_000));
        let backwards = List {
            ends: UnixTime(999),
            ..list(Vec::new())
        };
        assert_eq!(backwards.life(), Duration::ZERO);
    }

    #[test]
    fn an_older_list_does_not_come_back() {
        let held = list(Vec::new());
        let newer = List {
            version: 8,
            ..held.clone()
        };
        assert!(held.supersedes(None));
        assert!(newer.supersedes(Some(&held)));
        assert!(held.supersedes(Some(&held)), "said again");
        assert!(!held.supersedes(Some(&newer)));
        let again = List {
            issued: UnixTime(1_100),
            ends: UnixTime(2_100),
            ..held.clone()
        };
        assert!(again.supersedes(Some(&held)), "signed anew");
        assert!(!held.supersedes(Some(&again)));
    }
}
