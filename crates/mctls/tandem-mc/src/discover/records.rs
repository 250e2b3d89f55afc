//! Records of DNS to proposals.
//!
//! Is not: a policy ([`super::Discovery`]). Invariant: a record is a proposal as a whole, or
//! [`Wrong`] with the reason.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RData;
use hickory_proto::rr::rdata::SVCB;
use hickory_proto::rr::rdata::svcb::{SvcParamKey, SvcParamValue};

use super::{KIND_KEY, MAX_RECORDS, PROTOCOL, Proposal, Silence, Wrong, domain};

/// What an answer proposes, in the order of places, and what in it cannot be taken.
///
/// # Errors
/// [`Silence`]: it proposes nothing.
pub(crate) fn proposals(answer: &Message) -> Result<Vec<Result<Proposal, Wrong>>, Silence> {
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        code => return Err(Silence::Refused(code.to_string())),
    }
    let records = answer
        .answers
        .iter()
        .filter_map(|record| match &record.data {
            RData::SVCB(record) => Some(record),
            _ => None,
        });
    let records: Vec<&SVCB> = records.collect();
    match records.len() {
        0 => return Err(Silence::Nothing),
        1..=MAX_RECORDS => {}
        many => return Err(Silence::Many(many)),
    }
    let mut all: Vec<_> = records.into_iter().map(Proposal::of).collect();
    let places: Vec<u16> = all.iter().flatten().map(|one| one.place).collect();
    for one in &mut all {
        let again = one.as_ref().ok().filter(|proposal| {
            let same = places.iter().filter(|place| **place == proposal.place);
            same.count() > 1
        });
        if let Some(proposal) = again {
            *one = Err(Wrong::Place(proposal.name.clone()));
        }
    }
    all.sort_by_key(|one| one.as_ref().map_or(0, |proposal| proposal.place));
    Ok(all)
}

impl Proposal {
    fn of(record: &SVCB) -> Result<Self, Wrong> {
        if record.svc_priority == 0 {
            return Err(Wrong::Alias);
        }
        let name = domain(&record.target_name.to_ascii()).map_err(|_| Wrong::Target)?;
        let (mut port, mut four, mut six, mut kind) = (None, None, None, None);
        for (key, value) in &record.svc_params {
            match value {
                SvcParamValue::Mandatory(keys) => {
                    if let Some(unknown) = keys.0.iter().find(|key| !is_known(**key)) {
                        return Err(Wrong::Mandatory(name, u16::from(*unknown)));
                    }
                }
                SvcParamValue::Alpn(protocols) => {
                    if !protocols.0.iter().any(|one| one == PROTOCOL) {
                        return Err(Wrong::Protocol(name));
                    }
                }
                SvcParamValue::Port(number) => port = Some(*number).filter(|port| *port > 0),
                SvcParamValue::Ipv4Hint(hints) => four = hints.0.first().map(|one| one.0),
                SvcParamValue::Ipv6Hint(hints) => six = hints.0.first().map(|one| one.0),
                SvcParamValue::Unknown(value) if *key == SvcParamKey::Key(KIND_KEY) => {
                    let Some(word) = word(&value.0) else {
                        return Err(Wrong::Kind(name));
                    };
                    kind = Some(word);
                }
                SvcParamValue::NoDefaultAlpn
                | SvcParamValue::EchConfigList(_)
                | SvcParamValue::Unknown(_) => {}
            }
        }
        let Some(port) = port else {
            return Err(Wrong::Port(name));
        };
        let hint = four.map(IpAddr::V4).or(six.map(IpAddr::V6));
        Ok(Self {
            place: record.svc_priority,
            address: match hint {
                Some(address) => SocketAddr::new(address, port).to_string(),
                None => format!("{name}:{port}"),
            },
            name,
            kind,
        })
    }
}

fn is_known(key: SvcParamKey) -> bool {
    match key {
        SvcParamKey::Alpn | SvcParamKey::Port | SvcParamKey::Ipv4Hint | SvcParamKey::Ipv6Hint => {
            true
        }
        SvcParamKey::Key(KIND_KEY) => true,
        SvcParamKey::Mandatory
        | SvcParamKey::NoDefaultAlpn
        | SvcParamKey::EchConfigList
        | SvcParamKey::Key(_)
        | SvcParamKey::Key65535
        | SvcParamKey::Unknown(_) => false,
    }
}

/// A short word of small letters, digits and `-`.
fn word(bytes: &[u8]) -> Option<String> {
    let is_good = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let is_word = (1..=16).contains(&bytes.len()) && bytes.iter().all(is_good);
    is_word.then(|| String::from_utf8_lossy(bytes).into_owned())
}
