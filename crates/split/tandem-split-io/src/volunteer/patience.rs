//! How long another volunteer is waited for: briefly where it says nothing, and as long as it shows
//! progress where it fetches from the origin over a slow line. Asking the origin meanwhile would
//! put the same bytes on that line again.
//!
//! Is not: proof. A volunteer may say that something is coming and lie, so its word alone is good
//! for [`ITS_WORD`], what it gives (which is checked) for the rest of [`MAX_WAIT`].

use std::time::Duration;

use tokio::time::Instant;

/// How long other volunteers that say nothing may take, all together, for one thing; longer where
/// the origin itself is slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// Never longer than this while nothing is heard.
const MAX_PATIENCE: Duration = Duration::from_secs(10);
/// How long a volunteer is waited for that has said that things are coming, until it says so again.
/// Among many flows on a thin line one may stand still for some retransmission timeouts, of which
/// each is longer than the line's queue, some seconds.
const NEXT_WORD: Duration = Duration::from_secs(20);
/// How long a volunteer is waited for that says that things are coming, and gives none: over a line
/// of 160 kbit/s 37 chunks come in that time, more than one client's connection asks for ahead.
const ITS_WORD: Duration = Duration::from_secs(30);
/// How long one thing is waited for, whatever else comes from the same volunteer.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What was heard from somebody who is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// When it last said that something is coming to it.
    pub(super) coming: Option<Instant>,
    /// When it last gave something.
    pub(super) given: Option<Instant>,
}

/// Why somebody is not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// It says nothing, or nothing more.
    Silent,
    /// It says that something is coming, and what was asked for does not come.
    Promising,
}

/// The patience with those who say nothing, where an answer of the origin takes `usual` of late: a
/// volunteer that has to ask the origin first is not silent before the origin would have answered.
pub(super) fn with_silence(usual: Duration) -> Duration {
    (usual * 2).clamp(PATIENCE, MAX_PATIENCE)
}

/// Until when somebody is waited for who was asked at `asked`, and is waited for until `silent` if
/// it says nothing; and what it is if nothing has come by then.
pub(super) fn until(asked: Instant, silent: Instant, heard: Heard) -> (Instant, Late) {
    let Some(coming) = heard.coming else {
        return (silent, Late::Silent);
    };
    let next_word = coming + NEXT_WORD;
    let given = heard.given.map_or(asked, |given| given.max(asked));
    let enough = (given + ITS_WORD).min(asked + MAX_WAIT);
    if next_word <= silent {
        (silent, Late::Silent)
    } else if next_word <= enough {
        (next_word, Late::Silent)
    } else {
        (enough.max(silent), Late::Promising)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Until when one is waited for that was asked at 0, in seconds, and why not longer.
    fn waited(coming: Option<u32>, given: Option<u32>) -> (u32, Late) {
        // Long enough after the beginning of time for what came before the question.
        let asked = Instant::now() + 100 * SECOND;
        let at = |seconds: u32| asked + seconds * SECOND;
        let heard = Heard {
            coming: coming.map(at),
            given: given.map(at),
        };
        let (until, late) = until(asked, at(1), heard);
        let seconds = (until - asked).as_secs();
        (u32::try_from(seconds).expect("few"), late)
    }

    #[test]
    fn who_says_nothing_is_waited_for_no_longer_than_before() {
        assert_eq!(waited(None, None), (1, Late::Silent));
        assert_eq!(waited(None, Some(0)), (1, Late::Silent));
        assert_eq!(with_silence(Duration::ZERO), SECOND);
        assert_eq!(with_silence(3 * SECOND), 6 * SECOND);
        assert_eq!(with_silence(60 * SECOND), 10 * SECOND);
    }

    #[test]
    fn who_shows_progress_is_waited_for_until_it_has_shown_none_for_twenty_seconds() {
        assert_eq!(waited(Some(0), None), (20, Late::Silent));
        assert_eq!(waited(Some(9), None), (29, Late::Silent));
        assert_eq!(waited(Some(25), Some(20)), (45, Late::Silent));
    }

    #[test]
    fn a_word_alone_is_good_for_half_a_minute_and_no_thing_takes_longer_than_one() {
        assert_eq!(waited(Some(29), None), (30, Late::Promising));
        assert_eq!(waited(Some(45), Some(20)), (50, Late::Promising));
        assert_eq!(waited(Some(59), Some(59)), (60, Late::Promising));
        assert_eq!(waited(Some(500), Some(500)), (60, Late::Promising));
    }
}
