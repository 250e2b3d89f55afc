//! Joining, health, restarts: what is answered, published and kept.

mod bars;
mod pair;

use std::path::Path;

use tandem_barnraising::talk::Wish;
use tandem_barnraising::{List, Peer};
use tandem_channel::ChannelKey;
use tandem_daemon::metrics::Number;

use super::*;

const CONFIG: &str = r#"
    site = "www.example.org"
    listen = "127.0.0.1:8470"
    [origin]
    address = "origin.example.org:7443"
    key = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
    own-addresses = ["203.0.113.1"]
    [health]
    roots = "/dev/null"
"#;

fn config(more: &str) -> Config {
    Config::parse(&format!("{CONFIG}\n{more}"), Path::new("test.toml")).expect("well-formed")
}

fn key() -> ChannelKey {
    ChannelKey::from_seed(&[7; 32]).expect("a key")
}

/// A broker that is started on what is in `folder`.
fn start(folder: &Path, more: &str) -> Keeper {
    let config = config(more);
    let path = folder.join("broker.sqlite");
    let (database, kept) = Database::open(&path, &config.site).expect("a disk");
    Keeper::new(&config, key(), database, kept)
}

fn address(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

fn asks(keeper: &Keeper, number: u8, wish: Wish) -> Answer {
    asks_from(keeper, number, address(number), wish)
}

fn asks_from(keeper: &Keeper, number: u8, from: IpAddr, wish: Wish) -> Answer {
    let question = Question {
        site: Name::parse("www.example.org").expect("a name"),
        wish,
    };
    let key = PublicKey([number; 32]);
    keeper.lock().answer(key, from, &question)
}

/// The address of IPv6 of a volunteer that has both.
fn further(number: u8) -> IpAddr {
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)].into()
}

/// Joins from both addresses; what is answered to the second.
fn joins_from_both(keeper: &Keeper, number: u8, form: Form) -> Answer {
    let join = Join {
        form,
        peers: 7444,
        ..Join::default()
    };
    assert!(is_welcome(&asks(keeper, number, Wish::Join(join))));
    asks_from(keeper, number, further(number), Wish::Join(join))
}

fn look_at(keeper: &Keeper, member: Member, result: Result<u16, String>, times: u32) {
    for _ in 0..times {
        let look = Look {
            result: result.clone(),
            took: Duration::from_millis(3),
        };
        keeper.lock().note(&member, look);
    }
}

fn joins(keeper: &Keeper, number: u8, told: Told) -> Answer {
    let join = Join {
        peers: 7444,
        told,
        ..Join::default()
    };
    asks(keeper, number, Wish::Join(join))
}

fn is_welcome(answer: &Answer) -> bool {
    matches!(answer, Answer::Welcome(_))
}

fn list(answer: &Answer) -> List {
    let Answer::Welcome(welcome) = answer else {
        panic!("{answer:?}");
    };
    let site = Name::parse("www.example.org").expect("a name");
    List::open(&welcome.list, &site, |message, signature| {
        key().name().has_signed(message, signature)
    })
    .expect("the broker's")
}

fn look(keeper: &Keeper, number: u8, result: Result<u16, String>, times: u32) {
    look_at(keeper, member(number, address(number)), result, times);
}

fn member(number: u8, address: IpAddr) -> Member {
    Member {
        key: PublicKey([number; 32]),
        address,
        peers: SocketAddr::new(address, 7444),
    }
}

fn ill() -> Result<u16, String> {
    Err("connection refused".to_owned())
}

/// A look finds that a record was changed which came through a member, so many seconds from now.
fn finds_altered(keeper: &Keeper, number: u8, seconds: u64) {
    let look = Look {
        result: Err("a record was changed on the way".to_owned()),
        took: Duration::from_millis(3),
    };
    let mut state = keeper.lock();
    let now = UnixTime(state.clock.steady().0 + seconds);
    state.note_altered(&member(number, address(number)), "/", look, now);
}

fn told(sent: u64) -> Told {
    Told {
        clients: 1,
        sent,
        from_origin: sent / 100,
    }
}

