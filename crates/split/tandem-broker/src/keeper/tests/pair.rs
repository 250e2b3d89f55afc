//! What two brokers of a site take of each other.

use super::*;
use crate::keeper::pair::Theirs;
use crate::tables::Tables;

const STANDBY: &str = "[pair]\nprimary = \"127.0.0.1:1\"";

fn tables(keeper: &Keeper) -> (Tables, u64) {
    let known = keeper.lock().known();
    (known.tables().expect("memory"), known.steady)
}

fn read(keeper: &Keeper, (tables, steady): &(Tables, u64)) -> Result<Theirs, String> {
    let (site, now) = keeper.lock().here();
    Theirs::read(&site, tables, (now, *steady))
}

fn takes(keeper: &Keeper, (tables, steady): (Tables, u64), who: Who) {
    let theirs = read(keeper, &(tables, steady)).expect("another broker's");
    keeper.lock().take(theirs, who);
}

fn healthy(keeper: &Keeper) -> Vec<IpAddr> {
    keeper.published().borrow().healthy.clone()
}

fn members(keeper: &Keeper) -> usize {
    keeper.lock().members().count()
}

fn version(keeper: &Keeper) -> u64 {
    keeper.lock().roster.version()
}

/// One that is well, one that is nearly, one that is barred.
fn primary(folder: &Path) -> Keeper {
    let keeper = start(folder, "");
    for number in 1..=3 {
        assert!(is_welcome(&joins(&keeper, number, told(100))));
    }
    look(&keeper, 1, Ok(200), 3);
    look(&keeper, 2, Ok(200), 2);
    look(&keeper, 3, Ok(200), 3);
    for seconds in [0, 60] {
        finds_altered(&keeper, 3, seconds);
    }
    assert_eq!(healthy(&keeper), [address(1)]);
    keeper
}

#[tokio::test]
async fn a_standby_knows_what_its_primary_knew_and_does_nothing_until_it_acts() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = primary(folders[0].path());
    let standby = start(folders[1].path(), STANDBY);
    let (copy, steady) = tables(&primary);
    // By the time that it takes, 600 seconds of the term of an hour are left.
    takes(&standby, (copy, steady + 3060), Who::Primary);
    assert_eq!(healthy(&standby), healthy(&primary));
    assert_eq!(version(&standby), version(&primary));
    let bar = standby.lock().roster.bars().next().expect("one is barred");
    let now = standby.lock().clock.steady().0;
    let left = bar.until.expect("for a term").0 - now;
    assert!((590..=610).contains(&left), "{left}");
    let gone = primary.snapshot().gone;
    assert_eq!(standby.snapshot().gone, gone);

    let question = || Question {
        site: Name::parse("www.example.org").expect("a name"),
        wish: Wish::Join(Join::default()),
    };
    let asks = |number: u8| standby.answer(PublicKey([number; 32]), address(number), question());
    assert!(asks(4).await.is_none(), "nobody is taken");
    assert!(standby.looks(Standing::Healthy).await.is_empty());
    look(&standby, 1, ill(), 9);
    assert_eq!(healthy(&standby), [address(1)], "no look counts");

    standby.set_part(Part::Acting).await;
    assert!(version(&standby) > version(&primary));
    look(&standby, 2, Ok(200), 1);
    assert_eq!(
        healthy(&standby),
        [address(1), address(2)],
        "the third in a row"
    );
    assert_eq!(standby.looks(Standing::Healthy).await.len(), 2);
    assert!(asks(4).await.is_some_and(|answer| is_welcome(&answer)));
    look(&standby, 3, Ok(200), 9);
    assert_eq!(healthy(&standby).len(), 2, "a bar holds");
    drop(standby);
    // And it knows all but streaks after a restart without a primary.
    let standby = start(folders[1].path(), STANDBY);
    assert_eq!((healthy(&standby).len(), members(&standby)), (2, 4));
    assert!(standby.lock().roster.is_barred(&member(3, address(3))));
}

#[tokio::test]
async fn a_primary_that_comes_back_takes_what_happened_and_nobody_who_has_left_is_well() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let before = primary(folders[0].path());
    look(&before, 2, Ok(200), 1);
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&before), Who::Primary);
    drop(before);
    standby.set_part(Part::Acting).await;
    asks(&standby, 1, Wish::Leave);
    joins(&standby, 5, told(7));
    look(&standby, 5, Ok(200), 3);
    let back = start(folders[0].path(), "");
    assert_eq!(healthy(&back), [address(1), address(2)], "what it knew");
    takes(&back, tables(&standby), Who::ActedMeanwhile);
    assert_eq!(healthy(&back), [address(2), address(5)]);
    assert!(version(&back) > version(&standby));
    assert_eq!(back.lock().roster.bars().count(), 1);
    // Who has left is a member still, and has to be found well anew.
    assert_eq!(members(&back), 4);
    look(&back, 1, Ok(200), 2);
    assert_eq!(healthy(&back).len(), 2);
    look(&back, 1, Ok(200), 1);
    assert_eq!(healthy(&back).len(), 3);
}

