//! What a soak has counted, and its page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::Through;
use super::keys::KeyFaults;
use super::load::{Fared, Report};
use super::pair::{Counted, Size};
use super::sites::{Kind, Row};

/// Failures that are kept word for word.
const MAX_FAILURES: usize = 200;

/// Connections of one kind, as their clients fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Fares {
    /// The client got the whole page.
    pub(crate) well: u64,
    /// It got another page.
    pub(crate) differing: u64,
    /// It did not get it.
    pub(crate) failed: u64,
}

/// Connections, as their clients fared.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Tally {
    /// Connections whose client got the whole page.
    pub(crate) well: u64,
    /// Connections whose client got another page.
    pub(crate) differing: u64,
    /// Connections whose client did not get it.
    pub(crate) failed: u64,
    /// Connections that failed while a proxy in which their TCP ended was killed or away.
    pub(crate) cut_off: u64,
    /// The most of them at one time that proxies were killed.
    pub(crate) most_cut_off: u64,
    /// Connections that were refused where a client side was that had been killed. They are not
    /// among all: none was made.
    pub(crate) refused: u64,
    /// All of them, by what the handshake was.
    pub(crate) by_kind: BTreeMap<Kind, Fares>,
    /// Connections that went well, by client.
    pub(crate) by_client: BTreeMap<&'static str, u64>,
    /// Connections that went well, by version.
    pub(crate) by_version: BTreeMap<String, u64>,
    /// Connections that went well, by the server's port.
    pub(crate) by_port: BTreeMap<u16, u64>,
    /// How long each took that went well, in steps of powers of two: (less than so many
    /// milliseconds, connections).
    pub(crate) durations: BTreeMap<u64, u64>,
    /// The longest that went well, milliseconds.
    pub(crate) longest_ms: u64,
    /// The first of those that did not go well.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Counts a connection.
    pub(crate) fn add(&mut self, report: Report, sites: &[Row]) {
        let site = sites.iter().find(|site| site.port == report.port);
        let kind = site.map_or(Kind::Full, |site| {
            site.kind(&report.version, report.handshake)
        });
        let fares = self.by_kind.entry(kind).or_default();
        match report.fared {
            Fared::Well => {
                self.well += 1;
                fares.well += 1;
                *self.by_client.entry(report.client).or_default() += 1;
                *self.by_version.entry(report.version).or_default() += 1;
                *self.by_port.entry(report.port).or_default() += 1;
                let step = (report.milliseconds + 1).next_power_of_two();
                *self.durations.entry(step).or_default() += 1;
                self.longest_ms = self.longest_ms.max(report.milliseconds);
                return;
            }
            Fared::Failed => {
                self.failed += 1;
                fares.failed += 1;
            }
            Fared::Differs => {
                self.differing += 1;
                fares.differing += 1;
            }
        }
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(format!(
                "{:?} after {} ms ({}): {} with port {}, TLS {}: {}",
                report.fared,
                report.milliseconds,
                kind.name(),
                report.client,
                report.port,
                report.version,
                report.why
            ));
        }
    }

    /// All connections that were made.
    pub(crate) fn handshakes(&self) -> u64 {
        self.well + self.differing + self.failed + self.cut_off
    }

    /// Connections that went well and were resumed.
    pub(crate) fn resumed(&self) -> u64 {
        self.well_of(&[Kind::Identifier, Kind::Ticket, Kind::MutualTicket])
    }

    /// Connections that went well, with client certificates that crossed.
    pub(crate) fn mutual(&self) -> u64 {
        self.well_of(&[Kind::Mutual])
    }

    fn well_of(&self, kinds: &[Kind]) -> u64 {
        let fares = kinds.iter().filter_map(|kind| self.by_kind.get(kind));
        fares.map(|fares| fares.well).sum()
    }
}

/// What was done to the daemons.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Faults {
    /// SIGKILL and restart of the client side.
    pub(crate) client_side_killed: u64,
    /// Of the server side.
    pub(crate) server_side_killed: u64,
    /// Stores that were wiped in between.
    pub(crate) stores_wiped: u64,
    /// Times that the link was cut for some seconds.
    pub(crate) link_cut: u64,
}

/// What the link did to packets.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Harm {
    /// Packets that were offered to it.
    pub(crate) packets: u64,
    /// Lost on the way.
    pub(crate) lost: u64,
    /// Delivered twice.
    pub(crate) duplicated: u64,
    /// Overtaken.
    pub(crate) reordered: u64,
}

/// A soak: the line of JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    /// Connections that were asked for.
    pub(crate) wanted: u64,
    /// What the proxies did.
    pub(crate) through: Through,
    /// Of the faults.
    pub(crate) seed: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// The servers, with their ports.
    pub(crate) servers: BTreeMap<u16, &'static str>,
    /// Connections.
    pub(crate) tally: Tally,
    /// As many may be cut off each time that proxies are killed.
    pub(crate) explained: u64,
    /// By the daemons' own account.
    pub(crate) counted: Counted,
    /// What was done to the daemons.
    pub(crate) faults: Faults,
    /// What was done to handshake keys on their way.
    pub(crate) keys: KeyFaults,
    /// What the link did.
    pub(crate) harm: Harm,
    /// Both daemons early in the part without kills, the client side first.
    pub(crate) early: [Size; 2],
    /// And at its end.
    pub(crate) late: [Size; 2],
    /// Connections between the two.
    pub(crate) between: u64,
    /// Lines of firewall rules that are left after both have ended.
    pub(crate) rules_left: u64,
}

