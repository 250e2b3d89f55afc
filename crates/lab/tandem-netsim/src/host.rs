//! A fake: a TCP endpoint for tests in virtual time, one connection long.
//!
//! It is here to make the segments, losses, repeats and refusals that a proxy
//! must live with; it is not a TCP anybody should use. What it does, it does as
//! Linux does where a proxy could tell: handshake with MSS, window scale and
//! timestamps; RFC 6298's timer with Linux's floor; fast retransmit and NewReno;
//! PAWS (RFC 7323); reassembly; flow control with a window probe; checksums
//! verified; challenge ACKs (RFC 5961); path-MTU messages heeded (RFC 1191,
//! RFC 8201); FIN, RST.
//!
//! Left out: SACK, Fast Open, ECN, urgent data, simultaneous open, Nagle,
//! keep-alive, the 2 MSL wait (a finished host answers for ever), IP fragments.
//!
//! Invariants: same inputs, same outputs (it has no chance in it); a segment
//! with a bad checksum changes nothing; [`Host::received`] only grows; work per
//! call is bounded by the segment, the window and the script.

mod arrive;
mod config;
mod emit;
mod pmtu;
mod receiver;
mod rtt;
mod sender;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tandem_wire::clock::Instant;
use tandem_wire::packet::TcpPacket;
use tandem_wire::seq::Seq;
use tandem_wire::tcp::{TcpFlags, TcpOption};

pub use config::{
    AckPolicy, DEFAULT_DATA_RETRIES, DEFAULT_INITIAL_WINDOW, DEFAULT_RECEIVE_WINDOW,
    DEFAULT_SYN_RETRIES, HostConfig, Segmenter,
};
pub use rtt::RtoBounds;

use crate::script::{Action, Script, Seen, StreamEnd};
use receiver::ReceiveHalf;
use rtt::RttEstimator;
use sender::{Attempt, Fin, Push, SendHalf};

/// What a peer takes that announces no MSS (RFC 9293, section 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
/// See [`DEFAULT_MSS_V4`].
const DEFAULT_MSS_V6: u16 = 1_220;
/// Keeps the longest segment with its headers within an IP packet of 65,535 bytes.
const MAX_SEGMENT: usize = 65_000;
/// NOP, NOP and the timestamps option (RFC 7323, appendix A).
const TIMESTAMPS_LEN: usize = 12;
/// A larger shift is read as 14 (RFC 7323, section 2.3).
const MAXIMUM_SHIFT: u8 = 14;
/// ACKs that answer segments outside of the window, at most one in this time
/// (Linux's `tcp_invalid_ratelimit`): two hosts that disagree do not storm.
const INVALID_ACK_INTERVAL: Duration = Duration::from_millis(500);

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not begun. Answers RST.
    Idle,
    /// Waits for a SYN.
    Listening,
    /// Has sent a SYN.
    SynSent,
    /// Has answered a SYN.
    SynReceived,
    /// Open in at least one direction, or both are finished.
    Open,
    /// Gone other than by FINs. Answers RST.
    Broken(Ending),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both directions closed and acknowledged.
    Finished,
    /// The peer reset it.
    Reset,
    /// The peer answered the SYN with a reset.
    Refused,
    /// Retransmissions were given up.
    TimedOut,
    /// This host's application reset it.
    Aborted,
}

/// Why [`Host::handle_timeout`] is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// Something sent is not acknowledged, or the peer's window is closed.
    Retransmit,
    /// An acknowledgement has waited long enough.
    DelayedAck,
    /// A `Wait` of the script ends.
    Script,
}

/// What a host has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Segments sent, of any kind.
    pub sent: u64,
    /// Segments of this connection that arrived, refused ones included.
    pub received: u64,
    /// Packets that were not TCP or not of this connection.
    pub ignored: u64,
    /// Segments with data or FIN sent again.
    pub retransmitted: u64,
    /// Times that the retransmission timer ran out.
    pub timeouts: u64,
    /// Times that duplicate ACKs started a retransmission.
    pub fast_retransmits: u64,
    /// SYNs and SYN/ACKs sent again.
    pub syn_retransmitted: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Dropped: wrong IPv4 or TCP checksum.
    pub bad_checksum: u64,
    /// Dropped: an old timestamp (PAWS); answered by an ACK (RFC 7323, section 5.3, R1).
    pub paws_dropped: u64,
    /// Dropped: outside of the window.
    pub outside_window: u64,
    /// Acknowledged something that was never sent.
    pub ack_of_unsent: u64,
    /// Arrived ahead of something missing.
    pub out_of_order: u64,
    /// Carried data, none of them new.
    pub duplicates: u64,
    /// ACKs that answered an unacceptable segment, RST or SYN.
    pub challenge_acks: u64,
    /// RSTs sent.
    pub resets_sent: u64,
    /// Path-MTU messages that lowered the segment size.
    pub pmtu_lowered: u64,
}

