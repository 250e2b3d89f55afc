//! How HTTP is divided among contexts, and which rights each kind of middlebox needs.
//!
//! Is not: the protocol. Contexts are known by their purposes, so both ends and every middlebox
//! find the same division in the session's configuration.

use mctls::config::{Context, PathMode, Right, Terms};
use mctls::party::ContextId;

use crate::http::{Part, Side};

/// The purposes of the four contexts, in order.
pub const FOUR: [&str; 4] = [
    "request-headers",
    "request-body",
    "response-headers",
    "response-body",
];
/// The purpose of the only context, where there is one.
pub const ALL: &str = "all";
/// The purpose of the context in which caches say what they hold ([`crate::offers`]).
pub const OFFERS: &str = "cache-offers";
/// The purpose of the context in which a server says, to its client alone, what a body has to be.
pub const DIGEST: &str = "response-digest";
/// What the purposes of contexts that HTTP does not use begin with.
const SPARE: &str = "spare-";

/// Rights in the four contexts.
pub type Rights = [Right; 4];

/// What a context carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Everything, both ways.
    All,
    /// This part of the messages of this side.
    One(Side, Part),
    /// Nothing of HTTP.
    Nothing,
}

/// What a context with this purpose carries.
#[must_use]
pub fn carries(purpose: &str) -> Carries {
    let index = FOUR.iter().position(|name| *name == purpose);
    match index {
        Some(0) => Carries::One(Side::Requests, Part::Heads),
        Some(1) => Carries::One(Side::Requests, Part::Bodies),
        Some(2) => Carries::One(Side::Responses, Part::Heads),
        Some(3) => Carries::One(Side::Responses, Part::Bodies),
        Some(_) | None if purpose == ALL => Carries::All,
        Some(_) | None => Carries::Nothing,
    }
}

/// Which part of the messages of `side` data in a context with this purpose is.
#[must_use]
pub fn part_of(purpose: &str, side: Side) -> Option<Part> {
    match carries(purpose) {
        Carries::All => Some(Part::Whole),
        Carries::One(of, part) if of == side => Some(part),
        Carries::One(..) | Carries::Nothing => None,
    }
}

/// Contexts for HTTP without any right yet: one, or four and as many more as are asked for, which
/// carry nothing. `None` for two or three.
#[must_use]
pub fn contexts(count: u8, boxes: usize) -> Option<Vec<Context>> {
    let context = |id: u8, purpose: String| Context {
        id: ContextId(id),
        purpose,
        path: PathMode::Off,
        rights: vec![Right::None; boxes],
    };
    match count {
        1 => Some(vec![context(1, ALL.to_owned())]),
        4.. => {
            let name = |id: u8| match FOUR.get(usize::from(id) - 1) {
                Some(name) => (*name).to_owned(),
                None => format!("{SPARE}{id}"),
            };
            Some((1..=count).map(|id| context(id, name(id))).collect())
        }
        0 | 2 | 3 => None,
    }
}

/// Whether a context with this purpose is one that HTTP does not use.
#[must_use]
pub fn is_spare(purpose: &str) -> bool {
    purpose.starts_with(SPARE)
}

/// Where an endpoint puts the parts of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Heads of requests.
    pub request_headers: ContextId,
    /// Bodies of requests.
    pub request_body: ContextId,
    /// Heads of responses.
    pub response_headers: ContextId,
    /// Bodies of responses.
    pub response_body: ContextId,
    /// What caches hold, where there are any.
    pub offers: Option<ContextId>,
    /// What bodies have to be, where that is asked for.
    pub digest: Option<ContextId>,
}

impl Layout {
    /// The division that these terms have; `None` where they are not for HTTP.
    #[must_use]
    pub fn of(terms: &Terms) -> Option<Self> {
        let find = |purpose: &str| {
            let found = terms.contexts().iter().find(|one| one.purpose == purpose);
            found.map(|context| context.id)
        };
        let (offers, digest) = (find(OFFERS), find(DIGEST));
        if let Some(all) = find(ALL) {
            return Some(Self {
                request_headers: all,
                request_body: all,
                response_headers: all,
                response_body: all,
                offers,
                digest,
            });
        }
        Some(Self {
            request_headers: find(FOUR[0])?,
            request_body: find(FOUR[1])?,
            response_headers: find(FOUR[2])?,
            response_body: find(FOUR[3])?,
            offers,
            digest,
        })
    }
}

