//! Which clients answer which sites with a certificate, in TLS 1.3, and what asking for a key would
//! spare of such an answer.
//!
//! An answer is under encryption. But nothing comes before Finished in it, which is short, except
//! Certificate and CertificateVerify (RFC 8446, section 4.4). So the length of its first record
//! says whether a certificate is shown, without any key.
//!
//! Is not: a proof. A client that pads Finished is taken for one that shows a certificate. That
//! costs one round trip, after which it is not counted on for a while. Invariants: what is
//! remembered is bounded; of a client's stream nothing is kept but the head of one record.

use std::collections::VecDeque;

use tandem_store::Site;
use tandem_wire::tls::ContentType;

use super::late::KeyClient;
use super::offer::FRESH;

/// Most pairs of client and site that are remembered: the sites of a fleet of devices.
const MAX_REMEMBERED: usize = 256;

/// Most answers that have to be seen before one is counted on again: as for keys that come late.
const MAX_NEEDED: u32 = 64;

/// Bytes of a record's header.
const HEADER_LEN: usize = 5;

/// See the module. At the client side.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The one that was noted last is at the end.
    known: VecDeque<Known>,
}

/// A client's answers to a site.
#[derive(Debug)]
struct Known {
    client: KeyClient,
    site: Site,
    /// Bytes of it that repeat.
    repeats: usize,
    /// Whether it has crossed opened: the far side holds it, too.
    has_crossed: bool,
    /// Answers that have to be seen until it is counted on: none where it is.
    needed: u32,
    /// The same after the next question in vain.
    needed_next: u32,
}

impl Answers {
    /// Bytes that asking for a key is worth at the client's answer. Of one that the far side does
    /// not hold little is spared now; but the next visit earns what this one costs, as with a
    /// server's flight.
    pub(crate) fn worth(&self, client: KeyClient, site: &Site) -> usize {
        let mut known = self.known.iter();
        let known = known.find(|it| it.is_of(client, site) && it.needed == 0);
        known.map_or(0, |known| match known.has_crossed {
            true => known.repeats,
            false => known.repeats / 2,
        })
    }

    /// An answer has passed as it is, of which so many bytes repeat.
    pub(crate) fn passed(&mut self, client: KeyClient, site: &Site, repeats: usize) {
        let known = self.note(client, site);
        known.needed = known.needed.saturating_sub(1);
        if !known.has_crossed {
            known.repeats = repeats;
        }
    }

    /// An answer has crossed opened, with a chain of so many bytes.
    pub(crate) fn crossed(&mut self, client: KeyClient, site: &Site, repeats: usize) {
        let known = self.note(client, site);
        (known.repeats, known.has_crossed) = (repeats, true);
        (known.needed, known.needed_next) = (0, 1);
    }

    /// A server's flight has crossed opened, and no answer with a chain after it.
    pub(crate) fn in_vain(&mut self, client: KeyClient, site: &Site) {
        let mut known = self.known.iter_mut();
        if let Some(known) = known.find(|it| it.is_of(client, site)) {
            known.needed = known.needed_next;
            known.needed_next = (2 * known.needed_next).min(MAX_NEEDED);
        }
    }

    /// What is known of this pair, which becomes the last to be forgotten.
    fn note(&mut self, client: KeyClient, site: &Site) -> &mut Known {
        let at = self.known.iter().position(|it| it.is_of(client, site));
        let known = at.and_then(|at| self.known.remove(at));
        if self.known.len() == MAX_REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(known.unwrap_or_else(|| Known {
            client,
            site: site.clone(),
            repeats: 0,
            has_crossed: false,
            needed: 0,
            needed_next: 1,
        }));
        let last = self.known.len() - 1;
        &mut self.known[last]
    }
}

impl Known {
    fn is_of(&self, client: KeyClient, site: &Site) -> bool {
        self.client == client && self.site == *site
    }
}

/// Reads the heads of a client's records until its answer begins.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    head: Vec<u8>,
    /// Bytes of a record that is passed over.
    rest: usize,
}

/// What was read of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerRead {
    /// It has not begun.
    ToCome,
    /// It shows a certificate, and about so many bytes of it repeat.
    Shows(usize),
    /// It shows none, or is no answer.
    ShowsNone,
}

impl AnswerReader {
    /// Reads what the client sends next, from the first byte of its stream on.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> AnswerRead {
        loop {
            let passed = self.rest.min(bytes.len());
            self.rest -= passed;
            bytes = &bytes[passed..];
            let wanted = HEADER_LEN - self.head.len();
            let Some((more, behind)) = bytes.split_at_checked(wanted) else {
                self.head.extend_from_slice(bytes);
                return AnswerRead::ToCome;
            };
            self.head.extend_from_slice(more);
            bytes = behind;
            let [content_type, _, _, high, low] = self.head[..] else {
                return AnswerRead::ShowsNone;
            };
            self.head.clear();
            let length = usize::from(u16::from_be_bytes([high, low]));
            match ContentType::from_u8(content_type) {
                // Its hellos.
                Ok(ContentType::Handshake | ContentType::ChangeCipherSpec) => self.rest = length,
                Ok(ContentType::ApplicationData) => return AnswerRead::of(length),
                Ok(ContentType::Alert | ContentType::Heartbeat) | Err(_) => {
                    return AnswerRead::ShowsNone;
                }
            }
        }
    }
}

