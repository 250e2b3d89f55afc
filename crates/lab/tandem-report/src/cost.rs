//! Rows of `tandem lab cost` put together: what a connection costs each server with and without
//! TLS, where the time goes, and the figures of 1999 beside it.
//!
//! Rates of one processor are worked out from processor time: the generator shares the machine, and
//! may be the limit of a rate that was seen.

mod seed;

use crate::cost_row::{AbsentRow, BarRow, CostArm, CostRow, KeyRow, LoadRow, PhasesRow};
use crate::number::{self, ABSENT};
use crate::table::Table;

/// The size that stands for a typical page: the 1999 paper says 10 to 15 kB.
const PAGE: u64 = 12_288;
/// What the paper calls very large.
const LARGE: u64 = 1_048_576;
/// The shares of reuse that are swept.
const SHARES: [u8; 5] = [0, 25, 50, 75, 100];

/// The rows by their kind.
struct Rows<'a> {
    loads: Vec<&'a LoadRow>,
    keys: Vec<&'a KeyRow>,
    phases: Vec<&'a PhasesRow>,
    bars: Vec<&'a BarRow>,
    absent: Vec<&'a AbsentRow>,
}

impl<'a> Rows<'a> {
    fn of(rows: &'a [CostRow]) -> Self {
        let mut all = Self {
            loads: Vec::new(),
            keys: Vec::new(),
            phases: Vec::new(),
            bars: Vec::new(),
            absent: Vec::new(),
        };
        for row in rows {
            match row {
                CostRow::Load(row) => all.loads.push(row),
                CostRow::Key(row) => all.keys.push(row),
                CostRow::Phases(row) => all.phases.push(row),
                CostRow::Bar(row) => all.bars.push(row),
                CostRow::Absent(row) => all.absent.push(row),
            }
        }
        all
    }

    /// Servers of the sweep, in the order of the rows.
    fn servers(&self) -> Vec<&'a str> {
        let mut servers: Vec<&str> = Vec::new();
        for row in self.loads.iter().filter(|row| row.arm.resumption != "id") {
            if !servers.contains(&row.arm.server.as_str()) {
                servers.push(&row.arm.server);
            }
        }
        servers
    }

    /// The row of this arm; of several, the one with the median processor time.
    fn load(&self, server: &str, tls: Option<&str>, reuse: u8, bytes: u64) -> Option<&'a LoadRow> {
        let mut found: Vec<&LoadRow> = self
            .loads
            .iter()
            .copied()
            .filter(|row| {
                let arm = &row.arm;
                arm.server == server
                    && arm.tls.as_deref() == tls
                    && arm.reuse == reuse
                    && arm.bytes == bytes
                    && arm.resumption != "id"
            })
            .collect();
        found.sort_by(|a, b| a.server_us().total_cmp(&b.server_us()));
        found.get(found.len() / 2).copied()
    }
}

/// All tables for which there are rows.
pub(crate) fn tables(rows: &[CostRow]) -> Vec<Table> {
    let rows = Rows::of(rows);
    let mut tables = vec![
        seed::table(&rows),
        reuse(&rows, "1.3"),
        reuse(&rows, "1.2"),
        processor(&rows),
        sizes(&rows),
        keys(&rows),
        process_models(&rows),
    ];
    tables.extend(
        [LARGE, PAGE]
            .into_iter()
            .rev()
            .map(|bytes| phases(&rows, bytes)),
    );
    tables.push(bars(&rows));
    tables.push(absent(&rows));
    tables.retain(|table| !table.lines.is_empty());
    tables
}

/// The page of one run, Markdown.
#[must_use]
pub fn markdown(rows: &[CostRow]) -> String {
    let mut text = "# What TLS costs\n\n\
        Servers with equal settings on one machine: each has one processor to itself, the load generator\n\
        has the rest. Each connection asks for one file. `docs/measuring.md` says how to read this.\n\n"
        .to_owned();
    for answer in seed::answers(&Rows::of(rows)) {
        text.push_str(&format!("- {answer}\n"));
    }
    text.push('\n');
    for table in tables(rows) {
        text.push_str(&table.markdown());
    }
    text
}

/// What the rows say to the claims of 1999, in sentences.
pub(crate) fn answers(rows: &[CostRow]) -> Vec<String> {
    seed::answers(&Rows::of(rows))
}

/// Connections that one processor can serve each second.
fn capacity(row: &LoadRow) -> f64 {
    1e6 / row.server_us().max(1e-3)
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| ABSENT.to_owned())
}

fn rate(row: Option<&LoadRow>) -> String {
    or_absent(row.map(|row| {
        let mark = if row.failures > 0 { " !" } else { "" };
        format!("{}{mark}", number::count(capacity(row)))
    }))
}

fn words(text: &str) -> Vec<String> {
    text.split('|').map(|word| word.trim().to_owned()).collect()
}

fn ratio(above: f64, below: f64) -> String {
    format!("{:.1}", above / below.max(1e-9))
}

