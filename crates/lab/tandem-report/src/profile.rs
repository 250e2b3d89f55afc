//! Where the proxies' time goes: section 4.2 of the thesis beside what `profile.jsonl` and the
//! benches' stages say.
//!
//! Invariants: every figure is of both proxies together and of one handshake; what was not measured
//! is absent, and the rest is said to be a rest.

use super::input::{Bench, Input};
use super::number::{self, ABSENT};
use crate::accounts::Accounts;
use crate::arm::Arm;

/// What a reader must know before the table.
pub(crate) const ABOUT: &str = "Microseconds of both proxies together for one handshake with a chain of three, through a warm pair on \
     tcdl-10. The thesis's proxies took up to 200 ms where both ends showed certificates. Over 90 % of that was in userspace, and over \
     90 % of the userspace part in SQLite, which they opened again for every look-up. A switch between kernel and userspace took some \
     500,000 cycles (0.28 ms at 1.8 GHz), which the thesis calls negligible. Ours is user and kernel time as the kernel accounts for it, \
     over some thousand handshakes, one at a time. The kernel's part is receiving from the queue, waiting, and the verdict's system call, \
     in which the kernel forwards the packet; plain forwarding does that work too, but it is accounted to no process. The stages are \
     timed by themselves in benches, repeatedly and with warm caches; what the daemons lose to cold caches is in the rest, with the \
     event loop and the queue's messages.";

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// What it is.
    pub(crate) what: &'static str,
    /// As the thesis has it.
    pub(crate) thesis: &'static str,
    /// Ours, microseconds.
    pub(crate) ours: String,
    /// Of all of ours.
    pub(crate) share: String,
}

/// The stages that have a bench each; the store's comes first, as in the thesis.
const STAGES: [(&str, &str, &str); 5] = [
    (
        "stage_store",
        "\u{2003}looking up in the store",
        "over 90 % of userspace, above 160 ms",
    ),
    (
        "stage_packets",
        "\u{2003}reading packets, checksums",
        ABSENT,
    ),
    ("stage_tls", "\u{2003}following TLS", ABSENT),
    (
        "stage_delta",
        "\u{2003}writing the delta and its frame",
        ABSENT,
    ),
    ("stage_rebuild", "\u{2003}rebuilding and checking", ABSENT),
];

/// The table; empty where there is no profile of packet mode.
pub(crate) fn parts(input: &Input) -> Vec<Part> {
    let sum = |arm: Arm, figure: fn(&Accounts) -> f64| {
        let of_arm: Vec<&Accounts> = input
            .profile
            .iter()
            .filter(|line| line.arm == arm)
            .collect();
        (!of_arm.is_empty()).then(|| of_arm.into_iter().map(figure).sum::<f64>())
    };
    let user = |line: &Accounts| line.user_us;
    let system = |line: &Accounts| line.system_us;
    let (Some(user_us), Some(system_us)) = (sum(Arm::Packet, user), sum(Arm::Packet, system))
    else {
        return Vec::new();
    };
    let all = user_us + system_us;
    let part = |what, thesis, micros: Option<f64>| Part {
        what,
        thesis,
        ours: micros.map_or_else(|| ABSENT.to_owned(), in_words),
        share: micros
            .filter(|_| all > 0.0)
            .map_or_else(String::new, |micros| number::percent(micros / all)),
    };
    let mut parts = vec![
        part("both proxies", "up to 200 ms", Some(all)),
        part("kernel", "under 10 %", Some(system_us)),
        part("userspace", "over 90 %, above 180 ms", Some(user_us)),
    ];
    let stage = |name: &str| value(&input.benches, name);
    parts.extend(STAGES.map(|(name, what, thesis)| part(what, thesis, stage(name))));
    let known: Option<f64> = STAGES.iter().map(|(name, ..)| stage(name)).sum();
    parts.push(part(
        "\u{2003}the rest",
        ABSENT,
        known.map(|known| (user_us - known).max(0.0)),
    ));
    let idle = sum(Arm::PassThrough, |line| line.user_us + line.system_us);
    parts.push(part(
        "for comparison: a queue that does nothing",
        ABSENT,
        idle,
    ));
    parts
}