/// The timestamps of a connection.
#[derive(Clone, Copy, Debug)]
struct TimestampState {
    /// TS.Recent and when it was noted.
    recent: u32,
    noted: Instant,
}

/// A simulated TCP endpoint.
#[derive(Clone, Debug)]
pub struct Host {
    config: HostConfig,
    peer: Option<SocketAddr>,
    phase: Phase,
    tx: SendHalf,
    rx: ReceiveHalf,
    rtt: RttEstimator,
    timestamps: Option<TimestampState>,
    peer_scale: u8,
    /// Both offered window scaling.
    scale_agreed: bool,
    last_ack_sent: Seq,
    retransmit_at: Option<Instant>,
    /// When the peer's SYN was first answered or the own SYN first sent.
    syn_sent_at: Instant,
    attempts: u32,
    ack_at: Option<Instant>,
    unacknowledged_segments: u32,
    challenged_at: Option<Instant>,
    script: Script,
    out: VecDeque<Vec<u8>>,
    counters: HostCounters,
}

impl Host {
    /// A host that will connect to `peer`, once [`Host::connect`] says so.
    ///
    /// # Panics
    /// Where the two addresses are of different IP versions.
    pub fn client(config: HostConfig, peer: SocketAddr) -> Self {
        assert_eq!(
            config.local.is_ipv4(),
            peer.is_ipv4(),
            "the two ends of a connection are of one IP version"
        );
        Self::in_phase(config, Some(peer), Phase::Idle)
    }

    /// A host that takes the first connection made to its address.
    pub fn server(config: HostConfig) -> Self {
        Self::in_phase(config, None, Phase::Listening)
    }

    /// A host without a listener on its port: every SYN is answered by a reset.
    pub fn refusing(config: HostConfig) -> Self {
        Self::in_phase(config, None, Phase::Idle)
    }

    fn in_phase(config: HostConfig, peer: Option<SocketAddr>, phase: Phase) -> Self {
        let tx = SendHalf::new(
            config.initial_seq,
            config.initial_window,
            usize::from(config.mss),
        );
        Self {
            peer,
            phase,
            tx,
            rx: ReceiveHalf::new(config.receive_window),
            rtt: RttEstimator::new(config.rto),
            timestamps: None,
            peer_scale: 0,
            scale_agreed: false,
            last_ack_sent: Seq(0),
            retransmit_at: None,
            syn_sent_at: Instant::ZERO,
            attempts: 0,
            ack_at: None,
            unacknowledged_segments: 0,
            challenged_at: None,
            script: Script::default(),
            out: VecDeque::new(),
            counters: HostCounters::default(),
            config,
        }
    }

    /// Gives the host an application. It starts when the connection is open.
    #[must_use]
    pub fn with_script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    // The application's side.

    /// Sends the SYN. Nothing where the host is not an idle client.
    pub fn connect(&mut self, now: Instant) {
        if self.phase == Phase::Idle && self.peer.is_some() {
            self.phase = Phase::SynSent;
            self.syn_sent_at = now;
            self.emit_syn(now);
            self.arm(now);
        }
    }

    /// Writes into the stream; what cannot be sent yet is kept. Nothing after
    /// [`Host::close`].
    pub fn write(&mut self, bytes: &[u8], now: Instant) {
        self.tx.write(bytes);
        self.pump(now);
    }

    /// Closes the own direction: FIN behind all that was written.
    pub fn close(&mut self, now: Instant) {
        self.tx.close();
        self.pump(now);
    }

    /// Resets the connection.
    pub fn abort(&mut self, now: Instant) {
        match self.phase {
            Phase::SynReceived | Phase::Open => {
                let seq = self.tx.next_seq();
                self.emit_reset(seq, now);
                self.break_off(Ending::Aborted);
            }
            Phase::SynSent => self.break_off(Ending::Aborted),
            Phase::Idle | Phase::Listening | Phase::Broken(_) => {}
        }
    }

