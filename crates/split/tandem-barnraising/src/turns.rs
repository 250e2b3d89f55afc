//! Which addresses stand in the answers of DNS, one answer after the other: networks take turns,
//! and within each its subnets, and within those their addresses.
//!
//! ```text
//!  well:     a1 a2 a3 (a /64)   b (another /48)
//!  answers:  a1 b | a2 b | a3 b                    b has as much as the crowd next to it
//! ```
//!
//! Is not: who is well, or a message.
//!
//! Invariants: no address stands in an answer twice; while there are addresses of several networks,
//! none has more of an answer than [`ANSWER_WIDE`] and [`ANSWER_NARROW`] say, even if room is left;
//! addresses that are alone in their network have as many turns as any network. Work and memory are
//! bounded by [`MAX_ANSWERS`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::list::MAX_MEMBERS;
use crate::shares::{ANSWER_NARROW, ANSWER_WIDE};
use tandem_wire::Network;

/// Most answers that are told apart: in so many of eight a full roster of one network is shown
/// once. Where crowded networks have more, some of their addresses wait until the next change.
pub const MAX_ANSWERS: usize = MAX_MEMBERS / 8;

/// Answers after which it is enough if every address has been shown, although some have been shown
/// once more than others of their network.
const EVEN: usize = 64;

/// Those that have turns, and whose turn it is.
#[derive(Debug)]
struct Ring<T> {
    network: Network,
    items: Vec<T>,
    next: usize,
}

type Subnet = Ring<IpAddr>;
type Site = Ring<Subnet>;
type Everybody = Ring<Site>;

impl<T> Ring<T> {
    /// A ring whose turns begin `start` steps behind the first.
    fn new(network: Network, mut items: Vec<T>, start: u64) -> Self {
        let first = start.checked_rem(items.len() as u64).unwrap_or(0);
        items.rotate_left(usize::try_from(first).unwrap_or(0));
        Self {
            network,
            items,
            next: 0,
        }
    }

    /// What the first gives that gives something, from the next in turn on; the turn goes on behind
    /// it.
    fn turn<R>(&mut self, mut ask: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        for step in 0..self.items.len() {
            let at = (self.next + step) % self.items.len();
            if let Some(given) = ask(&mut self.items[at]) {
                self.next = (at + 1) % self.items.len();
                return Some(given);
            }
        }
        None
    }
}

/// The answers, each of at most `size` addresses, that are given in turn. All addresses are of one
/// family; `start` says where the turns begin.
///
/// ```
/// use tandem_barnraising::turns::answers;
///
/// let crowd = (1..=20).map(|host| format!("2001:db8::{host}"));
/// let texts: Vec<String> = crowd.chain(["2001:db8:1::1".to_owned()]).collect();
/// let addresses: Vec<std::net::IpAddr> =
///     texts.iter().map(|text| text.parse().expect("an address")).collect();
/// let answers = answers(&addresses, 8, 0);
/// assert!(answers.iter().all(|answer| answer.len() == 2 && answer.contains(&addresses[20])));
/// ```
#[must_use]
pub fn answers(addresses: &[IpAddr], size: usize, start: u64) -> Vec<Vec<IpAddr>> {
    let mut unseen: BTreeSet<IpAddr> = addresses.iter().map(IpAddr::to_canonical).collect();
    let mut everybody = everybody(&unseen, start);
    let mut answers = Vec::new();
    while answers.len() < MAX_ANSWERS {
        let mut answer = next(&mut everybody, size);
        if answer.is_empty() {
            break;
        }
        for address in &answer {
            unseen.remove(address);
        }
        // Many clients take the first address: not always the same network's.
        let first = answers.len() % answer.len();
        answer.rotate_left(first);
        answers.push(answer);
        let is_one = answers.len() == 1;
        if unseen.is_empty() && (is_one || answers.len() >= EVEN || is_at_start(&everybody)) {
            break;
        }
    }
    answers
}

fn everybody(addresses: &BTreeSet<IpAddr>, start: u64) -> Everybody {
    let mut sites: BTreeMap<Network, BTreeMap<Network, Vec<IpAddr>>> = BTreeMap::new();
    for address in addresses {
        let site = sites.entry(Network::wide(*address)).or_default();
        let subnet = site.entry(Network::narrow(*address)).or_default();
        subnet.push(*address);
    }
    let site = |(network, subnets): (Network, BTreeMap<Network, Vec<IpAddr>>)| {
        let subnets = subnets
            .into_iter()
            .map(|(network, items)| Ring::new(network, items, start));
        Ring::new(network, subnets.collect(), start)
    };
    Ring::new(Network::ALL, sites.into_iter().map(site).collect(), start)
}

fn next(everybody: &mut Everybody, size: usize) -> Vec<IpAddr> {
    let mut answer: Vec<IpAddr> = Vec::new();
    let (wide, narrow) = match &everybody.items[..] {
        [only] if only.items.len() == 1 => (size, size),
        [_] => (size, ANSWER_NARROW),
        _ => (ANSWER_WIDE, ANSWER_NARROW),
    };
    while answer.len() < size {
        let has_room = |network: Network, share: usize| {
            let taken = answer.iter().filter(|address| network.has(**address));
            taken.count() < share
        };
        let given = everybody.turn(|site| {
            if !has_room(site.network, wide) {
                return None;
            }
            site.turn(|subnet| {
                if !has_room(subnet.network, narrow) {
                    return None;
                }
                subnet.turn(|address| (!answer.contains(address)).then_some(*address))
            })
        });
        match given {
            Some(address) => answer.push(address),
            None => break,
        }
    }
    answer
}

