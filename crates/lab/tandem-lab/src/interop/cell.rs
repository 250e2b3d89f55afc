//! One client against one server in one version: what was tried, what came of it, and what that
//! means.

use serde::{Deserialize, Serialize};

use tandem_testbed::LabError;
use tandem_testbed::endpoints::Version;

use super::bench::{Bench, Sample};
use super::clients::Client;
use super::servers::Server;
use super::tools::Tools;

/// Connections that a warm pair of proxies is given to rewrite one. On a machine that is busy for
/// longer than the proxies' and the endpoints' patience (200 ms), a flight crosses as it is; a
/// further try shows that it was that.
const TRIES: u32 = 3;

/// What came of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Works, every byte as it was sent, and the server's flight crossed as a delta.
    Rewritten,
    /// Works, every byte as it was sent, and nothing was rewritten: as it has to be in TLS 1.3.
    Untouched,
    /// Works, every byte as it was sent, but nothing was rewritten where it should have been.
    NotRewritten,
    /// Rewritten where nothing should be.
    Touched,
    /// The two programs do not come together without proxies either.
    Cannot,
    /// Works without proxies and not with them.
    Fails,
    /// An endpoint received other bytes than were sent.
    Differs,
    /// A program is not installed.
    NotInstalled,
}

impl Verdict {
    /// Whether it is a fault of Tandem's.
    pub(crate) fn is_fault(self) -> bool {
        match self {
            Verdict::NotRewritten | Verdict::Touched | Verdict::Fails | Verdict::Differs => true,
            Verdict::Rewritten | Verdict::Untouched | Verdict::Cannot | Verdict::NotInstalled => {
                false
            }
        }
    }
}

/// One client against one server in one version: a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The client's name.
    pub(crate) client: String,
    /// The server's name.
    pub(crate) server: String,
    /// Of TLS.
    pub(crate) version: Version,
    /// What it means.
    pub(crate) verdict: Verdict,
    /// Why not, where it did not come about.
    pub(crate) why: Option<String>,
    /// Without proxies.
    pub(crate) plain: Option<Sample>,
    /// Through proxies that held nothing: where this pair was the one that taught them.
    pub(crate) first: Option<Sample>,
    /// Through proxies that hold the chain: the connection that was rewritten, else the last.
    pub(crate) warm: Option<Sample>,
    /// Connections through warm proxies until one was rewritten.
    pub(crate) tries: u32,
}

impl Cell {
    /// One that was not tried.
    pub(crate) fn untried(
        client: Client,
        server: Server,
        version: Version,
        verdict: Verdict,
        why: impl Into<String>,
    ) -> Self {
        Self {
            client: client.name().to_owned(),
            server: server.name().to_owned(),
            version,
            verdict,
            why: Some(why.into()),
            plain: None,
            first: None,
            warm: None,
            tries: 0,
        }
    }

    /// Tries it: plain, then through proxies.
    ///
    /// # Errors
    /// What keeps a connection from being made at all.
    pub(crate) fn measure(
        (client, server, version): (Client, Server, Version),
        benches: &[Bench; 2],
        store: &mut Store,
        tools: &Tools,
    ) -> Result<Self, LabError> {
        let [without, with] = benches;
        let mut cell = Self::untried(client, server, version, Verdict::Cannot, "");
        let plain = without.connect(client, version, tools)?;
        cell.why.clone_from(&plain.error);
        let works = plain.is_well();
        cell.plain = Some(plain);
        if !works {
            return Ok(cell);
        }
        if *store == Store::Empty {
            let first = with.connect(client, version, tools)?;
            let well = first.is_well();
            cell.judge(version, &first);
            cell.first = Some(first);
            if !well {
                return Ok(cell);
            }
            *store = Store::Taught;
        }
        while cell.tries < TRIES {
            cell.tries += 1;
            let warm = with.connect(client, version, tools)?;
            cell.judge(version, &warm);
            cell.warm = Some(warm);
            if cell.verdict != Verdict::NotRewritten {
                break;
            }
        }
        Ok(cell)
    }

    fn judge(&mut self, version: Version, sample: &Sample) {
        let nothing_to_rewrite = version == Version::Tls13;
        self.why.clone_from(&sample.error);
        self.verdict = if !sample.identical {
            Verdict::Differs
        } else if !sample.ok {
            Verdict::Fails
        } else if nothing_to_rewrite && sample.flights_written == 0 {
            Verdict::Untouched
        } else if nothing_to_rewrite {
            Verdict::Touched
        } else if sample.is_rewritten() {
            Verdict::Rewritten
        } else {
            Verdict::NotRewritten
        };
    }
}

/// What the proxies know of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// Nothing yet.
    Empty,
    /// A connection has passed.
    Taught,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: Version, sample: &Sample) -> Verdict {
        let mut cell = Cell::untried(
            Client::Curl,
            Server::Nginx,
            version,
            Verdict::Cannot,
            "not yet",
        );
        cell.judge(version, sample);
        cell.verdict
    }

    #[test]
    fn a_verdict_tells_whose_fault_it_is() {
        let well = Sample {
            ok: true,
            identical: true,
            ..Sample::default()
        };
        let rewritten = Sample {
            flights_written: 1,
            rebuilt_bytes: 3000,
            ..well.clone()
        };
        let repeated = Sample {
            originals_bytes: 3000,
            ..rewritten.clone()
        };
        let failed = Sample {
            ok: false,
            ..well.clone()
        };
        let differing = Sample {
            identical: false,
            ..rewritten.clone()
        };
        let cases = [
            (Version::Tls12, &well, Verdict::NotRewritten, true),
            (Version::Tls10, &rewritten, Verdict::Rewritten, false),
            (Version::Tls12, &repeated, Verdict::NotRewritten, true),
            (Version::Tls12, &failed, Verdict::Fails, true),
            (Version::Tls12, &differing, Verdict::Differs, true),
            (Version::Tls13, &well, Verdict::Untouched, false),
            (Version::Tls13, &rewritten, Verdict::Touched, true),
        ];
        for (version, sample, verdict, is_fault) in cases {
            assert_eq!(judged(version, sample), verdict, "{sample:?}");
            assert_eq!(verdict.is_fault(), is_fault);
        }
    }
}
