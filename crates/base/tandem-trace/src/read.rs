//! One pass over a capture: each frame is counted, and its TCP segment, if it has one, is read.
//!
//! Not the framing and not the handshakes; this file only connects them and counts what lies
//! between. Invariant: each frame is counted under exactly one fate.

use std::collections::BTreeMap;
use std::io::Read;

use tandem_wire::PacketError;

use crate::capture::{self, Frame, Sink};
use crate::damage::{Damage, DamageLog};
use crate::datagram::{self, Beside};
use crate::error::TraceError;
use crate::facts::CaptureFacts;
use crate::limits::Limits;
use crate::link_type::{self, NoPacket};
use crate::rows::{Books, Rows};
use crate::segment;
use crate::tracker::Tracker;
use crate::tunnel::{self, Unpacked};

/// Bytes of the input between two calls of the progress function.
const PROGRESS_STEP: u64 = 1024 * 1024;

/// What a capture is made of, its rows aside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What was counted.
    pub facts: CaptureFacts,
    /// What could not be read, and why. Empty: everything was.
    pub damage: Vec<Damage>,
}

/// Reads a capture to its end and gives each handshake in it to `rows`.
///
/// `progress` is called with the bytes of `reader` read so far (compressed ones where it is
/// compressed), about once in a mebibyte and once at the end.
///
/// # Errors
/// Only where nothing can be read: see [`TraceError`]. A capture that is damaged half-way is a
/// [`Trace`] with its damage.
pub fn read(
    reader: impl Read,
    limits: Limits,
    rows: &mut dyn Rows,
    progress: &mut dyn FnMut(u64),
) -> Result<Trace, TraceError> {
    let mut damage = DamageLog::default();
    let mut pass = Pass::new(limits, rows, progress);
    let raw_bytes = capture::read(reader, &mut pass, &mut damage)?;
    let facts = pass.finish(raw_bytes, &mut damage);
    Ok(Trace {
        facts,
        damage: damage.into_list(),
    })
}

/// The pass.
struct Pass<'p> {
    progress: &'p mut dyn FnMut(u64),
    told: u64,
    facts: CaptureFacts,
    tracker: Tracker,
    books: Books<'p>,
    scratch: Vec<u8>,
    unread_links: BTreeMap<u16, u64>,
    unread: BTreeMap<&'static str, u64>,
    cut: u64,
    fragments: u64,
    malformed: u64,
}

impl<'p> Pass<'p> {
    /// A pass of which nothing is done.
    fn new(limits: Limits, rows: &'p mut dyn Rows, progress: &'p mut dyn FnMut(u64)) -> Self {
        Self {
            tracker: Tracker::new(limits),
            books: Books::new(rows),
            progress,
            told: 0,
            facts: CaptureFacts::default(),
            scratch: Vec::new(),
            unread_links: BTreeMap::new(),
            unread: BTreeMap::new(),
            cut: 0,
            fragments: 0,
            malformed: 0,
        }
    }

    /// The end of the capture, `raw_bytes` read.
    fn finish(mut self, raw_bytes: u64, damage: &mut DamageLog) -> CaptureFacts {
        (self.progress)(raw_bytes);
        self.tracker.finish(&mut self.books);
        self.facts.connections = self.tracker.connections();
        self.facts.connections_already_open = self.tracker.already_open();
        if let (Some(first), Some(last)) =
            (self.facts.first_unix_micros, self.facts.last_unix_micros)
        {
            self.facts.seconds = last.saturating_sub(first) as f64 / 1e6;
        }
        for (&number, &packets) in &self.unread_links {
            damage.counted(packets, |packets| Damage::LinkType {
                number,
                name: link_type::name(number),
                packets,
            });
        }
        for (&inside, &packets) in &self.unread {
            damage.counted(packets, |packets| Damage::Unread { inside, packets });
        }
        damage.counted(self.cut, |packets| Damage::SnapLength { packets });
        damage.counted(self.fragments, |packets| Damage::Fragments { packets });
        damage.counted(self.malformed, |packets| Damage::Malformed { packets });
        self.books.close(&mut self.facts, damage);
        self.facts
    }

    fn packet(
        &mut self,
        packet: &[u8],
        original_len: usize,
        unix_micros: Option<u64>,
    ) -> Result<(), NoPacket> {
        // What the IP header says is the packet's length, unless offload or a cut made it say
        // nothing.
        let declared = segment::declared_len(packet).filter(|&len| len > 0);
        self.facts.ip_bytes += declared.unwrap_or(original_len).min(original_len) as u64;
        let Unpacked { packet, tunnel } = tunnel::unpack(packet)?;
        match segment::parse(packet, &mut self.scratch) {
            Ok(mut segment) => {
                (segment.tunnel, segment.unix_micros) = (tunnel, unix_micros);
                self.facts.tcp_packets += 1;
                self.facts.tcp_payload_bytes += segment.payload_len as u64;
                self.cut += u64::from(segment.is_cut());
                self.tracker.take(&segment, &mut self.books);
            }
            Err(PacketError::NotTcp) => match datagram::look(packet) {
                Some(Beside::QuicInitial) => self.facts.quic_initial_datagrams += 1,
                Some(Beside::DtlsClientHello) => self.facts.dtls_client_hello_datagrams += 1,
                None => {}
            },
            Err(PacketError::Fragment) => self.fragments += 1,
            Err(PacketError::Truncated) => self.cut += 1,
            // Left alone by the proxies too.
            Err(
                PacketError::NotIp
                | PacketError::UnknownExtensionHeader
                | PacketError::SourceRouted,
            ) => {}
            Err(
                PacketError::BadHeader
                | PacketError::BadOptions
                | PacketError::TooLong
                | PacketError::OptionsLength
                | PacketError::MixedFamilies,
            ) => self.malformed += 1,
        }
        Ok(())
    }
}

impl Sink for Pass<'_> {
    fn frame(&mut self, frame: Frame<'_>, raw_bytes: u64) {
        if raw_bytes - self.told.min(raw_bytes) >= PROGRESS_STEP {
            self.told = raw_bytes;
            (self.progress)(raw_bytes);
        }
        self.facts.frames += 1;
        if let Some(micros) = frame.micros {
            let (first, last) = (
                &mut self.facts.first_unix_micros,
                &mut self.facts.last_unix_micros,
            );
            *first = Some(first.map_or(micros, |first| first.min(micros)));
            *last = Some(last.map_or(micros, |last| last.max(micros)));
        }
        let read = link_type::ip_packet(frame.link_type, frame.data).and_then(|packet| {
            let link_header_len = frame.data.len() - packet.len();
            let original_len = frame.original_len - link_header_len;
            self.packet(packet, original_len, frame.micros)
        });
        match read {
            Ok(()) | Err(NoPacket::NotIp) => {}
            Err(NoPacket::Cut) => self.cut += 1,
            Err(NoPacket::Unread(inside)) => *self.unread.entry(inside).or_default() += 1,
            Err(NoPacket::LinkType) => *self.unread_links.entry(frame.link_type).or_default() += 1,
        }
    }
}
