//! The handshake messages that are in clear, found in one direction of a stream.
//!
//! ```text
//!  stream   | record header | Handshake bytes ........ | record header | Handshake bytes .. | CCS ...
//!  messages                 | type 1 len 3 body | type 1 len 3 bo               dy |
//!  pieces                   |<----- one ------->|<----- two ----->|    |<--------->|
//! ```
//!
//! A message may span records and a record may hold several messages. The scan knows where the
//! clear part ends: at ChangeCipherSpec, at the first application data, after the ServerHello of
//! TLS 1.3. It checks no order of messages and parses no body but that ServerHello's.
//!
//! Invariants: pieces lie inside Handshake fragments, in order, never empty, never touching; a
//! message's pieces add up to its length. Work is linear in the stream, however it arrives; memory
//! is bounded by [`MAX_MESSAGES`] and [`MAX_RECORDS`], and no length field makes anything allocate.
//!
//! Specifications: RFC 5246, section 6.2.1 and 7.4; RFC 8446, section 4, 5.1 and appendix D.4.

use std::borrow::Cow;
use std::ops::Range;

use super::record::{self, ContentType, RecordHeader};
use super::server_hello::ServerHello;
use super::writer;
use crate::error::TlsError;

/// Length of a handshake message's header: type and length.
pub const HEADER_LEN: usize = 4;

/// Longest message body that is handled, in bytes. OpenSSL takes certificate messages of at most
/// 102,400 bytes by default, but a capture of a real one has 339,629, and hash-based signatures
/// (SLH-DSA-256f: 49,856 bytes each, FIPS 205) add up.
pub const MAX_BODY_LEN: usize = 1 << 19;

/// Most messages of one direction. A full handshake has at most 8 in clear.
pub const MAX_MESSAGES: usize = 64;

/// Most records that are looked at; also bounds the pieces of a message. Enough for a hello in
/// one-byte records.
pub const MAX_RECORDS: usize = 8192;

/// A handshake message's type number (IANA, "TLS HandshakeType").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandshakeType(pub u8);

impl HandshakeType {
    /// RFC 5246: asks the client for a new handshake.
    pub const HELLO_REQUEST: Self = Self(0);
    /// ClientHello.
    pub const CLIENT_HELLO: Self = Self(1);
    /// ServerHello, and in TLS 1.3 HelloRetryRequest.
    pub const SERVER_HELLO: Self = Self(2);
    /// NewSessionTicket (RFC 5077, RFC 8446).
    pub const NEW_SESSION_TICKET: Self = Self(4);
    /// HelloRetryRequest of TLS 1.3 drafts before 22.
    pub const HELLO_RETRY_REQUEST: Self = Self(6);
    /// Certificate.
    pub const CERTIFICATE: Self = Self(11);
    /// ServerKeyExchange.
    pub const SERVER_KEY_EXCHANGE: Self = Self(12);
    /// CertificateRequest.
    pub const CERTIFICATE_REQUEST: Self = Self(13);
    /// ServerHelloDone.
    pub const SERVER_HELLO_DONE: Self = Self(14);
    /// CertificateVerify.
    pub const CERTIFICATE_VERIFY: Self = Self(15);
    /// ClientKeyExchange.
    pub const CLIENT_KEY_EXCHANGE: Self = Self(16);
    /// Finished.
    pub const FINISHED: Self = Self(20);
    /// CertificateStatus (RFC 6066).
    pub const CERTIFICATE_STATUS: Self = Self(22);
}

/// Where a complete message lies in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSpan {
    /// Its type.
    pub msg_type: HandshakeType,
    /// Ranges of the stream that hold the message, its 4-byte header included, in order.
    pub pieces: Vec<Range<usize>>,
    body_len: usize,
}

impl MessageSpan {
    /// Length with the header: at least 4.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a message has a header")]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.body_len
    }

    /// Length of the body.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.body_len
    }

    /// From the first byte of the header to the end of the body; record headers may lie between.
    #[must_use]
    pub fn extent(&self) -> Range<usize> {
        let start = self.pieces.first().map_or(0, |piece| piece.start);
        let end = self.pieces.last().map_or(0, |piece| piece.end);
        start..end
    }

    /// Ranges of the stream that hold the body; none for an empty body.
    pub fn body_pieces(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut skip = HEADER_LEN;
        self.pieces.iter().filter_map(move |piece| {
            let cut = skip.min(piece.len());
            skip -= cut;
            Some(piece.start + cut..piece.end).filter(|rest| !rest.is_empty())
        })
    }

    /// The message with its header.
    ///
    /// # Panics
    /// Where `stream` is shorter than the stream that was scanned.
    #[must_use]
    pub fn gather<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        collect(stream, self.pieces.iter().cloned(), self.len())
    }

    /// The message without its header.
    ///
    /// # Panics
    /// Where `stream` is shorter than the stream that was scanned.
    #[must_use]
    pub fn body<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        collect(stream, self.body_pieces(), self.body_len)
    }
}

