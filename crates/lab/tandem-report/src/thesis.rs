//! What McVeety's thesis of 2009 gives in figures, as it gives them. Not ours, and nothing here is
//! converted.
//!
//! Seconds: the data behind figures 4-2 and 4-3, appendix A.4: averages of 20 server-only
//! handshakes of TLS 1.0 with AES256-SHA and one certificate of 926 bytes, from the SYN to the
//! alert that closes the connection, which `s_client` sends as soon as it is connected (appendices
//! A.1 and A.3).
//!
//! The heading of A.4 names the third and fourth columns `tcsl` and `milstar`. The script that
//! wrote them (A.3) goes through milstar and then tcdl, and 0.01 s is out of reach on a link with a
//! latency of 500 ms: they are milstar and tcdl-10.
//!
//! Of figure 4-6 the text has no data but "by up to 50%" (section 4.4).

use crate::situation::Situation;

/// Figure 4-9 and section 4.5: what a miss adds, seconds: from the compressed certificate that was
/// dropped to the server's repeat. On which link it was taken is not said.
pub(crate) const MISS_SECONDS: f64 = 0.75;

/// Table 2.2, with what section 2.3.4 says of each case.
pub(crate) const CASES: [(Situation, &str); 6] = [
    (
        Situation::Case0,
        "B = B', A = A'; A and A' have Z: reference, A expands it",
    ),
    (
        Situation::Case1,
        "B = B', A ≠ A'; A and A' have Z: reference, A' expands it",
    ),
    (
        Situation::Case2,
        "B = B', A = A'; nobody has Z: chain, no more costly than a normal handshake",
    ),
    (
        Situation::Case3,
        "B = B', A = A', A resets: reference, dropped; the chain after TCP's timer",
    ),
    (
        Situation::Case4,
        "B = B', A ≠ A'; A has Z: reference, dropped by A'; the chain after TCP's timer",
    ),
    (Situation::Case5, "B = B', A = A', B resets: chain"),
];

/// A link of table 4.1 with its two averages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ThesisLink {
    /// As the lab's presets call it.
    pub(crate) link: &'static str,
    /// Seconds without proxies.
    pub(crate) without_proxies: f64,
    /// Seconds with proxies.
    pub(crate) with_proxies: f64,
}

/// Figure 4-2.
pub(crate) const HIGH_LATENCY: [ThesisLink; 3] = [
    ThesisLink {
        link: "iridium",
        without_proxies: 9.50572,
        with_proxies: 6.68903,
    },
    ThesisLink {
        link: "inmarsat-64",
        without_proxies: 2.92503,
        with_proxies: 3.184,
    },
    ThesisLink {
        link: "milstar",
        without_proxies: 5.82993,
        with_proxies: 6.11165,
    },
];

/// Figure 4-3.
pub(crate) const LOW_LATENCY: [ThesisLink; 2] = [
    ThesisLink {
        link: "tcdl-10",
        without_proxies: 0.01062,
        with_proxies: 0.455612,
    },
    ThesisLink {
        link: "cell-modem",
        without_proxies: 0.623161,
        with_proxies: 1.08356,
    },
];

/// Section 4.3.3, of figures 4-4 and 4-5, the handshakes in which the client is authenticated, too:
/// all that the text gives is this of iridium. The data behind the bars is not in it.
pub(crate) const MUTUAL_SAVED: &str = "almost 50 %, more than 6 s";

/// Section 4.2.1: what the processing of both proxies adds to such a handshake, at most, seconds.
pub(crate) const MUTUAL_PROCESSING: f64 = 0.2;

/// Section 4.4: bytes with proxies, as a share of those without, at best.
pub(crate) const BEST_BYTES: f64 = 0.5;

/// Endpoints of the lab that do as the thesis did, the nearest first: `thesis` in everything, `one`
/// with TLS 1.2 and what servers use today.
pub(crate) const ENDPOINTS: [&str; 2] = ["thesis", "one"];

/// Endpoints of the lab that do so with client certificates: one of 926 bytes each way. (The
/// client's file of appendix A.1 is called `client700.pem`; what it held is not said.)
pub(crate) const MUTUAL: &str = "thesis-mutual";
