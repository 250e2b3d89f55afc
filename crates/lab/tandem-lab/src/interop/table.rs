//! The interoperability table for people: Markdown, one table a version.

use std::fmt::Write as _;

use tandem_testbed::endpoints::Version;
use tandem_testbed::matrix::{self, Installed};

use super::bench::Sample;
use super::cell::{Cell, Verdict};
use super::consent::Consent;
use super::version::VERSIONS;

/// The whole page.
pub(crate) fn page(cells: &[Cell], clients: &[Installed], servers: &[Installed]) -> String {
    let mut text = "\
# Interoperability

Made by `make interop` (`tandem lab interop`): every client against every server, over an emulated link of 10 Mbit/s, without proxies and
through two proxies in packet mode (`--wire safe`). For each server and version the proxies start with empty stores; the first
connection teaches them, later ones are to be rewritten. A chain of three certificates (RSA, 2,048 bits) and a page of 4 kB. Clients
verify chain and name, and have to get the whole page; what each end sent and what the other received is captured in both hosts and
compared byte by byte. A browser runs without a window, loads the page, and has to call the connection secure itself.

- `3500 → 800`: works, **every byte identical at both ends, and the server's flight was rewritten** and rebuilt. The numbers are
  TLS bytes of the handshake on the link, both ways, without proxies and through warm ones with their own options; what endpoints
  repeat on a busy machine is in them.
- `untouched`: works, every byte identical, nothing rewritten: as it has to be in TLS 1.3, where certificates are encrypted.
- With consent (docs/tls13.md), TLS 1.3 crosses two proxies in tunnel mode (`--prefer bytes`) that take handshake keys from the server,
  from the client, or from both; programs that use the system's OpenSSL release them through `libtandem_keytap.so`. The numbers there are
  of all IP bytes of the connection on the link, without proxies and through the tunnel. `closed`: works, every byte identical, nothing
  opened, since the program that was to release a key cannot.
- `cannot`: the two programs do not come together without proxies either; the reasons are below.
- **FAILS**, **BYTES DIFFER**, **NOT REWRITTEN**, **REWRITTEN** (in TLS 1.3, or where no key is released): faults of Tandem's.

"
    .to_owned();
    text += &tally(cells);
    for version in VERSIONS
        .into_iter()
        .filter(|version| cells.iter().any(|cell| cell.version == *version))
    {
        let title = format!("TLS {}", version.name());
        text += &table(&title, (version, None), cells, clients, servers);
    }
    for consent in Consent::ALL {
        if cells.iter().any(|cell| cell.consent == Some(consent)) {
            let title = format!("TLS 1.3 with {}, through the tunnel", consent.name());
            text += &table(
                &title,
                (Version::Tls13, Some(consent)),
                cells,
                clients,
                servers,
            );
        }
    }
    text += &reasons(cells);
    text += "\n## Programs\n\n| | program | version | what it says through the proxies |\n|---|---|---|---|\n";
    for (kind, programs) in [("client", clients), ("server", servers)] {
        for (name, found) in programs {
            let found = found.as_deref().unwrap_or("not installed");
            let security = security(cells, name);
            let _ = writeln!(text, "| {kind} | {name} | {found} | {security} |");
        }
    }
    text
}

/// How many of what.
fn tally(cells: &[Cell]) -> String {
    let (with, cells): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|it| it.consent.is_some());
    let count_in = |cells: &[&Cell], verdict| {
        let those = cells.iter().filter(|cell| cell.verdict == verdict);
        those.count()
    };
    let count = |verdict| count_in(&cells, verdict);
    let faults_in = |cells: &[&Cell]| cells.iter().filter(|cell| cell.verdict.is_fault()).count();
    let faults = faults_in(&cells);
    let mut text = format!(
        "Of {} combinations of client, server and version: {} rewritten, {} in TLS 1.3 untouched, {} impossible for the programs \
         themselves, {} with a program that is not installed, {faults} faults.\n",
        cells.len(),
        count(Verdict::Rewritten),
        count(Verdict::Untouched),
        count(Verdict::Cannot),
        count(Verdict::NotInstalled),
    );
    if !with.is_empty() {
        let _ = writeln!(
            text,
            "\nOf {} combinations of client, server and consent in TLS 1.3: {} rewritten, {} closed since no program releases a key, \
             {} impossible or not installed, {} faults.",
            with.len(),
            count_in(&with, Verdict::Rewritten),
            count_in(&with, Verdict::Untouched),
            count_in(&with, Verdict::Cannot) + count_in(&with, Verdict::NotInstalled),
            faults_in(&with)
        );
    }
    text
}

/// A browser's own words about the security of its connections through warm proxies, each once.
fn security(cells: &[Cell], client: &str) -> String {
    let mut all: Vec<&str> = cells
        .iter()
        .filter(|cell| cell.client == client)
        .filter_map(|cell| cell.warm.as_ref()?.security.as_deref())
        .collect();
    all.sort_unstable();
    all.dedup();
    all.join("; ")
}

