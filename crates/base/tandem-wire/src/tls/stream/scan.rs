//! All three layers over one direction of a stream that its reader keeps: the handshake messages in
//! clear, where the clear part ends, and the first protected record behind it.
//!
//! ```text
//!  stream   | record header | Handshake bytes ........ | record header | Handshake bytes .. | CCS ...
//!  messages                 | type 1 len 3 body | type 1 len 3 bo               dy |
//!  pieces                   |<----- one ------->|<----- two ----->|    |<--------->|
//! ```
//!
//! A message may span records and a record may hold several messages. The clear part ends at
//! ChangeCipherSpec, at the first application data, after the ServerHello of TLS 1.3. No order of
//! messages is checked, and no body parsed but that ServerHello's. What may not stand in a clear
//! handshake ends the scan: in doubt, nothing is read.
//!
//! Invariants: pieces lie inside Handshake fragments, in order, never empty, never touching; a
//! message's pieces add up to its length. Work is linear in the stream, however it arrives. Memory:
//! at most [`MAX_MESSAGES`] messages of [`MAX_RECORDS`] + [`MAX_MESSAGES`] pieces together, 16
//! bytes each, 132 kB; no length field makes anything allocate.
//!
//! Specifications: RFC 5246, section 6.2.1 and 7.4; RFC 8446, section 4, 5.1 and appendix D.4.

use std::ops::Range;

use super::messages::{MessageReader, MessageTooLong};
use super::plaintext::{Content, Plaintext};
use super::records::{Framed, RecordReader};
use super::spans::MessageSpan;
use crate::error::TlsError;
use crate::tls::ServerHello;
use crate::tls::handshake::{HEADER_LEN, HandshakeType, MAX_BODY_LEN};
use crate::tls::record::{ContentType, Record, RecordHeader};

/// Most messages of one direction. A full handshake has at most 8 in clear.
pub const MAX_MESSAGES: usize = 64;

/// Most records that are looked at; also bounds the pieces of a message. Enough for a hello in
/// one-byte records.
pub const MAX_RECORDS: usize = 8192;

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

/// The first record behind the clear part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstProtected {
    /// It has not begun, or the clear part has not ended.
    None,
    /// Its header says that it is of this type.
    Begun(ContentType),
    /// All of it is there.
    Whole(ContentType),
    /// What stands there is no record.
    NotTls(TlsError),
}

