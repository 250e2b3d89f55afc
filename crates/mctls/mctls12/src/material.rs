//! Key material: halves, or whole keys, sealed for one recipient (the paper, section 3.5, step 5).
//!
//! ```text
//! sealed    IV 16 | AES-128-CBC(entries | padding) | HMAC(key, "key material" | sender 1 |
//!           recipient 1 | IV | ciphertext)
//! entry     context 1 | purpose 1 (0 read, 1 write) | key: 32, or 64 where the client distributes
//! ```
//!
//! Under K_XM for a middlebox, under K_endpoints for the other endpoint. MAC after encryption: the
//! paper asks for authenticated encryption.
//!
//! Is not: which rights there are ([`crate::list`]).
//!
//! Invariants: entries stand in ascending order, none comes twice; a key for writing comes with
//! that for reading.

use std::collections::BTreeMap;

use mctls::config::Right;
use mctls::party::{ContextId, Endpoint, Position};
use zeroize::Zeroizing;

use crate::error::{Breach, Check, Error, Malformed};
use crate::list::MiddleboxList;
use crate::message::{KeyMaterial, Recipient};
use crate::protect::{Cbc, Wholes};
use crate::read::Reader;
use crate::schedule::{KeyPair, Purpose};
use crate::secret::{HASH_LEN, Secret, mac, same};

const LABEL: &[u8] = b"key material";

/// Keys or halves by context and purpose.
pub(crate) type Entries = BTreeMap<(ContextId, Purpose), Secret>;

/// Seals entries for a recipient.
pub(crate) fn seal(
    keys: &KeyPair,
    iv: [u8; 16],
    sender: Endpoint,
    recipient: Recipient,
    entries: &Entries,
) -> KeyMaterial {
    let mut plain = Zeroizing::new(Vec::with_capacity(entries.len() * 66));
    for ((context, purpose), key) in entries {
        let purpose = match purpose {
            Purpose::Read => 0,
            Purpose::Write => 1,
        };
        plain.extend_from_slice(&[context.0, purpose]);
        plain.extend_from_slice(key.bytes());
    }
    let mut sealed = Cbc::new(&keys.key).seal(iv, &[&plain]);
    let tag = tag(keys, sender, recipient, &sealed);
    sealed.extend_from_slice(&tag);
    KeyMaterial {
        sender,
        recipient,
        sealed,
    }
}

/// Opens what `sender` has sealed: entries with keys of so many bytes.
pub(crate) fn open(
    keys: &KeyPair,
    material: &KeyMaterial,
    key_len: usize,
) -> Result<Entries, Error> {
    let (sender, sealed) = (material.sender, &material.sealed);
    let forged = Check::KeyMaterial(sender);
    let length = sealed.len().checked_sub(HASH_LEN).ok_or(forged)?;
    let (ciphertext, found) = sealed.split_at(length);
    if !same(&tag(keys, sender, material.recipient, ciphertext), found) {
        return Err(forged.into());
    }
    let plain = Cbc::new(&keys.key).open(ciphertext);
    let plain = Zeroizing::new(plain.ok_or(forged)?);
    let mut reader = Reader::new(&plain);
    let mut entries = Entries::new();
    while !reader.is_empty() {
        let context = ContextId(reader.u8()?);
        let purpose = match reader.u8()? {
            0 => Purpose::Read,
            1 => Purpose::Write,
            other => return Err(Malformed::Purpose(other).into()),
        };
        let place = (context, purpose);
        let is_after = entries
            .last_key_value()
            .is_none_or(|(last, _)| *last < place);
        let needs_read = purpose == Purpose::Write;
        if !is_after || needs_read && !entries.contains_key(&(context, Purpose::Read)) {
            return Err(Breach::KeyMaterial.into());
        }
        entries.insert(place, Secret::new(reader.take(key_len)?));
    }
    Ok(entries)
}

