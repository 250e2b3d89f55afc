//! The two daemons of a soak: killed and restarted, with and without what their stores held, and
//! watched for growth.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use tandem_testbed::LabError;
use tandem_testbed::proxies::{self, Admin, Daemon, DaemonSpec, Mode, Strategy};
use tandem_testbed::topology::{Host, Topology};

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    fn host(self) -> Host {
        match self {
            Side::Client => Host::ClientSide,
            Side::Server => Host::ServerSide,
        }
    }
}

/// What of a store a restart finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreFate {
    Kept,
    Wiped,
}

/// What both daemons have counted, over all their lives. What a daemon counted between the last
/// look and its end is not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counted {
    /// Flights that left the server side as deltas.
    pub(crate) flights_written: u64,
    /// Of the clients' own, that left the client side as deltas; of a tunnel, their hellos.
    pub(crate) client_flights_written: u64,
    /// Session tickets that crossed as references.
    pub(crate) tickets_referred: u64,
    /// Bytes of flights that the client side rebuilt; of a tunnel, that the server side left out.
    pub(crate) rebuilt_bytes: u64,
    /// Deltas that the client side could not follow and said so.
    pub(crate) misses: u64,
    /// Bytes of originals that the server side sent after all.
    pub(crate) originals_bytes: u64,
    /// Chains that were learned, both sides.
    pub(crate) chains_learned: u64,
    /// Packets whose verdict was overdue: a bug of the daemon's.
    pub(crate) verdicts_overdue: u64,
    /// Flights of TLS 1.3 that a key has opened, both sides.
    pub(crate) flights_opened: u64,
    /// Of these, the ones that the other side has sealed again.
    pub(crate) flights_sealed: u64,
    /// Flights that a key was there for and did not open.
    pub(crate) flights_not_opened: u64,
    /// Keys that the server side has asked for.
    pub(crate) keys_asked: u64,
    /// Keys that were not there when they were looked for.
    pub(crate) keys_missing: u64,
}

/// One daemon at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Size {
    /// Seconds since its start.
    pub(crate) up_seconds: u64,
    /// Resident memory, KiB.
    pub(crate) resident_kib: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Lines of firewall rules in its namespace, IPv4 and IPv6.
    pub(crate) rules: u64,
    /// Bytes of its store's files.
    pub(crate) store_bytes: u64,
    /// Connections that it follows or relays.
    pub(crate) flows: u64,
}

#[derive(Debug)]
struct Seat {
    side: Side,
    daemon: Option<Daemon>,
    store: PathBuf,
    /// As it was counted at the last look.
    last: Counted,
}

/// Both daemons, until dropped.
#[derive(Debug)]
pub(crate) struct Pair {
    seats: [Seat; 2],
    exe: PathBuf,
    key: PathBuf,
    ports: String,
    mode: Mode,
    /// Of daemons that have ended.
    past: Counted,
}

impl Pair {
    /// Starts both.
    ///
    /// # Errors
    /// `Command` with a daemon's last words; `Io`, `Interrupted`.
    pub(crate) fn start(
        exe: &Path,
        topology: &Topology,
        ports: &str,
        mode: Mode,
    ) -> Result<Self, LabError> {
        let directory = topology.directory();
        let key = directory.join("key");
        proxies::write_key(&key)?;
        let seat = |side: Side| Seat {
            side,
            daemon: None,
            store: directory.join("store").join(side.host().name()),
            last: Counted::default(),
        };
        let mut pair = Self {
            seats: [seat(Side::Client), seat(Side::Server)],
            exe: exe.to_owned(),
            key,
            ports: ports.to_owned(),
            mode,
            past: Counted::default(),
        };
        // The client side of a tunnel looks for the other as soon as it runs.
        pair.restart(topology, Side::Server)?;
        pair.restart(topology, Side::Client)?;
        Ok(pair)
    }

    /// Kills one where it stands.
    pub(crate) fn kill(&mut self, topology: &Topology, side: Side) {
        // For its counters; one that does not answer takes them with it.
        let _ = self.look(topology, side);
        let seat = self.seat(side);
        if let Some(mut daemon) = seat.daemon.take() {
            daemon.kill();
        }
        let last = std::mem::take(&mut seat.last);
        self.past = self.past.plus(last);
    }

