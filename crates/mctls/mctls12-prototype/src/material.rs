//! Key material in its envelopes.
//!
//! The key of an envelope is random, and sealed with the recipient's RSA key; the server answers
//! under the key that the client has sealed for it. Nothing protects the ciphertext from changes,
//! and whoever learns an RSA key later opens every session.

use mctls::config::Right;
use zeroize::Zeroizing;

use crate::auth::{Private, RsaKey};
use crate::entropy::{Entropy, Use};
use crate::error::{Breach, Check, Error};
use crate::list::{CLIENT, Proposal, SERVER};
use crate::message::{Material, Message, read_parts, write_parts};
use crate::protect::Aes;
use crate::schedule::{Part, Parts};

/// The key of an envelope.
pub(crate) type EnvelopeKey = Zeroizing<[u8; 32]>;

/// The key of the envelope to the server, under which the server answers.
pub(crate) fn shared_key(entropy: &Entropy) -> EnvelopeKey {
    Zeroizing::new(entropy.array(Use::EnvelopeKey(SERVER)))
}

/// Everything, from the client to the server.
pub(crate) fn to_server(halves: &Parts, key: &RsaKey, entropy: &Entropy) -> Message {
    sealed(SERVER, halves, key, entropy)
}

/// Everything, from the server to the client.
pub(crate) fn to_client(halves: &Parts, key: &EnvelopeKey, entropy: &Entropy) -> Message {
    let iv = entropy.array(Use::EnvelopeIv(CLIENT));
    Message::KeyMaterial(Material {
        recipient: CLIENT,
        sealed: None,
        iv,
        ciphertext: Aes::new_256(key).seal(iv, &[&write_parts(halves)]),
    })
}

/// What each middlebox gets, in order. `keys` are theirs, `rights` are by context, as in a list.
pub(crate) fn to_middleboxes(
    proposal: &Proposal,
    rights: &[Vec<Right>],
    halves: &Parts,
    keys: &[RsaKey],
    entropy: &Entropy,
) -> Vec<Message> {
    let all = proposal
        .middleboxes()
        .zip(keys)
        .map(|((position, id), key)| {
            let granted = halves
                .iter()
                .zip(rights)
                .filter_map(|((slice, half), rights)| {
                    let right = rights.get(position.index()).copied()?;
                    let part = match right {
                        Right::None => return None,
                        Right::Read => Part {
                            read: half.read.clone(),
                            write: None,
                        },
                        Right::Write => half.clone(),
                    };
                    Some((*slice, part))
                });
            sealed(id, &granted.collect(), key, entropy)
        });
    all.collect()
}

fn sealed(recipient: u8, parts: &Parts, to: &RsaKey, entropy: &Entropy) -> Message {
    let key: EnvelopeKey = Zeroizing::new(entropy.array(Use::EnvelopeKey(recipient)));
    let iv = entropy.array(Use::EnvelopeIv(recipient));
    Message::KeyMaterial(Material {
        recipient,
        sealed: Some(to.seal(&key, entropy, recipient)),
        iv,
        ciphertext: Aes::new_256(&key).seal(iv, &[&write_parts(parts)]),
    })
}

/// Opens what was sealed for an RSA key's holder.
pub(crate) fn open(material: &Material, key: &dyn Private) -> Result<(Parts, EnvelopeKey), Error> {
    let sealed = material.sealed.as_ref().ok_or(Breach::KeyMaterial)?;
    let key = key.open(sealed).ok_or(Check::KeyMaterial)?;
    Ok((parts(material, &key)?, key))
}

/// Opens what was encrypted with a key that is known.
pub(crate) fn parts(material: &Material, key: &EnvelopeKey) -> Result<Parts, Error> {
    let plain = Aes::new_256(key).open(&material.iv, &material.ciphertext);
    let plain = Zeroizing::new(plain.ok_or(Check::KeyMaterial)?);
    read_parts(&plain)
}

/// Whether an endpoint has sent its halves of all contexts.
pub(crate) fn is_complete(parts: &Parts, proposal: &Proposal) -> bool {
    let is_whole = |part: &Part| part.read.is_some() && part.write.is_some();
    parts.keys().copied().eq(proposal.slices()) && parts.values().all(is_whole)
}

#[cfg(test)]
mod tests {
    use mctls12::list::{Context, MiddleboxList, Place};

    use super::*;
    use crate::schedule::halves;

    #[test]
    fn an_endpoint_sends_all_halves_of_all_contexts_and_of_no_others() {
        let context = |id| Context {
            id: mctls::party::ContextId(id),
            purpose: String::new(),
            rights: vec![],
        };
        let server = Place {
            name: "h".into(),
            address: "h:1".into(),
        };
        let list = MiddleboxList::new(server, vec![], vec![context(1), context(2)]);
        let proposal = Proposal::new(list.expect("good")).expect("few contexts");
        let sent = |slices: &[u8]| {
            let entropy = Entropy::new(&[1; Entropy::LEN]);
            halves(&entropy, slices.iter().copied())
        };
        assert!(is_complete(&sent(&[2, 3]), &proposal));
        for slices in [&[2][..], &[3], &[2, 3, 4], &[2, 4], &[]] {
            assert!(!is_complete(&sent(slices), &proposal), "{slices:?}");
        }
        for right in [Right::Read, Right::Write] {
            let mut parts = sent(&[2, 3]);
            let part = parts.get_mut(&3).expect("it is there");
            match right {
                Right::Read => part.read = None,
                Right::Write | Right::None => part.write = None,
            }
            assert!(!is_complete(&parts, &proposal), "{right:?}");
        }
    }
}
