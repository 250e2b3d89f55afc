//! The settings of the two daemons, checked: what the event loop works with.
//!
//! Is not: the file or the flags, which are the program's, nor the key's bytes in any form that
//! prints.
//!
//! Invariant: a [`Config`] is consistent in itself; whether this machine can do it is found out by
//! starting.

mod key;
mod names;
mod settings;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tandem_engine::filter::Rate;
use tandem_engine::intention;
use tandem_engine::thesis::Codes;
use tandem_packet::Limits;
use tandem_queue::queue::number_for;

use crate::error::IoError;

pub use key::{KeyChoice, read_key};
pub use names::{Marks, role_name};
pub use settings::Settings;
pub use tandem_firewall::LinkName;
pub use tandem_link::inband::Key;
pub use tandem_packet::{ClientCertificates, Role, WireFormat};

/// Port of the servers whose connections are looked at, unless others are named: HTTPS (RFC 9110,
/// section 4.2.2).
pub const DEFAULT_PORT: u16 = 443;

/// Admin port of the client side; the server side has the next one, so that both run on one
/// machine.
pub const DEFAULT_ADMIN_PORT: u16 = 9470;

/// What the daemon does with the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The packet engine decides.
    Packet,
    /// Every packet goes on as it is: what the queue alone costs, for measuring.
    PassThrough,
}

/// Which mark bits a daemon uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkChoice {
    /// The first pair of [`Marks::CANDIDATES`] that no other daemon here uses.
    FirstFree,
    /// These.
    Fixed(Marks),
}

/// Everything that a daemon needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which side of the link this is.
    pub role: Role,
    /// The interface of the link.
    pub link: LinkName,
    /// What is done with packets. Default [`Mode::Packet`].
    pub mode: Mode,
    /// Why it is this mode, for the status; `None`: it was asked for.
    pub mode_reason: Option<&'static str>,
    /// The wire format. Default [`WireFormat::Safe`].
    pub wire: WireFormat,
    /// What is done with clients' certificates. Default [`ClientCertificates::Persistent`].
    pub client_certificates: ClientCertificates,
    /// Where the pair's key is.
    pub key: KeyChoice,
    /// Ports of the servers. At least one. Default 443.
    pub ports: Vec<u16>,
    /// Directory of the store. Default `/var/lib/tandem/ROLE-LINK`, or below
    /// `~/.local/share/tandem` when not root.
    pub store: PathBuf,
    /// Address of the admin port; `None`: there is none. Default 127.0.0.1, 9470 on the client
    /// side, 9471 on the server side.
    pub admin: Option<SocketAddr>,
    /// The packet engine's bounds. Its own defaults; the MTU is found out at the start.
    pub limits: Limits,
    /// Number of the packet queue. Default: derived from role and link, 16,384 to 32,767.
    pub queue: u16,
    /// The mark bits. Default [`MarkChoice::FirstFree`].
    pub marks: MarkChoice,
}

impl Config {
    /// Checks `settings` and fills in the defaults of `role`. Reads nothing but the environment,
    /// for the default store.
    ///
    /// # Errors
    /// The first setting that is missing or wrong, by its name.
    pub fn resolve(role: Role, settings: Settings) -> Result<Self, IoError> {
        let link = settings
            .link
            .as_deref()
            .ok_or_else(|| IoError::setting("link", "name the interface of the link"))?;
        let link = LinkName::new(link)?;
        let mode = mode(settings.mode.as_deref())?;
        let wire = wire(&settings)?;
        let client_certificates = client_certificates(&settings, wire)?;
        let key = key::choose(settings.key, settings.insecure_no_key)?;
        let ports = ports(settings.ports)?;
        let admin = admin(role, settings.admin.as_deref())?;
        let marks = marks(settings.leave_mark, settings.inject_mark)?;
        let defaults = Limits::default();
        let limits = Limits {
            hold_segments: settings.hold_packets.unwrap_or(defaults.hold_segments),
            hold_bytes: settings.hold_bytes.unwrap_or(defaults.hold_bytes),
            hold_time: settings
                .hold_ms
                .map_or(defaults.hold_time, Duration::from_millis),
            ack_time: settings
                .ack_hold_ms
                .map_or(defaults.ack_time, Duration::from_millis),
            flows: at_least_one("max-flows", settings.max_flows)?.unwrap_or(defaults.flows),
            ..defaults
        };
        let store = match settings.store {
            Some(directory) => directory,
            None => default_store(role, link.as_str())?,
        };
        let queue = settings.queue.unwrap_or_else(|| default_queue(role, &link));
        Ok(Self {
            role,
            link,
            mode,
            mode_reason: settings.mode_reason,
            wire,
            client_certificates,
            key,
            ports,
            store,
            admin,
            limits,
            queue,
            marks,
        })
    }
}

impl Mode {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Packet => "packet",
            Mode::PassThrough => "pass-through",
        }
    }
}