/// How often both daemons were woken in a handshake, and over how many handshakes that is; `None`
/// without a profile.
pub(crate) fn wakeups(input: &Input) -> Option<(f64, u64)> {
    let of_arm = input.profile.iter().filter(|line| line.arm == Arm::Packet);
    let handshakes = of_arm.clone().map(|line| line.handshakes).max()?;
    Some((of_arm.map(|line| line.wakeups).sum(), handshakes))
}

/// Packets of a handshake out of both queues; `None` where they were not counted.
fn packets(input: &Input) -> Option<f64> {
    let of_arm = input.profile.iter().filter(|line| line.arm == Arm::Packet);
    let packets: f64 = of_arm.map(|line| line.packets).sum();
    (packets > 0.0).then_some(packets)
}

/// What stands below the table.
pub(crate) fn footnote(input: &Input) -> String {
    wakeups(input).map_or_else(String::new, |(wakeups, handshakes)| {
        let packets = packets(input).map_or_else(String::new, |packets| {
            format!(" for {packets:.0} packets out of their queues")
        });
        format!(
            "{} handshakes; the daemons slept and were woken {wakeups:.0} times in each{packets}, both together.",
            number::count(handshakes as f64)
        )
    })
}

/// The table in Markdown; nothing where there is no profile.
pub(crate) fn markdown(input: &Input) -> String {
    let parts = parts(input);
    if parts.is_empty() {
        return String::new();
    }
    let mut text = "| part | thesis | ours, µs | of all |\n|---|---|--:|--:|\n".to_owned();
    for part in parts {
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            part.what, part.thesis, part.ours, part.share
        ));
    }
    text + "\n" + &footnote(input) + "\n"
}

/// Whole microseconds, or one decimal below ten.
fn in_words(micros: f64) -> String {
    if micros < 10.0 {
        format!("{micros:.1}")
    } else {
        number::count(micros)
    }
}

fn value(benches: &[Bench], name: &str) -> Option<f64> {
    let found = benches.iter().find(|bench| bench.bench == name);
    found.map(|bench| bench.value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn lines() -> Vec<Accounts> {
        let line = |arm, daemon: &str, user_us, system_us| Accounts {
            arm,
            daemon: daemon.to_owned(),
            handshakes: 2_000,
            user_us,
            system_us,
            wakeups: 9.5,
            packets: 11.0,
        };
        vec![
            line(Arm::PassThrough, "client-side", 50.0, 250.0),
            line(Arm::PassThrough, "server-side", 50.0, 250.0),
            line(Arm::Packet, "client-side", 100.0, 300.0),
            line(Arm::Packet, "server-side", 150.0, 450.0),
        ]
    }

    fn input(benches: &[(&str, f64)]) -> Input {
        Input {
            profile: lines(),
            benches: benches
                .iter()
                .map(|(name, value)| Bench {
                    bench: (*name).to_owned(),
                    value: *value,
                })
                .collect(),
            ..Input::default()
        }
    }

    #[test]
    fn both_daemons_are_added_up_and_the_rest_is_what_no_stage_takes() {
        let benches = STAGES.map(|(name, ..)| (name, 2.5));
        let parts = parts(&input(&benches));
        let ours: Vec<&str> = parts.iter().map(|part| part.ours.as_str()).collect();
        let stages = ["2.5"; 5];
        assert_eq!(ours[..3], ["1,000", "750", "250"]);
        assert_eq!(ours[3..8], stages);
        assert_eq!(ours[8..], ["238", "600"]);
        assert_eq!(parts[1].share, number::percent(0.75));
    }

    #[test]
    fn without_a_bench_its_stage_and_the_rest_are_absent() {
        let text = markdown(&input(&[("stage_tls", 4.0)]));
        assert!(text.contains("following TLS | – | 4.0 |"), "{text}");
        assert!(text.contains("the rest | – | – |"), "{text}");
        let woken = "woken 19 times in each for 22 packets out of their queues";
        assert!(text.contains(woken), "{text}");
        assert_eq!(markdown(&Input::default()), "");
    }
}
