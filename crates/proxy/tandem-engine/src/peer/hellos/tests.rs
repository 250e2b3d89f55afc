//! Which hellos are remembered, which are chosen, and what a miss does.

use super::*;
use crate::samples::noise;

/// A hello of this client and site, of so many bytes.
struct Sample {
    bytes: Vec<u8>,
    client: u8,
    site: &'static str,
}

impl Sample {
    fn new(number: u32, client: u8, site: &'static str) -> Self {
        let bytes = [&number.to_be_bytes()[..], &noise(200, client)].concat();
        Self {
            bytes,
            client,
            site,
        }
    }

    fn hello(&self) -> Hello<'_> {
        Hello {
            bytes: &self.bytes,
            site: HostName::new(self.site).ok(),
            client: Profile {
                suites: [self.client / 2; 16],
                extensions: [self.client; 16],
            },
            steady: vec![],
        }
    }

    fn number(&self) -> u32 {
        number_of(&self.bytes)
    }
}

fn learn(hellos: &mut HelloTemplates, number: u32, client: u8, site: &'static str) -> Sample {
    let sample = Sample::new(number, client, site);
    assert!(hellos.learn(&sample.hello()));
    sample
}

fn chosen(hellos: &mut HelloTemplates, like: &Sample) -> Vec<u32> {
    let found = hellos.similar_to(&like.hello());
    found.into_iter().map(|template| template.number).collect()
}

#[test]
fn the_latest_of_the_same_client_is_chosen_and_one_for_the_same_site_beside_it() {
    let mut hellos = HelloTemplates::new(Role::ClientSide);
    let next = Sample::new(99, 2, "a.example");
    assert_eq!(chosen(&mut hellos, &next), []);
    let stranger = learn(&mut hellos, 0, 8, "z.example");
    assert_eq!(chosen(&mut hellos, &next), [stranger.number()]);
    let same_suites = learn(&mut hellos, 1, 3, "z.example");
    learn(&mut hellos, 2, 8, "z.example");
    assert_eq!(chosen(&mut hellos, &next), [same_suites.number()]);
    let at_site = learn(&mut hellos, 3, 8, "a.example");
    learn(&mut hellos, 4, 2, "b.example");
    let of_client = learn(&mut hellos, 5, 2, "b.example");
    let both = [of_client.number(), at_site.number()];
    assert_eq!(chosen(&mut hellos, &next), both);
    let likest = learn(&mut hellos, 6, 2, "a.example");
    learn(&mut hellos, 7, 2, "b.example");
    assert_eq!(chosen(&mut hellos, &next), [likest.number()]);
}

#[test]
fn clients_that_name_no_site_do_not_ask_for_the_same_one() {
    let mut hellos = HelloTemplates::new(Role::ClientSide);
    learn(&mut hellos, 1, 8, "");
    let of_client = learn(&mut hellos, 2, 2, "a.example");
    let next = Sample::new(99, 2, "");
    assert_eq!(chosen(&mut hellos, &next), [of_client.number()]);
}

#[test]
fn neither_one_client_nor_all_of_them_fill_the_memory() {
    for role in [Role::ClientSide, Role::ServerSide] {
        let mut hellos = HelloTemplates::new(role);
        let bounds = hellos.bounds;
        let quiet = learn(&mut hellos, 0, 1, "a.example");
        let first = learn(&mut hellos, 1, 2, "a.example");
        for number in 2..500 {
            learn(&mut hellos, number, 2, "a.example");
        }
        assert_eq!(hellos.size().0, 1 + bounds.of_one_client);
        assert!(hellos.find(quiet.number()).is_some() && hellos.find(first.number()).is_none());
        for number in 1_000..1_003 {
            for client in 3..=255 {
                learn(&mut hellos, number, client, "a.example");
            }
        }
        assert_eq!(hellos.size().0, bounds.hellos);
        assert!(
            hellos.find(quiet.number()).is_none(),
            "the oldest goes first"
        );
        for client in 0..200 {
            let long = Sample {
                bytes: noise(MAX_LEN, client),
                ..Sample::new(0, client, "a.example")
            };
            hellos.learn(&long.hello());
            assert!(hellos.size().1 <= bounds.bytes);
        }
        let held: usize = hellos.held.values().map(|held| held.bytes.len()).sum();
        assert_eq!(hellos.bytes, held + hellos.held.len() * ENTRY_COST);
    }
}

#[test]
fn what_is_too_long_is_not_held() {
    let mut hellos = HelloTemplates::new(Role::ClientSide);
    for (length, is_held) in [(MAX_LEN + 1, false), (MAX_LEN, true)] {
        let bytes = noise(length, 1);
        let sample = Sample {
            bytes,
            ..Sample::new(0, 1, "a.example")
        };
        assert_eq!(hellos.learn(&sample.hello()), is_held);
    }
}

#[test]
fn one_that_is_referred_to_is_not_the_next_to_be_forgotten() {
    let mut hellos = HelloTemplates::new(Role::ServerSide);
    let used = learn(&mut hellos, 0, 1, "a.example");
    let unused = learn(&mut hellos, 1, 1, "a.example");
    for number in 2..200 {
        assert!(hellos.find(used.number()).is_some());
        learn(&mut hellos, number, 1, "a.example");
    }
    assert!(hellos.find(used.number()).is_some() && hellos.find(unused.number()).is_none());
}

