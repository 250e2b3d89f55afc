//! `tandem doctor`: looks at everything that a proxy needs, and says what keeps it from saving.
//!
//! Is not: a repair. Nothing is changed; what the daemons would refuse at their start is found here
//! without starting one.
//!
//! Invariant: nothing crosses the link but by `--probe`; a shared store is asked, which is not over
//! the link, and nothing in it is changed.

mod counts;
mod files;
mod machine;
mod peer;
mod report;
#[cfg(feature = "shared-store")]
mod shared_store;

use std::net::SocketAddr;

use tandem_packet_io::config::{self, Config, Role, role_name};
use tandem_packet_io::daemon as packet_io;
use tandem_packet_io::status::{self, Status};
use tandem_tunnel::WayOut;

use super::daemon::{client_side_settings, server_side_settings, tunnel};
use super::status::{PATIENCE, default_addresses};
use crate::cli::{DoctorArgs, DoctorSide};
use crate::exit::Failure;
use crate::output;
use crate::settings::{Chosen, Mode, Settings};
use report::{Check, Report};

/// Whether something may cross the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probing {
    Allowed,
    Forbidden,
}

/// Whether the daemon that is looked at answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Daemon {
    Answers,
    IsSilent,
}

pub(crate) fn run(arguments: DoctorArgs) -> Result<(), Failure> {
    let DoctorArgs {
        json,
        probe,
        admin,
        side,
    } = arguments;
    let probing = if probe {
        Probing::Allowed
    } else {
        Probing::Forbidden
    };
    let report = match side {
        Some(DoctorSide::ClientSide(said)) => {
            side_report(Role::ClientSide, client_side_settings(*said)?, probing)?
        }
        Some(DoctorSide::ServerSide(said)) => {
            side_report(Role::ServerSide, server_side_settings(*said)?, probing)?
        }
        None => running_report(admin),
    };
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&output::harmless(&report.text()))?;
    }
    match report.problems() {
        0 => Ok(()),
        1 => Err(Failure::Unwell("a problem".to_owned())),
        several => Err(Failure::Unwell(format!("{several} problems"))),
    }
}

/// Of a side with these settings.
fn side_report(role: Role, said: Settings, probing: Probing) -> Result<Report, Failure> {
    let Chosen { mode, reason } = said.mode(role)?;
    match (mode, role) {
        (Mode::Packet, _) => packet(&Config::resolve(role, said.into_packet(reason))?),
        (Mode::Tunnel, Role::ClientSide) => tunnel_client_side(&said, probing),
        (Mode::Tunnel, Role::ServerSide) => tunnel_server_side(&said),
    }
}

fn packet(config: &Config) -> Result<Report, Failure> {
    let role = role_name(config.role);
    let mut report = Report::new(format!("{role} on {}, packet mode", config.link));
    report.add(machine::clock());
    report.add(machine::link(&config.link));
    report.add(machine::privilege());
    report.add(files::pair_key(&config.key));
    report.add(files::store(&config.store));
    let asked = ask(config.admin, role, config.link.as_str());
    let rules = packet_io::rule_set(config);
    report.extend(machine::rules(&rules, &config.ports, asked.daemon()));
    report.extend(asked.checks);
    if let Some(status) = &asked.status {
        report.extend(counts::packet(status));
    }
    Ok(report)
}

fn tunnel_client_side(said: &Settings, probing: Probing) -> Result<Report, Failure> {
    let role = Role::ClientSide;
    tunnel::check(role, said)?;
    let peer = tunnel::peer(said)?;
    let mut report = Report::new(format!("client-side of {peer}, tunnel mode"));
    report.add(machine::clock());
    let link = tunnel::link(said)?;
    let (key_check, key) = files::tunnel_key(said.key.as_deref());
    report.add(key_check);
    report.add(files::store(&tunnel_store(role, said)?));
    let asked = ask(
        config::admin(role, said.admin.as_deref())?,
        role_name(role),
        &peer.to_string(),
    );
    if let Some(link) = &link {
        report.extend(machine::tunnel_link(link, asked.daemon()));
    }
    report.extend(asked.checks);
    report.add(peer::path(peer));
    let is_up = asked.status.as_ref().is_some_and(counts::has_tunnel);
    match (probing, key) {
        (Probing::Allowed, Some(key)) if !is_up => {
            let server = tunnel::server(said)?;
            report.add(peer::reach(&key, server, peer, &tunnel::line(said)?)?);
        }
        (Probing::Forbidden, _) if asked.status.is_none() => report.add(peer::not_tried()),
        _ => {}
    }
    if let Some(status) = &asked.status {
        report.extend(counts::tunnel(status));
    }
    Ok(report)
}