fn reuse(rows: &Rows<'_>, tls: &str) -> Table {
    let lines = rows.servers().into_iter().filter_map(|server| {
        let of = |share| rows.load(server, Some(tls), share, PAGE);
        let (first, plain) = (of(SHARES[0])?, rows.load(server, None, 0, PAGE));
        let half = of(50).and_then(|row| row.server_resumed);
        let mut line = vec![server.to_owned(), rate(plain)];
        line.extend(SHARES.map(|share| rate(of(share))));
        line.push(or_absent(
            of(100).map(|row| ratio(capacity(row), capacity(first))),
        ));
        line.push(or_absent(
            plain.map(|row| ratio(capacity(row), capacity(first))),
        ));
        line.push(or_absent(half.map(|[resumed, all]| {
            format!("{:.1} %", resumed as f64 * 100.0 / all.max(1) as f64)
        })));
        Some(line)
    });
    Table {
        title: match tls {
            "1.2" => "Connections a second and processor as reuse grows, TLS 1.2",
            _ => "Connections a second and processor as reuse grows, TLS 1.3",
        },
        note: format!(
            "Files of {PAGE} bytes, one on each connection, RSA-2048; sessions by what the server gives (tickets). Worked out from the \
             server's processor time. The last column is the server's own count at 50 %. ! marks arms with failures."
        ),
        columns: words(
            "server | plain HTTP | 0 % | 25 % | 50 % | 75 % | 100 % | 100 % to 0 % | plain to 0 % | counted at 50 %",
        ),
        words: 1,
        lines: lines.collect(),
    }
}

fn processor(rows: &Rows<'_>) -> Table {
    let mut lines = Vec::new();
    for server in rows.servers() {
        for (name, tls, share) in [
            ("plain HTTP", None, 0),
            ("TLS 1.2, full", Some("1.2"), 0),
            ("TLS 1.3, full", Some("1.3"), 0),
            ("TLS 1.3, resumed", Some("1.3"), 100),
        ] {
            let Some(row) = rows.load(server, tls, share, PAGE) else {
                continue;
            };
            let limit = if row.generator_limited { " g" } else { "" };
            let steady = if row.steady { "" } else { " ~" };
            lines.push(vec![
                server.to_owned(),
                name.to_owned(),
                number::count(row.user_us),
                number::count(row.kernel_us),
                format!("{:.1}", row.switches),
                number::count(row.peak_kib as f64),
                number::count(row.memory_kib as f64),
                row.processes.to_string(),
                format!(
                    "{}{limit}{steady}",
                    number::count(row.connections_per_second)
                ),
                number::count(row.p50_us as f64),
                number::count(row.p99_us as f64),
            ]);
        }
    }
    Table {
        title: "What a connection takes of the server",
        note: format!(
            "Files of {PAGE} bytes, one on each connection. User, kernel, p50 and p99 in microseconds; memory in KiB: peak resident, pages \
             that processes share counted for each, and PSS. The rate is what was seen; g: the generator was its limit; ~: not steady."
        ),
        columns: words(
            "server | arm | user | kernel | switches | peak | PSS | processes | connections/s | p50 | p99",
        ),
        words: 2,
        lines,
    }
}

fn sizes(rows: &Rows<'_>) -> Table {
    let mut lines = Vec::new();
    for server in rows.servers() {
        for bytes in [1_024, PAGE, LARGE] {
            let of = |tls, share| rows.load(server, tls, share, bytes);
            let (plain, full) = (of(None, 0), of(Some("1.3"), 0));
            let resumed = of(Some("1.3"), 100);
            if full.is_none() {
                continue;
            }
            let micros =
                |row: Option<&LoadRow>| or_absent(row.map(|row| number::count(row.server_us())));
            let times = |row: Option<&LoadRow>| {
                let pair = row.zip(plain);
                or_absent(pair.map(|(row, plain)| ratio(row.server_us(), plain.server_us())))
            };
            lines.push(vec![
                server.to_owned(),
                number::count(bytes as f64),
                micros(plain),
                micros(full),
                micros(resumed),
                times(full),
                times(resumed),
            ]);
        }
    }
    Table {
        title: "Processor time by size of the file, TLS 1.3",
        note: "Microseconds of the server for a connection with one file; the last two columns are times plain HTTP.".to_owned(),
        columns: words("server | bytes | plain HTTP | full | resumed | full, times | resumed, times"),
        words: 1,
        lines,
    }
}

fn keys(rows: &Rows<'_>) -> Table {
    let lines = rows.keys.iter().map(|row| {
        let load = &row.load;
        let is_base = |other: &&&KeyRow| {
            let (a, b) = (&other.load.arm, &load.arm);
            a.server == b.server && a.tls == b.tls && a.key == "RSA-2048"
        };
        let base = rows.keys.iter().find(is_base);
        let mark = if load.failures > 0 { " !" } else { "" };
        vec![
            load.arm.server.clone(),
            load.arm.tls.clone().unwrap_or_default(),
            load.arm.key.clone(),
            format!("{}{mark}", number::count(load.server_us())),
            number::count(capacity(load)),
            or_absent(base.map(|base| ratio(capacity(load), capacity(&base.load)))),
            number::count(load.generator_us),
            number::count(row.chain_bytes as f64),
            number::count(row.handshake_bytes),
            number::count(load.p50_us as f64),
        ]
    });
    Table {
        title: "What the kind of the server's key costs",
        note: format!(
            "Full handshakes, files of {PAGE} bytes, a chain of two with keys of the same kind. Server, client and p50 in microseconds; client: \
             the load generator's own processor time. Rates are worked out from the server's processor time; times: those of RSA-2048. Sent: \
             bytes of the server in the handshake. ! marks arms with failures."
        ),
        columns: words(
            "server | TLS | key | server | connections/s and processor | times | client | certificates | sent | p50",
        ),
        words: 3,
        lines: lines.collect(),
    }
}

