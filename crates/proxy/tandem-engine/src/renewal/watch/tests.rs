//! The decision case by case, and in a simulated year of many sites.
//!
//! Is not: a link or a store; what a visit shows and when the line is quiet is made up here.

use super::*;
use tandem_store::HostName;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// What a certificate of "six days" lives.
const LIFE: u64 = 160 * HOUR;
const START: u64 = 1_800_000_000;

fn site(number: usize) -> Site {
    let name = HostName::new(&format!("www.site{number}.example"));
    Site::Name(name.expect("a name"))
}

fn leaf(number: usize, since: u64, life: u64) -> (ObjectId, Validity) {
    let name = [number as u64, since].map(u64::to_be_bytes).concat();
    let validity = Validity {
        since: UnixTime(since),
        until: UnixTime(since + life),
    };
    (ObjectId::of(&[&name]), validity)
}

/// Asks at this time of the calendar, with a clock that goes along.
fn due_at(watch: &mut Watch, wall: u64) -> Vec<Wanted> {
    let now = Instant::ZERO + Duration::from_secs(wall - START);
    watch.due(IDLE, (now, UnixTime(wall)))
}

#[test]
fn a_site_is_asked_after_from_half_of_its_leafs_life_on_and_until_its_end() {
    let mut watch = Watch::default();
    let held = leaf(1, START, LIFE);
    watch.shown((&site(1), 443), held, UnixTime(START));
    assert_eq!(due_at(&mut watch, START + LIFE / 2 - 1), []);
    let wanted = due_at(&mut watch, START + LIFE / 2);
    assert_eq!(wanted.len(), 1);
    assert_eq!((&wanted[0].site, wanted[0].held), (&site(1), held.0));
    // No answer: a while later once more.
    assert_eq!(due_at(&mut watch, START + LIFE / 2 + 5 * HOUR), []);
    assert_eq!(due_at(&mut watch, START + LIFE).len(), 1);
    assert_eq!(due_at(&mut watch, START + LIFE + DAY), []);
}

#[test]
fn what_a_site_has_done_before_says_when_it_is_looked_for() {
    let mut watch = Watch::default();
    let (first, second) = (leaf(1, START, LIFE), leaf(1, START + 100 * HOUR, LIFE));
    watch.shown((&site(1), 443), first, UnixTime(START));
    watch.shown((&site(1), 443), second, UnixTime(START + 101 * HOUR));
    assert_eq!(due_at(&mut watch, START + 200 * HOUR - 1), []);
    assert_eq!(due_at(&mut watch, START + 200 * HOUR).len(), 1);
}

#[test]
fn a_long_lived_certificate_is_left_to_its_visits() {
    let mut watch = Watch::default();
    watch.shown((&site(1), 443), leaf(1, START, 90 * DAY), UnixTime(START));
    for day in 0..90 {
        assert_eq!(due_at(&mut watch, START + day * DAY), []);
    }
}

#[test]
fn a_site_whose_every_leaf_is_old_already_is_asked_after_no_more_often() {
    let mut watch = Watch::default();
    let old = |time: u64| leaf(1, time - LIFE / 2, LIFE);
    watch.shown((&site(1), 443), old(START), UnixTime(START));
    let mut asked = 0;
    for minute in 0..24 * 60 {
        let time = START + 60 * minute;
        for wanted in due_at(&mut watch, time) {
            asked += 1;
            watch.shown((&wanted.site, 443), old(time), wanted.visited);
        }
    }
    assert_eq!(asked, DAY * LOOKS_A_LIFE / LIFE + 1);
}

#[test]
fn a_site_to_which_nobody_comes_back_is_given_up() {
    let mut watch = Watch::default();
    watch.shown((&site(1), 443), leaf(1, START, LIFE), UnixTime(START));
    let (mut time, mut asked) = (START, 0);
    while time < START + 10 * LIFE {
        time += LIFE / 2;
        for wanted in due_at(&mut watch, time) {
            asked += 1;
            let next = leaf(1, time, LIFE);
            watch.shown((&wanted.site, 443), next, wanted.visited);
        }
    }
    assert_eq!(asked, 2 * KEPT_LIVES);
}

#[test]
fn nobody_is_asked_while_the_link_sleeps_or_is_busy_nor_many_at_once() {
    let mut watch = Watch::default();
    for number in 0..20 {
        watch.shown(
            (&site(number), 443),
            leaf(number, START, LIFE),
            UnixTime(START),
        );
    }
    let wall = UnixTime(START + LIFE / 2);
    let mut ask = |quiet, seconds| {
        let now = Instant::ZERO + Duration::from_secs(seconds);
        watch.due(Duration::from_secs(quiet), (now, wall)).len()
    };
    assert_eq!((ask(0, 100), ask(4, 100), ask(60, 100)), (0, 0, 0));
    assert_eq!(ask(5, 100), AT_A_TIME);
    assert_eq!(ask(5, 109), 0);
    assert_eq!(ask(59, 110), AT_A_TIME);
    assert_eq!((ask(5, 120), ask(5, 130)), (4, 0));
}

