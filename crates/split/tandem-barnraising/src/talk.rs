//! What a volunteer, or the origin, and the broker say to each other: one question, one answer,
//! then the channel is closed.
//!
//! ```text
//!  question: "TBQ" 1 | kind 1 | site's name: length 1, name | to join: peers' port 2 | held list: version 8, issued 8
//!                                                          | told: connections 8, bytes to clients 8, bytes of the origin 8
//!                                                          | to report: volunteer's key 32, path: length 1, path
//!  answer:   "TBA" 1 | 1 | seconds until the next 4 | origin: key 32, length 1, HOST:PORT | list: length 4, list     welcome
//!            "TBA" 1 | 2 | reason 1                                                                                 refused
//!            "TBA" 1 | 3                                                                                            farewell
//!            "TBA" 1 | 4                                                                                            noted
//! ```
//!
//! There are two kinds of the wish to join. A volunteer of today asks by the second (4), once from
//! each of its addresses. One that knows of one address only asks by the first (1), as does one of
//! today whose broker hangs up on the second: such a broker would take each of two addresses for a
//! move. What the broker does with them differs in the form of the list alone.
//!
//! Is not: the channel, by which both know each other's keys; nor the list ([`crate::list`]), which
//! is checked by its signature.
//!
//! Invariants: what is read is written the same; a message has at most [`MAX_QUESTION`] or
//! [`MAX_ANSWER`] bytes, and nothing is made of a longer one.

use tandem_wire::UnixTime;

use crate::list::{self, Form};
use crate::member::PublicKey;
use crate::roster::Refused;
use crate::uri::Name;

/// Longest question in bytes.
pub const MAX_QUESTION: usize = 4 + 1 + 1 + Name::MAX_LEN + PublicKey::LEN + 1 + MAX_PATH;

/// Longest path of a report in bytes.
pub const MAX_PATH: usize = 255;

/// Longest answer in bytes.
pub const MAX_ANSWER: usize = 4 + 1 + 4 + PublicKey::LEN + 1 + 255 + 4 + list::MAX_LEN;

const QUESTION: [u8; 4] = *b"TBQ\x01";
const ANSWER: [u8; 4] = *b"TBA\x01";

/// What somebody wants. Who it is, its channel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Of which site.
    pub site: Name,
    /// What.
    pub wish: Wish,
}

/// To be a member, or not; or, of the origin, that a member is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// To be one, or to stay one.
    Join(Join),
    /// To be none any more.
    Leave,
    /// That the broker looks at a member soon. Only the origin is heard.
    Report(Report),
}

/// A volunteer through which clients refuse what they get, as the origin sees it: a reason to look,
/// and no evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its key.
    pub volunteer: PublicKey,
    /// What was asked for: a path of at most [`MAX_PATH`] bytes, visible ASCII. It has no query,
    /// which may be a client's own.
    path: String,
}

impl Report {
    /// With the path that a client has asked for; with `/`, where it asked for nothing that can be
    /// said.
    #[must_use]
    pub fn new(volunteer: PublicKey, path: &str) -> Self {
        let path = if is_path(path) { path } else { "/" };
        Self {
            volunteer,
            path: path.to_owned(),
        }
    }

    /// What the broker should fetch.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

fn is_path(text: &str) -> bool {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let has_query = text.contains('?');
    text.starts_with('/') && text.len() <= MAX_PATH && is_visible && !has_query
}

/// What comes with the wish to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Join {
    /// The form of lists that it reads.
    pub form: Form,
    /// Where other volunteers ask it for payloads, at the address from which it asks; 0 for
    /// nowhere.
    pub peers: u16,
    /// Version of the list that it holds; 0 for none.
    pub held: u64,
    /// When that list was issued.
    pub issued: UnixTime,
    /// What it says that it has done.
    pub told: Told,
}