fn process_models(rows: &Rows<'_>) -> Table {
    let arms = rows.loads.iter().filter(|row| row.arm.resumption == "id");
    let lines = arms.map(|row| {
        let wanted = row.resumed + row.refused;
        let share =
            |part: u64, all: u64| format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64);
        vec![
            row.arm.server.clone(),
            format!("{} %", row.arm.reuse),
            row.processes.to_string(),
            share(row.refused, wanted),
            or_absent(row.server_resumed.map(|[resumed, all]| share(resumed, all))),
            number::count(row.server_us()),
        ]
    });
    Table {
        title: "Is a session found by the process that has to resume it?",
        note: "TLS 1.2 by session identifiers, as in 1999; tickets are off. Refused: of the sessions that were offered. The paper's Apache \
               kept sessions in each process; nginx can be told to (`builtin`)."
            .to_owned(),
        columns: words("server | reuse | processes | refused | counted as resumed | server, µs"),
        words: 1,
        lines: lines.collect(),
    }
}

fn phases(rows: &Rows<'_>, bytes: u64) -> Table {
    let chosen: Vec<&PhasesRow> = rows
        .phases
        .iter()
        .copied()
        .filter(|row| row.arm.bytes == bytes)
        .collect();
    let mut lines = Vec::new();
    let name = |arm: &CostArm| {
        let kind = if arm.reuse == 0 { "full" } else { "resumed" };
        let key = if arm.reuse == 0 {
            format!(", {}", arm.key)
        } else {
            String::new()
        };
        format!(
            "{}, TLS {}, {kind}{key}",
            arm.server,
            arm.tls.as_deref().unwrap_or(ABSENT)
        )
    };
    let names: Vec<&str> = chosen
        .first()
        .map(|row| row.phases.iter().map(|phase| phase.name.as_str()).collect())
        .unwrap_or_default();
    for row in &chosen {
        let mut line = vec![name(&row.arm)];
        line.extend(names.iter().map(|wanted| {
            let found = row.phases.iter().find(|phase| phase.name == *wanted);
            or_absent(found.map(|phase| number::count(phase.us)))
        }));
        let phases: f64 = row.phases.iter().map(|phase| phase.us).sum();
        line.push(number::count(row.library_us - phases));
        line.push(number::count(row.server_us - row.library_us));
        line.push(number::count(row.server_us));
        line.push(number::percent(row.handshake_us / row.server_us.max(1e-9)));
        lines.push(line);
    }
    let mut columns = vec!["server".to_owned()];
    columns.extend(names.iter().map(|name| (*name).to_owned()));
    columns.extend(words("rest of TLS | outside TLS | all | in handshakes"));
    Table {
        title: if bytes == PAGE {
            "Where the server's time goes, files of 12 kB"
        } else {
            "Where the server's time goes, files of 1 MB"
        },
        note: "Microseconds of processor time for a connection, timed inside the server around each call of OpenSSL's library for \
               cryptography. Socket: what the TLS library has the kernel send and receive. Outside TLS: HTTP, files, accept and close. The \
               columns add up to all, which is the kernel's own account of the server."
            .to_owned(),
        columns,
        words: 1,
        lines,
    }
}

fn bars(rows: &Rows<'_>) -> Table {
    let has_beside = rows.bars.iter().any(|row| row.beside.is_some());
    let lines = rows.bars.iter().map(|row| {
        let figure = |value: f64| match value.abs() {
            size if size >= 100.0 => number::count(value),
            size if size >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        let mut line = vec![
            row.what.clone(),
            if row.reached { "reached" } else { "missed" }.to_owned(),
            row.note.clone(),
            figure(row.measured),
        ];
        if has_beside {
            line.push(or_absent(row.beside.map(figure)));
        }
        line.push(figure(row.bar));
        line
    });
    Table {
        title: "Figures that the load generator has to reach",
        note: "Beside other tools in the same run.".to_owned(),
        columns: words(match has_beside {
            true => "what | verdict | how | measured | beside | bar",
            false => "what | verdict | how | measured | bar",
        }),
        words: 3,
        lines: lines.collect(),
    }
}

fn absent(rows: &Rows<'_>) -> Table {
    Table {
        title: "Not measured",
        note: "What is not installed, did not start, or cannot do it.".to_owned(),
        columns: words("server | why"),
        words: 2,
        lines: rows
            .absent
            .iter()
            .map(|row| vec![row.server.clone(), row.why.clone()])
            .collect(),
    }
}

#[cfg(test)]
mod tests;
