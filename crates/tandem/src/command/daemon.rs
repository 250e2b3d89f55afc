//! `tandem client-side` and `tandem server-side`: flags and file become settings, settings a
//! configuration, and `tandem-packet-io` runs it.

use tandem_packet_io::config::{Config, Mode, Role, Settings};
use tandem_packet_io::daemon;

use crate::cli::DaemonArgs;
use crate::exit::Failure;
use crate::output;
use tandem_daemon::logging;

pub(crate) fn run(role: Role, arguments: DaemonArgs) -> Result<(), Failure> {
    let DaemonArgs {
        config: file,
        dry_run,
        ..
    } = &arguments;
    let (file, dry_run) = (file.clone(), *dry_run);
    let flags = settings(arguments);
    let said = match file {
        Some(path) => flags.over(Settings::load(&path)?),
        None => flags,
    };
    logging::start(said.log.as_deref(), said.log_format.as_deref())?;
    let config = Config::resolve(role, said)?;
    if dry_run {
        // A dry run finds fault with the settings as the start would: that is what it is asked for.
        match config.mode {
            Mode::Packet => {
                let _key = config.key.load()?;
            }
            Mode::PassThrough => {}
        }
        return output::print(&daemon::dry_run(&config)?);
    }
    // What scripts wait for. One that has closed its end waits no more, and the daemon runs all the
    // same.
    daemon::run(config, || drop(output::print("ready")))?;
    Ok(())
}

/// The flags as settings. Every flag is named here, so that none is forgotten.
fn settings(arguments: DaemonArgs) -> Settings {
    let DaemonArgs {
        config: _,
        link,
        key,
        insecure_no_key,
        mode,
        wire,
        client_certificates,
        ports,
        store,
        admin,
        dry_run: _,
        logging,
        tuning,
    } = arguments;
    Settings {
        link,
        mode,
        wire,
        client_certificates,
        cii_extension: tuning.cii_extension,
        filter_one_in: tuning.filter_one_in,
        mcveety_cpi: tuning.mcveety_cpi,
        mcveety_certificate: tuning.mcveety_certificate,
        key,
        // A flag can only be given: not given, it leaves the word to the file.
        insecure_no_key: insecure_no_key.then_some(true),
        ports,
        store,
        admin,
        hold_packets: tuning.hold_packets,
        hold_bytes: tuning.hold_bytes,
        hold_ms: tuning.hold_ms,
        ack_hold_ms: tuning.ack_hold_ms,
        max_flows: tuning.max_flows,
        queue: tuning.queue,
        leave_mark: tuning.leave_mark,
        inject_mark: tuning.inject_mark,
        log: logging.log,
        log_format: logging.log_format,
    }
}