/// What a volunteer says that it has done since it was started. Its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Connections of clients.
    pub clients: u64,
    /// Bytes of records sent to clients.
    pub sent: u64,
    /// Bytes received from the origin for that.
    pub from_origin: u64,
}

/// What the broker says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is a member.
    Welcome(Welcome),
    /// It is none, or stays what it was.
    Refused(Refusal),
    /// It has left.
    Farewell,
    /// The report is taken.
    Noted,
}

/// What a member needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Seconds after which it should ask again.
    pub renew: u32,
    /// Where the origin is: `HOST:PORT`, visible ASCII, at most 255 bytes.
    pub origin: String,
    /// The origin's key.
    pub origin_key: PublicKey,
    /// The signed list; empty if the member holds it already.
    pub list: Vec<u8>,
}

/// Why a volunteer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The broker serves another site.
    #[error("the broker has no such site; ask who runs it for the whole URI")]
    Site,
    /// See [`Refused::Policy`].
    #[error("{}", Refused::Policy)]
    Policy,
    /// See [`Refused::TooOften`].
    #[error("{}", Refused::TooOften)]
    TooOften,
    /// See [`Refused::Address`].
    #[error("{}", Refused::Address)]
    Address,
    /// See [`Refused::AddressTaken`].
    #[error("{}", Refused::AddressTaken)]
    AddressTaken,
    /// See [`Refused::Full`].
    #[error("{}", Refused::Full)]
    Full,
}

/// Whether to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// It may be otherwise later.
    Later,
    /// Not before somebody changes something.
    Never,
}

impl Refusal {
    /// In the order of their numbers, from 1 on.
    const ALL: [Self; 6] = [
        Self::Site,
        Self::Policy,
        Self::TooOften,
        Self::Address,
        Self::AddressTaken,
        Self::Full,
    ];

    /// Whether it makes sense to ask again.
    #[must_use]
    pub fn prospect(self) -> Prospect {
        match self {
            Self::Site | Self::Policy => Prospect::Never,
            Self::TooOften | Self::Address | Self::AddressTaken | Self::Full => Prospect::Later,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Site => 1,
            Self::Policy => 2,
            Self::TooOften => 3,
            Self::Address => 4,
            Self::AddressTaken => 5,
            Self::Full => 6,
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Policy => Self::Policy,
            Refused::TooOften => Self::TooOften,
            Refused::Address => Self::Address,
            Refused::AddressTaken => Self::AddressTaken,
            Refused::Full => Self::Full,
        }
    }
}

impl Question {
    /// As it crosses.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = QUESTION.to_vec();
        let site = self.site.as_str().as_bytes();
        let kind = match self.wish {
            Wish::Join(Join {
                form: Form::One, ..
            }) => 1,
            Wish::Join(Join {
                form: Form::All, ..
            }) => 4,
            Wish::Leave => 2,
            Wish::Report(_) => 3,
        };
        // A name has at most 253 bytes.
        out.extend([kind, u8::try_from(site.len()).unwrap_or(u8::MAX)]);
        out.extend(site);
        match &self.wish {
            Wish::Join(join) => {
                out.extend(join.peers.to_be_bytes());
                let Told {
                    clients,
                    sent,
                    from_origin,
                } = join.told;
                for number in [join.held, join.issued.0, clients, sent, from_origin] {
                    out.extend(number.to_be_bytes());
                }
            }
            Wish::Leave => {}
            Wish::Report(report) => {
                out.extend(report.volunteer.0);
                // Made and read with this bound.
                out.push(u8::try_from(report.path.len()).unwrap_or(u8::MAX));
                out.extend(report.path.as_bytes());
            }
        }
        out
    }

    /// A volunteer's; `None` if it is malformed, or of a later version of Tandem.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest::of(bytes, MAX_QUESTION, QUESTION)?;
        let [kind, length] = rest.array()?;
        let text = rest.text(length.into())?;
        let site = Name::parse(text).filter(|name| name.as_str() == text)?;
        let wish = match kind {
            1 => Wish::Join(rest.join(Form::One)?),
            4 => Wish::Join(rest.join(Form::All)?),
            2 => Wish::Leave,
            3 => {
                let volunteer = PublicKey(rest.array()?);
                let [length] = rest.array()?;
                let path = rest.text(length.into()).filter(|path| is_path(path))?;
                Wish::Report(Report::new(volunteer, path))
            }
            _ => return None,
        };
        rest.0.is_empty().then_some(Self { site, wish })
    }
}