/// A kind of middlebox that is ready to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Passes everything on, and looks at what it is shown.
    Null,
    /// Blocks pages by host and path.
    Filter,
    /// Blocks what has a pattern of an attack in it.
    Ids,
    /// Takes out of headers what follows a person about.
    Tracker,
    /// Compresses responses.
    Compress,
    /// Holds bodies of responses, and fills them in where the server refers to them.
    Cache,
    /// Spreads bursts of responses over time.
    Pacer,
    /// Chooses among several servers.
    Balance,
    /// Shortens what crosses a slow link to its pair, which restores it.
    Wan,
    /// Lets an ICAP server decide.
    Icap,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Null,
        Self::Filter,
        Self::Ids,
        Self::Tracker,
        Self::Compress,
        Self::Cache,
        Self::Pacer,
        Self::Balance,
        Self::Wan,
        Self::Icap,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Filter => "filter",
            Self::Ids => "ids",
            Self::Tracker => "tracker",
            Self::Compress => "compress",
            Self::Cache => "cache",
            Self::Pacer => "pacer",
            Self::Balance => "balance",
            Self::Wan => "wan",
            Self::Icap => "icap",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The rights it needs and no more (the paper's table 1).
    #[must_use]
    pub const fn needs(self) -> Rights {
        use Right::{None as No, Read, Write};
        match self {
            // A balancer connects before there is a request to read.
            Self::Null | Self::Balance => [No, No, No, No],
            Self::Filter => [Read, No, No, No],
            Self::Ids | Self::Icap => [Read, Read, Read, Read],
            Self::Tracker => [Write, No, Write, No],
            Self::Compress => [No, No, Write, Write],
            Self::Cache => [Read, No, Write, Write],
            Self::Pacer => [No, No, Read, No],
            // Heads are short, and secrets stand in them.
            Self::Wan => [No, Read, No, Read],
        }
    }

    /// What it needs in a context with this purpose.
    #[must_use]
    pub fn needs_in(self, purpose: &str) -> Right {
        match (self, purpose) {
            (Self::Cache, OFFERS) => Right::Write,
            _ => needed(self.needs(), purpose),
        }
    }

    /// Why it needs them, for people.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Null => "passes everything on unread",
            Self::Filter => "has to see which page is asked for, and nothing else",
            Self::Ids => "looks for patterns of attacks in everything, and changes nothing",
            Self::Tracker => "takes cookies and the like out of headers, and sees no page",
            Self::Compress => "makes responses shorter, and does not see what was asked for",
            Self::Cache => "holds bodies, and fills in those that the server refers to",
            Self::Pacer => "spreads bursts over time, and looks at types of responses alone",
            Self::Balance => "chooses a server before it sees anything, and sees nothing",
            Self::Icap => "has a filter that speaks ICAP look at everything, and changes nothing",
            Self::Wan => "refers to bodies that its pair over a slow link holds, changes nothing",
        }
    }
}

/// What a middlebox with these needs has to have in a context with this purpose: where there is one
/// context for everything, the highest of them.
#[must_use]
pub fn needed(needs: Rights, purpose: &str) -> Right {
    let all = needs.into_iter().max().unwrap_or(Right::None);
    match FOUR.iter().position(|name| *name == purpose) {
        Some(index) => needs[index],
        None if purpose == ALL => all,
        None => Right::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_rights_of_the_guides_table_and_no_more() {
        let guide = include_str!("../../../../docs/mctls.md");
        for (kind, row) in [
            (Kind::Filter, "parental filter"),
            (Kind::Ids, "intrusion detection"),
            (Kind::Tracker, "tracker blocker"),
            (Kind::Compress, "compression"),
            (Kind::Cache, "cache"),
            (Kind::Pacer, "packet pacer"),
            (Kind::Balance, "load balancer"),
            (Kind::Wan, "WAN optimiser"),
            (Kind::Icap, "ICAP adapter"),
        ] {
            let line = guide
                .lines()
                .find(|line| line.starts_with(&format!("| {row}")))
                .expect("the guide has a row for it");
            let cells: Vec<&str> = line.split('|').skip(2).take(4).map(str::trim).collect();
            let needs = kind.needs().map(|right| match right {
                Right::None => "",
                Right::Read => "read",
                Right::Write => "write",
            });
            assert_eq!(cells, needs, "{row}");
        }
    }

    #[test]
    fn a_division_is_found_again_by_its_purposes() {
        for count in [1, 4, 5, 255] {
            let contexts = contexts(count, 0).expect("a number that can be");
            assert_eq!(contexts.len(), usize::from(count));
            let terms = Terms::new([0; 32], Vec::new(), contexts).expect("good terms");
            let layout = Layout::of(&terms).expect("for HTTP");
            let last = if count == 1 { 1 } else { 4 };
            assert_eq!(layout.response_body, ContextId(last));
        }
        for count in [0, 2, 3] {
            assert_eq!(contexts(count, 0), None);
        }
    }
}
