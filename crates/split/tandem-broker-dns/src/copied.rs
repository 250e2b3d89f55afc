//! Two name servers of one zone: what the one that leads gives to the one that follows.
//!
//! ```text
//!   leads:    changes keys, numbers the zone            copied --> heard   follows
//!             goes on behind the serial it hears        heard  <-- copied
//! ```
//!
//! Is not: how it crosses between two machines (`tandem-broker`), nor the addresses, which both are
//! told by whoever knows them.
//!
//! Invariants: one of the two makes keys, and it is always the same one; the one that follows gives
//! the zone the serial of the one that leads and signs by its clock, also after it has lost sight
//! of it; a serial never goes back.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

pub use crate::keys::KeyFiles;

/// Which of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// It changes keys, and its serial counts. A server that is alone leads.
    Leads,
    /// It takes both from the other.
    Follows,
}

/// What one has that the other needs. Secret, for the keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// The zone's serial.
    pub serial: u32,
    /// The lines of the challenge file.
    pub challenge: Vec<String>,
    /// The files of the keys.
    pub keys: KeyFiles,
}

/// What one has heard of the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// The last that was heard.
    pub copied: Option<Copied>,
    /// The other's clock, once it was heard.
    pub clock: Option<TheirClock>,
    /// Whether the other is there.
    pub is_there: bool,
}

/// The wall clock of the other: what it showed last, counted on by one that only goes forward, so
/// that a step of the own wall clock has no say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TheirClock {
    wall: u64,
    heard: Instant,
}

impl TheirClock {
    /// It shows this now, in seconds since 1970.
    #[must_use]
    pub fn heard(wall: u64) -> Self {
        Self {
            wall,
            heard: Instant::now(),
        }
    }

    /// What it shows now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.wall.saturating_add(self.heard.elapsed().as_secs())
    }
}

/// A handle to a name server that is one of two.
#[derive(Debug)]
pub struct Other {
    /// What the other server is to have.
    pub copied: watch::Receiver<Arc<Copied>>,
    /// What was heard of the other.
    pub heard: watch::Sender<Arc<Heard>>,
}

