//! The kinds of objects: a row each, which says all that a store has to know of one. Where a
//! handshake shows one is the engine's to say (its `objects`), in a file for each kind.
//!
//! Not here: who makes objects of a kind, or what for. Invariants: rows stand in the order of
//! [`Kind`]; a name, once it is in somebody's store, never changes.

use core::fmt;
use core::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::digest::{Digest, ObjectId};
use crate::error::NameError;

/// How an object's parts make it up, and what it is named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Like TLS's `certificate_list` (RFC 5246, section 7.4.2): each part behind its length in
    /// three bytes. Named by the digest of that.
    List,
    /// One part, named by its own digest.
    Whole,
}

/// What is read out of an object's first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is a certificate: the names that it answers to, and its end.
    NamesAndEnd,
    /// It is a certificate: its end.
    End,
    /// Nothing: it is no certificate.
    Nothing,
}

/// What becomes of an object that was expected of sites, and is of none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexpected {
    /// It stays as long as there is room: it is found by other ways, too.
    Stays,
    /// It goes: nobody would find it.
    Goes,
}

/// All that a store knows of a kind.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Its name on disk and for people.
    pub name: &'static str,
    /// How its parts make it up.
    pub layout: Layout,
    /// What is read out of its first part.
    pub reading: Reading,
    /// What becomes of one that is expected of no site any more.
    pub unexpected: Unexpected,
}

/// Makes the kinds and their table out of rows: name on disk and for people, layout, reading, and
/// what becomes of one that is expected of no site any more.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal $layout:ident $reading:ident $unexpected:ident;)+) => {
        /// What an object is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
        }

        /// The table of kinds.
        pub const KINDS: [KindRow; [$(Kind::$kind),+].len()] = [$(KindRow {
            kind: Kind::$kind,
            name: $name,
            layout: Layout::$layout,
            reading: Reading::$reading,
            unexpected: Unexpected::$unexpected,
        }),+];
    };
}

kinds! {
    /// A certificate chain, leaf first: a server's, or a client's own.
    Chain: "chain" List NamesAndEnd Stays;
    /// A chain without its leaf. The same for many sites.
    Issuers: "issuers" List End Stays;
    /// One certificate that is held for itself, and not only as part of a chain.
    Certificate: "certificate" Whole End Stays;
    /// The messages that a site sends in clear beside its chain, one after another: staple, request
    /// for a certificate.
    Messages: "messages" List Nothing Goes;
    /// A CertificateStatus (RFC 6066, section 8), or timestamps of logs (RFC 6962, section 3.3).
    Staple: "staple" Whole Nothing Goes;
    /// A CertificateRequest (RFC 5246, section 7.4.4; RFC 8446, section 4.3.2).
    Request: "request" Whole Nothing Goes;
    /// A session ticket (RFC 5077; RFC 8446, section 4.6.1).
    Ticket: "ticket" Whole Nothing Goes;
    /// A hello to be filled in: what of one repeats.
    Template: "template" Whole Nothing Goes;
    /// Bytes to compress others with.
    Dictionary: "dictionary" Whole Nothing Stays;
}

impl Kind {
    /// Its row of the table.
    #[must_use]
    pub const fn row(self) -> &'static KindRow {
        &KINDS[self as usize]
    }

    /// The name of the object of this kind with these parts.
    #[must_use]
    pub fn id_of(self, parts: &[&[u8]]) -> ObjectId {
        match self.row().layout {
            Layout::List => ObjectId::of(parts),
            Layout::Whole => {
                let mut hash = Sha256::new();
                parts.iter().for_each(|part| hash.update(part));
                ObjectId::from_digest(Digest::from_bytes(hash.finalize().into()))
            }
        }
    }

    /// The least and the greatest kind.
    pub(crate) const RANGE: (Self, Self) = (KINDS[0].kind, KINDS[KINDS.len() - 1].kind);
}

impl Layout {
    /// Appends a part to an object's contents, which are what its name is the digest of.
    pub fn append(self, contents: &mut Vec<u8>, part: &[u8]) {
        match self {
            // A part of 2^24 bytes or more is never held.
            Self::List => {
                let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
                contents.extend_from_slice(&length.to_be_bytes()[1..]);
            }
            Self::Whole => {}
        }
        contents.extend_from_slice(part);
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

impl FromStr for Kind {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let found = KINDS.iter().find(|row| row.name == text);
        found
            .map(|row| row.kind)
            .ok_or_else(|| NameError::NotAKind {
                text: text.chars().take(80).collect(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_row_and_reads_back_as_it_is_written() {
        for (index, row) in KINDS.iter().enumerate() {
            assert_eq!(row.kind as usize, index);
            assert_eq!(
                row.kind.to_string().parse::<Kind>().expect("a kind"),
                row.kind
            );
            assert!(Kind::RANGE.0 <= row.kind && row.kind <= Kind::RANGE.1);
        }
        assert!("extras".parse::<Kind>().is_err());
    }

    #[test]
    fn an_object_is_named_by_the_digest_of_its_contents() {
        let part: &[u8] = b"part";
        for row in &KINDS {
            let mut contents = Vec::new();
            row.layout.append(&mut contents, part);
            assert_eq!(*row.kind.id_of(&[part]).digest(), Digest::of(&contents));
        }
        let mut list = Vec::new();
        for part in [part, b"other"] {
            Layout::List.append(&mut list, part);
        }
        let id = Kind::Chain.id_of(&[part, b"other"]);
        assert_eq!(id, ObjectId::of_list_contents(&list));
    }
}
