//! `report.html`: one page that needs nothing but itself. No script, no font, no image from
//! elsewhere.
//!
//! Everything that comes from rows goes through [`escaped`]; drawings escape for themselves.

use std::fmt::Write as _;

use super::cases::{ArmFigures, Case, Measure};
use super::cost;
use super::headline::Headline;
use super::input::{Input, Run};
use super::mctls;
use super::number::{self, ABSENT};
use super::peers;
use super::plots::{self, Figure};
use super::profile;
use super::run_info::RunInfo;
use super::situations::{self, Staged};
use super::splitting;
use super::svg::escaped;
use super::table::Table;
use super::thesis::CASES;
use super::totals::Totals;
use super::verdict::{BarResult, Outcome};
use super::{caveats, crowds, figures::Figures};
use crate::arm::Arm;
use crate::cost_row::CostRow;
use crate::situation::Situation;
use crate::split_row::ROWS;

const STYLE: &str = crate::draw::PAGE_STYLE;

/// Columns of the table of everything.
const COLUMNS: usize = 14;

/// Bars by the system that they belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bars<'a> {
    /// Both modes of the proxies.
    pub(crate) proxies: &'a [BarResult],
    /// SSL splitting.
    pub(crate) splitting: &'a [BarResult],
    /// Multi-context TLS.
    pub(crate) mctls: &'a [BarResult],
}

/// The document.
pub(crate) fn page(
    input: &Input,
    cases: &[Case],
    staged: &[Staged],
    bars: Bars<'_>,
    figures: &Figures,
) -> String {
    let runs: Vec<&Run> = input
        .runs
        .iter()
        .chain(&input.staged)
        .chain(&input.crowds)
        .collect();
    let mut page = Page {
        html: String::new(),
    };
    let headline = Headline::of(cases);
    page.raw(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Tandem: results of the lab</title>\n<style>\n{STYLE}</style>\n</head>\n<body>"
    ));
    page.header(input, &runs, &headline);
    page.bars(
        "Figures to reach in packet mode and tunnel mode",
        "The worst link or run counts: on slow links the plain arm retransmits, which would make the ratio look better. ",
        bars.proxies,
    );
    if let Some(overview) = &figures.overview {
        page.heading(&overview.title);
        page.figure(overview);
    }
    if let Some(parts) = &figures.parts {
        page.heading(&parts.title);
        page.figure(parts);
    }
    page.thesis(figures);
    if let Some(messages) = &figures.messages {
        page.heading(&messages.title);
        page.figure(messages);
    }
    page.situations(staged);
    page.crowds(&input.crowds);
    for flow in &figures.flows {
        page.heading(&format!("Figure 4-9, packet by packet: {}", flow.title));
        page.figure(flow);
    }
    page.profile(input);
    page.peers(cases);
    page.splitting(input, bars.splitting, figures);
    page.mctls(input, bars.mctls, figures);
    page.cost(&input.cost);
    page.waterfall(&figures.waterfalls);
    page.table(cases);
    page.list(
        "How it is measured",
        "ol",
        &caveats::METHOD.map(str::to_owned),
    );
    page.list("Limits", "ul", &caveats::limits(&input.runs, cases));
    page.failures(cases);
    page.raw(
        "<footer>The figures are also in tables.md, the bars in bars.json, the drawings in plots/.</footer>\n</body>\n</html>",
    );
    page.html
}

struct Page {
    html: String,
}

/// When something was measured, in words.
fn when(info: Option<&RunInfo>) -> String {
    info.map_or_else(
        || "date and machine not recorded".to_owned(),
        |info| format!("{} UTC", info.period()),
    )
}

