//! Each command: arguments become options, and the library does the work and prints.

use std::io::Write as _;
use std::process::ExitCode;

use tandem_cost_lab::{CostOptions, Part};
use tandem_lab::{
    Captures, DemoOptions, DownOptions, DownScope, InteropOptions, LinkOptions, LosingOptions,
    ProfileOptions, RunOptions, ShellOptions, SoakOptions, SurviveOptions, Through, UpOptions,
    VisitsOptions,
};
use tandem_mctls_lab::MctlsOptions;
use tandem_report::ReportOptions;
use tandem_split_lab::{SplitClientsOptions, SplitOptions, SplitSimOptions};
use tandem_testbed::{Effort, LabError, LinkSpec, programs};

use crate::cli::{
    CostArgs, CostPart, DemoArgs, DownArgs, InteropArgs, LabCommand, LinkArgs, LinkSpecArgs,
    LosingProxyArgs, MctlsArgs, ProfileArgs, ReportArgs, RunArgs, ShellArgs, SoakArgs, SplitArgs,
    SplitClientsArgs, SplitSimArgs, SurviveArgs, UpArgs, VisitsArgs,
};
use crate::exit::Failure;

/// What the lab emulates where neither a name nor figures are given: the thesis's slowest link.
const DEFAULT_LINK: &str = "iridium";

pub(crate) fn run(command: LabCommand) -> Result<ExitCode, Failure> {
    tandem_daemon::logging::start(Some("warn"), None)?;
    let done = |()| ExitCode::SUCCESS;
    match command {
        LabCommand::Demo(arguments) => demo(arguments).map(done),
        LabCommand::Run(arguments) => run_experiments(arguments).map(done),
        LabCommand::Report(arguments) => report(arguments).map(done),
        LabCommand::Interop(arguments) => interop(arguments).map(done),
        LabCommand::SplitClients(arguments) => split_clients(arguments).map(done),
        LabCommand::Soak(arguments) => soak(arguments).map(done),
        LabCommand::Profile(arguments) => profile(arguments).map(done),
        LabCommand::Survive(arguments) => survive(arguments).map(done),
        LabCommand::Visits(arguments) => visits(arguments).map(done),
        LabCommand::Cost(arguments) => cost(arguments).map(done),
        LabCommand::Split(arguments) => split(arguments).map(done),
        LabCommand::SplitSim(arguments) => split_sim(arguments).map(done),
        LabCommand::Mctls(arguments) => mctls(arguments).map(done),
        LabCommand::Up(arguments) => up(arguments).map(done),
        LabCommand::Shell(arguments) => shell(arguments),
        LabCommand::Down(arguments) => down(&arguments).map(done),
        LabCommand::Link(arguments) => link(arguments).map(done),
        LabCommand::LosingProxy(arguments) => losing_proxy(arguments).map(done),
    }
}

fn demo(arguments: DemoArgs) -> Result<(), Failure> {
    let DemoArgs { out, link, quick } = arguments;
    let effort = if quick { Effort::Quick } else { Effort::Full };
    tandem_lab::demo(&DemoOptions {
        exe: programs::tandem()?,
        out,
        effort,
        link,
    })?;
    Ok(())
}

fn run_experiments(arguments: RunArgs) -> Result<(), Failure> {
    let RunArgs {
        files,
        quick,
        out,
        links,
        endpoints,
        arms,
        situations,
        trials,
        capture,
    } = arguments;
    let exe = programs::tandem()?;
    let all: Vec<RunOptions> = files
        .into_iter()
        .map(|file| RunOptions {
            file,
            effort: if quick { Effort::Quick } else { Effort::Full },
            out: out.clone(),
            exe: exe.clone(),
            links: links.clone(),
            endpoints: endpoints.clone(),
            arms: arms.clone(),
            situations: situations.clone(),
            trials,
            captures: if capture { Captures::On } else { Captures::Off },
        })
        .collect();
    tandem_lab::run_experiments(&all)?;
    Ok(())
}

fn report(arguments: ReportArgs) -> Result<(), Failure> {
    let ReportArgs { dir, out } = arguments;
    tandem_report::report(&ReportOptions { dir, out }).map_err(LabError::from)?;
    Ok(())
}

fn interop(arguments: InteropArgs) -> Result<(), Failure> {
    let InteropArgs { quick, out } = arguments;
    tandem_lab::interop(&InteropOptions {
        effort: if quick { Effort::Quick } else { Effort::Full },
        out,
        exe: programs::tandem()?,
    })?;
    Ok(())
}

fn split_clients(arguments: SplitClientsArgs) -> Result<(), Failure> {
    let SplitClientsArgs { quick, out } = arguments;
    tandem_split_lab::split_clients(&SplitClientsOptions {
        effort: if quick { Effort::Quick } else { Effort::Full },
        out,
    })?;
    Ok(())
}

fn profile(arguments: ProfileArgs) -> Result<(), Failure> {
    let ProfileArgs { seconds, out } = arguments;
    tandem_lab::profile(&ProfileOptions {
        seconds,
        out,
        exe: programs::tandem()?,
    })?;
    Ok(())
}