#[test]
fn what_the_client_side_holds_outlives_a_hundred_answers_under_way() {
    let (mut near, mut far) = (
        HelloTemplates::new(Role::ClientSide),
        HelloTemplates::new(Role::ServerSide),
    );
    for number in 0..8 {
        learn(&mut far, number, 1, "a.example");
        learn(&mut near, number, 1, "a.example");
    }
    for number in 8..108 {
        learn(&mut far, number, 1, "b.example");
    }
    for number in near.held.keys() {
        assert!(far.find(*number).is_some());
    }
}

#[test]
fn the_later_of_two_with_one_number_takes_the_others_place() {
    // Found by trying: about 2^10 hellos have two of one number of 20 bits.
    let mut seen = BTreeMap::new();
    let pair = (0..).find_map(|number| {
        let sample = Sample::new(number, 1, "a.example");
        let earlier = seen.insert(sample.number(), number)?;
        Some([earlier, number].map(|number| Sample::new(number, 1, "a.example")))
    });
    let [earlier, later] = pair.expect("there are more hellos than numbers");
    let mut hellos = HelloTemplates::new(Role::ServerSide);
    for sample in [&earlier, &later] {
        assert!(hellos.learn(&sample.hello()));
        assert_eq!(
            hellos.find(sample.number()).as_deref(),
            Some(&*sample.bytes)
        );
        assert_eq!(hellos.size(), (1, sample.bytes.len() + ENTRY_COST));
    }
    assert!(!hellos.learn(&later.hello()), "nothing new");
}

#[test]
fn a_miss_forgets_all_and_misses_in_a_row_refer_less_and_less() {
    let mut hellos = HelloTemplates::new(Role::ClientSide);
    let again = |hellos: &mut HelloTemplates| {
        hellos.learn(&Sample::new(1, 1, "a.example").hello());
        let next = Sample::new(2, 1, "a.example");
        !hellos.similar_to(&next.hello()).is_empty()
    };
    assert!(again(&mut hellos));
    hellos.missed();
    assert_eq!(hellos.size(), (0, 0));
    assert!(
        again(&mut hellos),
        "what came after the first miss is known"
    );
    hellos.missed();
    let left = (0..).take_while(|_| !again(&mut hellos)).count();
    assert_eq!(left, 2);
    hellos.rebuilt();
    hellos.missed();
    assert!(again(&mut hellos));
}

fn flight(length: usize) -> Vec<u8> {
    noise(length, 77)
}

#[test]
fn what_answered_a_hello_is_expected_again_at_the_same_site_alone() {
    let mut hellos = HelloTemplates::new(Role::ClientSide);
    let [named, nameless] = [("a.example", 1), ("", 2)].map(|(site, number)| {
        let sample = learn(&mut hellos, number, 2, site);
        assert!(hellos.answered(&sample.hello(), &flight(900)));
        assert!(!hellos.answered(&sample.hello(), &flight(800)), "once");
        sample
    });
    let site = |name: &str| HostName::new(name).ok();
    let of_site = |hellos: &HelloTemplates, sample: &Sample, name: &str| {
        hellos.answer_of(sample.number(), site(name).as_ref())
    };
    match of_site(&hellos, &named, "a.example") {
        Expected::Flight(known) => assert_eq!(&*known, flight(900)),
        other => panic!("{other:?}"),
    }
    for (sample, name) in [(&named, "b.example"), (&named, ""), (&nameless, "")] {
        let found = of_site(&hellos, sample, name);
        assert!(matches!(found, Expected::Unknown), "{found:?}");
    }
    hellos.flight_missed();
    let forgotten = hellos.answer(named.number());
    assert!(matches!(forgotten, Expected::Unknown) && hellos.size().0 == 2);
    hellos.sealed(&named.hello());
    let sealed = of_site(&hellos, &named, "a.example");
    assert!(matches!(sealed, Expected::Sealed));
}

#[test]
fn flights_count_and_long_ones_are_not_held() {
    for role in [Role::ClientSide, Role::ServerSide] {
        let mut hellos = HelloTemplates::new(role);
        let alone = learn(&mut hellos, 0, 2, "a.example");
        let before = hellos.size().1;
        assert!(!hellos.answered(&alone.hello(), &flight(MAX_FLIGHT_LEN + 1)));
        assert!(hellos.answered(&alone.hello(), &flight(MAX_FLIGHT_LEN)));
        assert_eq!(hellos.size().1, before + MAX_FLIGHT_LEN);
        for number in 1..200 {
            let client = u8::try_from(number).expect("few");
            let sample = learn(&mut hellos, number, client, "a.example");
            assert!(hellos.answered(&sample.hello(), &flight(MAX_FLIGHT_LEN)));
            assert!(hellos.size().1 <= Bounds::of(role).bytes);
        }
        hellos.missed();
        assert_eq!(hellos.size(), (0, 0));
    }
}