    /// The application stops reading: what arrives fills the window.
    pub fn pause_reading(&mut self) {
        self.rx.pause();
    }

    /// The application reads all there is and all that comes; the peer is told
    /// that the window is open.
    pub fn resume_reading(&mut self, now: Instant) {
        let before = self.rx.window();
        self.rx.resume();
        if self.phase == Phase::Open && self.rx.window() > before {
            self.emit_ack(now);
        }
    }

    /// All bytes that arrived in order, from the start.
    pub fn received(&self) -> &[u8] {
        self.rx.data()
    }

    /// Whether the peer has closed its direction and all before it has arrived.
    pub fn is_read_finished(&self) -> bool {
        self.rx.is_finished()
    }

    /// Bytes of the own stream that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.tx.acknowledged()
    }

    /// Whether everything written, and the FIN where there is one, is acknowledged.
    pub fn is_drained(&self) -> bool {
        self.tx.is_drained()
    }

    /// Where the connection is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How the connection ended, once it has.
    pub fn ending(&self) -> Option<Ending> {
        match self.phase {
            Phase::Broken(ending) => Some(ending),
            Phase::Open if self.tx.fin_acknowledged() && self.rx.is_finished() => {
                Some(Ending::Finished)
            }
            Phase::Idle | Phase::Listening | Phase::SynSent | Phase::SynReceived | Phase::Open => {
                None
            }
        }
    }

    /// The application.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// What was seen and done.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// The other end of the connection, once known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Whether a packet is for this host rather than for another at its end:
    /// of its connection, or a SYN that it would take, or about its connection.
    pub fn wants(&self, packet: &[u8]) -> Wants {
        match TcpPacket::parse(packet) {
            Ok(segment) if segment.destination() != self.config.local => Wants::No,
            Ok(segment) if self.peer == Some(segment.source()) => Wants::Certainly,
            Ok(_) => match self.phase {
                Phase::Listening => Wants::IfNobodyElse,
                Phase::Idle if self.peer.is_none() => Wants::IfNobodyElse,
                Phase::Idle
                | Phase::SynSent
                | Phase::SynReceived
                | Phase::Open
                | Phase::Broken(_) => Wants::No,
            },
            Err(_) => match (pmtu::read(packet), self.peer) {
                (Some(message), Some(peer))
                    if message.source == self.config.local && message.destination == peer =>
                {
                    Wants::Certainly
                }
                _ => Wants::No,
            },
        }
    }

    // The network's side.

    /// Takes a packet.
    pub fn handle_input(&mut self, packet: &[u8], now: Instant) {
        match self.wants(packet) {
            Wants::No => self.counters.ignored += 1,
            Wants::Certainly | Wants::IfNobodyElse => match TcpPacket::parse(packet) {
                Ok(segment) => self.handle_segment(&segment, now),
                Err(_) => self.handle_too_big(packet),
            },
        }
        self.pump(now);
    }

    /// Does what is due by `now`. Harmless at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.emit_ack(now);
        }
        if self.retransmit_at.take_if(|at| *at <= now).is_some() {
            self.retransmit(now);
        }
        self.pump(now);
    }

    /// The next packet to send.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// When something is due next, and what.
    pub fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        [
            self.retransmit_at.map(|at| (at, Wakeup::Retransmit)),
            self.ack_at.map(|at| (at, Wakeup::DelayedAck)),
            self.script.due().map(|at| (at, Wakeup::Script)),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    // The course of a connection.

    /// Takes what the peer's SYN says.
    fn take_syn(&mut self, segment: &TcpPacket<'_>, now: Instant) {
        let mut mss = if self.config.local.is_ipv4() {
            DEFAULT_MSS_V4
        } else {
            DEFAULT_MSS_V6
        };
        let mut shift = None;
        let mut timestamps = None;
        for option in segment.options() {
            match option {
                TcpOption::MaximumSegmentSize(size) => mss = size,
                TcpOption::WindowScale(value) => shift = Some(value.min(MAXIMUM_SHIFT)),
                TcpOption::Timestamps(value) => timestamps = Some(value),
                TcpOption::Nop
                | TcpOption::EndOfList
                | TcpOption::SackPermitted
                | TcpOption::Sack(_)
                | TcpOption::Md5(_)
                | TcpOption::Authentication(_)
                | TcpOption::Multipath(_)
                | TcpOption::FastOpen(_)
                | TcpOption::Experiment { .. }
                | TcpOption::Other { .. } => {}
            }
        }
        self.rx.open(segment.seq());
        self.timestamps = match (self.config.timestamps, timestamps) {
            (Some(_), Some(timestamps)) => Some(TimestampState {
                recent: timestamps.value,
                noted: now,
            }),
            _ => None,
        };
        // In force only where both offered it (RFC 7323, section 2.2).
        if let (Some(own), Some(peer)) = (self.config.window_scale, shift) {
            self.rx.set_scale(own.min(MAXIMUM_SHIFT));
            self.peer_scale = peer;
            self.scale_agreed = true;
        }
        let largest = usize::from(mss.min(self.config.mss)).min(MAX_SEGMENT);
        self.tx
            .set_mss(largest.saturating_sub(self.option_len()).max(1));
        if self.phase == Phase::SynSent {
            self.measure_by_timestamps(segment, now);
        }
    }

    fn open(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.retransmit_at = None;
        if self.attempts == 0 {
            if self.timestamps.is_none() {
                self.rtt.sample(now.saturating_since(self.syn_sent_at));
            }
        } else {
            self.rtt.open_after_lost_syn();
            self.tx.open_after_lost_syn();
        }
        self.attempts = 0;
    }

    fn retransmit(&mut self, now: Instant) {
        let limit = match self.phase {
            Phase::SynSent | Phase::SynReceived => self.config.syn_retries,
            Phase::Open => self.config.data_retries,
            Phase::Idle | Phase::Listening | Phase::Broken(_) => return,
        };
        if self.attempts >= limit {
            self.break_off(Ending::TimedOut);
            return;
        }
        self.attempts += 1;
        self.rtt.back_off();
        match self.phase {
            Phase::SynSent | Phase::SynReceived => {
                self.counters.syn_retransmitted += 1;
                self.emit_syn(now);
            }
            Phase::Open if self.tx.has_flight() => {
                self.counters.timeouts += 1;
                self.tx.handle_timeout();
            }
            Phase::Open => {
                self.counters.window_probes += 1;
                self.emit_probe(now);
            }
            Phase::Idle | Phase::Listening | Phase::Broken(_) => {}
        }
        self.arm(now);
    }

    fn break_off(&mut self, ending: Ending) {
        self.phase = Phase::Broken(ending);
        self.retransmit_at = None;
        self.ack_at = None;
    }

    fn arm(&mut self, now: Instant) {
        self.retransmit_at = Some(now + self.rtt.timeout());
    }

    /// Runs the application and sends what may be sent.
    fn pump(&mut self, now: Instant) {
        loop {
            self.send_segments(now);
            if self.phase != Phase::Open {
                return;
            }
            let seen = Seen {
                received: self.rx.data().len() as u64,
                end: if self.rx.is_finished() {
                    StreamEnd::Reached
                } else {
                    StreamEnd::NotYet
                },
            };
            match self.script.advance(seen, now) {
                None => return,
                Some(Action::Send(bytes)) => self.tx.write(&bytes),
                Some(Action::PauseReading) => self.pause_reading(),
                Some(Action::ResumeReading) => self.resume_reading(now),
                Some(Action::Close) => self.tx.close(),
                Some(Action::Abort) => self.abort(now),
            }
        }
    }

    fn send_segments(&mut self, now: Instant) {
        if self.phase != Phase::Open {
            return;
        }
        while let Some(segment) = self.tx.take_segment(&self.config.segmenter, now) {
            match segment.attempt {
                Attempt::First => {}
                Attempt::Again => self.counters.retransmitted += 1,
            }
            let mut flags = TcpFlags::ACK;
            match segment.push {
                Push::With => flags = flags.with(TcpFlags::PSH),
                Push::Without => {}
            }
            match segment.fin {
                Fin::With => flags = flags.with(TcpFlags::FIN),
                Fin::Without => {}
            }
            self.emit(segment.seq, flags, segment.payload, now);
            if self.retransmit_at.is_none() {
                self.arm(now);
            }
        }
        if self.retransmit_at.is_none() && self.tx.is_stalled() {
            self.arm(now);
        }
    }
}

/// How much a host wants a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// It is of its connection.
    Certainly,
    /// It is to its address and would begin something.
    IfNobodyElse,
    /// Not at all.
    No,
}
