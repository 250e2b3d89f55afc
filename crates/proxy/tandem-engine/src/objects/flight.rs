//! A flight with a chain: the server's first, or the client's after it.
//!
//! In TLS 1.3, of a flight that was opened: there are no records in it, certificates lie apart,
//! each with extensions behind it, and what is beside the chain lies in these extensions and in
//! front of the chain (RFC 8446, sections 4.3.2 and 4.4.2). A compressed Certificate message (RFC
//! 8879) counts as a chain of one certificate, which is not looked into: compressed again, it may
//! have other bytes.
//!
//! Invariant: ranges lie in the stream that the flight was read from, record headers left out.

use std::borrow::Cow;
use std::ops::Range;

use tandem_delta::pieces::{cut, gather};
use tandem_wire::tls::handshake::HEADER_LEN;
use tandem_wire::tls::{CertificateEntry, CertificateList, HandshakeType, MessageSpan};

use super::{Sender, Storage, chain, places_in};

/// Where the chain of a server's first flight, or of the client's after it, lies in its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    shown: Shown,
    list: Vec<Range<usize>>,
    extras: Vec<Range<usize>>,
    is_compressed: bool,
}

/// Where the certificates are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    /// A Certificate message in clear.
    Message(MessageSpan),
    /// One of TLS 1.3, opened: each certificate's DER.
    Entries(Vec<Range<usize>>),
}

/// A message of a flight that was opened.
#[derive(Debug)]
pub(crate) struct OpenedMessage {
    /// Its type.
    pub(crate) msg_type: HandshakeType,
    /// Where it lies, header included.
    pub(crate) range: Range<usize>,
}

impl Flight {
    /// The flight of these messages of one sender, which begin with its first: its first chain, and
    /// what is held beside that. `None` without a Certificate message.
    pub(crate) fn of(sender: Sender, messages: &[MessageSpan], stream: &[u8]) -> Option<Self> {
        let is_chain = |span: &&MessageSpan| span.msg_type == HandshakeType::CERTIFICATE;
        let certificate = messages.iter().find(is_chain)?;
        let beside = |span: &MessageSpan| {
            places_in(sender, span.msg_type)
                .filter(|(_, place)| place.storage == Storage::BesideChain)
                .find_map(|(_, place)| (place.find)(span, stream))
        };
        let extras = messages.iter().filter_map(beside).flatten();
        Some(Self {
            shown: Shown::Message(certificate.clone()),
            list: chain::list(certificate),
            extras: extras.collect(),
            is_compressed: false,
        })
    }

    /// The flight of these messages of a server or a client of TLS 1.3. `None` without a chain.
    pub(crate) fn of_opened(messages: &[OpenedMessage], stream: &[u8]) -> Option<Self> {
        let find = |wanted| messages.iter().find(|it| it.msg_type == wanted);
        let whole = find(HandshakeType::CERTIFICATE);
        let certificate = whole.or_else(|| find(HandshakeType::COMPRESSED_CERTIFICATE))?;
        let start = certificate.range.start + HEADER_LEN;
        let body = stream.get(start..certificate.range.end)?;
        let entries = match whole {
            Some(_) => CertificateEntry::parse_all(body),
            None => CertificateEntry::of_compressed(body).map(|entry| vec![entry]),
        };
        let entries = entries.ok()?;
        let at = |range: Range<usize>| start + range.start..start + range.end;
        let request = find(HandshakeType::CERTIFICATE_REQUEST).map(|it| it.range.clone());
        let request = request.filter(|it| it.end <= certificate.range.start);
        let extensions = entries.iter().map(|entry| at(entry.extensions.clone()));
        let extras = request.into_iter().chain(extensions);
        (!entries.is_empty()).then(|| Self {
            shown: Shown::Entries(entries.iter().map(|entry| at(entry.der.clone())).collect()),
            list: entries.iter().map(|entry| at(entry.listed())).collect(),
            extras: extras.filter(|range| !range.is_empty()).collect(),
            is_compressed: whole.is_none(),
        })
    }

    /// Whether it is one of TLS 1.3, opened.
    pub(crate) fn is_opened(&self) -> bool {
        match self.shown {
            Shown::Message(_) => false,
            Shown::Entries(_) => true,
        }
    }

    /// Whether the chain is compressed: little can be made of it before it is held.
    pub(crate) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// The ranges of the stream that hold the certificate list, record headers left out.
    pub fn list_pieces(&self) -> &[Range<usize>] {
        &self.list
    }

    /// The ranges of the stream that hold the messages beside the chain that repeat, headers
    /// included, record headers left out.
    pub fn extras_pieces(&self) -> &[Range<usize>] {
        &self.extras
    }

    /// Where chain and extras lie, without overlap, and perhaps with a little in between.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Range<usize>> {
        let extent = |pieces: &[Range<usize>]| Some(pieces.first()?.start..pieces.last()?.end);
        let extents = match (extent(&self.list), extent(&self.extras)) {
            (Some(list), Some(extras)) if list.start < extras.end && extras.start < list.end => {
                let both = list.start.min(extras.start)..list.end.max(extras.end);
                [Some(both), None]
            }
            (list, extras) => [list, extras],
        };
        extents.into_iter().flatten()
    }

    /// These messages, one after the other; `None` if there are none.
    pub(crate) fn extras<'s>(&self, stream: &'s [u8]) -> Option<Cow<'s, [u8]>> {
        (!self.extras.is_empty()).then(|| gather(&self.extras, stream))
    }

    /// The ranges of the stream that hold this range of the certificate list.
    pub(crate) fn within_list(&self, range: Range<usize>) -> Vec<Range<usize>> {
        cut(self.list.iter().cloned(), range)
    }

    /// The contents of the certificate list: each certificate's length and DER.
    pub(crate) fn list<'s>(&self, stream: &'s [u8]) -> Cow<'s, [u8]> {
        gather(&self.list, stream)
    }

    /// Whether the list is well-formed, and there is a certificate in it.
    pub(crate) fn has_certificates(&self, stream: &[u8]) -> bool {
        match &self.shown {
            Shown::Message(certificate) => CertificateList::parse(&certificate.body(stream))
                .is_ok_and(|list| list.iter().next().is_some()),
            Shown::Entries(entries) => !entries.is_empty(),
        }
    }

    /// The certificates, DER, leaf first; `None` where the list is not well-formed.
    pub(crate) fn certificates<'s>(&self, stream: &'s [u8]) -> Option<Vec<Cow<'s, [u8]>>> {
        let certificate = match &self.shown {
            Shown::Message(certificate) => certificate,
            Shown::Entries(entries) => {
                let ders = entries.iter().map(|range| stream.get(range.clone()));
                return ders.map(|der| der.map(Cow::Borrowed)).collect();
            }
        };
        Some(match certificate.body(stream) {
            Cow::Borrowed(body) => {
                let list = CertificateList::parse(body).ok()?;
                let ders = list.iter().map(|item| Cow::Borrowed(&body[item.range()]));
                ders.collect()
            }
            Cow::Owned(body) => {
                let list = CertificateList::parse(&body).ok()?;
                let ders = list.iter().map(|item| body[item.range()].to_vec().into());
                ders.collect()
            }
        })
    }
}
