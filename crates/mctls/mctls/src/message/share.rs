//! An endpoint's shares: random bytes of its own from which, with the other endpoint's, the keys of
//! each context follow. Who has one endpoint's share has no key.
//!
//! Invariant: neither share is shown by `Debug`, both are overwritten when dropped.

use crate::error::{Malformed, Misuse};
use crate::party::ContextId;
use crate::read::Reader;
use crate::secret::{Digest, HASH_LEN, Secret, hash};

/// What a share is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read, and to check that nobody outside has written.
    Read,
    /// To write.
    Write,
}

impl Purpose {
    /// Both, in the order in which their shares stand.
    pub const BOTH: [Self; 2] = [Self::Read, Self::Write];

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }
}

/// All shares of one endpoint: two for each context, in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares(Vec<[Secret; 2]>);

impl Shares {
    /// How many random bytes so many contexts need.
    #[must_use]
    pub const fn random_len(contexts: usize) -> usize {
        contexts * 2 * HASH_LEN
    }

    /// Shares for so many contexts, out of random bytes that are used for nothing else.
    ///
    /// # Errors
    /// [`Misuse::Count`]: another number of bytes than [`Self::random_len`] says.
    pub fn new(contexts: usize, random: &[u8]) -> Result<Self, Misuse> {
        let wrong = Misuse::Count {
            expected: Self::random_len(contexts),
            found: random.len(),
        };
        if random.len() != Self::random_len(contexts) {
            return Err(wrong);
        }
        Self::read(&mut Reader::new(random), contexts).map_err(|_| wrong)
    }

    /// Of how many contexts these are.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn share(&self, index: usize, purpose: Purpose) -> &Secret {
        &self.0[index][purpose.index()]
    }

    pub(crate) fn digests(&self, index: usize) -> [Digest; 2] {
        [
            hash(&[self.0[index][0].bytes()]),
            hash(&[self.0[index][1].bytes()]),
        ]
    }

    /// How many bytes they are.
    pub(super) fn encoded_len(&self) -> usize {
        Self::random_len(self.0.len())
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for share in self.0.iter().flatten() {
            out.extend_from_slice(share.bytes());
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>, contexts: usize) -> Result<Self, Malformed> {
        let mut shares = Vec::with_capacity(contexts);
        for _ in 0..contexts {
            shares.push([Secret::new(reader.array()?), Secret::new(reader.array()?)]);
        }
        Ok(Self(shares))
    }
}

/// One share, as a middlebox is given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Of which context.
    pub context: ContextId,
    /// What for.
    pub purpose: Purpose,
    /// The share.
    pub share: Secret,
}

impl Granted {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.context.0, self.purpose.code()]);
        out.extend_from_slice(self.share.bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            context: reader.context()?,
            purpose: match reader.u8()? {
                0 => Purpose::Read,
                1 => Purpose::Write,
                other => return Err(Malformed::Purpose(other)),
            },
            share: Secret::new(reader.array()?),
        })
    }
}
