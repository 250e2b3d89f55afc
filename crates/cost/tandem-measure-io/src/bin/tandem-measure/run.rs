//! From arguments to results: plans, runs, and what is written of them.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use tandem_measure::{Load, Mix, Outcome, Percent, RateSearch, advice};
use tandem_measure_io::{
    Cipher, Group, Identity, MeasureError, Moment, Offers, Plan, Resumption, Target, TlsVersion,
    Trust, comparison, measure, origin, page, table,
};

use crate::cli::{CipherName, Cli, GroupName, KeepAlive, Means, Version};
use crate::exit::Failure;

/// The rate at which a search starts, connections a second.
const FIRST_RATE: f64 = 50.0;
/// After so many times the bound a search gives a connection up: its rate is too high in any case.
const GIVE_UP: u32 = 10;
/// A run of a search lasts until so many connections are due: of fewer, no rate can be judged.
const JUDGED_BY: f64 = 10.0;

/// Does what the arguments say.
pub(crate) fn run(cli: &Cli) -> Result<(), Failure> {
    let mix = mix(cli)?;
    if let Some(folder) = &cli.write_files {
        return write_files(&mix, folder);
    }
    let plan = plan(cli, mix)?;
    if let Some(folder) = &cli.out {
        fs::create_dir_all(folder).map_err(file(folder))?;
    }
    let mut outcomes = Vec::new();
    for (plan, share) in runs(cli, &plan) {
        let outcome = match cli.find_rate {
            true => found(&plan, share, cli.p99)?,
            false => measured(&plan, share, &format!("{} % reuse", share.value()))?,
        };
        if cli.json {
            print(&format!("{}\n", serde_json::to_string(&outcome)?))?;
        } else if !cli.advise || outcomes.is_empty() {
            print(&format!("{}\n", table(&outcome)))?;
        }
        let is_first = outcomes.is_empty();
        // What the server does not have in common is no result of a comparison.
        let is_result = !cli.advise || is_first || !outcome.is_empty();
        let is_over = cli.advise && is_first && outcome.is_empty();
        if is_result {
            outcomes.push(outcome);
        }
        if is_over {
            break;
        }
    }
    if outcomes.len() > 1 && !cli.json {
        print(&comparison(&outcomes))?;
    }
    let advice = advice(&outcomes);
    if !cli.json && !advice.is_empty() {
        let lines: String = advice.iter().map(|line| format!("  - {line}\n")).collect();
        print(&format!(
            "\nWhat would help, as far as it was measured:\n{lines}"
        ))?;
    }
    if let Some(folder) = &cli.out {
        write_results(folder, &outcomes)?;
        if !cli.json {
            print(&format!("\n{}\n", folder.join("report.html").display()))?;
        }
    }
    match outcomes.iter().find(|outcome| outcome.is_empty()) {
        // The first remark says that nothing was measured, the second why.
        Some(empty) => Err(Failure::NoAnswer(
            empty.remarks().into_iter().nth(1).unwrap_or_default(),
        )),
        None => Ok(()),
    }
}

/// What is measured, one after the other.
fn runs(cli: &Cli, plan: &Plan) -> Vec<(Plan, Percent)> {
    let of = |share: &Percent| (plan.clone(), *share);
    match cli.reuse_sweep.as_slice() {
        [] if cli.advise => advised(plan),
        [] => vec![of(&cli.reuse)],
        several => several.iter().map(of).collect(),
    }
}

/// The plan as it is, and each with one thing changed that a server can choose, too.
fn advised(plan: &Plan) -> Vec<(Plan, Percent)> {
    let with = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan
    };
    let none = Percent::ZERO;
    let mut runs = vec![(plan.clone(), none)];
    let kept = with(&|plan| plan.keep_alive = Some(10));
    runs.push((kept, none));
    if !plan.target.has_tls() {
        return runs;
    }
    for version in [TlsVersion::V12, TlsVersion::V13] {
        runs.push((with(&|plan| plan.tls = Some(version)), none));
    }
    for group in Group::ALL {
        runs.push((with(&|plan| plan.offers.group = Some(group)), none));
    }
    for cipher in Cipher::ALL {
        runs.push((with(&|plan| plan.offers.cipher = Some(cipher)), none));
    }
    for means in [Resumption::Any, Resumption::Id, Resumption::Ticket] {
        runs.push((with(&|plan| plan.resumption = means), Percent::ALL));
    }
    runs
}

/// The run at the highest rate that holds the bound; where none does, the last one.
fn found(plan: &Plan, share: Percent, bound: Duration) -> Result<Outcome, Failure> {
    let first = match plan.load {
        Load::Rate(rate) => rate,
        Load::Connections(_) => FIRST_RATE,
    };
    let mut search = RateSearch::new(first, bound);
    let mut best = None;
    let mut last = None;
    while let Some(rate) = search.next_rate() {
        let mut plan = plan.clone();
        plan.load = Load::Rate(rate);
        plan.duration = plan.duration.max(Duration::from_secs_f64(JUDGED_BY / rate));
        plan.timeout = plan
            .timeout
            .min((GIVE_UP * bound).max(Duration::from_secs(1)));
        let what = format!("{} % reuse, {rate:.0} connections/s", share.value());
        let outcome = measured(&plan, share, &what)?;
        let has_answered = !outcome.is_empty();
        if search.tried(&outcome) {
            best = Some(outcome);
        } else {
            last = Some(outcome);
        }
        // Whatever the rate, it would not answer.
        if !has_answered && best.is_none() {
            break;
        }
    }
    let mut outcome = match best.or(last) {
        Some(outcome) => outcome,
        None => measured(plan, share, "")?,
    };
    outcome.find_rate = Some(search.found());
    Ok(outcome)
}

