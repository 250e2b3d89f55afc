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

impl Mode {
    /// The mode of this name; the default for none.
    pub(super) fn named(name: Option<&str>) -> Result<Self, SettingsError> {
        match name {
            None | Some("packet" | "pass-through") => Ok(Self::Packet),
            Some("tunnel") => Ok(Self::Tunnel),
            Some(other) => Err(SettingsError::value(
                "mode",
                format!("`{other}` is neither `packet`, `tunnel` nor `pass-through`"),
            )),
        }
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
    /// Why a setting of this place does not go with `mode` and `role`; `None` where it does.
    pub(super) fn refusal(self, mode: Mode, role: Role) -> Option<&'static str> {
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
            (Place::Tunnel | Place::TunnelSide(_), Mode::Packet, _) => Some("needs --mode tunnel"),
            (Place::Tunnel | Place::TunnelSide(_), Mode::Tunnel, _) => None,
        }
    }
}
