//! Random schedules: everything about a run is drawn from one seed, so that the seed is the run.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tandem_netsim::firewall::{Firewall, Reach, Rule};
use tandem_netsim::host::{AckPolicy, RtoBounds, Segmenter};
use tandem_netsim::link::{
    Corruption, DirectionConfig, Duplication, GilbertElliott, Loss, Reordering,
};
use tandem_netsim::nat::{InvalidPolicy, Nat};
use tandem_netsim::pep::SplittingPep;
use tandem_netsim::{BitRate, Host, HostConfig, Link, LinkConfig, Probability, Step};
use tandem_packet::{ClientCertificates, Config, Limits, Role, WireFormat};
use tandem_store::MemoryStore;
use tandem_wire::{Instant, Seq};

use super::tls::{self, Conversation, Layout};
use super::{
    Boxed, CLIENT_SIDE, Closes, ProxyElement, SERVER_SIDE, Scenario, config, site, store_with,
    teach, teach_client, teach_messages,
};

/// What befalls a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Killed; packets pass.
    Dies,
    /// Killed and started again with what is on its disk.
    Restarts,
    /// Killed and started again with nothing.
    LosesAll,
    /// What it held is purged under it.
    Forgets,
    /// Stopped for five seconds while the kernel's queue fills; what it cannot take is dropped.
    Stops(usize),
    /// The same, and what the queue cannot take passes by.
    StopsFailOpen(usize),
}

/// A fault: after so many steps, to this proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub step: u64,
    pub index: usize,
    pub fate: Fate,
}

/// What the two ends say to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    FullHandshake,
    Resumed,
    Tls13,
    NotTls,
    ClientAlert,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    TheChain,
    /// A chain with the same issuers and another leaf.
    AnOldLeaf,
    Nothing,
}

/// What stands beside the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Middle {
    Nothing,
    NatBefore(InvalidPolicy),
    NatAfter(InvalidPolicy),
    Firewall(Rule),
    Pep,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub speech: Speech,
    pub hello_filler: usize,
    pub certificates: Vec<usize>,
    pub layout: Layout,
    pub client: HostConfig,
    pub server: HostConfig,
    pub link: LinkConfig,
    pub client_lan: LinkConfig,
    pub server_lan: LinkConfig,
    pub middle: Middle,
    pub client_holds: Held,
    pub server_holds: Held,
    pub faults: Vec<Fault>,
    /// How many clients say the same at once, each to a server of its own.
    pub clients: u16,
    pub limits: Limits,
    /// The client's certificates, where the server asks for them; none: it has none.
    pub mutual: Option<Vec<usize>>,
    /// Whether each proxy knows the client's chain.
    pub remembered: [bool; 2],
    pub client_certificates: ClientCertificates,
    /// The size of a staple, and which one the proxies know that hold a chain.
    pub staple: Option<(usize, KnownStaple)>,
    /// The length of the session ticket that the client shows, and whether each proxy has seen it.
    pub ticket: Option<(usize, [bool; 2])>,
}

