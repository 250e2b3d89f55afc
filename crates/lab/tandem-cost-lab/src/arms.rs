//! What is measured at each server, in which order.
//!
//! Interleaved: each arm is measured at all servers before the next one is.

use tandem_measure_io::{Resumption, TlsVersion};
use tandem_testbed::Effort;

use crate::site::SIZES;

/// One arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arm {
    /// The version; none is plain HTTP.
    pub(crate) tls: Option<TlsVersion>,
    /// By which means sessions are to be resumed.
    pub(crate) resumption: Resumption,
    /// The share, per cent.
    pub(crate) reuse: u8,
    /// The size of the file.
    pub(crate) bytes: u64,
}

impl Arm {
    /// Plain HTTP.
    pub(crate) fn plain(bytes: u64) -> Self {
        Self {
            tls: None,
            resumption: Resumption::None,
            reuse: 0,
            bytes,
        }
    }

    /// TLS; sessions are resumed by what the server gives.
    pub(crate) fn secure(tls: TlsVersion, reuse: u8, bytes: u64) -> Self {
        let resumption = if reuse == 0 {
            Resumption::None
        } else {
            Resumption::Any
        };
        Self {
            tls: Some(tls),
            resumption,
            reuse,
            bytes,
        }
    }

    /// As rows have the version.
    pub(crate) fn version(&self) -> Option<&'static str> {
        self.tls.map(|tls| match tls {
            TlsVersion::V12 => "1.2",
            TlsVersion::V13 => "1.3",
        })
    }
}

/// All arms.
pub(crate) fn all(effort: Effort) -> Vec<Arm> {
    let [small, page, large] = SIZES;
    let mut arms = vec![Arm::plain(page)];
    match effort {
        Effort::Quick => {
            arms.extend([0, 50].map(|share| Arm::secure(TlsVersion::V13, share, page)));
        }
        Effort::Full => {
            for version in [TlsVersion::V13, TlsVersion::V12] {
                arms.extend([0, 25, 50, 75, 100].map(|share| Arm::secure(version, share, page)));
            }
            for size in [small, large] {
                arms.push(Arm::plain(size));
                arms.extend([0, 100].map(|share| Arm::secure(TlsVersion::V13, share, size)));
            }
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_swept_and_sizes_have_plain_http_beside_them() {
        let arms = all(Effort::Full);
        assert_eq!(arms.len(), 17);
        for size in SIZES {
            assert!(arms.contains(&Arm::plain(size)));
        }
        let sweep = arms.iter().filter(|arm| arm.version() == Some("1.2"));
        assert_eq!(
            sweep.map(|arm| arm.reuse).collect::<Vec<_>>(),
            [0, 25, 50, 75, 100]
        );
        assert_eq!(all(Effort::Quick).len(), 3);
    }
}
