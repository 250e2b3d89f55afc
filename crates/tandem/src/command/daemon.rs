//! `tandem client-side` and `tandem server-side`: flags and file become settings, settings the
//! configuration of a mode, and that mode's crate runs it.

pub(super) mod tunnel;

use std::path::PathBuf;

use tandem_packet_io::config::{self, Config, Role};
use tandem_packet_io::daemon;

use crate::cli::{ClientSideArgs, CommonArgs, LineArgs, PacketArgs, ServerSideArgs, TuningArgs};
use crate::exit::Failure;
use crate::output;
use crate::settings::{Chosen, Mode, Settings};
use tandem_daemon::logging;

/// What is to be done with the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Run the daemon.
    Run,
    /// Show what would be done to the firewall.
    DryRun,
}

pub(crate) fn client_side(arguments: ClientSideArgs) -> Result<(), Failure> {
    let purpose = purpose(&arguments.common);
    run(Role::ClientSide, client_side_settings(arguments)?, purpose)
}

pub(crate) fn server_side(arguments: ServerSideArgs) -> Result<(), Failure> {
    let purpose = purpose(&arguments.common);
    run(Role::ServerSide, server_side_settings(arguments)?, purpose)
}

/// What the flags and the file of a client side say.
pub(super) fn client_side_settings(arguments: ClientSideArgs) -> Result<Settings, Failure> {
    let ClientSideArgs {
        common,
        packet,
        tunnel,
        tuning,
    } = arguments;
    let file = common.config.clone();
    let flags = Settings {
        peer: tunnel.peer,
        server_key: tunnel.server_key,
        from: tunnel.from,
        intercept: tunnel.intercept,
        udp: tunnel.udp,
        when_down: tunnel.when_down,
        socks: tunnel.socks,
        http_proxy: tunnel.http_proxy,
        rule: tunnel.rule,
        client_limit: tunnel.client_limit,
        tariff: tunnel.tariff,
        // As --insecure-no-key below.
        tell_client_address: tunnel.tell_client_address.then_some(true),
        renew_ahead: tunnel.renew_ahead.then_some(true),
        dns: tunnel.dns,
        dns_from: tunnel.dns_from,
        ..settings(common, packet, tunnel.line, tuning)
    };
    with_file(flags, file)
}

/// What the flags and the file of a server side say.
pub(super) fn server_side_settings(arguments: ServerSideArgs) -> Result<Settings, Failure> {
    let ServerSideArgs {
        common,
        packet,
        tunnel,
        tuning,
    } = arguments;
    let file = common.config.clone();
    let flags = Settings {
        listen: tunnel.listen,
        clients: tunnel.clients,
        shared_store: tunnel.shared_store,
        shared_store_password: tunnel.shared_store_password,
        shared_store_trust: tunnel.shared_store_trust,
        allow: tunnel.allow,
        out: tunnel.out,
        client_networks: tunnel.client_networks,
        dns_server: tunnel.dns_server,
        ..settings(common, packet, tunnel.line, tuning)
    };
    with_file(flags, file)
}

fn with_file(flags: Settings, file: Option<PathBuf>) -> Result<Settings, Failure> {
    match file {
        Some(path) => Ok(flags.over(Settings::load(&path)?)),
        None => Ok(flags),
    }
}

fn purpose(common: &CommonArgs) -> Purpose {
    if common.dry_run {
        Purpose::DryRun
    } else {
        Purpose::Run
    }
}

fn run(role: Role, said: Settings, purpose: Purpose) -> Result<(), Failure> {
    logging::start(said.log.as_deref(), said.log_format.as_deref())?;
    let Chosen { mode, reason } = said.mode(role)?;
    match (mode, purpose) {
        (Mode::Packet, _) => packet(Config::resolve(role, said.into_packet(reason))?, purpose),
        (Mode::Tunnel, Purpose::Run) => tunnel::run(role, said, reason),
        (Mode::Tunnel, Purpose::DryRun) => output::print(&tunnel::dry_run(role, said)?),
    }
}

fn packet(config: Config, purpose: Purpose) -> Result<(), Failure> {
    match purpose {
        Purpose::DryRun => {
            // A dry run finds fault with the settings as the start would: that is what it is asked
            // for.
            match config.mode {
                config::Mode::Packet => {
                    let _key = config.key.load()?;
                }
                config::Mode::PassThrough => {}
            }
            output::print(&daemon::dry_run(&config)?)
        }
        Purpose::Run => Ok(daemon::run(config, say_ready)?),
    }
}

/// What scripts wait for. One that has closed its end waits no more, and the daemon runs all the
/// same.
fn say_ready() {
    drop(output::print("ready"));
}

/// The flags that both sides have, as settings. Every one is named here, so that none is forgotten.
fn settings(
    common: CommonArgs,
    packet: PacketArgs,
    line: LineArgs,
    tuning: TuningArgs,
) -> Settings {
    let CommonArgs {
        config: _,
        mode,
        link,
        key,
        ports,
        store,
        client_certificates,
        admin,
        log,
        log_format,
        dry_run: _,
    } = common;
    let PacketArgs {
        insecure_no_key,
        wire,
    } = packet;
    let LineArgs {
        link_rate,
        link_rtt,
        authorities,
        handshake_keys,
        prefer,
        whole_handshakes,
    } = line;
    let TuningArgs {
        hold_packets,
        hold_bytes,
        hold_ms,
        ack_hold_ms,
        max_flows,
        queue,
        leave_mark,
        inject_mark,
        cii_extension,
        filter_one_in,
        mcveety_cpi,
        mcveety_certificate,
    } = tuning;
    Settings {
        mode,
        link,
        key,
        ports,
        store,
        client_certificates,
        admin,
        log,
        log_format,
        wire,
        // A flag can only be given: not given, it leaves the word to the file.
        insecure_no_key: insecure_no_key.then_some(true),
        link_rate,
        link_rtt,
        authorities,
        handshake_keys,
        prefer,
        whole_handshakes: whole_handshakes.then_some(true),
        hold_packets,
        hold_bytes,
        hold_ms,
        ack_hold_ms,
        max_flows,
        queue,
        leave_mark,
        inject_mark,
        cii_extension,
        filter_one_in,
        mcveety_cpi,
        mcveety_certificate,
        ..Settings::default()
    }
}