fn mode(said: Option<&str>) -> Result<Mode, IoError> {
    match said {
        None | Some("packet") => Ok(Mode::Packet),
        Some("pass-through") => Ok(Mode::PassThrough),
        Some(other) => Err(IoError::setting(
            "mode",
            format!("`{other}` is neither `packet` nor `pass-through`"),
        )),
    }
}

fn wire(settings: &Settings) -> Result<WireFormat, IoError> {
    let defaults = Codes::default();
    let codes = Codes {
        possession: settings.mcveety_cpi.unwrap_or(defaults.possession),
        compressed_certificate: settings
            .mcveety_certificate
            .unwrap_or(defaults.compressed_certificate),
    };
    match settings.wire.as_deref() {
        None | Some("safe") if codes != defaults => Err(IoError::setting(
            "wire",
            "the mcveety-* code points need `wire = \"mcveety\"`",
        )),
        None | Some("safe") => Ok(WireFormat::Safe),
        Some("mcveety") => Ok(WireFormat::Mcveety(codes)),
        Some(other) => Err(IoError::setting(
            "wire",
            format!("`{other}` is neither `safe` nor `mcveety`"),
        )),
    }
}

fn client_certificates(
    settings: &Settings,
    wire: WireFormat,
) -> Result<ClientCertificates, IoError> {
    let (extension, one_in) = (settings.cii_extension, settings.filter_one_in);
    let how = match settings.client_certificates.as_deref() {
        None | Some("persistent") => ClientCertificates::Persistent,
        Some("cii") => ClientCertificates::Cii {
            extension: extension.unwrap_or(intention::EXTENSION),
        },
        Some("filter") => ClientCertificates::Filter {
            rate: rate(one_in)?,
        },
        Some("none") => ClientCertificates::None,
        Some(other) => {
            return Err(IoError::setting(
                "client-certificates",
                format!("`{other}` is neither `persistent`, `cii`, `filter` nor `none`"),
            ));
        }
    };
    let (is_cii, is_filter) = match how {
        ClientCertificates::None | ClientCertificates::Persistent => (false, false),
        ClientCertificates::Cii { .. } => (true, false),
        ClientCertificates::Filter { .. } => (false, true),
    };
    match wire {
        WireFormat::Safe => {}
        WireFormat::Mcveety(_) if is_filter => {
            return Err(IoError::setting(
                "client-certificates",
                "`filter` needs `wire = \"safe\"`: the thesis's messages stand in the handshake, and none has a place for a filter",
            ));
        }
        WireFormat::Mcveety(_) => {}
    }
    if extension.is_some() && !is_cii {
        return Err(IoError::setting(
            "cii-extension",
            "it needs `client-certificates = \"cii\"`",
        ));
    }
    if one_in.is_some() && !is_filter {
        return Err(IoError::setting(
            "filter-one-in",
            "it needs `client-certificates = \"filter\"`",
        ));
    }
    Ok(how)
}

fn rate(one_in: Option<u32>) -> Result<Rate, IoError> {
    let Some(number) = one_in else {
        return Ok(Rate::DEFAULT);
    };
    Rate::one_in(number).ok_or_else(|| {
        let (least, most) = (Rate::BOUNDS.start(), Rate::BOUNDS.end());
        IoError::setting("filter-one-in", format!("must be {least} to {most}"))
    })
}

/// The ports of the servers, in order and each once.
///
/// # Errors
/// There is none, or port 0 is among them.
pub fn ports(said: Option<Vec<u16>>) -> Result<Vec<u16>, IoError> {
    let Some(mut ports) = said else {
        return Ok(vec![DEFAULT_PORT]);
    };
    ports.sort_unstable();
    ports.dedup();
    match ports.first() {
        None => Err(IoError::setting("ports", "name at least one port")),
        Some(0) => Err(IoError::setting("ports", "0 is no port; use 1 to 65535")),
        Some(_) => Ok(ports),
    }
}

/// The admin port of a daemon in `role`; `None`: there is none.
///
/// # Errors
/// It is neither an address with a port nor `none`.
pub fn admin(role: Role, said: Option<&str>) -> Result<Option<SocketAddr>, IoError> {
    match said {
        None => Ok(Some(default_admin(role))),
        Some("none") => Ok(None),
        Some(address) => address.parse().map(Some).map_err(|_| {
            IoError::setting(
                "admin",
                format!("`{address}` is neither ADDRESS:PORT nor `none`"),
            )
        }),
    }
}