    /// Removes what a daemon that does not run has stored.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn wipe(&mut self, side: Side) -> Result<(), LabError> {
        match fs::remove_dir_all(&self.seat(side).store) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(LabError::io("wipe a store")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Starts one that does not run, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Pair::start`].
    pub(crate) fn restart(&mut self, topology: &Topology, side: Side) -> Result<(), LabError> {
        let (exe, key, ports) = (self.exe.clone(), self.key.clone(), self.ports.clone());
        let mode = self.mode;
        let seat = self.seat(side);
        let daemon = Daemon::start(
            topology,
            &DaemonSpec {
                exe: &exe,
                host: side.host(),
                mode,
                strategy: Strategy::Persistent,
                key: &key,
                store: &seat.store,
                ports: &ports,
                admin: Admin::On,
            },
        )?;
        daemon.wait_until_ready()?;
        seat.daemon = Some(daemon);
        Ok(())
    }

    /// Whether both say that a tunnel is up between them.
    pub(crate) fn has_tunnel(&self, topology: &Topology) -> bool {
        self.seats.iter().all(|seat| {
            let status = seat.daemon.as_ref().map(|daemon| daemon.status(topology));
            status.is_some_and(|status| {
                status.is_ok_and(|status| status.gauges.get("tunnels") > Some(&0))
            })
        })
    }

    /// What has been counted until now.
    pub(crate) fn counted(&mut self, topology: &Topology) -> Counted {
        for side in [Side::Client, Side::Server] {
            // One that is down or busy says nothing new.
            let _ = self.look(topology, side);
        }
        let [near, far] = &self.seats;
        self.past.plus(near.last).plus(far.last)
    }

    /// How large both are now, the client side first.
    ///
    /// # Errors
    /// `Command` where one does not answer.
    pub(crate) fn sizes(&mut self, topology: &Topology) -> Result<[Size; 2], LabError> {
        Ok([
            self.look(topology, Side::Client)?,
            self.look(topology, Side::Server)?,
        ])
    }

    /// Ends both as an operator does, and tells how many lines of rules are left.
    ///
    /// # Errors
    /// `Command` where one has died or does not end well.
    pub(crate) fn end(mut self, topology: &Topology) -> Result<u64, LabError> {
        for seat in &mut self.seats {
            if let Some(daemon) = &mut seat.daemon {
                daemon.end()?;
            }
        }
        Ok(rules(topology, Host::ClientSide) + rules(topology, Host::ServerSide))
    }

    fn seat(&mut self, side: Side) -> &mut Seat {
        match side {
            Side::Client => &mut self.seats[0],
            Side::Server => &mut self.seats[1],
        }
    }

    fn look(&mut self, topology: &Topology, side: Side) -> Result<Size, LabError> {
        let mode = self.mode;
        let seat = self.seat(side);
        let Some(daemon) = &seat.daemon else {
            return Ok(Size::default());
        };
        let status = daemon.status(topology)?;
        let of = |name: &str| status.counters.get(name).copied().unwrap_or(0);
        let mut counted = Counted {
            chains_learned: of("packet_chains_learned"),
            verdicts_overdue: of("verdicts_overdue"),
            ..Counted::default()
        };
        let is_tunnel = matches!(
            mode,
            Mode::Tunnel(_)
                | Mode::TunnelWithKeys(_)
                | Mode::TunnelWithClientKeys(..)
                | Mode::TunnelWithAllKeys(..)
                | Mode::Quic(_)
        );
        if is_tunnel {
            counted.flights_opened = of("tunnel_flights_opened");
            counted.flights_sealed = of("tunnel_flights_sealed");
            counted.flights_not_opened = ["unproved", "record", "form"]
                .map(|why| of(&format!("tunnel_flights_not_opened_{why}")))
                .iter()
                .sum();
            counted.keys_asked = of("tunnel_record_keys_asked");
            counted.keys_missing = of("tunnel_record_keys_missing");
        }
        match seat.side {
            Side::Client if is_tunnel => {
                counted.client_flights_written = of("tunnel_hellos_written");
                counted.misses = ["not_held", "malformed", "check"]
                    .map(|why| of(&format!("tunnel_flights_missed_{why}")))
                    .iter()
                    .sum();
            }
            Side::Server if is_tunnel => {
                counted.flights_written = of("tunnel_flights_written");
                counted.rebuilt_bytes = of("tunnel_elided_bytes");
                counted.originals_bytes = of("tunnel_original_bytes");
            }
            Side::Client => {
                counted.client_flights_written = of("packet_flights_written");
                counted.tickets_referred = of("packet_session_tickets_referred");
                counted.rebuilt_bytes = of("packet_flights_rebuilt_bytes");
                counted.misses = of("packet_misses_sent");
            }
            Side::Server => {
                counted.flights_written = of("packet_flights_written");
                counted.originals_bytes = of("packet_originals_sent_bytes");
            }
        }
        seat.last = counted;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", daemon.id()));
        Ok(Size {
            // Whole seconds are enough.
            up_seconds: status.uptime_seconds as u64,
            resident_kib: status.resident_bytes / 1024,
            descriptors: descriptors.map_or(0, Iterator::count) as u64,
            rules: rules(topology, side.host()),
            store_bytes: bytes_in(&seat.store),
            flows: ["flows", "relays"]
                .into_iter()
                .filter_map(|name| status.gauges.get(name))
                .sum(),
        })
    }
}

impl Counted {
    fn plus(self, other: Self) -> Self {
        Self {
            flights_written: self.flights_written + other.flights_written,
            client_flights_written: self.client_flights_written + other.client_flights_written,
            tickets_referred: self.tickets_referred + other.tickets_referred,
            rebuilt_bytes: self.rebuilt_bytes + other.rebuilt_bytes,
            misses: self.misses + other.misses,
            originals_bytes: self.originals_bytes + other.originals_bytes,
            chains_learned: self.chains_learned + other.chains_learned,
            verdicts_overdue: self.verdicts_overdue + other.verdicts_overdue,
            flights_opened: self.flights_opened + other.flights_opened,
            flights_sealed: self.flights_sealed + other.flights_sealed,
            flights_not_opened: self.flights_not_opened + other.flights_not_opened,
            keys_asked: self.keys_asked + other.keys_asked,
            keys_missing: self.keys_missing + other.keys_missing,
        }
    }
}

/// Rules in a host's namespace: nothing but the daemons makes any there.
fn rules(topology: &Topology, host: Host) -> u64 {
    ["iptables-save", "ip6tables-save"]
        .into_iter()
        .filter_map(|program| {
            let text = topology
                .host(host)
                .output(&mut Command::new(program))
                .ok()?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Some(text.lines().filter(|line| line.starts_with("-A")).count() as u64)
        })
        .sum()
}

/// Bytes of the files in a directory.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}