impl Page {
    fn raw(&mut self, html: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.html, "{html}");
    }

    fn heading(&mut self, words: &str) {
        self.raw(&format!("<h2>{}</h2>", escaped(words)));
    }

    fn figure(&mut self, figure: &Figure) {
        self.raw(&format!(
            "<figure>\n{}<figcaption>{}</figcaption>\n</figure>",
            figure.svg,
            escaped(&figure.caption)
        ));
    }

    fn header(&mut self, input: &Input, runs: &[&Run], headline: &Headline) {
        self.raw(&format!(
            "<header>\n<p class=\"name\">Tandem, results of the lab</p>\n<h1>{}</h1>\n<p>{}</p>",
            escaped(&headline.sentence),
            escaped(&headline.details)
        ));
        // Closed, so that what was found comes before how and where.
        self.raw("<details class=\"runs\"><summary>Runs, machine and links</summary>\n<dl>");
        let mut machines: Vec<String> = Vec::new();
        for run in runs {
            let date = when(run.info.as_ref());
            self.definition(
                &run.name,
                &format!("{}, {date}", number::plural(run.rows.len(), "trial")),
                "",
            );
            machines.extend(run.info.as_ref().map(machine));
        }
        if !input.splitting.is_empty() {
            let rows = number::plural(input.splitting.len(), "row");
            self.definition(
                ROWS,
                &format!("{rows}, {}", when(input.splitting_info.as_ref())),
                "",
            );
            machines.extend(input.splitting_info.as_ref().map(machine));
        }
        for other in &input.others {
            self.definition(&other.name, &when(other.info.as_ref()), "");
        }
        machines.dedup();
        for machine in machines {
            self.definition("machine", &machine, "");
        }
        let mut named: Vec<&str> = Vec::new();
        for link in runs
            .iter()
            .filter_map(|run| run.info.as_ref())
            .chain(&input.splitting_info)
            .flat_map(|info| &info.links)
        {
            if !named.contains(&link.name.as_str()) {
                named.push(&link.name);
                self.definition(&link.name, &link.description, &format!("({})", link.source));
            }
        }
        self.raw("</dl>\n</details>\n</header>");
        let totals = Totals::of(input);
        let words = escaped(&totals.in_words());
        if totals.are_good() {
            self.raw(&format!("<p class=\"good\">{words}</p>"));
        } else {
            self.raw(&format!(
                "<p class=\"alert\"><b>{words}</b> Failed trials and those with differing bytes are left out of the medians and listed at the end.</p>"
            ));
        }
    }

    fn definition(&mut self, term: &str, words: &str, aside: &str) {
        self.raw(&format!(
            "<dt>{}</dt><dd>{} <span class=\"faint\">{}</span></dd>",
            escaped(term),
            escaped(words),
            escaped(aside)
        ));
    }

    fn bars(&mut self, heading: &str, words: &str, bars: &[BarResult]) {
        let count = |outcome| bars.iter().filter(|bar| bar.outcome == outcome).count();
        if count(Outcome::NotMeasured) == bars.len() {
            return;
        }
        self.heading(heading);
        let not_measured = match count(Outcome::NotMeasured) {
            0 => String::new(),
            others => format!(", {others} not measured here and left out"),
        };
        self.raw(&format!(
            "<p>{} reached, {} missed{not_measured}. {words}Solid line: the bar; dashed: the target.</p>",
            count(Outcome::Reached),
            count(Outcome::Missed),
        ));
        self.raw(
            "<div class=\"scroll\"><table class=\"bars\">\n<thead><tr><th>What</th><th class=\"words\">Case</th><th></th><th class=\"n\">Measured</th><th class=\"n\">Bar</th>\
             <th class=\"n\">Target</th><th class=\"n\">Thesis</th><th>Verdict</th></tr></thead>\n<tbody>",
        );
        for bar in bars {
            let class = match bar.outcome {
                Outcome::Reached => "reached",
                Outcome::Missed => "missed",
                Outcome::NotMeasured => continue,
            };
            let figure = |figure: Option<f64>| {
                figure.map_or_else(|| ABSENT.to_owned(), |figure| bar.in_words(figure))
            };
            self.raw(&format!(
                "<tr><td>{}</td><td>{}<small>{}</small></td><td class=\"bullet\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"verdict\"><span class=\"{class}\">{}</span></td></tr>",
                escaped(bar.what),
                escaped(bar.case),
                escaped(&bar.note),
                plots::bullet(bar).unwrap_or_default(),
                figure(bar.measured),
                escaped(&bar.bar_in_words()),
                figure(bar.target),
                escaped(bar.thesis.unwrap_or(ABSENT)),
                escaped(&bar.verdict()),
            ));
        }
        self.raw("</tbody></table></div>");
    }

    /// Chapter 5 of the other thesis.
    fn splitting(&mut self, input: &Input, bars: &[BarResult], figures: &Figures) {
        let rows = &input.splitting;
        if rows.is_empty() {
            return;
        }
        self.bars(
            "SSL splitting: figures to reach",
            "Against nginx with its default TLS settings unless a note says otherwise. ",
            bars,
        );
        let unsound = rows.iter().filter(|row| !row.is_sound()).count();
        let requests: usize = rows.iter().map(|row| row.sizes.len()).sum();
        let requests = number::plural(requests, "request");
        if unsound == 0 {
            self.raw(&format!(
                "<p class=\"good\">All {requests} succeeded, and every body had the digest of the server's file.</p>"
            ));
        } else {
            let rows = number::plural(rows.len(), "row");
            self.raw(&format!(
                "<p class=\"alert\"><b>Of {rows} ({requests}), {unsound} failed or had other bytes than the server's.</b> They are left \
                 out of the figures.</p>"
            ));
        }
        self.heading("SSL splitting, compared with Lesniewski-Laas’s thesis of 2003");
        self.raw(
            "<p>The measurements of chapter 5, repeated: nginx and the origin are at one end of a link, curl and the volunteers at the \
             other; each request has a connection and a full handshake of its own. Bytes are IP bytes that leave the origin's end, counted \
             by the link. The thesis's text gives few of the numbers behind its figures: they are hatched, or crosses. Its traces are \
             lost; ours come from access logs of 1995 and 2015, cut and turned into files as the thesis describes.</p>\n<div class=\"pair\">",
        );
        self.pair(&figures.splitting);
        for table in splitting::tables(rows) {
            self.with_words(&table);
        }
    }

    /// Section 5 of the paper.
    fn mctls(&mut self, input: &Input, bars: &[BarResult], figures: &Figures) {
        let rows = &input.mctls;
        if rows.is_empty() {
            return;
        }
        self.bars(
            "Multi-context TLS: figures to reach",
            "Thesis stands for the paper here. ",
            bars,
        );
        let failed = rows.iter().filter(|row| !row.ok).count();
        let trials = number::plural(rows.len(), "trial");
        if failed == 0 {
            self.raw(&format!(
                "<p class=\"good\">All {trials} succeeded, and every byte arrived as it was sent.</p>"
            ));
        } else {
            self.raw(&format!(
                "<p class=\"alert\"><b>Of {trials}, {failed} failed.</b> They are left out of the figures.</p>"
            ));
        }
        self.heading("Multi-context TLS, compared with the paper of 2015");
        self.raw(
            "<p>Section 5 of Naylor et al., repeated: client, middleboxes and server in a row, each in a network namespace of its own, with \
             an emulated link between each two, and the same program for every protocol. mctls13 is this project’s protocol on TLS 1.3, \
             mctls12 the paper’s own. Split TLS is what is compared: middleboxes that end TLS 1.3 on both sides, with a certificate for the \
             server’s name. Middleboxes may read and write everything, the paper’s worst case, unless a table says otherwise, and pass \
             everything on. Keys are agreed on by X25519, without ML-KEM; nothing is resumed but mctls13’s legs between parties that know each other; the Nagle algorithm is off.</p>\n<div class=\"pair\">",
        );
        self.pair(&figures.mctls);
        if let Some(transfers) = &figures.mctls_transfers {
            self.figure(transfers);
        }
        for table in mctls::tables(rows) {
            self.with_words(&table);
        }
    }

    /// What TLS costs at servers.
    fn cost(&mut self, rows: &[CostRow]) {
        let tables = cost::tables(rows);
        if tables.is_empty() {
            return;
        }
        self.heading("What TLS costs at servers, compared with figures of 1999");
        self.raw(
            "<p>Servers with equal settings on one machine, a processor for the server, the rest for the load generator; each connection \
             asks for one file. Only ratios are worth carrying to another machine.</p>\n<ul>",
        );
        for answer in cost::answers(rows) {
            self.raw(&format!("<li>{}</li>", escaped(&answer.replace("**", ""))));
        }
        self.raw("</ul>");
        for table in &tables {
            self.with_words(table);
        }
    }

    fn with_words(&mut self, table: &Table) {
        self.raw(&format!(
            "<h3 class=\"table\">{}</h3>\n<p class=\"faint\">{}</p>\n<div class=\"scroll\"><table>\n<thead><tr>",
            escaped(table.title),
            escaped(&table.note)
        ));
        let class = |column: usize| {
            if column < table.words {
                ""
            } else {
                " class=\"n\""
            }
        };
        for (column, words) in table.columns.iter().enumerate() {
            self.raw(&format!("<th{}>{}</th>", class(column), escaped(words)));
        }
        self.raw("</tr></thead>\n<tbody>");
        for line in &table.lines {
            let cells: String = line
                .iter()
                .enumerate()
                .map(|(column, words)| format!("<td{}>{}</td>", class(column), escaped(words)))
                .collect();
            self.raw(&format!("<tr>{cells}</tr>"));
        }
        self.raw("</tbody></table></div>");
    }

    /// Drawings two by two; ends what stands around them.
    fn pair<'a>(&mut self, figures: impl IntoIterator<Item = &'a Figure>) {
        for figure in figures {
            self.raw(&format!(
                "<div>\n<figure><h3>{}</h3>",
                escaped(&figure.title)
            ));
            self.raw(&figure.svg);
            self.raw(&format!(
                "<figcaption>{}</figcaption></figure>\n</div>",
                escaped(&figure.caption)
            ));
        }
        self.raw("</div>");
    }

    fn thesis(&mut self, figures: &Figures) {
        if figures.thesis.is_empty() {
            return figures.sizes.iter().for_each(|sizes| {
                self.heading(&sizes.title);
                self.figure(sizes);
            });
        }
        self.heading("Beside McVeety’s thesis of 2009");
        self.raw(
            "<p>Hatched: the thesis's own figures (appendix A.4, section 4.4), of one certificate of 926 bytes over TLS 1.0, averages of 20 \
             handshakes over the links of its table 4.1. Solid: ours over links with the same figures. The thesis does not say whether \
             its latency is one-way or round trip; ours is one-way.</p>\n<div class=\"pair\">",
        );
        self.pair(
            figures
                .thesis
                .iter()
                .chain(&figures.sizes)
                .chain(&figures.misses),
        );
    }

    /// Table 2.2, his words and ours, and what stands behind it. Only where more than a miss was
    /// looked at.
    fn situations(&mut self, staged: &[Staged]) {
        let wide = |like: &Staged| {
            staged.iter().any(|staged| {
                staged.link == like.link
                    && staged.endpoints == like.endpoints
                    && !matches!(staged.situation, Situation::Case0 | Situation::Case3)
            })
        };
        let rows: Vec<&Staged> = staged
            .iter()
            .filter(|staged| staged.arm == Arm::Plain && wide(staged))
            .collect();
        let Some(first) = rows.first() else {
            return;
        };
        self.heading("The cases of table 2.2, and the assumptions behind them");
        self.raw(&format!(
            "<p>What crossed the link ({}, endpoints {}), packets of the whole connection, and by how many seconds the handshake ended \
             later than in the plain arm. A and A' are client-side proxies, B and B' server-side proxies, Z is the server's chain. Each event \
             takes place after the server has received the hello and before it answers. Where a client-side proxy with the thesis's format \
             first sees a flow in its middle, the reference reaches the client's TCP, out of order; Linux replaces it by the server's \
             retransmission, other systems may not. The safe format costs one round trip there.</p>",
            escaped(&first.link),
            escaped(&first.endpoints)
        ));
        self.raw(
            "<div class=\"scroll\"><table>\n<thead><tr><th>Situation</th><th class=\"words\">The thesis says</th><th class=\"n\">Plain, packets</th>\
             <th class=\"words\">Safe format</th><th class=\"n\">packets</th><th class=\"n\">later</th><th class=\"words\">Thesis's format</th><th class=\"n\">packets</th>\
             <th class=\"n\">later</th></tr></thead>\n<tbody>",
        );
        for plain in rows {
            let count = |staged: Option<&Staged>| {
                staged
                    .and_then(Staged::packets)
                    .map_or_else(|| ABSENT.to_owned(), number::count)
            };
            let says = CASES
                .iter()
                .find(|(situation, _)| *situation == plain.situation)
                .map_or("", |(_, says)| says);
            let mut row = format!(
                "<tr><td>{}<small>{}</small></td><td>{}</td><td class=\"n\">{}</td>",
                escaped(plain.situation.name()),
                escaped(plain.situation.about()),
                escaped(says),
                count(Some(plain)),
            );
            for arm in [Arm::Packet, Arm::PacketMcveety] {
                let ours = situations::find(staged, plain, plain.situation, arm);
                let later = ours
                    .and_then(Staged::seconds)
                    .zip(plain.seconds())
                    .map_or_else(
                        || ABSENT.to_owned(),
                        |(own, plain)| situations::signed(own - plain),
                    );
                row.push_str(&format!(
                    "<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{later}</td>",
                    escaped(&ours.map_or_else(|| ABSENT.to_owned(), Staged::outcome)),
                    count(ours)
                ));
            }
            row.push_str("</tr>");
            self.raw(&row);
        }
        self.raw("</tbody></table></div>");
    }

    /// Section 4.2, his figures and ours.
    fn profile(&mut self, input: &Input) {
        let parts = profile::parts(input);
        if parts.is_empty() {
            return;
        }
        self.heading("Where the proxies’ time goes (section 4.2)");
        self.raw(&format!("<p>{}</p>", escaped(profile::ABOUT)));
        self.raw(
            "<div class=\"scroll\"><table>\n<thead><tr><th>Part of a handshake</th><th>The thesis</th><th class=\"n\">Ours, µs</th>\
             <th class=\"n\">of all</th></tr></thead>\n<tbody>",
        );
        for part in parts {
            self.raw(&format!(
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escaped(part.what),
                escaped(part.thesis),
                part.ours,
                part.share
            ));
        }
        self.raw("</tbody></table></div>");
        self.raw(&format!(
            "<p class=\"faint\">{}</p>",
            escaped(&profile::footnote(input))
        ));
    }

    /// What endpoints can do without proxies, beside what these do.
    fn peers(&mut self, cases: &[Case]) {
        let with_peers: Vec<&Case> = cases.iter().filter(|case| case.has_peers()).collect();
        if with_peers.is_empty() {
            return;
        }
        self.heading("Compared with what else can be done");
        self.raw(&format!("<p>{}</p>", escaped(peers::ABOUT)));
        self.raw(
            "<div class=\"scroll\"><table>\n<thead><tr><th>Method</th><th>What it needs</th><th class=\"n\">Handshake, s</th><th class=\"n\">of \
             plain</th><th class=\"n\">TLS bytes</th><th class=\"n\">of plain</th><th class=\"n\">Link bytes</th><th class=\"n\">of \
             plain</th></tr></thead>\n<tbody>",
        );
        for case in with_peers {
            self.raw(&format!(
                "<tr><th class=\"case\" colspan=\"8\">{}, {} <span>{}, chain of {}, {} bytes</span></th></tr>",
                escaped(&case.link),
                escaped(&case.endpoints),
                escaped(&case.key),
                case.certificates.len(),
                number::count(case.certificate_bytes() as f64),
            ));
            for line in peers::lines(case) {
                let look = line.arm.look();
                let of_tls13 = match line.tls_share_of_tls13.as_str() {
                    "" => String::new(),
                    share => format!("<small>{share} of TLS 1.3</small>"),
                };
                self.raw(&format!(
                    "<tr><td><span class=\"swatch\" style=\"background:{}\"></span>{}</td><td class=\"words\">{}</td><td class=\"n\">{}</td>\
                     <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}{of_tls13}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                    look.colour,
                    escaped(look.label),
                    escaped(line.needs),
                    line.seconds,
                    line.seconds_share,
                    line.tls,
                    line.tls_share,
                    line.link,
                    line.link_share,
                ));
            }
        }
        self.raw("</tbody></table></div>");
    }

    /// What to do with clients' certificates, by how many clients there are.
    fn crowds(&mut self, runs: &[Run]) {
        let all = crowds::crowds(runs.iter().flat_map(|run| &run.rows));
        if all.is_empty() {
            return;
        }
        self.heading("Clients\u{2019} certificates: which strategy, for how many clients");
        self.raw(
            "<p>Clients connect one after the other through one client-side proxy, each with its own certificate: first each of them once, \
             then some of them again. The proxies already hold the server's chain. “packet, warm” is the strategy <i>persistent</i>. Bytes \
             are means over the visits and include what is published once. On slow links only the last of the first visits are \
             measured.</p>\n\
             <div class=\"scroll\"><table>\n<thead><tr>",
        );
        let class = |column: usize| match column {
            0 | 2 | 3 => "",
            _ => " class=\"n\"",
        };
        let row = |element: &str, cells: &[&str]| -> String {
            cells
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    format!("<{element}{}>{}</{element}>", class(column), escaped(cell))
                })
                .collect()
        };
        self.raw(&row("th", &crowds::COLUMNS));
        self.raw("</tr></thead>\n<tbody>");
        for crowd in &all {
            let cells = crowd.line(&all);
            let cells = cells.each_ref().map(String::as_str);
            self.raw(&format!("<tr>{}</tr>", row("td", &cells)));
        }
        self.raw("</tbody></table></div>");
    }

    /// The longest handshake shows most; the others are named.
    fn waterfall(&mut self, waterfalls: &[Figure]) {
        let Some((first, others)) = waterfalls.split_first() else {
            return;
        };
        self.heading(&first.title);
        self.figure(first);
        if !others.is_empty() {
            let names: Vec<String> = others
                .iter()
                .map(|figure| format!("plots/{}.svg", figure.name))
                .collect();
            self.raw(&format!(
                "<p class=\"faint\">The same for other cases: {}.</p>",
                escaped(&names.join(", "))
            ));
        }
    }

    fn table(&mut self, cases: &[Case]) {
        self.heading("All figures");
        self.raw(
            "<p>Medians; quartiles below them in small where they differ. Bytes and packets both ways. “%” is of plain in the same run.</p>\n\
             <div class=\"scroll\"><table>\n<thead>\n<tr class=\"spans\"><th></th><th class=\"n\" colspan=\"3\">seconds</th><th class=\"n\" \
             colspan=\"2\">TLS</th><th class=\"n\" colspan=\"3\">link, IP</th><th class=\"n\" colspan=\"2\">over floor</th><th class=\"n\" \
             colspan=\"2\">both proxies</th><th></th></tr>\n<tr><th>Arm</th><th class=\"n\">first byte</th><th class=\"n\">%</th><th \
             class=\"n\">handshake</th><th class=\"n\">bytes</th><th class=\"n\">%</th><th class=\"n\">bytes</th><th class=\"n\">%</th><th \
             class=\"n\">packets</th><th class=\"n\">bytes</th><th class=\"n\">×</th><th class=\"n\">CPU, µs</th><th class=\"n\">peak, \
             KiB</th><th class=\"n\">trials</th></tr>\n</thead>\n<tbody>",
        );
        let several = cases
            .iter()
            .any(|case| (&case.run, &case.experiment) != (&cases[0].run, &cases[0].experiment));
        for case in cases {
            let mut origin = String::new();
            if several {
                origin = format!(" · {} ({})", case.experiment, case.run);
            }
            self.raw(&format!(
                "<tr><th class=\"case\" colspan=\"{COLUMNS}\">{}, {} <span>TLS {}, {}, chain of {}, {} bytes{}</span></th></tr>",
                escaped(&case.link),
                escaped(&case.endpoints),
                escaped(&case.version),
                escaped(&case.key),
                case.certificates.len(),
                number::count(case.certificate_bytes() as f64),
                escaped(&origin)
            ));
            for arm in &case.arms {
                self.arm(case, arm);
            }
        }
        self.raw("</tbody></table></div>");
    }

    fn arm(&mut self, case: &Case, arm: &ArmFigures) {
        let look = arm.arm.look();
        let mut row = format!(
            "<tr><td><span class=\"swatch\" style=\"background:{}\"></span>{}</td>",
            look.colour,
            escaped(look.label)
        );
        let share = |measure| {
            case.ratio(arm.arm, measure).map_or_else(
                || ABSENT.to_owned(),
                |ratio| format!("{:.0}", ratio * 100.0),
            )
        };
        for text in [
            with_quartiles(arm, Measure::FirstByte, number::seconds),
            share(Measure::FirstByte),
            with_quartiles(arm, Measure::Handshake, number::seconds),
            with_quartiles(arm, Measure::TlsBytes, number::count),
            share(Measure::TlsBytes),
            with_quartiles(arm, Measure::LinkBytes, number::count),
            share(Measure::LinkBytes),
            with_quartiles(arm, Measure::Packets, number::count),
            median(arm, Measure::OverFloor, number::count),
            median(arm, Measure::FloorRatio, |ratio| format!("{ratio:.2}")),
            with_quartiles(arm, Measure::Cpu, number::count),
            median(arm, Measure::Memory, number::count),
            trials(arm),
        ] {
            row.push_str(&format!("<td class=\"n\">{text}</td>"));
        }
        row.push_str("</tr>");
        self.raw(&row);
    }

    fn list(&mut self, heading: &str, element: &str, items: &[String]) {
        self.heading(heading);
        self.raw(&format!("<{element}>"));
        for item in items {
            self.raw(&format!("<li>{}</li>", escaped(item)));
        }
        self.raw(&format!("</{element}>"));
    }

    fn failures(&mut self, cases: &[Case]) {
        let failures = caveats::failures(cases);
        if failures.is_empty() {
            self.heading("Failures");
            self.raw("<p>None.</p>");
        } else {
            self.list("Failures", "ul", &failures);
        }
    }
}

