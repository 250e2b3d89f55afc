//! What a reader must know to judge the figures: how they were measured, what limits them, and
//! every trial that went wrong.

use super::cases::Case;
use super::input::Run;
use super::number;
use crate::arm::Arm;

/// Failures that are listed one by one.
const MAX_FAILURES: usize = 20;

/// How everything is measured, a sentence or two each.
pub(crate) const METHOD: [&str; 5] = [
    "Client, two gateways and server are network namespaces of one machine; the programs at the ends are real, the link between \
     the gateways is emulated in user space.",
    "Bytes and packets are the emulated link's own counts, never a proxy's: retransmissions count each time they cross, the \
     proxies' own TCP options count as TLS bytes. What crosses a tunnel is sealed, so there are no TLS bytes to be told: a dash.",
    "Time runs at the client from its first SYN to the first byte of application data, or to the end of the handshake where that \
     is said, by the kernel's timestamps. Not in it: name resolution, starting programs, and the handshake that warms a pair up; \
     a cold tunnel's set-up is in it. \
     In TLS 1.3 the first byte cannot be told from outside, and the handshake ends where the client sends its Finished.",
    "The arms of a case run interleaved in random order in one run, the kernel's memory of earlier connections is cleared before \
     each trial, and both ends' payload is compared byte for byte.",
    "Figures are medians and quartiles over sound trials, those in which the client got its answer and every byte was right; \
     ratios are of medians within one run and never across runs.",
];

/// What the figures cannot say, whatever the trials.
const LIMITS: [&str; 5] = [
    "All hosts share one machine's processors and kernel: added time and processor time are of this machine and are not \
     what small gateways would show.",
    "The emulated link has the rates and the delay that are given and no others; real links of these names vary, share \
     capacity and add framing of their own.",
    "The floor counts what is fresh by design and 28 bytes for each one-way flight. Bytes over it include TCP's own \
     handshake, acknowledgements and headers.",
    "The thesis ran one certificate of 926 bytes and TLS 1.0 on its own emulator; its proxies spent about 200 ms a handshake in \
     software. It does not say whether its latency is one-way or round trip; here it is taken as one-way, which its own 9.5 s on \
     iridium fit.",
    "The heading of the thesis's appendix A.4 gives its third and fourth columns other names than the script in A.3 that wrote them; \
     they are read as the script has them, milstar and tcdl-10. Figures 4-4 and 4-5 (client certificates) have no data there.",
];

/// Where a tunnel was measured.
const TUNNEL_REST: &str = "A tunnel that is awake has been at rest for as long as the other arms' trials take. One that is asleep has \
     rested for at least 130 s, longer than every timer of the proxies, of QUIC and of the hosts that tells rest from use (the longest is \
     connection tracking's, 120 s), and shorter than the hour for which it stands. A rest of 23 hours is tried in simulated time.";

/// Limits of these results, the general ones last.
pub(crate) fn limits(runs: &[Run], cases: &[Case]) -> Vec<String> {
    let mut limits = Vec::new();
    let unknown: Vec<&str> = runs
        .iter()
        .filter(|run| run.info.is_none())
        .map(|run| run.name.as_str())
        .collect();
    if !unknown.is_empty() {
        limits.push(format!(
            "Of {} it is not recorded when and on which machine it was made.",
            unknown.join(", ")
        ));
    }
    if cases.iter().any(|case| case.arm(Arm::Tunnel).is_some()) {
        limits.push(TUNNEL_REST.to_owned());
    }
    let alone: Vec<String> = cases
        .iter()
        .filter(|case| case.arm(Arm::Plain).is_none_or(|plain| plain.sound() == 0))
        .map(|case| format!("{} on {}", case.endpoints, case.link))
        .collect();
    if !alone.is_empty() {
        limits.push(format!(
            "Without a sound trial of plain, hence without ratios: {}.",
            alone.join(", ")
        ));
    }
    limits.extend(LIMITS.map(str::to_owned));
    limits
}

/// What went wrong, an arm a line; empty where nothing did.
pub(crate) fn failures(cases: &[Case]) -> Vec<String> {
    let mut lines = Vec::new();
    for case in cases {
        for arm in &case.arms {
            if arm.failed == 0 && arm.differing == 0 {
                continue;
            }
            let why = arm.error.as_deref().unwrap_or("no reason recorded");
            lines.push(format!(
                "{} on {}, {}: {} of {} failed, {} with differing bytes; first: {why}",
                case.endpoints,
                case.link,
                arm.arm.look().label,
                arm.failed,
                number::plural(arm.trials, "trial"),
                arm.differing,
            ));
        }
    }
    let more = lines.len().saturating_sub(MAX_FAILURES);
    if more > 0 {
        lines.truncate(MAX_FAILURES);
        lines.push(format!("and {more} more; the table has all"));
    }
    lines
}
