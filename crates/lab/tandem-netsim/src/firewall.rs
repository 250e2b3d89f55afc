//! Middleboxes that change TCP headers, or drop what they do not know: the
//! reasons for which a proxy must find out, in each connection, what gets through.
//!
//! One element, several rules, done in order. A segment with a bad checksum is
//! passed as it is, untouched: rewriting it would make its checksum good.
//!
//! "Known" options are those of every TCP of the last twenty years: MSS, window
//! scale, SACK, timestamps. All others, experiments (RFC 6994) first, are not.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use tandem_wire::clock::Instant;
use tandem_wire::packet::{Edit, TcpPacket};
use tandem_wire::tcp::{TcpFlags, TcpOption};

use crate::element::{Element, Port};

/// NOP, as padding and as a replacement (RFC 9293, section 3.2).
const NOP: u8 = 1;
/// Kind of the SACK option (RFC 2018), whose blocks are sequence numbers.
const SACK: u8 = 5;
/// Bytes of one edge of a SACK block.
const EDGE: usize = 4;

/// What a middlebox does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Takes unknown options out.
    RemoveUnknownOptions(Reach),
    /// Overwrites unknown options by NOPs; the header keeps its length.
    BlankUnknownOptions(Reach),
    /// Takes the timestamps option out of SYNs, so that nobody uses it.
    RemoveTimestampsFromSyn,
    /// Drops SYNs that carry an unknown option.
    DropSynWithUnknownOption,
    /// Clears the reserved bits.
    ClearReservedBits,
    /// Drops segments with a reserved bit set.
    DropReservedBits,
    /// Gives each connection other initial sequence numbers: the client's
    /// sequence space is moved by the first, the server's by the second number.
    /// SACK blocks are moved with it.
    RewriteIsn {
        /// Added to the client's sequence numbers.
        client: u32,
        /// Added to the server's sequence numbers.
        server: u32,
    },
}

/// Which segments a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those with SYN.
    Syn,
    /// All.
    EverySegment,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirewallCounters {
    /// Passed as they were.
    pub untouched: u64,
    /// Passed changed.
    pub changed: u64,
    /// Dropped.
    pub dropped: u64,
}

/// A middlebox.
#[derive(Clone, Debug)]
pub struct Firewall {
    rules: Vec<Rule>,
    /// Connections whose SYN was seen: their numbers are moved. One that was
    /// there before is left alone, as a real one would cut it.
    moved: BTreeSet<(SocketAddr, SocketAddr)>,
    passing: VecDeque<(Port, Vec<u8>)>,
    counters: FirewallCounters,
}

impl Firewall {
    /// A middlebox with these rules.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            moved: BTreeSet::new(),
            passing: VecDeque::new(),
            counters: FirewallCounters::default(),
        }
    }

    /// What was done.
    pub fn counters(&self) -> FirewallCounters {
        self.counters
    }

    /// The packet after all rules, `None` where one drops it.
    fn filtered(&mut self, port: Port, packet: &[u8]) -> Option<Vec<u8>> {
        let mut current = packet.to_vec();
        for index in 0..self.rules.len() {
            let Some(rule) = self.rules.get(index).copied() else {
                break;
            };
            let Ok(segment) = TcpPacket::parse(&current) else {
                break;
            };
            if !segment.checksums_valid() {
                break;
            }
            match self.apply(rule, port, &segment) {
                Applied::Untouched => {}
                Applied::Changed(changed) => current = changed,
                Applied::Dropped => return None,
            }
        }
        Some(current)
    }

    fn apply(&mut self, rule: Rule, port: Port, segment: &TcpPacket<'_>) -> Applied {
        let is_syn = segment.flags().contains(TcpFlags::SYN);
        let within = |reach| match reach {
            Reach::Syn => is_syn,
            Reach::EverySegment => true,
        };
        let has_unknown = segment.options().any(|option| is_unknown(&option));
        match rule {
            Rule::RemoveUnknownOptions(reach) if within(reach) && has_unknown => {
                with_options(segment, &kept_options(segment, is_unknown, Leave::Nothing))
            }
            Rule::BlankUnknownOptions(reach) if within(reach) && has_unknown => {
                with_options(segment, &kept_options(segment, is_unknown, Leave::Nops))
            }
            Rule::RemoveTimestampsFromSyn if is_syn && segment.timestamps().is_some() => {
                let is_timestamps =
                    |option: &TcpOption<'_>| matches!(option, TcpOption::Timestamps(_));
                with_options(segment, &kept_options(segment, is_timestamps, Leave::Nops))
            }
            Rule::DropSynWithUnknownOption if is_syn && has_unknown => Applied::Dropped,
            Rule::ClearReservedBits if segment.flags().intersects(TcpFlags::RESERVED) => {
                let flags = segment.flags().without(TcpFlags::RESERVED);
                rebuilt(
                    segment,
                    &Edit {
                        flags: Some(flags),
                        ..Edit::default()
                    },
                )
            }
            Rule::DropReservedBits if segment.flags().intersects(TcpFlags::RESERVED) => {
                Applied::Dropped
            }
            Rule::RewriteIsn { client, server } => self.moved(port, segment, client, server),
            Rule::RemoveUnknownOptions(_)
            | Rule::BlankUnknownOptions(_)
            | Rule::RemoveTimestampsFromSyn
            | Rule::DropSynWithUnknownOption
            | Rule::ClearReservedBits
            | Rule::DropReservedBits => Applied::Untouched,
        }
    }

    fn moved(&mut self, port: Port, segment: &TcpPacket<'_>, client: u32, server: u32) -> Applied {
        let flags = segment.flags();
        let (key, own, other) = match port {
            Port::Left => ((segment.source(), segment.destination()), client, server),
            Port::Right => ((segment.destination(), segment.source()), server, client),
        };
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            self.moved.insert(key);
        }
        if !self.moved.contains(&key) {
            return Applied::Untouched;
        }
        let options = with_moved_sack(segment.options_bytes(), other);
        rebuilt(
            segment,
            &Edit {
                seq: Some(segment.seq().wrapping_add(own)),
                // Outwards the peer's numbers are moved, so what acknowledges them moves back.
                ack: flags
                    .contains(TcpFlags::ACK)
                    .then(|| segment.ack().wrapping_sub(other)),
                options: Some(&options),
                ..Edit::default()
            },
        )
    }
}