fn tag(keys: &KeyPair, sender: Endpoint, recipient: Recipient, sealed: &[u8]) -> [u8; HASH_LEN] {
    let sender = match sender {
        Endpoint::Client => 0,
        Endpoint::Server => 1,
    };
    mac(
        &keys.mac.key(),
        &[LABEL, &[sender, recipient.code()], sealed],
    )
}

/// Those entries that rights permit: for each context, those of one middlebox.
pub(crate) fn granted(
    all: &Entries,
    list: &MiddleboxList,
    rights: &[Vec<Right>],
    position: Position,
) -> Entries {
    let right_in = |id: ContextId| {
        let contexts = list.contexts().iter().zip(rights);
        let found = contexts.into_iter().find(|(context, _)| context.id == id);
        let right = found.and_then(|(_, rights)| rights.get(position.index()));
        right.copied().unwrap_or(Right::None)
    };
    let entries = all.iter().filter(|((context, purpose), _)| {
        right_in(*context)
            >= match purpose {
                Purpose::Read => Right::Read,
                Purpose::Write => Right::Write,
            }
    });
    entries.map(|(place, key)| (*place, key.clone())).collect()
}

/// One entry for each context and purpose of a list.
pub(crate) fn for_all(
    list: &MiddleboxList,
    make: impl Fn(ContextId, Purpose) -> Secret,
) -> Entries {
    let ids = list.contexts().iter().map(|context| context.id);
    let places = ids.flat_map(|id| Purpose::ALL.map(|purpose| (id, purpose)));
    places
        .map(|(id, purpose)| ((id, purpose), make(id, purpose)))
        .collect()
}

/// Both endpoints' halves, where there are both: else there is no key.
pub(crate) fn joined(client: &Entries, server: &Entries) -> Wholes {
    let both = client.iter().filter_map(|(place, first)| {
        let second = server.get(place)?;
        Some((*place, Secret::join(first, second)))
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> KeyPair {
        KeyPair {
            mac: Secret::new(&[1; 32]),
            key: Secret::new(&[2; 16]),
        }
    }

    fn entries(places: &[(u8, Purpose)]) -> Entries {
        let entry =
            |&(context, purpose): &_| ((ContextId(context), purpose), Secret::new(&[9; 32]));
        places.iter().map(entry).collect()
    }

    fn sealed(places: &[(u8, Purpose)]) -> KeyMaterial {
        let to = Recipient::OtherEndpoint;
        seal(&keys(), [3; 16], Endpoint::Client, to, &entries(places))
    }

    #[test]
    fn entries_are_opened_as_they_were_sealed() {
        for places in [
            &[][..],
            &[(1, Purpose::Read)],
            &[(1, Purpose::Read), (1, Purpose::Write), (7, Purpose::Read)],
        ] {
            assert_eq!(open(&keys(), &sealed(places), 32), Ok(entries(places)));
        }
    }

    #[test]
    fn every_byte_of_key_material_is_vouched_for() {
        let genuine = sealed(&[(1, Purpose::Read)]);
        let forged = Err(Check::KeyMaterial(Endpoint::Client).into());
        for at in 0..genuine.sealed.len() {
            let mut changed = genuine.clone();
            changed.sealed[at] ^= 1;
            assert_eq!(open(&keys(), &changed, 32), forged);
        }
        let mut moved = genuine.clone();
        moved.recipient = Recipient::Middlebox(Position::new(1).expect("as the test has it"));
        assert_eq!(open(&keys(), &moved, 32), forged);
        let mut short = genuine;
        short.sealed.truncate(20);
        assert_eq!(open(&keys(), &short, 32), forged);
    }

    #[test]
    fn a_key_for_writing_alone_is_refused() {
        let alone = sealed(&[(1, Purpose::Write)]);
        assert_eq!(open(&keys(), &alone, 32), Err(Breach::KeyMaterial.into()));
        let other_length = sealed(&[(1, Purpose::Read)]);
        assert!(open(&keys(), &other_length, 64).is_err());
    }
}