fn tunnel_server_side(said: &Settings) -> Result<Report, Failure> {
    let role = Role::ServerSide;
    tunnel::check(role, said)?;
    let listen = tunnel::listen(said)?;
    let way_out = tunnel::way_out(said)?;
    let mut report = Report::new(format!("server-side on {listen}, tunnel mode"));
    report.add(machine::clock());
    let (key_check, key) = files::tunnel_key(said.key.as_deref());
    report.add(key_check);
    report.add(files::store(&tunnel_store(role, said)?));
    report.extend(shared_store(said, key.as_ref())?);
    let asked = ask(
        config::admin(role, said.admin.as_deref())?,
        role_name(role),
        &listen.to_string(),
    );
    match way_out {
        WayOut::Own | WayOut::ProxyV2(_) => {}
        WayOut::Client(_) => {
            report.extend(machine::tunnel_return_path(listen.port(), asked.daemon()));
        }
    }
    report.extend(asked.checks);
    if let Some(status) = &asked.status {
        report.extend(counts::tunnel(status));
    }
    Ok(report)
}

/// Of the server that it shares with others, if there is one.
#[cfg(feature = "shared-store")]
fn shared_store(said: &Settings, key: Option<&config::Key>) -> Result<Option<Check>, Failure> {
    let shared = tunnel::shared_store_server(said)?;
    Ok(shared.map(|access| shared_store::check(&access, key)))
}

/// The same in a program that knows none: its settings have been refused.
#[cfg(not(feature = "shared-store"))]
fn shared_store(_: &Settings, _: Option<&config::Key>) -> Result<Option<Check>, Failure> {
    Ok(None)
}

fn tunnel_store(role: Role, said: &Settings) -> Result<std::path::PathBuf, Failure> {
    match &said.store {
        Some(directory) => Ok(directory.clone()),
        None => tunnel::default_store(role),
    }
}

/// Of whatever runs here.
fn running_report(admin: Option<SocketAddr>) -> Report {
    let addresses = match admin {
        Some(address) => vec![address],
        None => default_addresses().to_vec(),
    };
    let found = addresses
        .iter()
        .filter_map(|address| status::fetch(*address, PATIENCE).ok());
    let found: Vec<Status> = found.collect();
    let mut report = Report::new("the proxies that run here".to_owned());
    report.add(machine::clock());
    if found.is_empty() {
        let asked: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        report.add(Check::problem(
            "daemon",
            format!("nobody answers at {}", asked.join(" and ")),
            "start a proxy, or name its side and settings: `tandem doctor client-side --config …`",
        ));
    }
    for status in &found {
        report.add(answers(status));
        report.extend(counts::of(status));
    }
    report
}

/// What asking the daemon gave.
struct Asked {
    status: Option<Status>,
    checks: Vec<Check>,
}

impl Asked {
    fn daemon(&self) -> Daemon {
        match self.status {
            Some(_) => Daemon::Answers,
            None => Daemon::IsSilent,
        }
    }
}

/// Asks the daemon that should run in `role` at `place`: a link, or where the proxies meet.
fn ask(admin: Option<SocketAddr>, role: &str, place: &str) -> Asked {
    let only = |check| Asked {
        status: None,
        checks: vec![check],
    };
    let Some(admin) = admin else {
        return only(Check::warning(
            "daemon",
            "it has no admin port, so it cannot be asked",
            "give it one with --admin",
        ));
    };
    let status = match status::fetch(admin, PATIENCE) {
        Ok(status) => status,
        Err(error) => {
            let to_do = format!("start it: `systemctl start` its unit, or `tandem {role} …`");
            return only(Check {
                to_do: Some(to_do),
                ..Check::of_error("daemon", &error)
            });
        }
    };
    if status.role == role && status.link == place {
        let check = answers(&status);
        return Asked {
            checks: vec![check],
            status: Some(status),
        };
    }
    only(Check::problem(
        "daemon",
        format!(
            "at {admin} there is another one: {} on {}",
            status.role, status.link
        ),
        "give each proxy an --admin of its own, and name it here",
    ))
}

fn answers(status: &Status) -> Check {
    Check::ok(
        "daemon",
        format!(
            "{} on {}, {} mode, runs for {:.0} s (process {}, version {})",
            status.role,
            status.link,
            status.mode,
            status.uptime_seconds,
            status.pid,
            status.version
        ),
    )
}
