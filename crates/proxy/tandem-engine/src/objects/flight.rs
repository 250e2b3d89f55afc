//! A flight with a chain: the server's first, or the client's after it.
//!
//! Invariant: ranges lie in the stream that the flight was read from, record headers left out.

use std::borrow::Cow;
use std::ops::Range;

use tandem_delta::pieces::{cut, gather};
use tandem_wire::tls::{CertificateList, HandshakeType, MessageSpan};

use super::{Sender, Storage, chain, places_in};

/// Where the chain of a server's first flight, or of the client's after it, lies in its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    certificate: MessageSpan,
    list: Vec<Range<usize>>,
    extras: Vec<Range<usize>>,
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
            certificate: certificate.clone(),
            list: chain::list(certificate),
            extras: extras.collect(),
        })
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
        let body = self.certificate.body(stream);
        CertificateList::parse(&body).is_ok_and(|list| list.iter().next().is_some())
    }

    /// The certificates, DER, leaf first; `None` where the list is not well-formed.
    pub(crate) fn certificates<'s>(&self, stream: &'s [u8]) -> Option<Vec<Cow<'s, [u8]>>> {
        Some(match self.certificate.body(stream) {
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