/// The one of two serials that is later (RFC 1982: numbers go round).
pub(crate) fn later(one: u32, other: u32) -> u32 {
    if other.wrapping_sub(one) < 1 << 31 {
        other
    } else {
        one
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use hickory_proto::dnssec::rdata::DNSSECRData;
    use hickory_proto::rr::{RData, RecordType};

    use super::*;
    use crate::check::Options;
    use crate::keeper::{Changing, Keeper, unix_time};
    use crate::{Answers, Settings};

    const HOUR: u64 = 3600;

    /// A name server with this key, and what it is told.
    fn server(key: &Path, lead: Lead) -> (Keeper, Other, watch::Sender<Arc<Answers>>) {
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "key": key, "listen": ["127.0.0.1:0"], "key-days": 30, "nameservers": {"ns.example.net": []},
        }))
        .expect("settings");
        let site = tandem_barnraising::uri::Name::parse("www.tandem-site.org").expect("a name");
        let changing = Changing {
            keys: settings.zone_keys(unix_time()).expect("made"),
            lifetime: settings.key_lifetime(),
            look: Options::default(),
        };
        let (answers, receiver) = watch::channel(Arc::default());
        let shape = settings.shape(&site).expect("right");
        let mut keeper = Keeper::new(shape, changing, None, receiver).expect("a zone");
        let other = keeper.pair(lead).expect("readable");
        (keeper, other, answers)
    }

    fn serial(keeper: &Keeper) -> u32 {
        keeper.zone().borrow().serial
    }

    /// When the signature of the SOA record begins to count.
    fn signed_from(keeper: &Keeper) -> u32 {
        let zone = Arc::clone(&keeper.zone().borrow());
        let top = zone.top().expect("a zone");
        let soa = top.set(RecordType::SOA).expect("a zone has one");
        let signature = soa.set.signatures.first().expect("it is signed");
        match &signature.data {
            RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) => rrsig.input().sig_inception.get(),
            other => panic!("{other}"),
        }
    }

    fn answer(host: u8) -> Arc<Answers> {
        Arc::new(Answers {
            addresses: vec![[192, 0, 2, host].into()],
            ..Answers::default()
        })
    }

    /// From one whose clock is so far ahead.
    fn heard(from: &Other, ahead: u64) -> Arc<Heard> {
        Arc::new(Heard {
            copied: Some(Copied::clone(&from.copied.borrow())),
            clock: Some(TheirClock::heard(unix_time() + ahead)),
            is_there: true,
        })
    }

    #[tokio::test]
    async fn the_one_that_follows_has_the_others_serial_and_clock_and_goes_on_behind_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lead_key, follow_key) = (folder.path().join("a"), folder.path().join("b"));
        let (mut lead, leads, lead_answers) = server(&lead_key, Lead::Leads);
        std::fs::copy(&lead_key, &follow_key).expect("own folder");
        let (mut follow, follows, answers) = server(&follow_key, Lead::Follows);
        lead_answers.send_replace(answer(1));
        lead.catch_up();
        answers.send_replace(answer(1));
        // The clock of the one that follows is five hours late.
        follows.heard.send_replace(heard(&leads, 5 * HOUR));
        follow.catch_up();
        assert_eq!(serial(&follow), serial(&lead));
        let ahead = signed_from(&follow).wrapping_sub(signed_from(&lead));
        let around = (5 * HOUR as u32 - 60)..=(5 * HOUR as u32 + 60);
        assert!(around.contains(&ahead), "{ahead}");
        // And it keeps to that clock when it is alone.
        follows
            .heard
            .send_modify(|heard| Arc::make_mut(heard).is_there = false);
        answers.send_replace(answer(2));
        follow.catch_up();
        assert!(serial(&follow).wrapping_sub(serial(&lead)) >= 4 * HOUR as u32);
        let ahead = signed_from(&follow).wrapping_sub(signed_from(&lead));
        assert!(around.contains(&ahead), "{ahead}");
        // The one that leads comes back and goes on behind that.
        leads.heard.send_replace(heard(&follows, 0));
        lead.catch_up();
        assert!(later(serial(&follow), serial(&lead)) == serial(&lead));
        assert_ne!(serial(&follow), serial(&lead));
        follows.heard.send_replace(heard(&leads, 0));
        follow.catch_up();
        assert_eq!(serial(&follow), serial(&lead));
    }

    #[tokio::test]
    async fn whatever_its_own_clock_is_set_to_it_signs_by_the_last_that_it_heard_of_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut follow, follows, answers) = server(&folder.path().join("a"), Lead::Follows);
        let long = Duration::from_secs(100);
        follows.heard.send_modify(|heard| {
            // Where this one's shows something else altogether, and did so then.
            Arc::make_mut(heard).clock = Some(TheirClock {
                wall: 1_000_000,
                heard: Instant::now() - long,
            });
        });
        answers.send_replace(answer(1));
        follow.catch_up();
        let from = u64::from(signed_from(&follow)) + 3 * HOUR;
        assert!((1_000_100..1_000_160).contains(&from), "{from}");
    }

    #[tokio::test]
    async fn one_alone_changes_keys_and_the_other_takes_them() {
        const DAY: u64 = 24 * 3600;
        let folder = tempfile::tempdir().expect("a folder");
        let (lead_key, follow_key) = (folder.path().join("a"), folder.path().join("b"));
        let (mut lead, leads, _answers) = server(&lead_key, Lead::Leads);
        std::fs::copy(&lead_key, &follow_key).expect("own folder");
        let (mut follow, follows, _others) = server(&follow_key, Lead::Follows);
        let keys = |keeper: &Keeper| {
            let zone = Arc::clone(&keeper.zone().borrow());
            let set = zone.top().and_then(|top| top.set(RecordType::DNSKEY));
            let records = set.map(|shown| shown.set.records.clone());
            records.expect("a zone has keys")
        };
        for is_there in [true, false] {
            follows
                .heard
                .send_modify(|heard| Arc::make_mut(heard).is_there = is_there);
            follow.change_keys(unix_time() + 31 * DAY);
            follow.update(unix_time());
            assert_eq!(
                keys(&follow).len(),
                1,
                "it makes none, also when it is alone"
            );
        }
        lead.change_keys(unix_time() + 31 * DAY);
        lead.update(unix_time());
        assert_eq!(keys(&lead).len(), 2);
        follows.heard.send_replace(heard(&leads, 0));
        follow.catch_up();
        assert_eq!(keys(&follow), keys(&lead));
    }

    #[test]
    fn the_later_of_two_serials_is_found_also_where_they_go_round() {
        assert_eq!(later(5, 6), 6);
        assert_eq!(later(6, 5), 6);
        assert_eq!(later(u32::MAX, 3), 3);
        assert_eq!(later(3, u32::MAX), 3);
    }
}