/// A staple that was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownStaple {
    TheSame,
    /// One that was signed before, with most of its bytes the same.
    AnOlder,
    None,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let v6 = rng.random_bool(0.3);
        let certificates: Vec<usize> = (0..rng.random_range(1..5))
            .map(|_| rng.random_range(200..2_000))
            .collect();
        Self {
            seed,
            speech: match rng.random_range(0..20) {
                0 => Speech::Resumed,
                1 => Speech::Tls13,
                2 => Speech::NotTls,
                3 => Speech::ClientAlert,
                _ => Speech::FullHandshake,
            },
            hello_filler: match rng.random_range(0..6) {
                0 => rng.random_range(1_200..1_400),
                1 => rng.random_range(1_400..4_000),
                _ => rng.random_range(0..400),
            },
            certificates,
            layout: match rng.random_range(0..3) {
                0 => Layout::Packed(1 << 14),
                1 => Layout::Packed(rng.random_range(1..4_000)),
                _ => Layout::MessageARecord,
            },
            client: host(&mut rng, super::client_address(), v6),
            server: host(&mut rng, super::server_address(), v6),
            link: link(&mut rng),
            client_lan: lan(&mut rng),
            server_lan: lan(&mut rng),
            middle: middle(&mut rng),
            client_holds: held(&mut rng),
            server_holds: held(&mut rng),
            faults: (0..rng.random_range(0..3))
                .map(|_| fault(&mut rng))
                .collect(),
            clients: one_of(&mut rng, &[1, 1, 1, 4]),
            limits: limits(&mut rng),
            mutual: rng.random_bool(0.5).then(|| {
                (0..rng.random_range(0..4))
                    .map(|_| rng.random_range(200..2_000))
                    .collect()
            }),
            remembered: [rng.random_bool(0.8), rng.random_bool(0.7)],
            client_certificates: one_of(
                &mut rng,
                &[
                    ClientCertificates::Persistent,
                    ClientCertificates::Persistent,
                    ClientCertificates::Cii {
                        extension: tandem_engine::intention::EXTENSION,
                    },
                    ClientCertificates::None,
                    // Of two chains one passes for held.
                    ClientCertificates::Filter {
                        rate: tandem_engine::filter::Rate::one_in(2).expect("within the bounds"),
                    },
                    super::mutual::BY_FILTER,
                ],
            ),
            staple: rng.random_bool(0.4).then(|| {
                let known = [
                    KnownStaple::TheSame,
                    KnownStaple::AnOlder,
                    KnownStaple::None,
                ];
                (rng.random_range(1..2_500), one_of(&mut rng, &known))
            }),
            ticket: rng.random_bool(0.4).then(|| {
                let length = match rng.random_range(0..3) {
                    0 => rng.random_range(1..4_000),
                    _ => 208,
                };
                (length, [rng.random_bool(0.9), rng.random_bool(0.8)])
            }),
        }
    }

    /// The same without any harm that is left to chance.
    #[must_use]
    pub fn without_chance(mut self) -> Self {
        for config in [&mut self.link, &mut self.client_lan, &mut self.server_lan] {
            for direction in [&mut config.up, &mut config.down] {
                direction.loss = Loss::None;
                direction.reordering = Reordering::default();
                direction.duplication = Duplication::default();
                direction.corruption = Corruption::default();
            }
        }
        self
    }

    pub fn conversation(&self) -> Conversation {
        let chain = tls::chain(&self.certificates);
        let intention = match self.client_certificates {
            ClientCertificates::Cii { .. } => tls::intention(&self.client_chain()),
            ClientCertificates::None
            | ClientCertificates::Persistent
            | ClientCertificates::Filter { .. } => Vec::new(),
        };
        let shown = self.ticket().map(|ticket| tls::showing(&ticket));
        let more = [intention, shown.unwrap_or_default()].concat();
        let hello = tls::client_hello_with(Some(super::NAME), self.hello_filler, &more);
        match self.speech {
            Speech::FullHandshake => {
                let conversation = match &self.mutual {
                    Some(_) => {
                        Conversation::mutual(hello, &chain, &self.client_chain(), self.layout)
                    }
                    None => Conversation::new(hello, &chain, self.layout),
                };
                match self.staple {
                    Some((size, _)) => conversation.stapled(&tls::noise(size, 90), self.layout),
                    None => conversation,
                }
            }
            Speech::Resumed => Conversation::resumed(hello, &chain),
            Speech::Tls13 => Conversation::tls13(hello, &chain),
            Speech::NotTls => Conversation::not_tls(&chain),
            Speech::ClientAlert => Conversation::alerted(hello, &chain, self.layout),
        }
    }

    fn ticket(&self) -> Option<Vec<u8>> {
        self.ticket.map(|(length, _)| tls::noise(length, 600))
    }

    fn client_chain(&self) -> Vec<Vec<u8>> {
        let sizes = self.mutual.iter().flatten();
        (70..)
            .zip(sizes)
            .map(|(seed, size)| tls::noise(*size, seed))
            .collect()
    }

    fn store(&self, held: Held, remembered: bool) -> MemoryStore {
        let mut chain = tls::chain(&self.certificates);
        let mut store = match held {
            Held::TheChain => store_with(&chain),
            Held::AnOldLeaf => {
                chain[0] = tls::noise(700, 4_711);
                store_with(&chain)
            }
            Held::Nothing => MemoryStore::default(),
        };
        if let (Some((size, known)), false) = (self.staple, held == Held::Nothing)
            && self.speech == Speech::FullHandshake
        {
            let mut beside = self.conversation().beside();
            let changed = beside.len() - 1 - size / 2;
            match known {
                KnownStaple::TheSame => teach_messages(&mut store, &site(), &beside),
                KnownStaple::AnOlder => {
                    beside[changed] ^= 1;
                    teach_messages(&mut store, &site(), &beside);
                }
                KnownStaple::None => {}
            }
        }
        let client = self.client_chain();
        if remembered && !client.is_empty() {
            teach_client(&mut store, &client);
        }
        store
    }

    /// What the proxy at `index` is told at its start.
    pub fn config(&self, index: usize) -> Config {
        let role = if index == CLIENT_SIDE {
            Role::ClientSide
        } else {
            Role::ServerSide
        };
        Config {
            limits: self.limits,
            client_certificates: self.client_certificates,
            ..config(role, WireFormat::Safe)
        }
    }

    /// The proxy at `index`, with what it has seen before.
    fn proxy(&self, index: usize) -> ProxyElement {
        let (which, held) = if index == CLIENT_SIDE {
            (0, self.client_holds)
        } else {
            (1, self.server_holds)
        };
        let store = self.store(held, self.remembered[which]);
        let mut element = ProxyElement::new(self.config(index), store);
        if let (Some(ticket), Some((_, seen))) = (self.ticket(), self.ticket)
            && seen[which]
        {
            let proxy = &mut element.proxy;
            proxy
                .engine_mut()
                .remember_ticket(&site(), &ticket, Instant::ZERO);
        }
        element
    }

    /// The hosts of the other clients, beside the scenario's own.
    pub fn more_hosts(&self) -> Vec<(Host, Host)> {
        let conversation = self.conversation();
        (1..self.clients)
            .map(|number| {
                let (client, server) = conversation.scripts();
                let mut config = self.client.clone();
                config.local.set_port(config.local.port() + number);
                config.initial_seq = Seq(config.initial_seq.0.wrapping_mul(u32::from(number) + 7));
                let client = client.then(Step::Close).then(Step::ReceiveEnd);
                let server = server.then(Step::ReceiveEnd).then(Step::Close);
                (
                    Host::client(config, self.server.local).with_script(client),
                    Host::server(self.server.clone()).with_script(server),
                )
            })
            .collect()
    }

    /// The whole world of the plan.
    pub fn scenario(&self) -> Scenario {
        let lan = |config: &LinkConfig, salt| {
            let link = Link::new(config.clone(), self.seed ^ salt, Instant::ZERO);
            Some(Boxed(Box::new(link)))
        };
        let outer = Ipv4Addr::new(192, 0, 2, 7);
        let nat = |policy| Some(Boxed(Box::new(Nat::new(outer, 50_000, policy))));
        let (before, after) = match &self.middle {
            Middle::Nothing => (None, None),
            Middle::NatBefore(policy) => (nat(*policy), None),
            Middle::NatAfter(policy) => (None, nat(*policy)),
            Middle::Firewall(rule) => (None, Some(Boxed(Box::new(Firewall::new([*rule]))))),
            Middle::Pep => (None, Some(Boxed(Box::new(SplittingPep::new())))),
        };
        Scenario {
            conversation: self.conversation(),
            link: self.link.clone(),
            client: self.client.clone(),
            server: self.server.clone(),
            client_side: Some(self.proxy(CLIENT_SIDE)),
            server_side: Some(self.proxy(SERVER_SIDE)),
            client_lan: lan(&self.client_lan, 0xc11e),
            before_link: before,
            after_link: after,
            server_lan: lan(&self.server_lan, 0x5e12),
            closes: Closes::AtTheEnd,
            seed: self.seed,
        }
    }
}