impl Answer {
    /// As it crosses. An origin's address that is too long is cut, and a list that is too long is
    /// left out: neither is made here.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = ANSWER.to_vec();
        match self {
            Self::Welcome(welcome) => {
                out.push(1);
                out.extend(welcome.renew.to_be_bytes());
                out.extend(welcome.origin_key.0);
                let origin = welcome.origin.as_bytes();
                let origin = &origin[..origin.len().min(255)];
                out.push(u8::try_from(origin.len()).unwrap_or(u8::MAX));
                out.extend(origin);
                let fits = welcome.list.len() <= list::MAX_LEN;
                let list = if fits { &*welcome.list } else { &[] };
                let list_len = u32::try_from(list.len()).unwrap_or(u32::MAX);
                out.extend(list_len.to_be_bytes());
                out.extend(list);
            }
            Self::Refused(refusal) => out.extend([2, refusal.number()]),
            Self::Farewell => out.push(3),
            Self::Noted => out.push(4),
        }
        out
    }

    /// A broker's; `None` if it is malformed, or of a later version of Tandem.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest::of(bytes, MAX_ANSWER, ANSWER)?;
        let answer = match rest.array()? {
            [1] => {
                let renew = u32::from_be_bytes(rest.array()?);
                let origin_key = PublicKey(rest.array()?);
                let [length] = rest.array()?;
                let origin = rest.text(length.into())?;
                if !origin.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return None;
                }
                let length = u32::from_be_bytes(rest.array()?);
                let list = rest.bytes(usize::try_from(length).ok()?)?;
                if list.len() > list::MAX_LEN {
                    return None;
                }
                Self::Welcome(Welcome {
                    renew,
                    origin: origin.to_owned(),
                    origin_key,
                    list: list.to_vec(),
                })
            }
            [2] => {
                let [number] = rest.array()?;
                let found = Refusal::ALL
                    .into_iter()
                    .find(|refusal| refusal.number() == number);
                Self::Refused(found?)
            }
            [3] => Self::Farewell,
            [4] => Self::Noted,
            _ => return None,
        };
        rest.0.is_empty().then_some(answer)
    }
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// What comes after `magic`, if no more than `most` bytes come at all.
    fn of(bytes: &'a [u8], most: usize, magic: [u8; 4]) -> Option<Self> {
        let rest = bytes.strip_prefix(&magic)?;
        (bytes.len() <= most).then_some(Self(rest))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn join(&mut self, form: Form) -> Option<Join> {
        Some(Join {
            form,
            peers: u16::from_be_bytes(self.array()?),
            held: self.number()?,
            issued: UnixTime(self.number()?),
            told: Told {
                clients: self.number()?,
                sent: self.number()?,
                from_origin: self.number()?,
            },
        })
    }

    fn text(&mut self, length: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn questions() -> Vec<Question> {
        let site = Name::parse("www.example.org").expect("a name");
        let join = Join {
            form: Form::One,
            peers: 8471,
            held: 7,
            issued: UnixTime(1_000),
            told: Told {
                clients: 1,
                sent: 2,
                from_origin: u64::MAX,
            },
        };
        let longest = format!("/{}", "p".repeat(MAX_PATH - 1));
        [
            Wish::Join(join),
            Wish::Join(Join::default()),
            Wish::Join(Join {
                form: Form::All,
                ..join
            }),
            Wish::Leave,
            Wish::Report(Report::new(PublicKey([4; 32]), "/a/b")),
            Wish::Report(Report::new(PublicKey([4; 32]), &longest)),
        ]
        .map(|wish| Question {
            site: site.clone(),
            wish,
        })
        .to_vec()
    }

    fn answers() -> Vec<Answer> {
        let welcome = |list: Vec<u8>| {
            Answer::Welcome(Welcome {
                renew: 60,
                origin: "origin.example:7443".to_owned(),
                origin_key: PublicKey([3; 32]),
                list,
            })
        };
        let refused = Refusal::ALL.map(Answer::Refused);
        [
            &refused[..],
            &[
                welcome(Vec::new()),
                welcome(vec![5; list::MAX_LEN]),
                Answer::Farewell,
                Answer::Noted,
            ],
        ]
        .concat()
    }

    #[test]
    fn a_wish_to_join_differs_from_an_older_one_in_its_kind_alone() {
        let site = Name::parse("www.example.org").expect("a name");
        let written = |form: Form| {
            let join = Join {
                form,
                peers: 8471,
                ..Join::default()
            };
            let site = site.clone();
            let wish = Wish::Join(join);
            Question { site, wish }.write()
        };
        let (one, all) = (written(Form::One), written(Form::All));
        // What brokers and volunteers of one address say.
        assert_eq!(one[..6], [b'T', b'B', b'Q', 1, 1, 15]);
        assert_eq!((one[4], all[4]), (1, 4));
        assert_eq!(one[5..], all[5..]);
    }

    #[test]
    fn what_was_written_is_read() {
        for question in questions() {
            let bytes = question.write();
            assert!(bytes.len() <= MAX_QUESTION);
            assert_eq!(Question::parse(&bytes), Some(question));
        }
        for answer in answers() {
            let bytes = answer.write();
            assert!(bytes.len() <= MAX_ANSWER);
            assert_eq!(Answer::parse(&bytes), Some(answer));
        }
    }

    #[test]
    fn what_was_cut_or_has_more_behind_it_is_no_message() {
        let cuts = |bytes: &[u8]| (0..bytes.len().min(400)).collect::<Vec<_>>();
        for bytes in questions().iter().map(Question::write) {
            for at in cuts(&bytes) {
                assert_eq!(Question::parse(&bytes[..at]), None, "{at}");
            }
            assert_eq!(Question::parse(&[&*bytes, &[0]].concat()), None);
        }
        for bytes in answers().iter().map(Answer::write) {
            for at in cuts(&bytes) {
                assert_eq!(Answer::parse(&bytes[..at]), None, "{at}");
            }
            assert_eq!(Answer::parse(&[&*bytes, &[0]].concat()), None);
        }
    }

    #[test]
    fn a_path_that_no_request_could_have_or_with_a_query_is_not_reported() {
        let long = format!("/{}", "p".repeat(MAX_PATH));
        for path in ["", "a", "/ b", "/\r\nHost:x", "/\u{e4}", "/a?b", &long] {
            let report = Report::new(PublicKey([4; 32]), path);
            assert_eq!(report.path(), "/", "{path}");
        }
        let site = Name::parse("www.example.org").expect("a name");
        let wish = Wish::Report(Report::new(PublicKey([4; 32]), "/ab"));
        let mut bytes = Question { site, wish }.write();
        let last = bytes.len() - 1;
        bytes[last] = b' ';
        assert_eq!(Question::parse(&bytes), None);
    }

    #[test]
    fn only_what_somebody_must_change_first_is_hopeless() {
        let hopeless = Refusal::ALL.map(|refusal| refusal.prospect() == Prospect::Never);
        assert_eq!(hopeless, [true, true, false, false, false, false]);
    }

    proptest! {
        #[test]
        fn no_bytes_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzzing::broker_talk(&bytes);
            crate::fuzzing::broker_talk(&[&QUESTION[..], &bytes].concat());
            crate::fuzzing::broker_talk(&[&ANSWER[..], &bytes].concat());
        }
    }
}