fn collect(
    stream: &[u8],
    mut pieces: impl Iterator<Item = Range<usize>>,
    len: usize,
) -> Cow<'_, [u8]> {
    let Some(first) = pieces.next() else {
        return Cow::Borrowed(&[]);
    };
    if first.len() == len {
        return Cow::Borrowed(&stream[first]);
    }
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&stream[first]);
    for piece in pieces {
        bytes.extend_from_slice(&stream[piece]);
    }
    Cow::Owned(bytes)
}

/// Why a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the bytes that there are; more may follow. The only end that is not final.
    NeedMore,
    /// At a ChangeCipherSpec record: what follows is encrypted.
    ChangeCipherSpec,
    /// At an application data record, or after the ServerHello of TLS 1.3.
    Encrypted,
    /// At something that is not a clear TLS handshake.
    NotTls(TlsError),
    /// At [`MAX_BODY_LEN`], [`MAX_MESSAGES`] or [`MAX_RECORDS`].
    Limit,
}

/// What a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeScan {
    /// The complete messages in order.
    pub messages: Vec<MessageSpan>,
    /// Why there are no more.
    pub end: ScanEnd,
    /// Bytes of the stream that whole records cover up to the end of the clear part: the
    /// ChangeCipherSpec, application data or unfit record where the scan stopped begins here.
    pub consumed_records: usize,
}

/// A message of which whole records hold the beginning but not the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedMessage {
    /// Its type.
    pub msg_type: HandshakeType,
    /// Length with the header that it will have: at most [`MAX_BODY_LEN`] + 4.
    pub len: usize,
    /// Bytes that are there.
    pub present: usize,
}

/// A scan that goes on where it stopped, for a stream that grows. Feeding a stream byte by byte
/// costs as much as feeding it at once, plus a constant for each call.
#[derive(Clone, Debug)]
pub struct HandshakeScanner {
    scan: HandshakeScan,
    /// Length of stream below which there is nothing new to see.
    wanted: usize,
    records: usize,
    header: [u8; HEADER_LEN],
    /// Bytes of the unfinished message, header included; all in `pieces`.
    present: usize,
    pieces: Vec<Range<usize>>,
    compatibility: Compatibility,
}

/// Whether a ChangeCipherSpec may be one that means nothing (RFC 8446, appendix D.4): a server that
/// asked for another hello sends it before its real ServerHello, which is still in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compatibility {
    No,
    AfterHelloRetryRequest,
}