fn survive(arguments: SurviveArgs) -> Result<(), Failure> {
    let SurviveArgs { tries, links, out } = arguments;
    tandem_lab::survive(&SurviveOptions {
        tries,
        links,
        out,
        exe: programs::tandem()?,
    })?;
    Ok(())
}

fn cost(arguments: CostArgs) -> Result<(), Failure> {
    let CostArgs {
        quick,
        servers,
        parts,
        rounds,
        out,
    } = arguments;
    let part = |part: &CostPart| match part {
        CostPart::Servers => Part::Servers,
        CostPart::Processes => Part::Processes,
        CostPart::Phases => Part::Phases,
        CostPart::Keys => Part::Keys,
        CostPart::Bars => Part::Bars,
    };
    tandem_cost_lab::cost(&CostOptions {
        effort: if quick { Effort::Quick } else { Effort::Full },
        servers,
        parts: parts.iter().map(part).collect(),
        rounds,
        out,
    })?;
    Ok(())
}

fn visits(arguments: VisitsArgs) -> Result<(), Failure> {
    let VisitsArgs {
        file,
        tariffs,
        links,
        visits,
        trials,
        out,
    } = arguments;
    tandem_lab::visits(&VisitsOptions {
        file,
        tariffs,
        links,
        visits,
        trials,
        out,
        exe: programs::tandem()?,
    })?;
    Ok(())
}

fn split(arguments: SplitArgs) -> Result<(), Failure> {
    let SplitArgs {
        quick,
        parts,
        logs,
        seed,
        out,
    } = arguments;
    tandem_split_lab::split(&SplitOptions {
        effort: if quick { Effort::Quick } else { Effort::Full },
        parts,
        out,
        exe: programs::tandem()?,
        logs,
        seed,
    })?;
    Ok(())
}

fn split_sim(arguments: SplitSimArgs) -> Result<(), Failure> {
    let SplitSimArgs {
        clients,
        volunteers,
        seed,
        rows,
        out,
    } = arguments;
    tandem_split_lab::split_sim(&SplitSimOptions {
        rows,
        clients,
        volunteers,
        seed,
        out,
    })?;
    Ok(())
}

fn mctls(arguments: MctlsArgs) -> Result<(), Failure> {
    let MctlsArgs {
        quick,
        parts,
        seed,
        out,
    } = arguments;
    tandem_mctls_lab::mctls(&MctlsOptions {
        effort: if quick { Effort::Quick } else { Effort::Full },
        out,
        parts,
        seed,
    })?;
    Ok(())
}

fn soak(arguments: SoakArgs) -> Result<(), Failure> {
    let SoakArgs {
        handshakes,
        tunnel,
        consent,
        quick,
        seed,
        out,
    } = arguments;
    tandem_lab::soak(&SoakOptions {
        through: match (consent, tunnel) {
            (true, _) => Through::TunnelConsent,
            (false, true) => Through::Tunnel,
            (false, false) => Through::Packet,
        },
        effort: if quick { Effort::Quick } else { Effort::Full },
        handshakes: handshakes.unwrap_or(if quick { 300 } else { 100_000 }),
        seed,
        out,
        exe: programs::tandem()?,
    })?;
    Ok(())
}

fn up(arguments: UpArgs) -> Result<(), Failure> {
    tandem_lab::up(&UpOptions {
        link: link_spec(arguments.link),
    })?;
    Ok(())
}

fn shell(arguments: ShellArgs) -> Result<ExitCode, Failure> {
    let ShellArgs { host, command } = arguments;
    Ok(ExitCode::from(tandem_lab::shell(&ShellOptions {
        host,
        command,
    })?))
}

fn down(arguments: &DownArgs) -> Result<(), Failure> {
    let scope = if arguments.all {
        DownScope::Everything
    } else {
        DownScope::Leftovers
    };
    tandem_lab::down(&DownOptions { scope })?;
    Ok(())
}

fn link(arguments: LinkArgs) -> Result<(), Failure> {
    let LinkArgs {
        client_side,
        server_side,
        seed,
        capture,
        link,
    } = arguments;
    tandem_lab::link(&LinkOptions {
        client_side: client_side.parse()?,
        server_side: server_side.parse()?,
        link: link_spec(link),
        capture,
        seed,
    })?;
    Ok(())
}

fn losing_proxy(arguments: LosingProxyArgs) -> Result<(), Failure> {
    let LosingProxyArgs { link, key, wire } = arguments;
    tandem_lab::losing_proxy(LosingOptions { link, key, wire }, || {
        // Nobody waits any more where standard output is closed.
        let mut out = std::io::stdout();
        drop(writeln!(out, "ready").and_then(|()| out.flush()));
    })?;
    Ok(())
}

/// A named link, or figures, which win over a name's; where some are missing and nothing is named,
/// the default link's.
fn link_spec(arguments: LinkSpecArgs) -> LinkSpec {
    let LinkSpecArgs {
        link,
        up,
        down,
        delay,
        loss,
        mtu,
        queue,
    } = arguments;
    let is_complete = up.is_some() && down.is_some() && delay.is_some();
    let unnamed = if is_complete { "custom" } else { DEFAULT_LINK };
    LinkSpec {
        name: link.unwrap_or_else(|| unnamed.to_owned()),
        up,
        down,
        delay_ms: delay,
        loss_percent: loss,
        mtu,
        queue_bytes: queue,
    }
}
