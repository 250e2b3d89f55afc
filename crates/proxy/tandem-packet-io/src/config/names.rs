//! What identifies a daemon on its machine beside its link: mark bits, the names of roles.
//!
//! Is not: the name of the link, [`tandem_firewall::LinkName`].
//!
//! Invariant: [`Marks`] are two different single bits.

use tandem_packet::Role;

use crate::error::IoError;

/// A role as on the command line.
#[must_use]
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::ClientSide => "client-side",
        Role::ServerSide => "server-side",
    }
}

/// The two bits of a packet's mark that a daemon uses. Other bits are left as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    leave: u32,
    inject: u32,
}

impl Marks {
    /// What a daemon chooses from: the top byte, which few programs use (Kubernetes takes bits 14
    /// and 15, Tailscale 16 to 23, Cilium 8 to 11). Four daemons a network namespace.
    pub const CANDIDATES: [Marks; 4] = [
        Marks {
            leave: 1 << 24,
            inject: 1 << 25,
        },
        Marks {
            leave: 1 << 26,
            inject: 1 << 27,
        },
        Marks {
            leave: 1 << 28,
            inject: 1 << 29,
        },
        Marks {
            leave: 1 << 30,
            inject: 1 << 31,
        },
    ];

    /// `leave` marks connections that have left the queue, `inject` the packets that are injected.
    ///
    /// # Errors
    /// Either is not one bit, or they are the same.
    pub fn new(leave: u32, inject: u32) -> Result<Self, IoError> {
        for (name, mark) in [("leave-mark", leave), ("inject-mark", inject)] {
            if !mark.is_power_of_two() {
                return Err(IoError::setting(
                    name,
                    format!("{mark:#x} is not one bit; take 0x1, 0x2, 0x4 and so on"),
                ));
            }
        }
        if leave == inject {
            return Err(IoError::setting(
                "inject-mark",
                "must differ from leave-mark",
            ));
        }
        Ok(Self { leave, inject })
    }

    /// The bit on packets and connections that have left the queue.
    #[must_use]
    pub fn leave(self) -> u32 {
        self.leave
    }

    /// The bit on injected packets.
    #[must_use]
    pub fn inject(self) -> u32 {
        self.inject
    }

    /// Whether any of the two is among `bits`.
    pub(crate) fn meets(self, bits: u32) -> bool {
        (self.leave | self.inject) & bits != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_two_different_single_bits() {
        assert!(Marks::new(1, 2).is_ok());
        for (leave, inject) in [(1, 1), (3, 4), (0, 1), (1, 0)] {
            assert!(Marks::new(leave, inject).is_err(), "{leave} {inject}");
        }
    }
}