#[test]
fn browsers_are_sent_to_who_is_seen_well_and_else_to_the_origin() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let published = keeper.published();
    let addresses = || published.borrow().addresses().to_vec();
    assert!(is_welcome(&joins(&keeper, 1, Told::default())));
    look(&keeper, 1, Ok(200), 2);
    assert_eq!(addresses(), [IpAddr::from([203, 0, 113, 1])]);
    look(&keeper, 1, Ok(502), 1);
    assert_eq!(addresses(), [address(1)], "whatever the status");
    look(&keeper, 1, ill(), 1);
    assert_eq!(addresses(), [address(1)], "one failure is not enough");
    look(&keeper, 1, ill(), 1);
    assert_eq!(addresses(), [IpAddr::from([203, 0, 113, 1])]);
}

#[test]
fn a_list_is_sent_to_who_does_not_hold_it_and_has_the_healthy() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let first = joins(&keeper, 1, Told::default());
    assert!(list(&first).members.is_empty());
    look(&keeper, 1, Ok(200), 3);
    let second = list(&joins(&keeper, 2, Told::default()));
    assert!(!list(&first).supersedes(Some(&second)));
    assert_eq!(second.members.len(), 1);
    assert_eq!(second.members, [member(1, address(1)).into()]);
    let again = Join {
        form: Form::One,
        peers: 7444,
        held: second.version,
        issued: second.issued,
        told: Told::default(),
    };
    let Answer::Welcome(welcome) = asks(&keeper, 2, Wish::Join(again)) else {
        panic!("a member is welcome");
    };
    assert!(welcome.list.is_empty());
    assert_eq!(welcome.origin, "origin.example.org:7443");
    assert_eq!(welcome.renew, 60);
}

#[test]
fn a_killed_broker_knows_its_members_their_health_and_their_words() {
    let folder = tempfile::tempdir().expect("a directory");
    let before = {
        let keeper = start(folder.path(), "");
        joins(&keeper, 1, told(1_000));
        joins(&keeper, 2, told(5_000));
        look(&keeper, 1, Ok(200), 3);
        assert_eq!(asks(&keeper, 2, Wish::Leave), Answer::Farewell);
        // Nothing is said to the database at the end: it is dropped as it is.
        list(&joins(&keeper, 1, told(1_000)))
    };
    let keeper = start(folder.path(), "");
    assert_eq!(keeper.published().borrow().addresses(), [address(1)]);
    let snapshot = keeper.snapshot();
    assert_eq!(snapshot.gone, told(5_000));
    assert_eq!(snapshot.members.len(), 1);
    assert_eq!(snapshot.members[0].told, told(1_000));
    // It was not started anew meanwhile: what it says now has in it what it said then.
    let after = list(&joins(&keeper, 1, told(3_000)));
    assert!(!before.supersedes(Some(&after)));
    assert_eq!(keeper.snapshot().members[0].told, told(3_000));
    // It was, now.
    joins(&keeper, 1, told(200));
    assert_eq!(keeper.snapshot().members[0].told.sent, 3_200);
}

#[test]
fn both_addresses_of_a_volunteer_are_published_listed_and_kept_each_by_its_health() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let [four, six] = [address(1), further(1)].map(|address| member(1, address));
    assert!(is_welcome(&joins_from_both(&keeper, 1, Form::All)));
    look_at(&keeper, four, Ok(200), 3);
    assert_eq!(keeper.published().borrow().addresses(), [four.address]);
    look_at(&keeper, six, Ok(200), 3);
    let both = [four.address, six.address];
    assert_eq!(keeper.published().borrow().addresses(), both);
    let numbers = keeper.numbers();
    let counted = [&numbers.healthy, &numbers.healthy_v4, &numbers.healthy_v6];
    assert_eq!(counted.map(Number::value), [1, 1, 1]);
    // One that knows of one address has the same list, with that.
    let listed = list(&joins_from_both(&keeper, 1, Form::All));
    let shorter = list(&joins(&keeper, 2, Told::default()));
    assert_eq!(listed.members, [Peer::from(four).and(six.peers)]);
    assert_eq!(shorter.members, [Peer::from(four)]);
    let moment = |list: &List| (list.version, list.issued, list.ends);
    assert_eq!(moment(&listed), moment(&shorter));
    let again = Join {
        form: Form::All,
        held: shorter.version,
        issued: shorter.issued,
        ..Join::default()
    };
    let Answer::Welcome(welcome) = asks(&keeper, 2, Wish::Join(again)) else {
        panic!("a member is welcome");
    };
    assert!(welcome.list.is_empty(), "it holds that version");
    look_at(&keeper, six, ill(), 2);
    assert_eq!(keeper.published().borrow().addresses(), [four.address]);
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert_eq!(keeper.published().borrow().addresses(), [four.address]);
    let members = keeper.snapshot().members;
    let [first, _] = &members[..] else {
        panic!("{members:?}");
    };
    let places: Vec<_> = first.places.iter().map(|place| place.address).collect();
    assert_eq!(places, both);
    assert_eq!(asks(&keeper, 1, Wish::Leave), Answer::Farewell);
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert!(
        keeper
            .snapshot()
            .members
            .iter()
            .all(|shown| shown.key != four.key)
    );
}

