//! One signed state of the zone.
//!
//! ```text
//!   apex                    SOA NS DNSKEY CAA NSEC        CDS CDNSKEY while keys are changed: the
//!                                                         keys' set is signed by both then
//!   site (may be the apex)  A AAAA HTTPS CAA NSEC         A and AAAA in parts of at most eight, each signed;
//!                                                         volunteers' networks take turns in them
//!   _acme-challenge.site    TXT NSEC                      while there are values
//!   name servers inside     A AAAA NSEC
//! ```
//!
//! Is: which records there are, in which order, and what denies the others (RFC 4034, section 4;
//! RFC 4035, section 3.1.3). Is not: a message.
//!
//! NSEC rather than NSEC3: nothing in this zone is a secret that walking it could tell. The parts
//! of a large set of addresses are all valid under one name, as with any server that shows each
//! resolver others; whoever validates sees one part and its signature.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use hickory_proto::dnssec::rdata::{DNSSECRData, NSEC};
use hickory_proto::rr::rdata::caa::CAA;
use hickory_proto::rr::rdata::svcb::{Alpn, SVCB, SvcParamKey, SvcParamValue};
use hickory_proto::rr::rdata::{A, AAAA, HTTPS, NS, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tandem_barnraising::turns;

use crate::error::DnsError;
use crate::key::{Validity, ZoneKey};
use crate::keys::Keys;
use crate::rollover::LASTING;
use crate::settings::{Issuance, Shape};
use crate::{Answers, Whose};

/// Most addresses of a family in one answer. Eight of IPv6 with their signature, the question and a
/// long name stay below 700 bytes, so that both families fit into 1232.
pub(crate) const SHOWN: usize = 8;

/// Most addresses of a family that are shown at all: as many as a list of volunteers has members.
const MAX_ADDRESSES: usize = tandem_barnraising::list::MAX_MEMBERS;

/// What of a zone changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) answers: Answers,
    pub(crate) challenge: Vec<String>,
    pub(crate) serial: u32,
}

/// Records of one name and type, with their signatures: one, of the keys' own set one by each.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) records: Vec<Record>,
    pub(crate) signatures: Vec<Record>,
}

/// A set in one or more parts, which are shown in turn.
///
/// Each set has a turn of its own: clients ask for A and AAAA in pairs, and by a common one would
/// see only every other part of each.
#[derive(Debug)]
struct Parts {
    parts: Vec<Signed>,
    turn: AtomicU64,
}

/// What of a set is shown this time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) set: &'a Signed,
    /// How often all parts have been shown before.
    pub(crate) round: u64,
}

impl Parts {
    fn next(&self) -> Option<Shown<'_>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.parts.len() as u64;
        let set = self.parts.get(turn.checked_rem(count)? as usize)?;
        Some(Shown {
            set,
            round: turn / count,
        })
    }
}

/// What there is of one name.
#[derive(Debug, Default)]
pub(crate) struct Node {
    sets: BTreeMap<RecordType, Parts>,
}

impl Node {
    /// The set of a type; of a set with parts, another one each time.
    pub(crate) fn set(&self, kind: RecordType) -> Option<Shown<'_>> {
        self.sets.get(&kind)?.next()
    }

    /// Its sets of the types that are wanted, by type; those of others keep their turn.
    pub(crate) fn sets(
        &self,
        wanted: impl Fn(RecordType) -> bool,
    ) -> impl Iterator<Item = Shown<'_>> {
        let of = self.sets.iter().filter(move |(kind, _)| wanted(**kind));
        of.filter_map(|(_, parts)| parts.next())
    }
}

/// Where a name stands.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// There are records of it.
    Node(&'a Node),
    /// There are none, but of names below it (RFC 4592, section 2.2.2).
    Between,
    /// There is no such name.
    Nothing,
}

/// The zone.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) apex: Name,
    pub(crate) serial: u32,
    /// For a PowerDNS, which signs by itself.
    pub(crate) keys: Keys,
    /// In canonical order (RFC 4034, section 6.1).
    nodes: BTreeMap<Name, Node>,
}

