//! A report for people: the path, a table of contexts and middleboxes, and one line that says how
//! it ended.
//!
//! Is not: what stands in it ([`crate::report`]). Invariants: it fits a terminal of 100 columns
//! with sixteen middleboxes, and a screen with 255 contexts; nothing in it is carried out by a
//! terminal.

use std::fmt::Write as _;

use crate::discover::{Fate, Found};
use crate::layout::{FOUR, is_spare};
use crate::report::{Content, Outcome, Party, Report, Row, Word, carries_bodies};

/// Widest table with names; beyond that columns have numbers.
const MAX_WIDTH: usize = 96;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// A terminal that wants them.
    On,
    /// A file, or a terminal that does not.
    Off,
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Dim,
    Plain,
    Reads,
    Writes,
    Wrong,
}

impl Look {
    const fn code(self) -> &'static str {
        match self {
            Self::Dim => "\x1b[2m",
            Self::Plain => "",
            Self::Reads => "\x1b[36m",
            Self::Writes => "\x1b[33m",
            Self::Wrong => "\x1b[1;31m",
        }
    }
}

struct Cell {
    text: String,
    look: Look,
}

/// How much room there is for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// For words.
    Words,
    /// For a letter and a sign.
    Letters,
}

/// What the letters and signs mean.
const SIGNS: &str = "r read, w write, + saw, * changed, ! blocked or suspected";

/// A line of the table: contexts that are alike share one.
struct Line {
    name: String,
    cells: Vec<Cell>,
}

impl Report {
    /// The report as text, with a newline at its end.
    #[must_use]
    pub fn to_text(&self, colours: Colours) -> String {
        format!(
            "{}\n  {}\n",
            self.to_table(colours),
            self.last_line(colours)
        )
    }

    /// The same without the line that says how it ended.
    #[must_use]
    pub fn to_table(&self, colours: Colours) -> String {
        let mut out = String::new();
        let server = self.url.as_deref().map_or("server", host);
        let short = short_names(&self.middleboxes);
        let widths = |lines: &[Line], names: &[String]| -> Vec<usize> {
            let columns = names.iter().enumerate().map(|(at, name)| {
                let cells = lines.iter().filter_map(|line| line.cells.get(at));
                let widest = cells.map(|cell| width(&cell.text)).max();
                widest.unwrap_or(0).max(width(name))
            });
            columns.collect()
        };
        let mut lines = self.lines(Room::Words);
        let mut heads = short.clone();
        let mut shown = widths(&lines, &heads);
        let name_width = lines
            .iter()
            .map(|line| width(&line.name))
            .max()
            .unwrap_or(0);
        let total: usize = shown.iter().map(|width| width + 3).sum();
        let is_wide = name_width + 2 + total > MAX_WIDTH;
        if is_wide {
            lines = self.lines(Room::Letters);
            let numbers = self.middleboxes.iter();
            heads = numbers.map(|party| party.position.to_string()).collect();
            shown = widths(&lines, &heads);
        }
        let path = std::iter::once("you")
            .chain(short.iter().map(String::as_str))
            .chain([server]);
        let path: Vec<String> = path.map(plain).collect();
        // Writing into a text does not fail.
        if is_wide {
            let _ = writeln!(
                out,
                "\n  you, {} middleboxes, {}\n",
                short.len(),
                plain(server)
            );
        } else {
            let _ = writeln!(out, "\n  {}\n", path.join(" ── "));
        }
        let mut row = |name: &str, cells: &[(String, Look)]| {
            let mut line = format!("  {name:<name_width$}");
            for ((text, look), width) in cells.iter().zip(&shown) {
                line.push_str(if is_wide { "  " } else { "   " });
                match (colours, look.code()) {
                    (Colours::On, code) if !code.is_empty() => {
                        let _ = write!(line, "{code}{text:<width$}\x1b[0m");
                    }
                    (Colours::On | Colours::Off, _) => {
                        let _ = write!(line, "{text:<width$}");
                    }
                }
            }
            let _ = writeln!(out, "{}", line.trim_end());
        };
        if !heads.is_empty() {
            let names = heads.iter().map(|name| (plain(name), Look::Dim));
            row("", &names.collect::<Vec<_>>());
        }
        for line in lines {
            let cells = line.cells.into_iter().map(|cell| (cell.text, cell.look));
            row(&line.name, &cells.collect::<Vec<_>>());
        }
        self.legend(&short, is_wide, &mut out);
        self.discovered(&mut out);
        out
    }