impl AnswerRead {
    /// One whose first record is so long. Less than what is new each time shows nothing that could
    /// be spared: Finished alone has at most 69 bytes (RFC 8446, section 4.4.4). Of more, all is
    /// taken to repeat: most stacks write Certificate into a record of its own, and once it has
    /// crossed opened its length is known.
    fn of(first: usize) -> Self {
        match first > FRESH {
            true => Self::Shows(first),
            false => Self::ShowsNone,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::objects::hello::Profile;
    use crate::samples::{noise, record};

    fn client(number: u8) -> KeyClient {
        KeyClient {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
            profile: Profile {
                suites: [1; 16],
                extensions: [2; 16],
            },
        }
    }

    fn site(port: u16) -> Site {
        Site::Address(([192, 0, 2, 1], port).into())
    }

    /// Of a stream that comes byte by byte.
    fn read(stream: &[u8]) -> AnswerRead {
        let mut reader = AnswerReader::default();
        let mut reads = stream.chunks(1).map(|byte| reader.read(byte));
        let read = reads.find(|it| *it != AnswerRead::ToCome);
        let read = read.unwrap_or(AnswerRead::ToCome);
        assert_eq!(AnswerReader::default().read(stream), read, "at once");
        read
    }

    #[test]
    fn a_first_record_longer_than_finished_can_be_shows_a_certificate() {
        let [hello, change] = [record(22, &noise(300, 1)), record(20, &[1])];
        let answer = |length| record(23, &noise(length, 2));
        for (front, what) in [
            (vec![hello.clone(), change.clone()], "usual"),
            (vec![hello.clone()], "no ChangeCipherSpec"),
            (vec![hello.clone(), change.clone(), hello.clone()], "again"),
        ] {
            let front = front.concat();
            assert_eq!(read(&front), AnswerRead::ToCome, "{what}");
            for (length, expected) in [
                (53, AnswerRead::ShowsNone),
                (FRESH, AnswerRead::ShowsNone),
                (FRESH + 1, AnswerRead::Shows(FRESH + 1)),
                (2_900, AnswerRead::Shows(2_900)),
            ] {
                let stream = [&front[..], &answer(length)].concat();
                assert_eq!(read(&stream), expected, "{what} {length}");
                let more = [&stream[..], &answer(9_000)].concat();
                assert_eq!(read(&more), expected, "{what} {length}");
            }
        }
        let alert = [&hello[..], &record(21, &noise(500, 3))].concat();
        assert_eq!(read(&alert), AnswerRead::ShowsNone);
        let no_record = [&hello[..], &[99, 3, 3, 9, 9]].concat();
        assert_eq!(read(&no_record), AnswerRead::ShowsNone);
    }

    #[test]
    fn an_answer_counts_half_until_it_has_crossed_and_never_for_others() {
        let mut answers = Answers::default();
        let (client, site) = (self::client(1), self::site(443));
        assert_eq!(answers.worth(client, &site), 0);
        answers.passed(client, &site, 3_000);
        assert_eq!(answers.worth(client, &site), 1_500);
        answers.crossed(client, &site, 2_800);
        assert_eq!(answers.worth(client, &site), 2_800);
        // A visit that was not worth asking in changes nothing.
        answers.passed(client, &site, 3_000);
        assert_eq!(answers.worth(client, &site), 2_800);
        assert_eq!(answers.worth(self::client(2), &site), 0);
        assert_eq!(answers.worth(client, &self::site(444)), 0);
    }

    #[test]
    fn a_certificate_that_does_not_cross_when_asked_is_counted_on_less_and_less_often() {
        let mut answers = Answers::default();
        let (client, site) = (client(1), site(443));
        answers.in_vain(client, &site);
        assert!(answers.known.is_empty(), "of whom nothing is known");
        let mut counted = Vec::new();
        for visit in 1..=300 {
            match answers.worth(client, &site) {
                0 => answers.passed(client, &site, 3_000),
                _ => {
                    counted.push(visit);
                    answers.in_vain(client, &site);
                }
            }
        }
        assert_eq!(counted, [2, 4, 7, 12, 21, 38, 71, 136, 201, 266]);
        answers.crossed(client, &site, 3_000);
        answers.in_vain(client, &site);
        answers.passed(client, &site, 3_000);
        assert_eq!(answers.worth(client, &site), 3_000, "one is enough again");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_is_forgotten_first() {
        let mut answers = Answers::default();
        for port in 0..300 {
            answers.passed(client(1), &site(port), 3_000);
            answers.passed(client(1), &site(7), 3_000);
        }
        assert_eq!(answers.known.len(), MAX_REMEMBERED);
        for (port, worth) in [(0, 0), (44, 0), (46, 1_500), (299, 1_500), (7, 1_500)] {
            assert_eq!(answers.worth(client(1), &site(port)), worth, "{port}");
        }
    }
}