impl Zone {
    /// The zone of this shape and content, signed.
    pub(crate) fn signed(
        shape: &Shape,
        content: &Content,
        keys: &Keys,
        validity: Validity,
    ) -> Result<Self, DnsError> {
        let mut plain = Plain::default();
        plain.fill(shape, content, keys)?;
        let names: Vec<Name> = plain.nodes.keys().cloned().collect();
        let mut zone = Self {
            apex: shape.zone.clone(),
            serial: content.serial,
            keys: keys.clone(),
            nodes: BTreeMap::new(),
        };
        for (position, (name, mut sets)) in plain.nodes.into_iter().enumerate() {
            let next = names[(position + 1) % names.len()].clone();
            let nsec = NSEC::new_cover_self(next, sets.keys().copied());
            let nsec = RData::DNSSEC(DNSSECRData::NSEC(nsec));
            // As long as the SOA record says for denials (RFC 9077, section 3).
            sets.insert(RecordType::NSEC, (shape.ttl, vec![vec![nsec]]));
            let mut node = Node::default();
            for (kind, (ttl, parts)) in sets {
                let signed = |part: Vec<RData>| {
                    let record = |data| Record::from_rdata(name.clone(), ttl, data);
                    let records: Vec<Record> = part.into_iter().map(record).collect();
                    let sign = |key: &ZoneKey| key.sign(&shape.zone, &records, validity);
                    let signatures = match kind {
                        RecordType::DNSKEY => keys.published().map(sign).collect(),
                        _ => sign(keys.signing()).map(|signature| vec![signature]),
                    };
                    Ok::<_, DnsError>(Signed {
                        signatures: signatures?,
                        records,
                    })
                };
                let parts = Parts {
                    parts: parts.into_iter().map(signed).collect::<Result<_, _>>()?,
                    // Not the same part first after each change.
                    turn: AtomicU64::new(u64::from(content.serial)),
                };
                node.sets.insert(kind, parts);
            }
            zone.nodes.insert(name, node);
        }
        Ok(zone)
    }

    /// Where a name inside of the zone stands.
    pub(crate) fn find(&self, name: &Name) -> Found<'_> {
        if let Some(node) = self.nodes.get(name) {
            return Found::Node(node);
        }
        // The names below one follow it in canonical order.
        match self.nodes.range(name..).next() {
            Some((next, _)) if name.zone_of(next) => Found::Between,
            Some(_) | None => Found::Nothing,
        }
    }

    /// The apex's node.
    pub(crate) fn top(&self) -> Option<&Node> {
        self.nodes.get(&self.apex)
    }

    /// The names that have records, in canonical order.
    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = (&Name, &Node)> {
        self.nodes.iter()
    }

    /// The NSEC record of a name, or the one that says that there is nothing at it.
    pub(crate) fn denial(&self, name: &Name) -> Option<&Signed> {
        let at_or_before = self.nodes.range(..=name).next_back();
        let (_, node) = at_or_before.or_else(|| self.nodes.last_key_value())?;
        Some(node.set(RecordType::NSEC)?.set)
    }

    /// The name that a wildcard would have to have to stand for a name that is not there (RFC 4592,
    /// section 3.3.1).
    pub(crate) fn wildcard(&self, name: &Name) -> Option<Name> {
        let mut encloser = name.base_name();
        while matches!(self.find(&encloser), Found::Nothing) && encloser.num_labels() > 0 {
            encloser = encloser.base_name();
        }
        encloser.prepend_label("*").ok()
    }
}

/// The sets of one name, unsigned: by type, with time to live and parts.
type PlainSets = BTreeMap<RecordType, (u32, Vec<Vec<RData>>)>;

#[derive(Default)]
struct Plain {
    nodes: BTreeMap<Name, PlainSets>,
}

impl Plain {
    fn add(&mut self, name: &Name, kind: RecordType, ttl: u32, parts: Vec<Vec<RData>>) {
        if !parts.is_empty() {
            let sets = self.nodes.entry(name.clone()).or_default();
            sets.insert(kind, (ttl, parts));
        }
    }

    fn fill(&mut self, shape: &Shape, content: &Content, keys: &Keys) -> Result<(), DnsError> {
        let Shape {
            zone,
            site,
            nameservers,
            contact,
            issuance,
            ttl,
        } = shape;
        let first = nameservers.first().map(|(name, _)| name.clone());
        let primary = first.ok_or_else(|| DnsError::library("no name server"))?;
        // There are no secondaries that would read the three times between.
        let soa = SOA::new(
            primary,
            contact.clone(),
            content.serial,
            3600,
            600,
            86400,
            *ttl,
        );
        let servers = nameservers
            .iter()
            .map(|(name, _)| RData::NS(NS(name.clone())));
        let dnskeys = keys.dnskeys().into_iter();
        let dnskeys = dnskeys.map(|key| RData::DNSSEC(DNSSECRData::DNSKEY(key)));
        self.add(zone, RecordType::SOA, *ttl, vec![vec![RData::SOA(soa)]]);
        self.add(zone, RecordType::NS, LASTING, vec![servers.collect()]);
        self.add(zone, RecordType::DNSKEY, LASTING, vec![dnskeys.collect()]);
        if let Some((cds, cdnskey)) = keys.child(zone)? {
            let cds = RData::DNSSEC(DNSSECRData::CDS(cds));
            let cdnskey = RData::DNSSEC(DNSSECRData::CDNSKEY(cdnskey));
            self.add(zone, RecordType::CDS, LASTING, vec![vec![cds]]);
            self.add(zone, RecordType::CDNSKEY, LASTING, vec![vec![cdnskey]]);
        }
        for name in [zone, site] {
            self.add(name, RecordType::CAA, LASTING, vec![caa(issuance)]);
        }
        self.add(site, RecordType::HTTPS, LASTING, vec![vec![https()]]);
        let Answers { addresses, whose } = &content.answers;
        match whose {
            Whose::Origin => self.add_addresses(site, *ttl, addresses, parts),
            Whose::Volunteers => self.add_addresses(site, *ttl, addresses, |family| {
                // A crowd with too few turns for all its addresses shows others after a change.
                turns::answers(&family, SHOWN, u64::from(content.serial))
            }),
        }
        for (name, addresses) in nameservers {
            self.add_addresses(name, LASTING, addresses, parts);
        }
        if !content.challenge.is_empty() {
            let name = site
                .prepend_label("_acme-challenge")
                .map_err(DnsError::library)?;
            let values = content.challenge.iter();
            let values = values.map(|value| RData::TXT(TXT::new(vec![value.clone()])));
            self.add(&name, RecordType::TXT, *ttl, vec![values.collect()]);
        }
        Ok(())
    }