fn table(
    title: &str,
    what: (Version, Option<Consent>),
    cells: &[Cell],
    clients: &[Installed],
    servers: &[Installed],
) -> String {
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let rows = matrix::table("client \\ server", clients, &names, |client, server| {
        let of = |cell: &&Cell| {
            (cell.version, cell.consent) == what && cell.client == client && cell.server == server
        };
        cells.iter().find(of).map(in_short)
    });
    format!("\n## {title}\n\n{rows}")
}

fn in_short(cell: &Cell) -> String {
    let bytes = |sample: &Option<Sample>| match (sample, cell.consent) {
        (Some(sample), None) => sample.tls_bytes,
        (Some(sample), Some(_)) => sample.link_bytes,
        (None, _) => 0,
    };
    match cell.verdict {
        Verdict::Rewritten => format!("{} → {}", bytes(&cell.plain), bytes(&cell.warm)),
        Verdict::Untouched if cell.consent.is_some() => "closed".to_owned(),
        Verdict::Untouched => "untouched".to_owned(),
        Verdict::NotRewritten => "**NOT REWRITTEN**".to_owned(),
        Verdict::Touched => "**REWRITTEN**".to_owned(),
        Verdict::Cannot => "cannot".to_owned(),
        Verdict::Fails => "**FAILS**".to_owned(),
        Verdict::Differs => "**BYTES DIFFER**".to_owned(),
        Verdict::NotInstalled => "not installed".to_owned(),
    }
}

/// Why some did not come about, equal reasons together.
fn reasons(cells: &[Cell]) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for cell in cells {
        let known = match cell.verdict {
            Verdict::Rewritten | Verdict::NotInstalled => continue,
            // Those with consent are closed for a reason.
            Verdict::Untouched if cell.consent.is_none() => continue,
            Verdict::Cannot if cell.consent.is_some() => continue,
            Verdict::Untouched => cell.why.as_deref().unwrap_or("no reason given"),
            Verdict::NotRewritten
            | Verdict::Touched
            | Verdict::Cannot
            | Verdict::Fails
            | Verdict::Differs => cell.why.as_deref().unwrap_or("no reason given"),
        };
        let version = cell.version.name();
        let which = match (&cell.plain, cell.consent) {
            (_, Some(consent)) => {
                format!("{} with {}, {}", cell.client, cell.server, consent.name())
            }
            (Some(_), None) => format!("{} with {}, {version}", cell.client, cell.server),
            // Known without a trial, of a version or of a kind of server.
            (None, None) => format!("{}, {version}", cell.client),
        };
        match groups.iter_mut().find(|(reason, _)| reason == known) {
            Some((_, group)) if group.contains(&which) => {}
            Some((_, group)) => group.push(which),
            None => groups.push((known.to_owned(), vec![which])),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut text = "\n## Reasons\n\nIn the clients' own words.\n\n".to_owned();
    for (reason, group) in groups {
        let _ = writeln!(text, "- `{reason}`: {}", group.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::clients::Client;
    use super::super::servers::Server;
    use super::*;

    #[test]
    fn the_page_has_a_table_a_version_and_says_why_something_cannot_be() {
        let sample = |tls_bytes| {
            Some(Sample {
                ok: true,
                identical: true,
                tls_bytes,
                link_bytes: 2 * tls_bytes,
                security: Some("secure TLS 1.2".to_owned()),
                ..Sample::default()
            })
        };
        let of = |version, verdict, why: &str| {
            Cell::untried(Client::Curl, Server::Nginx, version, verdict, why)
        };
        let cells = [
            Cell {
                plain: sample(3500),
                warm: sample(800),
                ..of(Version::Tls12, Verdict::Rewritten, "")
            },
            of(Version::Tls13, Verdict::Untouched, ""),
            Cell {
                plain: sample(9_000),
                warm: sample(6_000),
                consent: Some(Consent::Client),
                ..of(Version::Tls13, Verdict::Rewritten, "")
            },
            Cell {
                plain: sample(9_000),
                consent: Some(Consent::Server),
                ..of(Version::Tls13, Verdict::Untouched, "no key")
            },
            of(Version::Tls10, Verdict::Cannot, "too old"),
            Cell {
                plain: sample(3500),
                ..of(Version::Tls11, Verdict::Differs, "byte 3 differs")
            },
        ];
        let page = page(
            &cells,
            &[("curl", Some("8.1".to_owned()))],
            &[("nginx", None)],
        );
        for line in [
            "Of 4 combinations of client, server and version: 1 rewritten, 1 in TLS 1.3 untouched, 1 impossible for the programs \
             themselves, 0 with a program that is not installed, 1 faults.",
            "Of 2 combinations of client, server and consent in TLS 1.3: 1 rewritten, 1 closed since no program releases a key, \
             0 impossible or not installed, 0 faults.",
            "## TLS 1.3 with the client's consent, through the tunnel",
            "| curl | 18000 → 12000 |",
            "| curl | closed |",
            "- `no key`: curl with nginx, the server's consent",
            "| curl | 3500 → 800 |",
            "| curl | untouched |",
            "| curl | cannot |",
            "| curl | **BYTES DIFFER** |",
            "- `too old`: curl, 1.0",
            "- `byte 3 differs`: curl with nginx, 1.1",
            "| client | curl | 8.1 | secure TLS 1.2 |",
            "| server | nginx | not installed |  |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