#[test]
fn an_address_that_makes_room_for_another_is_not_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    assert!(is_welcome(&joins_from_both(&keeper, 1, Form::All)));
    look_at(&keeper, member(1, further(1)), ill(), 1);
    // Nobody who is well is there: the address is somebody else's now.
    let join = Wish::Join(Join::default());
    assert!(is_welcome(&asks_from(&keeper, 2, further(1), join)));
    assert!(keeper.lock().notes[&PublicKey([1; 32])].looks.is_empty());
    drop(keeper);
    let keeper = start(folder.path(), "");
    let members = keeper.snapshot().members;
    let places = |shown: &Shown| shown.places.iter().map(|place| place.address).collect();
    let places: Vec<Vec<IpAddr>> = members.iter().map(places).collect();
    assert_eq!(places, [[address(1)], [further(1)]]);
}

#[test]
fn a_broker_that_has_lost_its_database_gives_out_no_older_list() {
    let first = first_version(0, UnixTime(1_800_000_000));
    let after_changes = first + 500;
    assert!(first_version(after_changes, UnixTime(1_800_000_000)) > after_changes);
    let lost = first_version(0, UnixTime(1_800_003_600));
    assert!(lost > after_changes, "an hour and 500 changes later");
}

#[test]
fn who_is_not_taken_is_told_why_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "[admission]\npolicy = \"closed\"");
    let refused = joins(&keeper, 1, Told::default());
    assert_eq!(refused, Answer::Refused(Refusal::Policy));
    let elsewhere = Question {
        site: Name::parse("other.example.org").expect("a name"),
        wish: Wish::Leave,
    };
    let answer = keeper
        .lock()
        .answer(PublicKey([1; 32]), address(1), &elsewhere);
    assert_eq!(answer, Answer::Refused(Refusal::Site));
    assert!(keeper.snapshot().members.is_empty());
}

#[test]
fn who_asks_too_often_is_sent_away() {
    let folder = tempfile::tempdir().expect("a directory");
    let limit = "[admission]\nevery-seconds = 3600\nburst = 2";
    let keeper = start(folder.path(), limit);
    for volunteer in [1, 2] {
        assert!(is_welcome(&joins(&keeper, volunteer, Told::default())));
    }
    let third = joins(&keeper, 3, Told::default());
    assert_eq!(third, Answer::Refused(Refusal::TooOften));
    for _ in 0..2 {
        assert!(is_welcome(&joins(&keeper, 1, Told::default())), "renews");
    }
    let renewal = joins(&keeper, 1, Told::default());
    assert_eq!(renewal, Answer::Refused(Refusal::TooOften));
    assert_eq!(keeper.snapshot().members.len(), 2, "they stay members");
}

#[test]
fn only_who_was_well_has_places_at_the_door_of_its_own() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    let addresses = keeper.addresses();
    joins(&keeper, 1, Told::default());
    joins(&keeper, 2, Told::default());
    assert!(addresses.borrow().is_empty(), "joining is not enough");
    look(&keeper, 1, Ok(200), 3);
    assert_eq!(**addresses.borrow(), BTreeSet::from([address(1)]));
    look(&keeper, 1, ill(), 2);
    assert_eq!(**addresses.borrow(), BTreeSet::from([address(1)]));
}