    /// Adds the addresses of each family in the parts that `parts` makes of them.
    fn add_addresses(
        &mut self,
        name: &Name,
        ttl: u32,
        addresses: &[IpAddr],
        parts: impl Fn(Vec<IpAddr>) -> Vec<Vec<IpAddr>>,
    ) {
        let mut addresses: Vec<IpAddr> = addresses.iter().map(IpAddr::to_canonical).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let (mut four, mut six): (Vec<IpAddr>, Vec<IpAddr>) =
            addresses.into_iter().partition(IpAddr::is_ipv4);
        four.truncate(MAX_ADDRESSES);
        six.truncate(MAX_ADDRESSES);
        let records = |family: Vec<IpAddr>| -> Vec<Vec<RData>> {
            let parts = parts(family).into_iter();
            parts
                .map(|part| part.into_iter().map(record).collect())
                .collect()
        };
        self.add(name, RecordType::A, ttl, records(four));
        self.add(name, RecordType::AAAA, ttl, records(six));
    }
}

fn record(address: IpAddr) -> RData {
    match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    }
}

/// Addresses in parts whose sizes differ by at most one, so that each address is shown about as
/// often.
fn parts(addresses: Vec<IpAddr>) -> Vec<Vec<IpAddr>> {
    let count = addresses.len().div_ceil(SHOWN);
    let mut parts = vec![Vec::new(); count];
    for (index, address) in addresses.into_iter().enumerate() {
        parts[index % count].push(address);
    }
    parts
}

/// One account at one authority, by a record in this zone; wildcards by nobody (RFC 8659, sections
/// 4.2 and 4.3; RFC 8657, sections 3 and 4).
fn caa(issuance: &Issuance) -> Vec<RData> {
    let mut issue = CAA::new_issue(false, None, Vec::new());
    issue.value = match issuance {
        Issuance::Nobody => b";".to_vec(),
        Issuance::Account { authority, account } => {
            format!("{authority}; accounturi={account}; validationmethods=dns-01").into_bytes()
        }
    };
    let mut wild = CAA::new_issuewild(false, None, Vec::new());
    wild.value = b";".to_vec();
    vec![RData::CAA(issue), RData::CAA(wild)]
}

/// HTTP/1.1 only: HTTP/2 is refused over the suites that can be split. A browser that sees the
/// record also asks by HTTPS where a link says HTTP (RFC 9460, section 9.5), which takes a
/// volunteer's port 80 out of the way.
fn https() -> RData {
    let alpn = SvcParamValue::Alpn(Alpn(vec!["http/1.1".to_owned()]));
    let params = vec![(SvcParamKey::Alpn, alpn)];
    RData::HTTPS(HTTPS(SVCB::new(1, Name::root(), params)))
}

#[cfg(test)]
pub(crate) mod tests {
    use tandem_barnraising::uri;

    use super::*;
    use crate::settings::Settings;

    /// A zone with a name server inside, as the tests have it.
    pub(crate) fn zone(site: &str, addresses: &[&str], challenge: &[&str]) -> Zone {
        zone_of(site, addresses, Whose::Volunteers, challenge)
    }