#[test]
fn a_standby_that_never_had_a_copy_knows_nothing_however_often_it_starts() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let kept = || {
        let path = folders[1].path().join("broker.sqlite");
        let (_, kept) = Database::open(&path, &config(STANDBY).site).expect("a disk");
        kept
    };
    for _ in 0..2 {
        assert!(!kept().is_known());
        drop(start(folders[1].path(), STANDBY));
    }
    assert!(!kept().is_known());
    let standby = start(folders[1].path(), STANDBY);
    takes(
        &standby,
        tables(&start(folders[0].path(), "")),
        Who::Primary,
    );
    drop(standby);
    assert!(kept().is_known());
}

#[tokio::test]
async fn a_standby_that_was_off_for_long_takes_nothing_from_its_primary() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = primary(folders[0].path());
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&primary), Who::Primary);
    look(&primary, 1, ill(), 2);
    look(&primary, 2, Ok(200), 1);
    drop(primary);
    let back = start(folders[0].path(), "");
    let known = healthy(&back);
    assert_eq!(known, [address(2)]);
    takes(&back, tables(&standby), Who::ActedMeanwhile);
    assert_eq!(healthy(&back), known);
}

#[tokio::test]
async fn after_a_cut_link_the_primary_keeps_what_it_knows_and_takes_what_it_lacks() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = primary(folders[0].path());
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&primary), Who::Primary);
    standby.set_part(Part::Acting).await;
    joins(&standby, 5, told(7));
    look(&standby, 5, Ok(200), 3);
    look(&standby, 1, ill(), 2);
    look(&primary, 2, Ok(200), 1);
    joins(&primary, 6, told(7));
    assert_eq!(healthy(&standby), [address(5)]);
    assert_eq!(healthy(&primary), [address(1), address(2)]);
    takes(&primary, tables(&standby), Who::OnlyLinkWasGone);
    assert_eq!(healthy(&primary), [1, 2, 5].map(address));
    assert_eq!(members(&primary), 5);
    assert!(version(&primary) > version(&standby));
    takes(&standby, tables(&primary), Who::Primary);
    assert_eq!(healthy(&standby), healthy(&primary));
    assert_eq!(members(&standby), 5);
}

#[tokio::test]
async fn who_was_barred_at_the_primary_and_has_left_is_not_well_after_a_cut_link() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let before = start(folders[0].path(), "");
    assert!(is_welcome(&joins(&before, 3, told(100))));
    look(&before, 3, Ok(200), 3);
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&before), Who::Primary);
    standby.set_part(Part::Acting).await;
    drop(before);
    let primary = primary(folders[0].path());
    asks(&primary, 3, Wish::Leave);
    assert_eq!(healthy(&standby), [address(3)]);
    takes(&primary, tables(&standby), Who::OnlyLinkWasGone);
    assert_eq!(
        (healthy(&primary), members(&primary)),
        (vec![address(1)], 3)
    );
}

#[tokio::test]
async fn a_volunteer_that_kept_one_of_its_addresses_may_have_the_other_one_still() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = start(folders[0].path(), "");
    assert!(is_welcome(&joins(&primary, 1, told(100))));
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&primary), Who::Primary);
    assert!(is_welcome(&joins_from_both(&primary, 1, Form::All)));
    standby.set_part(Part::Acting).await;
    takes(&primary, tables(&standby), Who::ActedMeanwhile);
    assert_eq!(members(&primary), 2, "one by each family");
}

#[tokio::test]
async fn while_it_acts_who_is_found_well_is_not_forgotten_for_its_silence() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = primary(folders[0].path());
    for (part, left) in [(Part::Acting, 1), (Part::Lead, 0)] {
        let standby = start(folders[1].path(), STANDBY);
        takes(&standby, tables(&primary), Who::Primary);
        standby.set_part(part).await;
        // As if their last renewals were long ago.
        standby.lock().roster.renew_all(UnixTime(0));
        look(&standby, 1, Ok(200), 1);
        standby.lock().tick();
        assert_eq!(members(&standby), left);
    }
}

#[test]
fn what_another_site_has_is_not_taken() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let (mut copy, steady) = tables(&keeper);
    copy.0.remove("site");
    assert!(read(&keeper, &(copy, steady)).is_err());
    let (mut copy, steady) = tables(&keeper);
    copy.insert("members", vec![crate::tables::Cell::Integer(1)]);
    assert!(read(&keeper, &(copy, steady)).is_err());
}

#[test]
fn a_volunteer_is_copied_with_both_of_its_addresses() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let primary = start(folders[0].path(), "");
    assert!(is_welcome(&joins(&primary, 1, told(100))));
    let join = Join {
        peers: 7444,
        told: told(100),
        ..Join::default()
    };
    assert!(is_welcome(&asks_from(
        &primary,
        1,
        further(1),
        Wish::Join(join)
    )));
    look(&primary, 1, Ok(200), 3);
    let standby = start(folders[1].path(), STANDBY);
    takes(&standby, tables(&primary), Who::Primary);
    assert_eq!(tables(&standby).0, tables(&primary).0);
    let places = standby.snapshot().members.remove(0).places;
    let standings: Vec<Standing> = places.iter().map(|place| place.standing).collect();
    assert_eq!(standings, [Standing::Healthy, Standing::Unproven]);
    drop(standby);
    let again = start(folders[1].path(), STANDBY);
    assert_eq!(members(&again), 2);
}