    /// What DNS said, and what became of it.
    fn discovered(&self, out: &mut String) {
        let mut before = None;
        for found in &self.found {
            if before != Some(&found.by) {
                let _ = writeln!(out, "\n  proposed by DNS, {}", plain(&found.by));
                before = Some(&found.by);
            }
            let _ = writeln!(out, "    {}", plain(proposal(found)));
        }
    }

    fn lines(&self, room: Room) -> Vec<Line> {
        let mut lines: Vec<(Line, String)> = Vec::new();
        let mut from = 0;
        for row in &self.contexts {
            let cells: Vec<Cell> = (1..)
                .zip(&row.rights)
                .map(|(position, right)| self.cell(row, position, *right, room))
                .collect();
            let key: String = cells.iter().map(|cell| format!("{}|", cell.text)).collect();
            // What HTTP does not use is alike, and nobody's concern.
            match lines.last_mut() {
                Some((line, before))
                    if is_spare(&row.name) && line.name.starts_with("spare") && *before == key =>
                {
                    line.name = format!("spare {from} to {}", row.id);
                }
                Some(_) | None => {
                    from = row.id;
                    let name = match is_spare(&row.name) {
                        true => format!("spare {from}"),
                        false => plain(&row.name),
                    };
                    lines.push((Line { name, cells }, key));
                }
            }
        }
        lines.into_iter().map(|(line, _)| line).collect()
    }

    fn cell(&self, row: &Row, position: u8, right: Word, room: Room) -> Cell {
        let (words, letter, look) = match right {
            Word::None => ("-", "-", Look::Dim),
            Word::Read => ("read", "r", Look::Reads),
            Word::Write => ("write", "w", Look::Writes),
        };
        let is_over = self.outcome != Outcome::Planned;
        let is_blocked = self.outcome == Outcome::Blocked && self.ended_by == Some(position);
        let is_none = right == Word::None;
        let is_here = self.overstepped_in.is_none_or(|id| id == row.id);
        let is_suspect = is_here && self.suspects.contains(&position);
        let (mark, sign, look) = if is_none {
            ("", "", look)
        } else if is_blocked {
            (" blocked", "!", Look::Wrong)
        } else if is_suspect {
            (" suspected", "!", Look::Wrong)
        } else if self.filled_by.contains(&position) && carries_bodies(&row.name) {
            (" filled", "*", look)
        } else if row.changed.contains(&position) {
            (" changed", "*", look)
        } else if row.saw.contains(&position) {
            (" saw", "+", look)
        } else {
            ("", "", if is_over { Look::Plain } else { look })
        };
        Cell {
            text: match room {
                Room::Words => format!("{words}{mark}"),
                Room::Letters => format!("{letter}{sign}"),
            },
            look,
        }
    }