impl Summary {
    /// The page.
    pub(crate) fn page(&self) -> String {
        let Self {
            wanted,
            through,
            seed,
            seconds,
            servers,
            tally,
            explained: _,
            counted,
            faults,
            keys,
            harm,
            early,
            late,
            between,
            rules_left,
        } = self;
        let list = |pairs: &mut dyn Iterator<Item = String>| pairs.collect::<Vec<_>>().join(", ");
        let cut_off = match through {
            Through::Packet => String::new(),
            Through::Tunnel | Through::TunnelConsent => format!(
                "| ended with a proxy that was killed | {}, at most {} at a time |\n\
                 | refused while none was there, beside these | {} |\n",
                tally.cut_off, tally.most_cut_off, tally.refused
            ),
        };
        let versions = match through {
            Through::Packet | Through::Tunnel => "TLS 1.0 to 1.3",
            Through::TunnelConsent => "TLS 1.3",
        };
        let (flag, mode, cuts) = match through {
            Through::Packet => ("", "packet mode, `--wire safe`", ""),
            Through::Tunnel => (
                " --tunnel",
                "tunnel mode",
                ", and the link is cut for up to 8 s at a time",
            ),
            Through::TunnelConsent => (
                " --consent",
                "tunnel mode; servers and clients that use OpenSSL release handshake keys, some of which come late, never, twice or wrong",
                ", and the link is cut for up to 8 s at a time",
            ),
        };
        let mut text = format!(
            "# Soak\n\n\
             Made by `tandem lab soak{flag} --handshakes {wanted} --seed {seed}`: mixed clients against mixed servers, {versions}, many\n\
             connections at once, through two proxies ({mode}) over a link that loses, duplicates and reorders. In the first half the\n\
             proxies are killed (SIGKILL) and restarted at random moments, some with their stores wiped{cuts}; in the second half they run through.\n\
             Every client verifies chain and name, and compares the page of 4 kB byte by byte. At some sites clients return with a\n\
             session, by identifier or by ticket, for four connections after a full one; at some they show two certificates of their own.\n\n\
             | what | |\n|---|---|\n\
             | handshakes | {} |\n\
             | pages that differ | {} |\n\
             | failed | {} |\n\
             {cut_off}\
             | time | {:.0} s, {:.0} handshakes/s |\n",
            tally.handshakes(),
            tally.differing,
            tally.failed,
            seconds,
            tally.handshakes() as f64 / seconds.max(0.001),
        );
        let row = |text: &mut String, what: &str, value: String| {
            let _ = writeln!(text, "| {what} | {value} |");
        };
        let named = |(port, count): (&u16, &u64)| {
            let name = servers.get(port).copied().unwrap_or("?");
            format!("{name} ({port}) {count}")
        };
        row(
            &mut text,
            "by client",
            list(
                &mut tally
                    .by_client
                    .iter()
                    .map(|(name, count)| format!("{name} {count}")),
            ),
        );
        row(
            &mut text,
            "by server",
            list(&mut tally.by_port.iter().map(named)),
        );
        row(
            &mut text,
            "by version",
            list(
                &mut tally
                    .by_version
                    .iter()
                    .map(|(name, count)| format!("{name}: {count}")),
            ),
        );
        row(
            &mut text,
            "servers' flights rewritten",
            format!(
                "{} ({} bytes of flights rebuilt)",
                counted.flights_written, counted.rebuilt_bytes
            ),
        );
        row(
            &mut text,
            "clients' flights rewritten",
            counted.client_flights_written.to_string(),
        );
        row(
            &mut text,
            "session tickets that crossed as references",
            counted.tickets_referred.to_string(),
        );
        row(
            &mut text,
            "misses, and originals sent after all",
            format!("{}, {} bytes", counted.misses, counted.originals_bytes),
        );
        row(
            &mut text,
            "packets on the link",
            format!(
                "{}, of them lost {}, duplicated {}, reordered {}",
                harm.packets, harm.lost, harm.duplicated, harm.reordered
            ),
        );
        row(
            &mut text,
            "killed and restarted",
            format!(
                "client side {}, server side {}; stores wiped {}",
                faults.client_side_killed, faults.server_side_killed, faults.stores_wiped
            ),
        );
        if through.is_tunnel() {
            row(&mut text, "link cut", format!("{} times", faults.link_cut));
        }
        if *through == Through::TunnelConsent {
            row(
                &mut text,
                "flights opened, and sealed again",
                format!("{}, {}", counted.flights_opened, counted.flights_sealed),
            );
            row(
                &mut text,
                "flights that passed although a key was there",
                counted.flights_not_opened.to_string(),
            );
            row(
                &mut text,
                "keys asked for, and not there when looked for",
                format!("{}, {}", counted.keys_asked, counted.keys_missing),
            );
            row(
                &mut text,
                "keys on their way",
                format!(
                    "{} left alone, {} late, {} lost, {} wrong, {} repeated, {} of another connection",
                    keys.untouched, keys.late, keys.lost, keys.wrong, keys.repeated, keys.foreign
                ),
            );
        }
        row(
            &mut text,
            "the longest connection",
            format!("{:.1} s", tally.longest_ms as f64 / 1000.0),
        );
        row(
            &mut text,
            "rules left when both have ended",
            rules_left.to_string(),
        );
        let _ = write!(
            text,
            "\nWhat the daemons counted between the last look at them and a SIGKILL is not in the figures.\n\n\
             ## Kinds of handshake\n\n\
             As the clients tell them; one that failed counts as what the client had asked for.\n\n\
             | handshake | well | failed | another page |\n|---|---|---|---|\n"
        );
        for kind in Kind::ALL {
            let fares = tally.by_kind.get(&kind).copied().unwrap_or_default();
            let (well, failed, differing) = (fares.well, fares.failed, fares.differing);
            let _ = writeln!(
                text,
                "| {} | {well} | {failed} | {differing} |",
                kind.name()
            );
        }
        let _ = write!(
            text,
            "\n## Growth\n\n\
             Over {between} handshakes of the second half, with some tens of connections at a time.\n\n\
             | | client side, early | late | server side, early | late |\n|---|---|---|---|---|\n"
        );
        type Figure = (&'static str, fn(&Size) -> u64);
        let figures: [Figure; 6] = [
            ("seconds since its start", |size| size.up_seconds),
            ("resident memory, KiB", |size| size.resident_kib),
            ("descriptors", |size| size.descriptors),
            ("lines of rules", |size| size.rules),
            ("bytes of the store's files", |size| size.store_bytes),
            ("flows followed", |size| size.flows),
        ];
        for (what, figure) in figures {
            let _ = writeln!(
                text,
                "| {what} | {} | {} | {} | {} |",
                figure(&early[0]),
                figure(&late[0]),
                figure(&early[1]),
                figure(&late[1])
            );
        }
        text += "\n## How long connections took\n\n| less than | connections |\n|---|---|\n";
        for (step, count) in &tally.durations {
            let _ = writeln!(text, "| {step} ms | {count} |");
        }
        if !tally.failures.is_empty() {
            text += "\n## What did not go well\n\n";
            for failure in &tally.failures {
                let _ = writeln!(text, "- `{failure}`");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::sites::{Handshake, SITES};
    use super::*;
    use std::time::Instant;

    fn report(fared: Fared, milliseconds: u64) -> Report {
        Report {
            client: "Go crypto/tls",
            fared,
            handshake: Handshake::Full,
            port: 443,
            version: "1.2".to_owned(),
            milliseconds,
            why: "because".to_owned(),
            at: Instant::now(),
        }
    }

    #[test]
    fn connections_are_counted_and_those_that_failed_are_told() {
        let mut tally = Tally::default();
        tally.add(report(Fared::Well, 30), &SITES);
        tally.add(report(Fared::Well, 700), &SITES);
        tally.add(report(Fared::Failed, 60_000), &SITES);
        tally.add(report(Fared::Differs, 20), &SITES);
        let returned = Report {
            port: 451,
            handshake: Handshake::Resumed,
            ..report(Fared::Well, 30)
        };
        tally.add(returned, &SITES);
        (tally.cut_off, tally.most_cut_off) = (1, 1);
        assert_eq!(
            (tally.handshakes(), tally.resumed(), tally.mutual()),
            (6, 1, 0)
        );
        assert_eq!(tally.longest_ms, 700);
        assert_eq!(tally.durations, BTreeMap::from([(32, 2), (1024, 1)]));
        let summary = Summary {
            wanted: 4,
            through: Through::Tunnel,
            seed: 1,
            seconds: 2.0,
            servers: BTreeMap::from([(443, "nginx")]),
            tally,
            explained: 3,
            counted: Counted::default(),
            faults: Faults::default(),
            keys: KeyFaults::default(),
            harm: Harm::default(),
            early: <[Size; 2]>::default(),
            late: <[Size; 2]>::default(),
            between: 2,
            rules_left: 0,
        };
        let page = summary.page();
        for line in [
            "| handshakes | 6 |",
            "| full | 2 | 1 | 1 |",
            "| resumed by ticket, of a client that had shown a certificate | 1 | 0 | 0 |",
            "| pages that differ | 1 |",
            "| failed | 1 |",
            "| ended with a proxy that was killed | 1, at most 1 at a time |",
            "| link cut | 0 times |",
            "| time | 2 s, 3 handshakes/s |",
            "| by server | nginx (443) 2, ? (451) 1 |",
            "- `Failed after 60000 ms (full): Go crypto/tls with port 443, TLS 1.2: because`",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