    fn zone_of(site: &str, addresses: &[&str], whose: Whose, challenge: &[&str]) -> Zone {
        let folder = tempfile::tempdir().expect("a folder");
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "key": folder.path().join("key"), "zone": "example.org", "listen": ["127.0.0.1:0"],
            "nameservers": {"ns.example.org": ["192.0.2.53"]},
            "authority": "ca.example", "account": "https://ca.example/acct/1",
        }))
        .expect("settings");
        let site = uri::Name::parse(site).expect("a name");
        let shape = settings.shape(&site).expect("right");
        let keys = settings.zone_keys(0).expect("a key");
        let content = Content {
            answers: Answers {
                addresses: addresses
                    .iter()
                    .map(|text| text.parse().expect("an address"))
                    .collect(),
                whose,
            },
            challenge: challenge.iter().map(|text| (*text).to_owned()).collect(),
            serial: 7,
        };
        let validity = Validity { from: 0, until: 1 };
        Zone::signed(&shape, &content, &keys, validity).expect("signed")
    }

    pub(crate) fn name(text: &str) -> Name {
        Name::from_ascii(text).expect("a name")
    }

    fn shown(zone: &Zone, site: &str, kind: RecordType) -> Vec<String> {
        let Found::Node(node) = zone.find(&name(site)) else {
            return Vec::new();
        };
        let records = node.set(kind).map(|shown| shown.set.records.iter());
        records
            .into_iter()
            .flatten()
            .map(|record| record.data.to_string())
            .collect()
    }

    #[test]
    fn every_address_is_shown_in_turn_and_each_answer_is_bounded() {
        let addresses: Vec<String> = (0..29).map(|last| format!("192.0.2.{last}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let zone = zone("www.example.org", &addresses, &[]);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..4 {
            let part = shown(&zone, "www.example.org.", RecordType::A);
            assert!((7..=SHOWN).contains(&part.len()), "{part:?}");
            seen.extend(part);
        }
        assert_eq!(seen.len(), 29);
        assert!(shown(&zone, "www.example.org.", RecordType::AAAA).is_empty());
    }

    #[test]
    fn a_subnet_full_of_volunteers_has_its_share_of_each_answer_and_no_more() {
        let crowd = (1..=20).map(|last| format!("2001:db8::{last}"));
        let addresses: Vec<String> = crowd.chain(["2001:db8:1::1".to_owned()]).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let zone = zone("www.example.org", &addresses, &[]);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let part = shown(&zone, "www.example.org.", RecordType::AAAA);
            assert_eq!(part.len(), 2, "{part:?}");
            assert!(part.contains(&"2001:db8:1::1".to_owned()), "{part:?}");
            seen.extend(part);
        }
        assert_eq!(seen.len(), 21, "each of them in its turn");
    }

    #[test]
    fn the_origin_s_addresses_are_all_shown() {
        let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1"];
        let zone = zone_of("www.example.org", &addresses, Whose::Origin, &[]);
        assert_eq!(
            shown(&zone, "www.example.org.", RecordType::A),
            addresses,
            "they are of one who knows why"
        );
    }

    #[test]
    fn one_address_twice_or_in_another_dress_is_one() {
        let zone = zone(
            "www.example.org",
            &["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"],
            &[],
        );
        assert_eq!(
            shown(&zone, "www.example.org.", RecordType::A),
            ["192.0.2.1"]
        );
    }

    #[test]
    fn the_chain_of_denials_goes_round_all_names() {
        let zone = zone("a.b.example.org", &["192.0.2.1"], &["value"]);
        let names: Vec<String> = zone.nodes().map(|(name, _)| name.to_ascii()).collect();
        assert_eq!(
            names,
            [
                "example.org.",
                "a.b.example.org.",
                "_acme-challenge.a.b.example.org.",
                "ns.example.org."
            ]
        );
        let next = |owner: &str| shown(&zone, owner, RecordType::NSEC).concat();
        assert!(
            next("example.org.").starts_with("a.b.example.org. "),
            "{}",
            next("example.org.")
        );
        assert!(next("ns.example.org.").starts_with("example.org. "));
        assert!(next("a.b.example.org.").contains("HTTPS"));
        assert!(matches!(zone.find(&name("b.example.org.")), Found::Between));
        assert!(matches!(zone.find(&name("c.example.org.")), Found::Nothing));
        assert_eq!(
            zone.wildcard(&name("x.y.b.example.org.")),
            Some(name("*.b.example.org."))
        );
        assert_eq!(
            zone.wildcard(&name("x.example.org.")),
            Some(name("*.example.org."))
        );
    }

    #[test]
    fn certificates_are_for_one_account_and_never_for_wildcards() {
        let zone = zone("www.example.org", &[], &[]);
        for owner in ["example.org.", "www.example.org."] {
            assert_eq!(
                shown(&zone, owner, RecordType::CAA),
                [
                    r#"0 issue "ca.example; accounturi=https://ca.example/acct/1; validationmethods=dns-01""#,
                    r#"0 issuewild ";""#
                ]
            );
        }
    }
}