/// Whether the turns are where they began: what follows is the same again.
fn is_at_start(everybody: &Everybody) -> bool {
    let mut sites = everybody.items.iter();
    everybody.next == 0
        && sites
            .all(|site| site.next == 0 && site.items.iter().all(|subnet: &Subnet| subnet.next == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 8;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn shown(answers: &[Vec<IpAddr>], is_one: impl Fn(&IpAddr) -> bool) -> usize {
        answers
            .iter()
            .flatten()
            .filter(|address| is_one(address))
            .count()
    }

    #[test]
    fn one_network_alone_has_whole_answers_and_its_addresses_equal_turns() {
        let four = (0..30).map(|host| address(&format!("192.0.2.{host}")));
        let six = (0..30).map(|host| address(&format!("2001:db8::{host:x}")));
        for addresses in [four.collect::<Vec<_>>(), six.collect()] {
            let answers = answers(&addresses, SIZE, 0);
            assert!(answers.iter().all(|answer| answer.len() == SIZE));
            let times = answers.len() * SIZE / addresses.len();
            for address in &addresses {
                assert_eq!(shown(&answers, |other| other == address), times);
            }
        }
    }

    #[test]
    fn what_fits_into_one_answer_is_one_answer() {
        let texts = ["192.0.2.1", "198.51.100.1", "203.0.113.1", "203.0.113.2"];
        let addresses = texts.map(address);
        let answers = answers(&addresses, SIZE, 7);
        assert_eq!(answers.len(), 1);
        let shown: BTreeSet<IpAddr> = answers[0].iter().copied().collect();
        assert_eq!(shown, BTreeSet::from(addresses));
        assert!(super::answers(&[], SIZE, 7).is_empty());
        assert!(super::answers(&addresses, 0, 7).is_empty());
    }

    #[test]
    fn a_crowd_has_its_networks_turns_and_no_more() {
        // A /48 with a full share of the roster, each member in a /64 of its own.
        let crowd = (0..256).map(|subnet| address(&format!("2001:db8:0:{subnet:x}::1")));
        let honest = (1..=9).map(|site| address(&format!("2001:db8:{site}::1")));
        let honest: Vec<IpAddr> = honest.collect();
        let addresses: Vec<IpAddr> = crowd.chain(honest.iter().copied()).collect();
        let answers = answers(&addresses, SIZE, 3);
        assert!(answers.len() <= MAX_ANSWERS);
        assert!(answers.iter().all(|answer| answer.len() == SIZE));
        let crowds = Network::wide(addresses[0]);
        let all = answers.len() * SIZE;
        let of_crowd = shown(&answers, |address| crowds.has(*address));
        assert!((all / 10..=all / 10 + 1).contains(&of_crowd), "{of_crowd}");
        for address in &honest {
            let times = shown(&answers, |other| other == address);
            assert!(times.abs_diff(of_crowd) <= 1, "{times} {of_crowd}");
        }
        for address in &addresses {
            assert!(shown(&answers, |other| other == address) > 0, "{address}");
        }
    }

    #[test]
    fn a_subnet_has_one_address_of_an_answer_and_the_first_place_in_turn() {
        let crowd = (1..=20).map(|host| address(&format!("2001:db8::{host:x}")));
        let honest = address("2001:db8:1::1");
        let addresses: Vec<IpAddr> = crowd.chain([honest]).collect();
        let answers = answers(&addresses, SIZE, 0);
        assert_eq!(answers.len(), 20);
        for (turn, answer) in answers.iter().enumerate() {
            assert_eq!(answer.len(), 2);
            assert_eq!(answer[(turn + 1) % 2], honest, "{answer:?}");
        }
    }

    fn few() -> impl Strategy<Value = Vec<IpAddr>> {
        let one = (0..5_u8, 0..4_u8, 0..6_u8).prop_map(|(site, subnet, host)| {
            address(&format!("2001:db8:{site:x}:{subnet:x}::{host:x}"))
        });
        proptest::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn whatever_is_well_shares_are_kept_and_everybody_is_shown(addresses in few(), start in any::<u64>()) {
            let all: BTreeSet<IpAddr> = addresses.iter().copied().collect();
            let sites: BTreeSet<Network> = all.iter().map(|address| Network::wide(*address)).collect();
            let subnets: BTreeSet<Network> = all.iter().map(|address| Network::narrow(*address)).collect();
            let answers = answers(&addresses, SIZE, start);
            let mut seen = BTreeSet::new();
            for answer in &answers {
                prop_assert!((1..=SIZE).contains(&answer.len()));
                let different: BTreeSet<IpAddr> = answer.iter().copied().collect();
                prop_assert_eq!(different.len(), answer.len());
                let most_of = |networks: &BTreeSet<Network>| {
                    let of = |network: &Network| answer.iter().filter(|address| network.has(**address)).count();
                    networks.iter().map(of).max().unwrap_or(0)
                };
                prop_assert!(sites.len() < 2 || most_of(&sites) <= ANSWER_WIDE);
                prop_assert!(subnets.len() < 2 || most_of(&subnets) <= ANSWER_NARROW);
                seen.extend(different);
            }
            prop_assert_eq!(seen, all);
        }
    }
}