/// A scan that goes on where it stopped, for a stream that grows. Feeding a stream byte by byte
/// costs as much as feeding it at once, plus a constant for each call.
#[derive(Clone, Debug)]
pub struct HandshakeScanner {
    scan: HandshakeScan,
    /// Length of stream below which there is nothing new to see.
    wanted: usize,
    /// Records looked at.
    count: usize,
    records: RecordReader,
    plaintext: Plaintext,
    messages: MessageReader,
    /// Where the unfinished message lies.
    pieces: Vec<Range<usize>>,
    protected: FirstProtected,
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
            count: 0,
            records: RecordReader::new(),
            plaintext: Plaintext::new(),
            messages: MessageReader::new(MAX_BODY_LEN),
            pieces: Vec::new(),
            protected: FirstProtected::None,
        }
    }

    /// Goes on over `stream`, which begins with the bytes of all earlier calls, unchanged, and may
    /// be longer. A shorter one finds nothing new.
    pub fn advance(&mut self, stream: &[u8]) -> &HandshakeScan {
        while self.scan.end == ScanEnd::NeedMore && stream.len() >= self.wanted {
            if let Err(end) = self.step(stream) {
                self.scan.end = end;
                self.wanted = self.records.offset() + 1;
            }
        }
        if stream.len() >= self.wanted {
            self.look_behind(stream);
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

    /// The first record behind the clear part, where a ChangeCipherSpec or the ServerHello of TLS
    /// 1.3 ended that.
    #[must_use]
    pub const fn first_protected(&self) -> FirstProtected {
        self.protected
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
        let header = self.messages.unfinished()?;
        (self.scan.end == ScanEnd::NeedMore).then(|| UnfinishedMessage {
            msg_type: header.msg_type,
            len: HEADER_LEN + header.body_len,
            present: self.messages.present(),
        })
    }

    /// Looks at the next record.
    fn step(&mut self, stream: &[u8]) -> Result<(), ScanEnd> {
        let record = match self.records.peek(stream).map_err(ScanEnd::NotTls)? {
            Framed::Cut => {
                self.wanted = stream.len() + 1;
                return Ok(());
            }
            Framed::Begun(header) => {
                self.check_header(header)?;
                self.wanted = self.records.offset() + header.record_len();
                return Ok(());
            }
            Framed::Whole(record) => record,
        };
        if self.count == MAX_RECORDS {
            return Err(ScanEnd::Limit);
        }
        self.check_header(record.header)?;
        match self
            .plaintext
            .take(record.header.content_type, record.fragment)
        {
            Content::Handshake => self.take_fragment(stream, &record)?,
            Content::ChangeCipherSpec => {
                self.records.pass(&record);
                return Err(ScanEnd::ChangeCipherSpec);
            }
            // A warning (unrecognized_name, say) may come before the ServerHello; after a fatal one
            // nothing follows.
            Content::Alert if record.fragment.len() == 2 => {}
            Content::Alert | Content::Heartbeat => {
                return Err(ScanEnd::NotTls(TlsError::UnexpectedRecord));
            }
            Content::Compatibility => {}
            Content::Protected => return Err(ScanEnd::Encrypted),
        }
        self.count += 1;
        self.pass(&record);
        self.wanted = record.range.end + 1;
        Ok(())
    }

    fn pass(&mut self, record: &Record<'_>) {
        self.records.pass(record);
        self.scan.consumed_records = record.range.end;
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
                if self.messages.present() > 0 =>
            {
                Err(ScanEnd::NotTls(TlsError::UnexpectedRecord))
            }
            ContentType::ApplicationData => Err(ScanEnd::Encrypted),
            ContentType::Alert | ContentType::ChangeCipherSpec | ContentType::Heartbeat => Ok(()),
        }
    }

    /// Cuts a Handshake fragment into messages.
    fn take_fragment(&mut self, stream: &[u8], record: &Record<'_>) -> Result<(), ScanEnd> {
        let Range { mut start, end } = record.fragment_range();
        while let Some(piece) = self.messages.read(&stream[start..end])? {
            let range = start..start + piece.len;
            start = range.end;
            let Some(header) = piece.ends else {
                self.pieces.push(range);
                continue;
            };
            if self.scan.messages.len() == MAX_MESSAGES {
                return Err(ScanEnd::Limit);
            }
            let pieces = if self.pieces.is_empty() {
                vec![range]
            } else {
                self.pieces.push(range);
                std::mem::take(&mut self.pieces)
            };
            let message = MessageSpan {
                msg_type: header.msg_type,
                pieces,
                body_len: header.body_len,
            };
            self.note_hello(&message, stream);
            self.scan.messages.push(message);
            if self.plaintext.is_protected() {
                // RFC 8446, section 5.1: a message before a key change ends its record.
                if start < end {
                    return Err(ScanEnd::NotTls(TlsError::UnexpectedRecord));
                }
                self.pass(record);
                return Err(ScanEnd::Encrypted);
            }
        }
        Ok(())
    }

    /// What a ServerHello says of the records behind it.
    fn note_hello(&mut self, message: &MessageSpan, stream: &[u8]) {
        if message.msg_type != HandshakeType::SERVER_HELLO {
            return;
        }
        match ServerHello::parse(&message.body(stream)) {
            // RFC 8446, appendix D.4: a server that asked for another hello sends a
            // ChangeCipherSpec before its real ServerHello, which is still in clear.
            Ok(hello) if hello.is_hello_retry_request() => self.plaintext.ignore_change(true),
            Ok(hello) if hello.is_tls13_or_later() => self.plaintext.protect(),
            // Who needs the hello will find that it does not parse.
            Ok(_) | Err(_) => {}
        }
    }

    /// Looks at the first record behind the clear part, if that ends in protection.
    fn look_behind(&mut self, stream: &[u8]) {
        match (self.scan.end, self.protected) {
            (
                ScanEnd::ChangeCipherSpec | ScanEnd::Encrypted,
                FirstProtected::None | FirstProtected::Begun(_),
            ) => {}
            (ScanEnd::NeedMore | ScanEnd::NotTls(_) | ScanEnd::Limit, _)
            | (_, FirstProtected::Whole(_) | FirstProtected::NotTls(_)) => return,
        }
        match self.records.peek(stream) {
            Ok(Framed::Cut) => self.wanted = stream.len() + 1,
            Ok(Framed::Begun(header)) => {
                self.protected = FirstProtected::Begun(header.content_type);
                self.wanted = self.records.offset() + header.record_len();
            }
            Ok(Framed::Whole(record)) => {
                self.protected = FirstProtected::Whole(record.header.content_type);
            }
            Err(error) => self.protected = FirstProtected::NotTls(error),
        }
    }
}

impl From<MessageTooLong> for ScanEnd {
    fn from(_: MessageTooLong) -> Self {
        Self::Limit
    }
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

#[cfg(test)]
mod tests;
