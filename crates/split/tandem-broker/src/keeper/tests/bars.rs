//! What is left of bars after a restart, whatever the clock and the disk do.

use rusqlite::Connection;
use tandem_barnraising::list::MAX_MEMBERS;
use tandem_barnraising::roster::Bar;

use super::*;

const YEAR: i64 = 365 * 24 * 3600;

/// Two that were well, of which the first is barred for an hour.
fn with_one_barred(folder: &Path) -> Keeper {
    let keeper = start(folder, "");
    for number in [1, 2] {
        assert!(is_welcome(&joins(&keeper, number, Told::default())));
        look(&keeper, number, Ok(200), 3);
    }
    for seconds in [0, 60] {
        finds_altered(&keeper, 1, seconds);
    }
    assert!(is_barred(&keeper, 1));
    keeper
}

fn is_barred(keeper: &Keeper, number: u8) -> bool {
    let member = member(number, address(number));
    keeper.lock().roster.is_barred(&member)
}

/// The seconds that are left of a term.
fn left(keeper: &Keeper) -> u64 {
    let state = keeper.lock();
    let mut bars = state.roster.bars();
    let until = bars.find_map(|bar| bar.until).expect("one is barred");
    until.0.saturating_sub(state.clock.steady().0)
}

/// As if the wall clock had been set by so many seconds since the broker's end.
fn wall_is_set(folder: &Path, seconds: i64) {
    let file = Connection::open(folder.join("broker.sqlite")).expect("a file");
    let set = file.execute("UPDATE clocks SET wall = wall - ?1", [seconds]);
    assert_eq!(set.expect("a disk"), 1);
}

#[test]
fn a_killed_broker_bars_still_and_what_was_found_before_counts() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = with_one_barred(folder.path());
    finds_altered(&keeper, 2, 0);
    assert_eq!(keeper.published().borrow().addresses(), [address(2)]);
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert_eq!(keeper.published().borrow().addresses(), [address(2)]);
    assert!(is_barred(&keeper, 1) && !is_barred(&keeper, 2));
    assert!((3_600..=3_660).contains(&left(&keeper)), "as before");
    // Nor does it help to leave and to come anew.
    assert_eq!(asks(&keeper, 1, Wish::Leave), Answer::Farewell);
    assert!(is_welcome(&joins(&keeper, 1, Told::default())));
    look(&keeper, 1, Ok(200), 9);
    assert_eq!(keeper.published().borrow().addresses(), [address(2)]);
    finds_altered(&keeper, 2, 60);
    assert!(is_barred(&keeper, 2), "the second record");
}

#[test]
fn a_clock_that_is_set_while_the_broker_is_off_makes_no_term_longer_nor_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a directory");
    drop(with_one_barred(folder.path()));
    for (seconds, most) in [(1_000, 2_660), (-YEAR, 2_660), (YEAR, 600), (YEAR, 600)] {
        wall_is_set(folder.path(), seconds);
        let keeper = start(folder.path(), "");
        assert!(is_barred(&keeper, 1));
        let left = left(&keeper);
        assert!((most - 100..=most).contains(&left), "{seconds}: {left}");
    }
}

#[test]
fn the_database_hears_of_the_clocks_each_minute_while_somebody_is_barred() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let (none, one) = (
        start(folders[0].path(), ""),
        with_one_barred(folders[1].path()),
    );
    for (keeper, has_bars) in [(none, false), (one, true)] {
        let mut state = keeper.lock();
        for (passed, is_written) in [(50, false), (60, has_bars)] {
            let now = state.clock.steady();
            state.written = UnixTime(now.0 - passed);
            state.tick();
            assert_eq!(state.written >= now, is_written, "{passed} {has_bars}");
        }
    }
}

#[test]
fn a_term_that_is_over_is_over_after_a_restart_and_the_next_one_is_longer() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = with_one_barred(folder.path());
    let later = UnixTime(keeper.lock().clock.steady().0 + 3_660);
    keeper.lock().roster.forget_silent(later);
    keeper.lock().tick();
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert!(!is_barred(&keeper, 1));
    assert!(is_welcome(&joins(&keeper, 1, Told::default())));
    for seconds in [0, 60] {
        finds_altered(&keeper, 1, seconds);
    }
    assert!((7_200..=7_260).contains(&left(&keeper)));
}

#[test]
fn a_bar_that_the_database_did_not_take_is_written_later() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = with_one_barred(folder.path());
    keeper.lock().database.refuse_writing();
    for seconds in [0, 60] {
        finds_altered(&keeper, 2, seconds);
    }
    assert!(is_barred(&keeper, 2));
    assert!(keeper.numbers().not_written.value() > 0);
    keeper.lock().database.allow_writing();
    keeper.lock().tick();
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert!(is_barred(&keeper, 1) && is_barred(&keeper, 2));
}

#[test]
fn the_database_has_no_more_bars_than_the_broker() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let now = keeper.lock().clock.steady();
    let bar = |number: u32| Bar {
        address: IpAddr::from(number.to_be_bytes()),
        proofs: 0,
        last: now,
        terms: 1,
        until: Some(UnixTime(now.0 + u64::from(number))),
    };
    let all = u32::try_from(MAX_MEMBERS).expect("few");
    for numbers in [60..60 + all, 60 + all..70 + all] {
        for number in numbers {
            keeper.lock().roster.put_bar(bar(number));
        }
        keeper.lock().tick();
    }
    drop(keeper);
    let path = folder.path().join("broker.sqlite");
    let (_, kept) = Database::open(&path, &config("").site).expect("a disk");
    assert_eq!(kept.bars.len(), MAX_MEMBERS);
    assert!(!kept.bars.contains(&bar(60)) && kept.bars.contains(&bar(69 + all)));
}