    /// Who is who, and why each has its rights: of a plan, and where columns have numbers.
    fn legend(&self, short: &[String], is_wide: bool, out: &mut String) {
        let is_plan = self.outcome == Outcome::Planned;
        let has_reasons = self.middleboxes.iter().any(|party| party.why.is_some());
        let is_due = is_wide || (is_plan && has_reasons);
        if !is_due {
            return;
        }
        if is_wide {
            let _ = writeln!(out, "\n  {SIGNS}");
        }
        let longest = short.iter().map(|name| width(name)).max().unwrap_or(0);
        let _ = writeln!(out);
        for (party, name) in self.middleboxes.iter().zip(short) {
            let number = match is_wide {
                true => format!("{:>2} ", party.position),
                false => String::new(),
            };
            let why = party.why.as_deref().filter(|_| is_plan).unwrap_or_default();
            let line = format!("  {number}{:<longest$}   {}", plain(name), plain(why));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }

    /// How many bytes of bodies came over the path, where bodies have a context.
    fn arrived(&self) -> Option<u64> {
        let row = self.contexts.iter().find(|row| row.name == FOUR[3]);
        row.map(|row| row.bytes)
    }

    fn last_line(&self, colours: Colours) -> String {
        let (text, look) = match self.outcome {
            Outcome::Planned => (
                "Whoever has no right has no key. Both ends have to agree, and what oversteps is \
                 found."
                    .to_owned(),
                Look::Dim,
            ),
            Outcome::Complete => {
                let status = self.status.unwrap_or_default();
                let mut ways = Vec::new();
                if let Some(sent) = self.sent_bytes.filter(|_| !self.filled_by.is_empty()) {
                    ways.push(format!("{} left the server", counted(sent)));
                }
                if let Some(crossed) = self.arrived().filter(|one| *one < self.body_bytes) {
                    ways.push(format!("{} arrived", counted(crossed)));
                }
                let crossed = match ways.as_slice() {
                    [] => String::new(),
                    ways => format!(" ({})", ways.join(", ")),
                };
                let length = counted(self.body_bytes);
                (
                    match self.content {
                        Some(Content::Same) => format!(
                            "status {status}, {length} bytes{crossed}, all vouched for, content \
                             as the server says"
                        ),
                        Some(Content::Other) => format!(
                            "status {status}, {length} bytes{crossed}, all vouched for, content \
                             changed"
                        ),
                        None => {
                            format!("status {status}, {length} bytes{crossed}, all vouched for")
                        }
                    },
                    Look::Plain,
                )
            }
            Outcome::Blocked | Outcome::Overstepped | Outcome::Failed => (
                plain(self.problem.as_deref().unwrap_or("it failed")),
                Look::Wrong,
            ),
        };
        match (colours, look.code()) {
            (Colours::On, code) if !code.is_empty() => format!("{code}{text}\x1b[0m"),
            (Colours::On | Colours::Off, _) => text,
        }
    }
}

/// A proposal and its fate, in words.
fn proposal(found: &Found) -> String {
    let why = found.why.as_deref().unwrap_or_default();
    let Some(name) = &found.name else {
        return match found.fate {
            Fate::Failed => why.to_owned(),
            Fate::Accepted | Fate::Refused | Fate::Ignored | Fate::Dropped => {
                format!("ignored: {why}")
            }
        };
    };
    let kind = found.kind.as_deref();
    let kind = kind.map_or(String::new(), |kind| format!(", which calls itself {kind}"));
    let address = found.address.as_deref().unwrap_or("an unknown address");
    let fate = match found.fate {
        Fate::Accepted => "accepted".to_owned(),
        Fate::Refused => format!("not accepted; {why}"),
        Fate::Ignored | Fate::Failed => format!("ignored: {why}"),
        Fate::Dropped => format!("left out: {why}"),
    };
    format!("{name} at {address}{kind}: {fate}")
}

/// `12,345`.
fn counted(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

/// Names up to their first dot, where these differ and are no addresses.
fn short_names(parties: &[Party]) -> Vec<String> {
    let first = |party: &Party| match party.name.parse::<std::net::IpAddr>() {
        Ok(_) => party.name.clone(),
        Err(_) => party.name.split('.').next().unwrap_or_default().to_owned(),
    };
    let short: Vec<String> = parties.iter().map(first).collect();
    let is_unique = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    short
        .iter()
        .zip(parties)
        .map(|(name, party)| match is_unique(name) {
            true => name.clone(),
            false => format!("{} {}", party.name, party.position),
        })
        .collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text without what a terminal would carry out, or what turns its direction around (Unicode
/// Standard Annex 9, section 2).
fn plain(text: impl AsRef<str>) -> String {
    let text = text.as_ref().chars();
    text.map(|c| match c {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            '?'
        }
        c if c.is_control() => '?',
        c => c,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::via::{ViaArgument, granted};

    fn planned(via: &[String], contexts: u8) -> Report {
        let via: Vec<_> = via
            .iter()
            .map(|text| ViaArgument::parse(text).expect("good"))
            .collect();
        let contexts = granted(&via, contexts).expect("good");
        Report::planned(Some("https://page.example:8443/x"), &via, &contexts)
    }

    fn two() -> Vec<String> {
        ["filter.example@h:1=filter", "zip.example@h:2=compress"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_plan_says_who_may_do_what_and_why() {
        let expected = "
  you ── filter ── zip ── page.example

                     filter   zip
  request-headers    read     -
  request-body       -        -
  response-headers   -        write
  response-body      -        write

  filter   has to see which page is asked for, and nothing else
  zip      makes responses shorter, and does not see what was asked for

  Whoever has no right has no key. Both ends have to agree, and what oversteps is found.
";
        assert_eq!(planned(&two(), 4).to_text(Colours::Off), expected);
    }

    #[test]
    fn afterwards_it_says_who_did_what() {
        let mut report = planned(&two(), 4);
        report.outcome = Outcome::Complete;
        report.status = Some(200);
        report.body_bytes = 40_960;
        report.contexts[0].saw.insert(1);
        for row in &mut report.contexts[2..] {
            row.saw.insert(2);
            row.changed.insert(2);
            row.bytes = 1_234;
        }
        let expected = "
  you ── filter ── zip ── page.example

                     filter     zip
  request-headers    read saw   -
  request-body       -          -
  response-headers   -          write changed
  response-body      -          write changed

  status 200, 40,960 bytes (1,234 arrived), all vouched for
";
        assert_eq!(report.to_text(Colours::Off), expected);
        let coloured = report.to_text(Colours::On);
        assert!(coloured.contains("\x1b[33mwrite changed"), "{coloured:?}");
    }

    #[test]
    fn a_body_that_a_cache_has_filled_in_is_told_of() {
        let mut report = planned(&["store.example@h:1=cache".to_owned()], 4);
        report.outcome = Outcome::Complete;
        report.status = Some(200);
        report.body_bytes = 40_960;
        report.content = Some(Content::Same);
        report.sent_bytes = Some(1);
        report.filled_by.insert(1);
        report.contexts[0].saw.insert(1);
        for row in &mut report.contexts[2..5] {
            row.changed.insert(1);
            row.bytes = 40_960;
        }
        let expected = "
  you ── store ── page.example

                     store
  request-headers    read saw
  request-body       -
  response-headers   write changed
  response-body      write filled
  cache-offers       write changed
  response-digest    -

  status 200, 40,960 bytes (1 left the server), all vouched for, content as the server says
";
        assert_eq!(report.to_text(Colours::Off), expected);
    }

    #[test]
    fn sixteen_middleboxes_and_255_contexts_fit_a_screen() {
        let via: Vec<String> = (1..=16)
            .map(|number| format!("middlebox-{number}.example@h:1=ids"))
            .collect();
        let text = planned(&via, 255).to_text(Colours::Off);
        assert!(text.lines().all(|line| width(line) <= 100), "{text}");
        assert!(text.lines().count() < 40, "{text}");
        assert!(text.contains("spare 5 to 255"), "{text}");
    }

    #[test]
    fn nothing_is_carried_out_by_a_terminal() {
        let mut report = planned(&two(), 4);
        report.outcome = Outcome::Failed;
        report.problem = Some("\x1b[2J\u{202e}".into());
        report.middleboxes[0].name = "\x1b]0;x\x07".into();
        report.contexts[0].name = "\x1b[1m".into();
        report.url = Some("https://\x1b[3m/".into());
        let text = report.to_text(Colours::Off);
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    }

    #[test]
    fn long_numbers_are_readable() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(counted),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
