//! What is told apart: calls of libssl by what they are for, and within them the phases.

/// A sum of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Calls of libssl that shake hands.
    Handshake,
    /// That read.
    Read,
    /// That write.
    Write,
    /// That make, end and free connections.
    Other,
    /// Signing and decryption with the server's key.
    PrivateKey,
    /// A key pair for this connection, and the secret that both agree on.
    KeyAgreement,
    /// Certificates are parsed, put in order, written.
    Certificates,
    /// Secrets and keys out of secrets; Finished.
    KeyDerivation,
    /// Of the handshake's messages.
    Digests,
    /// Tickets are sealed and opened.
    Tickets,
    /// Records are encrypted and decrypted.
    Records,
    /// Random numbers.
    Random,
    /// What is sent and received: BIOs, and the kernel below them.
    Socket,
}

impl Entry {
    /// In the order of the board.
    pub(crate) const ALL: [Self; 13] = [
        Self::Handshake,
        Self::Read,
        Self::Write,
        Self::Other,
        Self::PrivateKey,
        Self::KeyAgreement,
        Self::Certificates,
        Self::KeyDerivation,
        Self::Digests,
        Self::Tickets,
        Self::Records,
        Self::Random,
        Self::Socket,
    ];

    /// As the board has it. Sums of libssl's calls begin with `in `.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handshake => "in handshakes",
            Self::Read => "in reads",
            Self::Write => "in writes",
            Self::Other => "in other calls",
            Self::PrivateKey => "private key",
            Self::KeyAgreement => "key agreement",
            Self::Certificates => "certificates",
            Self::KeyDerivation => "key derivation",
            Self::Digests => "digests",
            Self::Tickets => "tickets",
            Self::Records => "records",
            Self::Random => "random",
            Self::Socket => "socket",
        }
    }

    /// Its place on the board.
    pub(crate) fn index(self) -> usize {
        Self::ALL
            .iter()
            .position(|entry| *entry == self)
            .unwrap_or(0)
    }

    /// Whether it is a call of libssl, and no phase within one.
    pub(crate) fn is_library(self) -> bool {
        matches!(
            self,
            Self::Handshake | Self::Read | Self::Write | Self::Other
        )
    }
}
