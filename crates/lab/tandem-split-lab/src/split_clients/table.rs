//! The matrix for people: Markdown, one table of jobs and one of tricks.

use std::fmt::Write as _;

use tandem_testbed::matrix::{self, Installed};

use super::cell::{Cell, Counted, Trick, Verdict};
use super::job::Job;

/// The whole page.
pub(super) fn page(cells: &[Cell], clients: &[Installed]) -> String {
    let mut text = "\
# Clients of a split site

Made by `make clients` (`tandem lab split-clients`): unmodified programs at a site whose origin hands out what vouches for its answers,
and whose bytes come from a volunteer. Origin, volunteer and client are on one machine; the certificate is from an authority that the client is
told to trust, and is checked. TLS 1.2, ECDHE_RSA with AES-CBC, HTTP/1.1.

"
    .to_owned();
    text += &tally(cells);
    text += "
## An honest volunteer

`works`: the status is right and so is every byte, in both directions. *resumption*: the origin has seen a session resumed. *keep-alive*: several
requests on one connection. For the browsers, *page* means that the browser itself calls the page secure; what it says is below.

";
    let jobs: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
    text += &table(clients, &jobs, |client, job| {
        let of =
            |cell: &&Cell| cell.volunteer == "honest" && cell.client == client && cell.job == job;
        cells.iter().find(of)
    });
    text += "
## A dishonest volunteer

What it does to the third large record of a file of 2 MB. Test doubles do it: a relay behind an honest volunteer that alters records, and, for
*swaps payloads*, a relay in front of it that makes the volunteer put another file's bytes under this file's MACs. *for another site*: the client
asks for a name that is not the origin's.

`refused`: the client reported an error, and until then had received only a prefix of the right bytes (for *stalls*: it waited until it was
stopped, or gave up). The second word says how the origin noticed: `alert`, by the client's alert; `name`, by the name that the client asked for;
`silence`, the client closed without an alert, as ordinary clients do too; `unseen`, it did not: the connection seemed to end well.

";
    let tricks: Vec<&str> = Trick::ALL.iter().map(|trick| trick.name()).collect();
    text += &table(clients, &tricks, |client, trick| {
        let of = |cell: &&Cell| cell.volunteer == trick && cell.client == client;
        cells.iter().find(of)
    });
    text += &reasons(cells);
    text += "\n## Programs\n\n| program | version | the browser's own words |\n|---|---|---|\n";
    for (name, found) in clients {
        let found = found.as_deref().unwrap_or("not installed");
        let security = cells
            .iter()
            .find_map(|cell| cell.security.as_deref().filter(|_| cell.client == *name));
        let _ = writeln!(text, "| {name} | {found} | {} |", security.unwrap_or(""));
    }
    text
}

fn tally(cells: &[Cell]) -> String {
    let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    let faults = cells.iter().filter(|cell| cell.verdict.is_fault()).count();
    format!(
        "Of {} combinations: {} work, {} tricks refused, {} impossible for the client itself, {} with a client that is not installed, {faults} \
         faults.\n",
        cells.len(),
        count(Verdict::Works),
        count(Verdict::Refused),
        count(Verdict::Cannot),
        count(Verdict::NotInstalled),
    )
}

/// What `find` says of each client and column.
fn table<'a>(
    clients: &[Installed],
    columns: &[&str],
    find: impl Fn(&str, &str) -> Option<&'a Cell>,
) -> String {
    matrix::table("client", clients, columns, |client, column| {
        find(client, column).map(in_short)
    })
}

fn in_short(cell: &Cell) -> String {
    match (cell.verdict, cell.counted) {
        (Verdict::Works, _) => "works".to_owned(),
        (Verdict::Refused, Some(counted)) => format!("refused, {}", how(counted)),
        (Verdict::Refused, None) => "refused".to_owned(),
        (Verdict::Cannot, _) => "cannot".to_owned(),
        (Verdict::NotInstalled, _) => "not installed".to_owned(),
        (Verdict::Fails, _) => "**FAILS**".to_owned(),
        (Verdict::Deceived, _) => "**DECEIVED**".to_owned(),
        (Verdict::Uncounted, _) => "**refused, but not counted**".to_owned(),
    }
}

fn how(counted: Counted) -> &'static str {
    match counted {
        Counted::Alert => "alert",
        Counted::Name => "name",
        Counted::Silence => "silence",
        Counted::Nothing => "unseen",
    }
}

/// Why something cannot be, or is at fault; and what the clients say of tricks.
fn reasons(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        let is_told = match cell.verdict {
            Verdict::Cannot | Verdict::Fails | Verdict::Deceived | Verdict::Uncounted => true,
            Verdict::Works | Verdict::Refused | Verdict::NotInstalled => false,
        };
        if is_told {
            let _ = writeln!(
                text,
                "- {}, {}, {}: {}",
                cell.client, cell.volunteer, cell.job, cell.why
            );
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n## Reasons\n\n{text}")
}

#[cfg(test)]
mod tests {
    use super::super::clients::Client;
    use super::*;

    #[test]
    fn the_page_has_both_tables_and_says_what_is_at_fault() {
        let of = |volunteer: &str, job: &str, verdict, why: &str| {
            Cell::untried(Client::Curl, volunteer, job, verdict, why)
        };
        let cells = [
            of("honest", "page", Verdict::Works, ""),
            of("honest", "range", Verdict::Fails, "206 with 3 bytes"),
            Cell {
                counted: Some(Counted::Alert),
                ..of("drops", "2 MB", Verdict::Refused, "bad record mac")
            },
        ];
        let page = page(&cells, &[("curl", Some("8.1".to_owned()))]);
        for line in [
            "Of 3 combinations: 1 work, 1 tricks refused, 0 impossible for the client itself, 0 with a client that is not installed, 1 faults.",
            "| curl | works |  |  |  |  | **FAILS** |  |  |  |",
            "| curl |  | refused, alert |  |  |  |  |  |  |",
            "- curl, honest, range: 206 with 3 bytes",
            "| curl | 8.1 |  |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