fn percent(rng: &mut Pcg64, most: u8) -> Probability {
    Probability::percent(rng.random_range(0..=most))
}

fn millis(rng: &mut Pcg64, most: u64) -> Duration {
    Duration::from_millis(rng.random_range(0..=most))
}

fn one_of<T: Clone>(rng: &mut Pcg64, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}

fn host(rng: &mut Pcg64, local: SocketAddr, v6: bool) -> HostConfig {
    let local = match (local, v6) {
        (SocketAddr::V4(local), true) => {
            SocketAddr::new(local.ip().to_ipv6_mapped().into(), local.port())
        }
        (local, _) => local,
    };
    let mut host = HostConfig::new(local);
    host.initial_seq = Seq(rng.random());
    host.timestamps = rng.random_bool(0.97).then(|| rng.random());
    host.rto = RtoBounds {
        maximum: Duration::from_secs(10),
        ..RtoBounds::default()
    };
    (host.syn_retries, host.data_retries) = (100, 100);
    if rng.random_bool(0.5) {
        return host;
    }
    host.mss = match rng.random_range(0..3) {
        0 => rng.random_range(536..host.mss),
        _ => host.mss,
    };
    host.window_scale = rng.random_bool(0.8).then(|| rng.random_range(0..10));
    host.receive_window = match rng.random_range(0..4) {
        0 => rng.random_range(2_000..10_000),
        _ => 65_535,
    };
    host.acknowledgements = match rng.random_range(0..3) {
        0 => AckPolicy::Immediate,
        _ => AckPolicy::Delayed(millis(rng, 200)),
    };
    host.segmenter = match rng.random_range(0..8) {
        // The handshake in dust, what follows in full segments: else a lossy run lasts for hours of
        // its own accord.
        0 => Segmenter::CutAt((1..600).map(|cut| cut * one_of(rng, &[1, 7])).collect()),
        1 => Segmenter::AtMost(rng.random_range(200..1_400)),
        2 => Segmenter::CutAt((1..20).map(|cut| cut * rng.random_range(1..400)).collect()),
        _ => Segmenter::Full,
    };
    if let Segmenter::CutAt(cuts) = &mut host.segmenter {
        cuts.sort_unstable();
    }
    host.initial_window = one_of(rng, &[1, 2, 4, 10, 10, 10]);
    host
}