impl HandshakeScanner {
    /// A scan at the first byte of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            scan: HandshakeScan {
                messages: Vec::new(),
                end: ScanEnd::NeedMore,
                consumed_records: 0,
            },
            wanted: 1,
            records: 0,
            header: [0; HEADER_LEN],
            present: 0,
            pieces: Vec::new(),
            compatibility: Compatibility::No,
        }
    }

    /// Goes on over `stream`, which begins with the bytes of all earlier calls, unchanged, and may
    /// be longer. A shorter one finds nothing new.
    pub fn advance(&mut self, stream: &[u8]) -> &HandshakeScan {
        while self.scan.end == ScanEnd::NeedMore && stream.len() >= self.wanted {
            if let Err(end) = self.step(stream) {
                self.scan.end = end;
            }
        }
        &self.scan
    }

    /// What was found so far.
    #[must_use]
    pub const fn scan(&self) -> &HandshakeScan {
        &self.scan
    }

    /// What was found, for keeps.
    #[must_use]
    pub fn into_scan(self) -> HandshakeScan {
        self.scan
    }

    /// Length that the stream must reach before [`Self::advance`] finds anything new: in the middle
    /// of a record, the end of the record.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.wanted
    }

    /// The message that the whole records seen so far leave unfinished, once its header is
    /// complete; `None` after the scan has ended.
    #[must_use]
    pub fn unfinished(&self) -> Option<UnfinishedMessage> {
        (self.scan.end == ScanEnd::NeedMore && self.present >= HEADER_LEN).then(|| {
            UnfinishedMessage {
                msg_type: HandshakeType(self.header[0]),
                len: HEADER_LEN + self.body_len(),
                present: self.present,
            }
        })
    }

    /// Looks at the record at `consumed_records`.
    fn step(&mut self, stream: &[u8]) -> Result<(), ScanEnd> {
        let start = self.scan.consumed_records;
        let Some(rest) = stream.get(start..) else {
            return Ok(());
        };
        let Some(header) = record::parse_header(rest).map_err(ScanEnd::NotTls)? else {
            self.wanted = stream.len() + 1;
            return Ok(());
        };
        let range = start..start + header.record_len();
        if stream.len() < range.end {
            self.check_header(header)?;
            self.wanted = range.end;
            return Ok(());
        }
        if self.records == MAX_RECORDS {
            return Err(ScanEnd::Limit);
        }
        self.check_header(header)?;
        let fragment = range.start + record::HEADER_LEN..range.end;
        match header.content_type {
            ContentType::Handshake => self.take_fragment(stream, fragment)?,
            ContentType::ChangeCipherSpec => match (self.compatibility, &stream[fragment]) {
                (Compatibility::AfterHelloRetryRequest, [1]) => {}
                _ => return Err(ScanEnd::ChangeCipherSpec),
            },
            // A warning (unrecognized_name, say) may come before the ServerHello; after a fatal one
            // nothing follows.
            ContentType::Alert if fragment.len() == 2 => {}
            ContentType::Alert | ContentType::Heartbeat => {
                return Err(ScanEnd::NotTls(TlsError::UnexpectedRecord));
            }
            ContentType::ApplicationData => return Err(ScanEnd::Encrypted),
        }
        self.records += 1;
        self.scan.consumed_records = range.end;
        self.wanted = range.end + 1;
        Ok(())
    }

    /// What a header alone decides, before the record is complete.
    fn check_header(&self, header: RecordHeader) -> Result<(), ScanEnd> {
        match header.content_type {
            // RFC 5246, section 6.2.1: no zero-length fragments of these types.
            ContentType::Handshake | ContentType::Alert | ContentType::ChangeCipherSpec
                if header.length == 0 =>
            {
                Err(ScanEnd::NotTls(TlsError::EmptyFragment))
            }
            ContentType::Handshake => Ok(()),
            // RFC 8446, section 5.1: nothing comes between the records of one message.
            ContentType::Alert
            | ContentType::ChangeCipherSpec
            | ContentType::ApplicationData
            | ContentType::Heartbeat
                if self.present > 0 =>
            {
                Err(ScanEnd::NotTls(TlsError::UnexpectedRecord))
            }
            ContentType::ApplicationData => Err(ScanEnd::Encrypted),
            ContentType::Alert | ContentType::ChangeCipherSpec | ContentType::Heartbeat => Ok(()),
        }
    }

    /// Cuts a Handshake fragment into messages.
    fn take_fragment(&mut self, stream: &[u8], fragment: Range<usize>) -> Result<(), ScanEnd> {
        let mut at = fragment.start;
        while at < fragment.end {
            let start = at;
            while at < fragment.end && self.present < HEADER_LEN {
                self.header[self.present] = stream[at];
                self.present += 1;
                at += 1;
            }
            if self.present >= HEADER_LEN {
                let body_len = self.body_len();
                if body_len > MAX_BODY_LEN {
                    return Err(ScanEnd::Limit);
                }
                let missing = HEADER_LEN + body_len - self.present;
                let taken = missing.min(fragment.end - at);
                at += taken;
                self.present += taken;
            }
            self.pieces.push(start..at);
            if self.present >= HEADER_LEN && self.present == HEADER_LEN + self.body_len() {
                if self.scan.messages.len() == MAX_MESSAGES {
                    return Err(ScanEnd::Limit);
                }
                self.scan.messages.push(MessageSpan {
                    msg_type: HandshakeType(self.header[0]),
                    pieces: std::mem::take(&mut self.pieces),
                    body_len: self.body_len(),
                });
                self.present = 0;
                match self.clear_part_after_last(stream) {
                    ClearPart::GoesOn => {}
                    // RFC 8446, section 5.1: a message before a key change ends its record.
                    ClearPart::Ends if at < fragment.end => {
                        return Err(ScanEnd::NotTls(TlsError::UnexpectedRecord));
                    }
                    ClearPart::Ends => {
                        self.scan.consumed_records = fragment.end;
                        return Err(ScanEnd::Encrypted);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the message just completed is the last in clear.
    fn clear_part_after_last(&mut self, stream: &[u8]) -> ClearPart {
        let Some(message) = self.scan.messages.last() else {
            return ClearPart::GoesOn;
        };
        if message.msg_type != HandshakeType::SERVER_HELLO {
            return ClearPart::GoesOn;
        }
        let body = message.body(stream);
        match ServerHello::parse(&body) {
            Ok(hello) if hello.is_hello_retry_request() => {
                self.compatibility = Compatibility::AfterHelloRetryRequest;
                ClearPart::GoesOn
            }
            Ok(hello) if hello.is_tls13_or_later() => ClearPart::Ends,
            // Who needs the hello will find that it does not parse.
            Ok(_) | Err(_) => ClearPart::GoesOn,
        }
    }

    /// Body length of the message whose header is in `header`.
    fn body_len(&self) -> usize {
        let [_, a, b, c] = self.header;
        usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)
    }
}

enum ClearPart {
    GoesOn,
    Ends,
}

impl Default for HandshakeScanner {
    fn default() -> Self {
        Self::new()
    }
}

/// Scans a stream, or its beginning, at once.
#[must_use]
pub fn messages(stream: &[u8]) -> HandshakeScan {
    let mut scanner = HandshakeScanner::new();
    scanner.advance(stream);
    scanner.into_scan()
}

/// Appends a message: header and body.
///
/// # Errors
/// [`TlsError::FieldTooLong`] for a body of more than 2^24 - 1 bytes; `out` is as before then.
pub fn write_message(
    out: &mut Vec<u8>,
    msg_type: HandshakeType,
    body: &[u8],
) -> Result<(), TlsError> {
    let before = out.len();
    out.push(msg_type.0);
    writer::vec24(out, body).inspect_err(|_| out.truncate(before))
}

#[cfg(test)]
mod tests;