/// One run, with its progress on a terminal.
fn measured(plan: &Plan, share: Percent, name: &str) -> Result<Outcome, Failure> {
    let mut terminal = io::stderr().is_terminal().then(io::stderr);
    let duration = plan.duration.as_secs_f64();
    let outcome = measure(plan, share, |moment: Moment| {
        if let Some(terminal) = &mut terminal {
            let elapsed = moment.elapsed.as_secs_f64();
            let what = match moment.is_measured {
                false => format!("warming up, {elapsed:.1} s"),
                true => format!("measuring, {elapsed:.1} of {duration:.1} s"),
            };
            // Progress that cannot be shown is left out.
            let _ = write!(
                terminal,
                "\r\x1b[K{name}: {what}, {:.0} requests/s, {} failed",
                moment.rate, moment.failed
            );
        }
    })?;
    if let Some(terminal) = &mut terminal {
        let _ = write!(terminal, "\r\x1b[K");
    }
    Ok(outcome)
}

fn mix(cli: &Cli) -> Result<Mix, Failure> {
    let Some(name) = &cli.mix else {
        return Ok(Mix::Page);
    };
    let wrong = |source| MeasureError::Mix {
        name: name.clone(),
        source,
    };
    if let Some(mix) = Mix::named(name).map_err(wrong)? {
        return Ok(mix);
    }
    let text = fs::read_to_string(name).map_err(file(name.as_ref()))?;
    let origin = cli.url.as_deref().map_or("", origin);
    Ok(Mix::paths(&text, origin).map_err(wrong)?)
}

fn plan(cli: &Cli, mix: Mix) -> Result<Plan, Failure> {
    let url = cli.url.as_deref().unwrap_or_default();
    let keep_alive = match cli.keep_alive {
        KeepAlive::Requests(number) => Some(number),
        KeepAlive::All => None,
    };
    if keep_alive.is_none() && (cli.rate.is_some() || cli.find_rate) {
        return Err(MeasureError::Options(
            "--keep-alive all needs --connections: with a rate each connection has to end",
        )
        .into());
    }
    let has_reuse = cli.reuse > Percent::ZERO || !cli.reuse_sweep.is_empty();
    let resumption = match (cli.resumption, has_reuse) {
        (Some(Means::None), true) => {
            return Err(MeasureError::Options(
                "--resumption none leaves nothing to reuse; leave out --reuse",
            )
            .into());
        }
        (Some(Means::None) | None, false) => Resumption::None,
        (Some(Means::Any) | None, _) => Resumption::Any,
        (Some(Means::Id), _) => Resumption::Id,
        (Some(Means::Ticket), _) => Resumption::Ticket,
        (Some(Means::Psk), _) => Resumption::Psk,
        (Some(Means::ZeroRtt), _) => Resumption::ZeroRtt,
    };
    let trust = match (&cli.ca, cli.insecure) {
        (_, true) => Trust::Anybody,
        (Some(file), false) => Trust::File(file.clone()),
        (None, false) => Trust::System,
    };
    let seed = match cli.seed {
        Some(seed) => seed,
        None => getrandom::u32()
            .map(u64::from)
            .map_err(|error| MeasureError::System {
                what: "a random number",
                source: io::Error::other(error.to_string()),
            })?,
    };
    Ok(Plan {
        target: Target::of(url)?,
        load: cli
            .rate
            .map_or(Load::Connections(cli.connections), Load::Rate),
        duration: cli.duration,
        timeout: cli.timeout,
        tls: cli.tls.map(|version| match version {
            Version::V12 => TlsVersion::V12,
            Version::V13 => TlsVersion::V13,
        }),
        resumption,
        offers: offers(cli),
        mix,
        mix_name: cli.mix.clone().unwrap_or_else(|| "the URL".to_owned()),
        keep_alive,
        seed,
        trust,
    })
}

fn offers(cli: &Cli) -> Offers {
    let identity = cli.client_cert.clone().zip(cli.client_key.clone());
    Offers {
        group: cli.group.map(|group| match group {
            GroupName::X25519 => Group::X25519,
            GroupName::P256 => Group::P256,
            GroupName::P384 => Group::P384,
            GroupName::X25519MlKem768 => Group::X25519MlKem768,
        }),
        cipher: cli.cipher.map(|cipher| match cipher {
            CipherName::Aes128 => Cipher::Aes128,
            CipherName::Aes256 => Cipher::Aes256,
            CipherName::ChaCha20 => Cipher::ChaCha20,
        }),
        identity: identity.map(|(certificates, key)| Identity { certificates, key }),
    }
}

fn write_files(mix: &Mix, folder: &Path) -> Result<(), Failure> {
    let files = mix.files();
    if files.is_empty() {
        return Err(MeasureError::Options(
            "--write-files needs a mix with files of its own: specweb96, modern or fixed:BYTES",
        )
        .into());
    }
    fs::create_dir_all(folder).map_err(file(folder))?;
    for spec in files {
        let path = folder.join(&spec.name);
        // Nothing that compresses to nothing, should the server compress.
        let length = usize::try_from(spec.bytes).unwrap_or(usize::MAX);
        let mut state = spec.bytes;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .take(length)
        .collect();
        fs::write(&path, bytes).map_err(file(&path))?;
    }
    print(&format!("{}\n", folder.display()))
}

fn write_results(folder: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    let mut lines = String::new();
    for outcome in outcomes {
        lines.push_str(&serde_json::to_string(outcome)?);
        lines.push('\n');
    }
    for (name, text) in [("results.jsonl", lines), ("report.html", page(outcomes))] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(file(&path))?;
    }
    Ok(())
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> MeasureError {
    let path = path.to_owned();
    move |source| MeasureError::File { path, source }
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(Failure::Output)
}