fn link(rng: &mut Pcg64) -> LinkConfig {
    let rates = [
        None,
        Some(2_400),
        Some(64_000),
        Some(1_000_000),
        Some(1_000_000),
    ];
    let rate = |rng: &mut Pcg64| one_of(rng, &rates).and_then(BitRate::from_bits_per_second);
    let delays = [0, 20, 90, 400].map(Duration::from_millis);
    let mut config = LinkConfig::new(rate(rng), rate(rng), one_of(rng, &delays));
    let most = one_of(rng, &[0, 0, 3, 10, 30]);
    if most > 0 {
        harm(rng, &mut config.up, most);
        harm(rng, &mut config.down, most);
    }
    config
}

fn lan(rng: &mut Pcg64) -> LinkConfig {
    let mut config = LinkConfig::default();
    if rng.random_bool(0.3) {
        harm(rng, &mut config.up, 15);
        harm(rng, &mut config.down, 15);
        // On the link alone: two flipped bits of one packet can make its checksum good again.
        config.up.corruption = Corruption::default();
        config.down.corruption = Corruption::default();
    }
    config
}

fn harm(rng: &mut Pcg64, direction: &mut DirectionConfig, most: u8) {
    direction.loss = match rng.random_range(0..3) {
        0 => Loss::None,
        1 => Loss::Independent(percent(rng, most)),
        _ => Loss::GilbertElliott(GilbertElliott {
            good_to_bad: percent(rng, most / 3),
            bad_to_good: Probability::percent(30),
            loss_in_good: Probability::NEVER,
            loss_in_bad: Probability::percent(70),
        }),
    };
    if rng.random_bool(0.4) {
        direction.reordering = Reordering {
            probability: percent(rng, 30),
            extra_delay: millis(rng, 100),
        };
    }
    if rng.random_bool(0.4) {
        direction.duplication = Duplication {
            probability: percent(rng, 30),
            after: millis(rng, 3_000),
        };
    }
    if rng.random_bool(0.2) {
        direction.corruption.probability = percent(rng, 10);
    }
}

fn middle(rng: &mut Pcg64) -> Middle {
    let policies = [
        InvalidPolicy::Drop,
        InvalidPolicy::Drop,
        InvalidPolicy::LeaveUntranslated,
    ];
    let rules = [
        Rule::RemoveUnknownOptions(Reach::Syn),
        Rule::RemoveUnknownOptions(Reach::EverySegment),
        Rule::BlankUnknownOptions(Reach::Syn),
        Rule::RemoveTimestampsFromSyn,
        Rule::DropSynWithUnknownOption,
        Rule::RewriteIsn {
            client: rng.random(),
            server: rng.random(),
        },
    ];
    match rng.random_range(0..10) {
        0..3 => Middle::NatBefore(one_of(rng, &policies)),
        3..6 => Middle::NatAfter(one_of(rng, &policies)),
        6 if rng.random_bool(0.7) => Middle::Firewall(one_of(rng, &rules)),
        7 if rng.random_bool(0.3) => Middle::Pep,
        _ => Middle::Nothing,
    }
}

fn held(rng: &mut Pcg64) -> Held {
    one_of(
        rng,
        &[
            Held::TheChain,
            Held::TheChain,
            Held::TheChain,
            Held::AnOldLeaf,
            Held::Nothing,
        ],
    )
}

/// The usual limits, or some that are met.
fn limits(rng: &mut Pcg64) -> Limits {
    let usual = Limits::default();
    match rng.random_range(0..10) {
        0 => Limits {
            flows: rng.random_range(1..4),
            ..usual
        },
        1 => Limits {
            memory: rng.random_range(1_000..30_000),
            ..usual
        },
        2 => Limits {
            hold_segments: rng.random_range(0..6),
            hold_bytes: rng.random_range(100..8_000),
            hold_time: millis(rng, 1_000),
            ack_time: millis(rng, 500),
            ..usual
        },
        3 => Limits {
            // No shorter than a client keeps repeating its SYN (two minutes), or each repeat is
            // taken for a first one.
            flow_lifetime: Duration::from_secs(rng.random_range(130..300)),
            mtu: rng.random_range(1_400..1_500),
            ..usual
        },
        _ => usual,
    }
}

fn fault(rng: &mut Pcg64) -> Fault {
    let queue = one_of(rng, &[0, 1, 3, 1_024]);
    let fates = [
        Fate::Dies,
        Fate::Restarts,
        Fate::LosesAll,
        Fate::Forgets,
        Fate::Stops(queue),
        Fate::StopsFailOpen(queue),
    ];
    Fault {
        step: rng.random_range(0..60),
        index: one_of(rng, &[CLIENT_SIDE, SERVER_SIDE]),
        fate: one_of(rng, &fates),
    }
}