impl Element for Firewall {
    fn handle_input(&mut self, port: Port, packet: Vec<u8>, _now: Instant) {
        match self.filtered(port, &packet) {
            None => self.counters.dropped += 1,
            Some(out) => {
                if out == packet {
                    self.counters.untouched += 1;
                } else {
                    self.counters.changed += 1;
                }
                self.passing.push_back((port.opposite(), out));
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.passing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

enum Applied {
    Untouched,
    Changed(Vec<u8>),
    Dropped,
}

/// What takes the place of an option that is not kept.
#[derive(Clone, Copy)]
enum Leave {
    Nothing,
    Nops,
}

fn is_unknown(option: &TcpOption<'_>) -> bool {
    match option {
        TcpOption::Nop
        | TcpOption::EndOfList
        | TcpOption::MaximumSegmentSize(_)
        | TcpOption::WindowScale(_)
        | TcpOption::SackPermitted
        | TcpOption::Sack(_)
        | TcpOption::Timestamps(_) => false,
        TcpOption::Md5(_)
        | TcpOption::Authentication(_)
        | TcpOption::Multipath(_)
        | TcpOption::FastOpen(_)
        | TcpOption::Experiment { .. }
        | TcpOption::Other { .. } => true,
    }
}

/// The options area without those that `goes` names, padded to 4 bytes.
fn kept_options(
    segment: &TcpPacket<'_>,
    goes: impl Fn(&TcpOption<'_>) -> bool,
    leave: Leave,
) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = segment.options_bytes();
    for option in segment.options() {
        // Kind alone, or kind and length: the view is validated.
        let length = match option {
            TcpOption::Nop | TcpOption::EndOfList => 1,
            _ => rest.get(1).copied().map_or(1, usize::from),
        };
        let (raw, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        match (goes(&option), leave) {
            (false, _) => kept.extend_from_slice(raw),
            (true, Leave::Nothing) => {}
            (true, Leave::Nops) => kept.resize(kept.len() + raw.len(), NOP),
        }
    }
    kept.resize(kept.len().next_multiple_of(4), NOP);
    kept
}

/// A well-formed options area with the edges of SACK blocks moved back by `by`.
fn with_moved_sack(area: &[u8], by: u32) -> Vec<u8> {
    let mut moved = area.to_vec();
    let mut at = 0;
    while let Some(&kind) = moved.get(at) {
        if kind <= NOP {
            at += 1;
            continue;
        }
        let length = moved.get(at + 1).copied().map_or(2, usize::from).max(2);
        if kind == SACK {
            let end = (at + length).min(moved.len());
            for edge in moved[at + 2..end].chunks_exact_mut(EDGE) {
                if let Ok(bytes) = <[u8; EDGE]>::try_from(&*edge) {
                    let value = u32::from_be_bytes(bytes).wrapping_sub(by);
                    edge.copy_from_slice(&value.to_be_bytes());
                }
            }
        }
        at += length;
    }
    moved
}

fn with_options(segment: &TcpPacket<'_>, options: &[u8]) -> Applied {
    rebuilt(
        segment,
        &Edit {
            options: Some(options),
            ..Edit::default()
        },
    )
}

/// A segment that cannot be rebuilt (there is none that only shrinks) is untouched.
fn rebuilt(segment: &TcpPacket<'_>, edit: &Edit<'_>) -> Applied {
    segment
        .rebuilt(edit)
        .map_or(Applied::Untouched, Applied::Changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_wire::packet::SegmentRepr;
    use tandem_wire::seq::Seq;

    /// MSS, an unknown option of three bytes, timestamps, window scale: 20 bytes.
    const OPTIONS: [u8; 20] = [
        2, 4, 5, 0xb4, 77, 3, 9, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 3, 3, 7,
    ];

    fn segment(flags: TcpFlags, options: &[u8]) -> Vec<u8> {
        let segment = SegmentRepr {
            source: SocketAddr::from(([10, 0, 0, 1], 50_000)),
            destination: SocketAddr::from(([10, 0, 1, 1], 443)),
            seq: Seq(1_000),
            ack: Seq(2_000),
            flags,
            window: 9_000,
            options: options.to_vec(),
            payload: Vec::new(),
            hop_limit: 64,
        };
        segment.build()
    }

    /// What comes out of a firewall with one rule, options alone.
    fn through(rule: Rule, flags: TcpFlags, options: &[u8]) -> Option<Vec<u8>> {
        let packet = segment(flags, options);
        let out = Firewall::new([rule]).filtered(Port::Left, &packet)?;
        let out = TcpPacket::parse(&out).expect("a segment");
        assert!(out.checksums_valid());
        Some(out.options_bytes().to_vec())
    }

    #[test]
    fn what_is_known_stays_when_the_unknown_goes() {
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        let left = [&OPTIONS[..4], &OPTIONS[7..], &[1, 1, 1]].concat();
        let blanked = [&OPTIONS[..4], &[1, 1, 1], &OPTIONS[7..]].concat();
        for (rule, flags, expected) in [
            (Rule::RemoveUnknownOptions(Reach::Syn), syn, &left[..]),
            (Rule::RemoveUnknownOptions(Reach::Syn), ack, &OPTIONS),
            (Rule::RemoveUnknownOptions(Reach::EverySegment), ack, &left),
            (Rule::BlankUnknownOptions(Reach::Syn), syn, &blanked),
            (
                Rule::BlankUnknownOptions(Reach::EverySegment),
                ack,
                &blanked,
            ),
            (Rule::RemoveTimestampsFromSyn, ack, &OPTIONS),
        ] {
            assert_eq!(
                through(rule, flags, &OPTIONS).as_deref(),
                Some(expected),
                "{rule:?}"
            );
        }
        let without_timestamps = [&OPTIONS[..7], &[1; 10], &OPTIONS[17..]].concat();
        let out = through(Rule::RemoveTimestampsFromSyn, syn, &OPTIONS);
        assert_eq!(out, Some(without_timestamps));
        assert_eq!(through(Rule::DropSynWithUnknownOption, syn, &OPTIONS), None);
        assert!(through(Rule::DropSynWithUnknownOption, ack, &OPTIONS).is_some());
        let known = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert!(through(Rule::DropSynWithUnknownOption, syn, &known).is_some());
    }

    #[test]
    fn the_edges_of_sack_blocks_move_with_what_they_acknowledge() {
        let area = [
            8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10, 0, 0, 0, 30, 0, 0, 0, 40, 1, 1,
        ];
        let mut expected = area;
        expected[14..18].copy_from_slice(&23_u32.to_be_bytes());
        expected[18..22].copy_from_slice(&33_u32.to_be_bytes());
        assert_eq!(with_moved_sack(&area, 7), expected);
        assert_eq!(with_moved_sack(&OPTIONS, 7), OPTIONS);
    }

    #[test]
    fn what_passes_changes_or_is_dropped_is_counted() {
        let mut firewall = Firewall::new([Rule::DropReservedBits, Rule::RemoveTimestampsFromSyn]);
        let reserved = TcpFlags::ACK.with(TcpFlags::AE);
        let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        for flags in [
            reserved,
            TcpFlags::SYN,
            TcpFlags::ACK,
            reserved,
            TcpFlags::ACK,
        ] {
            firewall.handle_input(Port::Left, segment(flags, &options), Instant::ZERO);
        }
        let counters = firewall.counters;
        let counts = (counters.untouched, counters.changed, counters.dropped);
        assert_eq!(counts, (2, 1, 2));
        assert_eq!(std::iter::from_fn(|| firewall.poll_output()).count(), 3);
    }
}