#[test]
fn sites_are_bounded_and_the_one_visited_longest_ago_goes() {
    let mut watch = Watch::default();
    for number in 0..=MAX_SITES {
        let visited = UnixTime(START + number as u64);
        watch.shown((&site(number), 443), leaf(number, START, LIFE), visited);
    }
    assert_eq!(watch.sites.len(), MAX_SITES);
    assert!(!watch.sites.contains_key(&site(0)));
}

/// SplitMix64: the same run each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A site's leaves over a year, by when each begins.
struct Leaves(Vec<u64>);

impl Leaves {
    /// One server in three renews at half of a leaf's life, the others at two thirds, each up to
    /// six hours earlier or later.
    fn of(random: &mut Random, number: usize) -> Self {
        let age = match number % 3 {
            0 => LIFE / 2,
            _ => LIFE * 2 / 3,
        };
        let mut since = START - random.below(age);
        let mut leaves = Vec::new();
        while since < START + 366 * DAY {
            leaves.push(since);
            since += age - 6 * HOUR + random.below(12 * HOUR);
        }
        Self(leaves)
    }

    fn at(&self, time: u64) -> u64 {
        self.0[self.0.partition_point(|since| *since <= time) - 1]
    }
}

/// Bytes of a renewed chain's delta at the median (`benches/chains.rs`), on either way.
const DELTA: u64 = 750;
/// Bytes of a question and its answer that there is nothing new, alone in their packets, with IP
/// headers and acknowledgements.
const QUESTION: u64 = 200;

/// The year's sites are told apart by it.
fn port(number: usize) -> u16 {
    u16::try_from(number).expect("a thousand")
}

/// What a year has come to.
#[derive(Debug, Default, Clone, Copy)]
struct Year {
    visits: u64,
    warm: u64,
    questions: u64,
    renewed: u64,
}

impl Year {
    fn warm_percent(&self) -> f64 {
        100.0 * self.warm as f64 / self.visits as f64
    }

    /// Bytes of chains that had changed, and of questions.
    fn bytes(&self) -> u64 {
        (self.visits - self.warm + self.renewed) * DELTA + self.questions * QUESTION
    }
}

/// A year of so many visits a day to 1,000 sites, the popular ones more often (by Zipf's law), from
/// seven in the morning to eleven at night.
fn year(visits_a_day: u64, mut watch: Option<Watch>) -> Year {
    const SITES: usize = 1_000;
    let mut random = Random(visits_a_day);
    let leaves: Vec<Leaves> = (0..SITES).map(|it| Leaves::of(&mut random, it)).collect();
    let sites: Vec<Site> = (0..SITES).map(site).collect();
    let mut shares = Vec::new();
    for rank in 1..=SITES as u64 {
        shares.push(shares.last().unwrap_or(&0) + 1_000_000_000 / rank);
    }
    let all = *shares.last().expect("some");
    let mut held: Vec<Option<u64>> = vec![None; SITES];
    let mut year = Year::default();
    for day in 0..365 {
        let mut times: Vec<u64> = (0..visits_a_day)
            .map(|_| START + day * DAY + 7 * HOUR + random.below(16 * HOUR))
            .collect();
        times.sort_unstable();
        for (index, time) in times.iter().enumerate() {
            let share = random.below(all);
            let number = shares.partition_point(|until| *until <= share);
            let shown = leaves[number].at(*time);
            year.visits += 1;
            year.warm += u64::from(held[number] == Some(shown));
            held[number] = Some(shown);
            let Some(watch) = &mut watch else {
                continue;
            };
            watch.shown(
                (&sites[number], port(number)),
                leaf(number, shown, LIFE),
                UnixTime(*time),
            );
            // The line falls quiet, and asking keeps it awake.
            let next = times.get(index + 1).copied().unwrap_or(u64::MAX);
            let (mut carried, mut looked) = (*time, *time);
            while looked + 10 < next && looked + 10 < carried + AWAKE.as_secs() {
                looked += 10;
                let now = Instant::ZERO + Duration::from_secs(looked - START);
                let quiet = Duration::from_secs(looked - carried);
                for wanted in watch.due(quiet, (now, UnixTime(looked))) {
                    carried = looked;
                    year.questions += 1;
                    let number = usize::from(wanted.port);
                    let shown = leaves[number].at(looked);
                    if held[number] != Some(shown) {
                        held[number] = Some(shown);
                        year.renewed += 1;
                        let new = leaf(number, shown, LIFE);
                        watch.shown((&wanted.site, wanted.port), new, wanted.visited);
                    }
                }
            }
        }
    }
    year
}

#[test]
fn in_a_year_of_1000_sites_with_certificates_of_six_days_visits_find_theirs() {
    for (visits_a_day, bar) in [(500, 95.0), (200, 90.0)] {
        let without = year(visits_a_day, None);
        let ahead = year(visits_a_day, Some(Watch::default()));
        eprintln!(
            "{visits_a_day} visits a day: {:.1} % warm and {} kB a day without, {:.1} % and {} kB \
             ahead, {} questions a day, {} of them of use",
            without.warm_percent(),
            without.bytes() / 365_000,
            ahead.warm_percent(),
            ahead.bytes() / 365_000,
            ahead.questions / 365,
            ahead.renewed / 365,
        );
        assert!(ahead.warm_percent() >= bar, "{ahead:?}");
        assert!(ahead.bytes() < without.bytes() * 5, "{ahead:?}");
    }
}