/// Where the admin port of a daemon in `role` is unless it is set.
#[must_use]
pub fn default_admin(role: Role) -> SocketAddr {
    let port = match role {
        Role::ClientSide => DEFAULT_ADMIN_PORT,
        Role::ServerSide => DEFAULT_ADMIN_PORT + 1,
    };
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn marks(leave: Option<u32>, inject: Option<u32>) -> Result<MarkChoice, IoError> {
    match (leave, inject) {
        (None, None) => Ok(MarkChoice::FirstFree),
        (Some(leave), Some(inject)) => Marks::new(leave, inject).map(MarkChoice::Fixed),
        (Some(_), None) => Err(IoError::setting("inject-mark", "set it with leave-mark")),
        (None, Some(_)) => Err(IoError::setting("leave-mark", "set it with inject-mark")),
    }
}

fn at_least_one(name: &'static str, said: Option<usize>) -> Result<Option<usize>, IoError> {
    match said {
        Some(0) => Err(IoError::setting(name, "must be at least 1")),
        other => Ok(other),
    }
}

/// Where the store of a daemon in `role` is unless it is set. `place` is the link's name, or what
/// stands for it.
///
/// # Errors
/// A user other than root has no home directory.
pub fn default_store(role: Role, place: &str) -> Result<PathBuf, IoError> {
    let base = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/var/lib/tandem")
    } else {
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .ok_or_else(|| IoError::setting("store", "HOME is not set; name a directory"))?;
        PathBuf::from(home).join(".local/share/tandem")
    };
    Ok(base.join(format!("{}-{place}", role_name(role))))
}

/// A number that differs between roles and links.
fn default_queue(role: Role, link: &LinkName) -> u16 {
    number_for(role_name(role), link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_link() -> Settings {
        Settings {
            link: Some("tun0".to_owned()),
            store: Some(PathBuf::from("/s")),
            ..Settings::default()
        }
    }

    fn problem(settings: Settings) -> String {
        let error = Config::resolve(Role::ClientSide, settings).expect_err("must be refused");
        assert!(matches!(error, IoError::Setting { .. }), "{error:?}");
        let text = error.to_string();
        assert!(!text.contains('\n'));
        text
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let config = Config::resolve(Role::ServerSide, with_link()).expect("complete");
        assert_eq!(config.ports, [443]);
        assert_eq!(config.mode, Mode::Packet);
        assert_eq!(config.wire, WireFormat::Safe);
        assert_eq!(config.client_certificates, ClientCertificates::Persistent);
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.key, KeyChoice::Unset);
        assert_eq!(
            config.admin,
            Some("127.0.0.1:9471".parse().expect("an address"))
        );
        assert_eq!(config.marks, MarkChoice::FirstFree);
        assert!((16_384..32_768).contains(&config.queue));
    }

    #[test]
    fn queues_differ_between_roles_and_links() {
        let queue = |role, link| default_queue(role, &LinkName::new(link).expect("good"));
        let all = [
            queue(Role::ClientSide, "tun0"),
            queue(Role::ServerSide, "tun0"),
            queue(Role::ClientSide, "tun1"),
            queue(Role::ServerSide, "tun1"),
            queue(Role::ClientSide, "eth0"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{all:?}");
        }
    }

    #[test]
    fn each_wrong_value_is_refused_by_name() {
        assert!(problem(Settings::default()).starts_with("link: "));
        let cases: [(&str, Settings); 13] = [
            (
                "cii-extension: ",
                Settings {
                    cii_extension: Some(7),
                    ..with_link()
                },
            ),
            (
                "filter-one-in: it needs",
                Settings {
                    filter_one_in: Some(7),
                    ..with_link()
                },
            ),
            (
                "filter-one-in: must be 2 to 65536",
                Settings {
                    client_certificates: Some("filter".into()),
                    filter_one_in: Some(1),
                    ..with_link()
                },
            ),
            (
                "client-certificates: `filter` needs `wire",
                Settings {
                    client_certificates: Some("filter".into()),
                    wire: Some("mcveety".into()),
                    ..with_link()
                },
            ),
            (
                "client-certificates: ",
                Settings {
                    client_certificates: Some("all".into()),
                    ..with_link()
                },
            ),
            (
                "mode: ",
                Settings {
                    mode: Some("x".into()),
                    ..with_link()
                },
            ),
            (
                "wire: ",
                Settings {
                    wire: Some("x".into()),
                    ..with_link()
                },
            ),
            (
                "wire: ",
                Settings {
                    mcveety_cpi: Some(7),
                    ..with_link()
                },
            ),
            (
                "ports: ",
                Settings {
                    ports: Some(vec![]),
                    ..with_link()
                },
            ),
            (
                "ports: ",
                Settings {
                    ports: Some(vec![443, 0]),
                    ..with_link()
                },
            ),
            (
                "admin: ",
                Settings {
                    admin: Some("here".into()),
                    ..with_link()
                },
            ),
            (
                "inject-mark: ",
                Settings {
                    leave_mark: Some(1),
                    ..with_link()
                },
            ),
            (
                "max-flows: ",
                Settings {
                    max_flows: Some(0),
                    ..with_link()
                },
            ),
        ];
        for (start, settings) in cases {
            let text = problem(settings);
            assert!(text.starts_with(start), "{text}");
        }
    }
}
