//! Which setting belongs to which mode, and to which side.
//!
//! Is not: the values of settings.

use tandem_packet_io::config::Role;

use super::SettingsError;

/// How the two proxies work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Inside clients' own connections; `pass-through` is a variant of it.
    Packet,
    /// The connections run through one of the proxies' own.
    Tunnel,
}

/// A mode, and what has decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) mode: Mode,
    /// Why it is this one; `None` where the user has said so.
    pub(crate) reason: Option<&'static str>,
}

/// What the user says of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// It follows from the other settings.
    Auto,
    /// This one.
    Fixed(Mode),
}

/// Whether this side is told how to reach the other one, or where that one comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// It is: a tunnel can be made.
    Possible,
    /// It is not.
    Impossible,
}

impl Choice {
    /// The choice of this name; the default for none.
    pub(super) fn named(name: Option<&str>) -> Result<Self, SettingsError> {
        match name {
            None | Some("auto") => Ok(Self::Auto),
            Some("packet" | "pass-through") => Ok(Self::Fixed(Mode::Packet)),
            Some("tunnel") => Ok(Self::Fixed(Mode::Tunnel)),
            Some(other) => Err(SettingsError::value(
                "mode",
                format!("`{other}` is neither `auto`, `packet`, `tunnel` nor `pass-through`"),
            )),
        }
    }

    /// Which mode it comes to at this side.
    pub(super) fn at(self, role: Role, tunnel: Tunnel) -> Chosen {
        let (mode, reason) = match (self, tunnel, role) {
            (Self::Fixed(mode), _, _) => (mode, None),
            (Self::Auto, Tunnel::Possible, Role::ClientSide) => (Mode::Tunnel, Some("peer is set")),
            (Self::Auto, Tunnel::Possible, Role::ServerSide) => {
                (Mode::Tunnel, Some("listen is set"))
            }
            (Self::Auto, Tunnel::Impossible, Role::ClientSide) => {
                (Mode::Packet, Some("peer is not set"))
            }
            (Self::Auto, Tunnel::Impossible, Role::ServerSide) => {
                (Mode::Packet, Some("listen is not set"))
            }
        };
        Chosen { mode, reason }
    }
}

/// A key of the settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// As in the file, and behind `--`.
    pub(super) name: &'static str,
    /// Where it belongs.
    pub(super) place: Place,
    /// Whether the user gave it.
    pub(super) is_said: bool,
}

/// Where a setting belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To both modes and both sides.
    Everywhere,
    /// To packet mode.
    Packet,
    /// To tunnel mode, both sides.
    Tunnel,
    /// To this side of tunnel mode.
    TunnelSide(Role),
    /// To packet mode, and to the client side of tunnel mode.
    PacketOrTunnelClient,
}

impl Place {
    /// Why a setting of this place does not go with `mode`, to which `choice` has come, and `role`;
    /// `None` where it does.
    pub(super) fn refusal(self, choice: Choice, mode: Mode, role: Role) -> Option<&'static str> {
        match (self, mode, role) {
            (Place::Everywhere, Mode::Packet | Mode::Tunnel, _)
            | (Place::Packet | Place::PacketOrTunnelClient, Mode::Packet, _)
            | (Place::PacketOrTunnelClient, Mode::Tunnel, Role::ClientSide) => None,
            (Place::Packet, Mode::Tunnel, _)
            | (Place::PacketOrTunnelClient, Mode::Tunnel, Role::ServerSide) => {
                Some("needs --mode packet")
            }
            (Place::TunnelSide(side), _, role) if side != role => Some(match side {
                Role::ClientSide => "is for `tandem client-side`",
                Role::ServerSide => "is for `tandem server-side`",
            }),
            (Place::Tunnel | Place::TunnelSide(_), Mode::Packet, _) => Some(match (choice, role) {
                (Choice::Fixed(_), _) => "needs --mode tunnel",
                (Choice::Auto, Role::ClientSide) => "needs --peer",
                (Choice::Auto, Role::ServerSide) => "needs --listen",
            }),
            (Place::Tunnel | Place::TunnelSide(_), Mode::Tunnel, _) => None,
        }
    }
}