#[test]
fn who_makes_room_for_another_is_counted_and_not_known_any_more() {
    let folder = tempfile::tempdir().expect("a directory");
    let limit = "[admission]\nevery-seconds = 0.001\nburst = 1000";
    let keeper = start(folder.path(), limit);
    let joins = |host: u16| {
        let question = Question {
            site: Name::parse("www.example.org").expect("a name"),
            wish: Wish::Join(Join::default()),
        };
        let [high, low] = host.to_be_bytes();
        let mut key = [0; 32];
        key[..2].copy_from_slice(&[high, low]);
        let from = IpAddr::from([192, 0, high, low]);
        let key = PublicKey(key);
        (key, keeper.lock().answer(key, from, &question))
    };
    let share = u16::try_from(tandem_barnraising::shares::ROSTER_WIDE).expect("few");
    for host in 0..share {
        assert!(is_welcome(&joins(host).1), "{host}");
    }
    let (first, _) = joins(0);
    let refused = joins(share).1;
    assert_eq!(refused, Answer::Refused(Refusal::Full));
    let bad = Look {
        result: ill(),
        took: Duration::from_millis(3),
    };
    let first = Member {
        key: first,
        ..member(0, [192, 0, 0, 0].into())
    };
    keeper.lock().note(&first, bad);
    assert!(is_welcome(&joins(share).1));
    assert_eq!(keeper.numbers().evicted.value(), 1);
    assert_eq!(keeper.snapshot().members.len(), usize::from(share));
    let restarted = {
        drop(keeper);
        start(folder.path(), limit)
    };
    let members = restarted.snapshot().members;
    assert_eq!(members.len(), usize::from(share));
    assert!(members.iter().all(|shown| shown.key != first.key));
}

#[test]
fn a_database_that_takes_nothing_costs_nothing_now_and_is_written_later() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    keeper.lock().database.refuse_writing();
    assert!(is_welcome(&joins(&keeper, 1, told(10))));
    look(&keeper, 1, Ok(200), 3);
    assert_eq!(keeper.published().borrow().addresses(), [address(1)]);
    keeper.lock().database.allow_writing();
    keeper.lock().tick();
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert_eq!(keeper.published().borrow().addresses(), [address(1)]);
}

#[test]
fn when_the_name_was_found_safe_is_known_after_a_restart() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    assert_eq!(*keeper.accepted().borrow(), UnixTime(0));
    keeper.accepted().send_replace(UnixTime(1_800_000_000));
    keeper.lock().tick();
    drop(keeper);
    let keeper = start(folder.path(), "");
    assert_eq!(*keeper.accepted().borrow(), UnixTime(1_800_000_000));
}

fn reports(keeper: &Keeper, from: PublicKey, number: u8) -> Answer {
    let question = Question {
        site: Name::parse("www.example.org").expect("a name"),
        wish: Wish::Report(Report::new(PublicKey([number; 32]), "/large")),
    };
    keeper.lock().answer(from, address(200), &question)
}

#[test]
fn only_the_origin_is_heard_and_what_it_reports_is_looked_at_and_costs_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    joins(&keeper, 1, Told::default());
    look(&keeper, 1, Ok(200), 3);
    for stranger in [1, 9] {
        let answer = reports(&keeper, PublicKey([stranger; 32]), 1);
        assert_eq!(answer, Answer::Refused(Refusal::Policy));
    }
    assert!(keeper.lock().roster.suspects().is_empty());
    for _ in 0..100 {
        let answer = reports(&keeper, PublicKey([0x0f; 32]), 1);
        assert_eq!(answer, Answer::Noted);
    }
    let suspects = keeper.lock().roster.suspects();
    assert_eq!(suspects.len(), 1);
    assert_eq!(suspects[0].path.as_deref(), Some("/large"));
    assert_eq!(keeper.published().borrow().addresses(), [address(1)]);
    assert_eq!(keeper.numbers().reports.value(), 100);
}

#[test]
fn a_member_whose_records_were_changed_twice_is_out_and_shown_with_the_reason() {
    let folder = tempfile::tempdir().expect("a directory");
    let keeper = start(folder.path(), "");
    for number in [1, 2] {
        joins(&keeper, number, Told::default());
        look(&keeper, number, Ok(200), 3);
    }
    finds_altered(&keeper, 1, 0);
    // A good one between them changes nothing.
    look(&keeper, 1, Ok(200), 1);
    assert_eq!(keeper.published().borrow().addresses().len(), 2);
    finds_altered(&keeper, 1, 60);
    assert_eq!(keeper.published().borrow().addresses(), [address(2)]);
    look(&keeper, 1, Ok(200), 10);
    assert_eq!(keeper.published().borrow().addresses(), [address(2)]);
    let barred: Vec<bool> = keeper
        .snapshot()
        .members
        .iter()
        .map(|shown| shown.places[0].is_barred)
        .collect();
    assert_eq!(barred, [true, false]);
    assert_eq!(keeper.numbers().barred.value(), 1);
}