/// Processors, kernel and programs of a run.
fn machine(info: &RunInfo) -> String {
    let mut words = info.machine.clone();
    for program in &info.programs {
        words.push_str(&format!(", {} {}", program.name, program.version));
    }
    if let Some(profile) = &info.profile {
        words.push_str(&format!(", build: {profile}"));
    }
    words
}

fn with_quartiles(arm: &ArmFigures, measure: Measure, write: fn(f64) -> String) -> String {
    let Some(spread) = arm.spread(measure) else {
        return ABSENT.to_owned();
    };
    let (lower, upper) = (write(spread.low), write(spread.high));
    let median = write(spread.median);
    if lower == upper {
        median
    } else {
        format!("{median}<small>{lower}–{upper}</small>")
    }
}

fn median(arm: &ArmFigures, measure: Measure, write: fn(f64) -> String) -> String {
    arm.spread(measure)
        .map_or_else(|| ABSENT.to_owned(), |spread| write(spread.median))
}

fn trials(arm: &ArmFigures) -> String {
    let mut text = arm.trials.to_string();
    for (count, what) in [(arm.failed, "failed"), (arm.differing, "differing")] {
        if count > 0 {
            text.push_str(&format!("<small class=\"bad\">{count} {what}</small>"));
        }
    }
    text
}
