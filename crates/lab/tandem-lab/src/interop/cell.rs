//! One client against one server in one version: what was tried, what came of it, and what that
//! means.

use serde::{Deserialize, Serialize};

use tandem_testbed::LabError;
use tandem_testbed::endpoints::Version;

use super::bench::{Bench, Sample};
use super::clients::Client;
use super::consent::Consent;
use super::servers::Server;
use super::tools::Tools;

/// Connections that a warm pair of proxies is given to rewrite one. On a machine that is busy for
/// longer than the proxies' and the endpoints' patience (200 ms), a flight crosses as it is; a
/// further try shows that it was that.
const TRIES: u32 = 3;

/// The same with consent: a client's first key shows that it hands them in, and the first flight
/// that crosses opened is held by nobody.
const TRIES_WITH_CONSENT: u32 = 6;

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
    /// Who releases handshake keys, through the tunnel; without, it is packet mode.
    #[serde(default)]
    pub(crate) consent: Option<Consent>,
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
            consent: None,
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

    /// Tries it through a tunnel with this consent, where it works without proxies: `plain` says.
    ///
    /// # Errors
    /// What keeps a connection from being made at all.
    pub(crate) fn with_consent(
        (client, server, consent): (Client, Server, Consent),
        plain: &Self,
        (bench, store): (&Bench, &mut Store),
        tools: &Tools,
    ) -> Result<Self, LabError> {
        let mut cell = Self {
            consent: Some(consent),
            tries: 0,
            first: None,
            warm: None,
            ..plain.clone()
        };
        if !plain.plain.as_ref().is_some_and(Sample::is_well) {
            return Ok(cell);
        }
        let cannot = consent.cannot(client, server);
        while cell.tries < TRIES_WITH_CONSENT {
            cell.tries += 1;
            let sample = bench.connect(client, Version::Tls13, tools)?;
            cell.judge_consent(cannot, &sample);
            if (cell.verdict, *store) == (Verdict::Rewritten, Store::Empty) {
                *store = Store::Taught;
                cell.first = Some(sample);
                continue;
            }
            cell.warm = Some(sample);
            if cell.verdict != Verdict::NotRewritten {
                break;
            }
        }
        Ok(cell)
    }

    /// `cannot` says why no key is released.
    fn judge_consent(&mut self, cannot: Option<&'static str>, sample: &Sample) {
        self.why.clone_from(&sample.error);
        self.verdict = match (sample.identical, sample.ok, cannot) {
            (false, _, _) => Verdict::Differs,
            (true, false, _) => Verdict::Fails,
            (true, true, Some(why)) if sample.flights_written == 0 => {
                self.why = Some(why.to_owned());
                Verdict::Untouched
            }
            (true, true, Some(_)) => Verdict::Touched,
            (true, true, None) if sample.is_rewritten() => Verdict::Rewritten,
            (true, true, None) => {
                let counted = sample.counted.iter();
                let counted: Vec<_> = counted.map(|(what, it)| format!("{what}: {it}")).collect();
                self.why = Some(counted.join(", "));
                Verdict::NotRewritten
            }
        };
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

    fn untried(version: Version) -> Cell {
        Cell::untried(
            Client::Curl,
            Server::Nginx,
            version,
            Verdict::Cannot,
            "not yet",
        )
    }

    #[test]
    fn with_consent_a_flight_is_rewritten_exactly_where_a_key_can_be_released() {
        let well = Sample {
            ok: true,
            identical: true,
            counted: [("record_keys_missing (server side)".to_owned(), 1)].into(),
            ..Sample::default()
        };
        let rewritten = Sample {
            flights_written: 1,
            rebuilt_bytes: 2_400,
            ..well.clone()
        };
        let missed = Sample {
            originals_bytes: 1,
            ..rewritten.clone()
        };
        let nothing_spared = Sample {
            rebuilt_bytes: 0,
            ..rewritten.clone()
        };
        let differing = Sample {
            identical: false,
            ..rewritten.clone()
        };
        let missing = "record_keys_missing (server side): 1";
        for (cannot, sample, verdict, why) in [
            (None, &rewritten, Verdict::Rewritten, None),
            (None, &well, Verdict::NotRewritten, Some(missing)),
            (None, &missed, Verdict::NotRewritten, Some(missing)),
            (None, &nothing_spared, Verdict::NotRewritten, Some(missing)),
            (Some("no key"), &well, Verdict::Untouched, Some("no key")),
            (Some("no key"), &rewritten, Verdict::Touched, None),
            (None, &differing, Verdict::Differs, None),
        ] {
            let mut cell = untried(Version::Tls13);
            cell.judge_consent(cannot, sample);
            assert_eq!(
                (cell.verdict, cell.why.as_deref()),
                (verdict, why),
                "{sample:?}"
            );
        }
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
            let mut cell = untried(version);
            cell.judge(version, sample);
            assert_eq!(cell.verdict, verdict, "{sample:?}");
            assert_eq!(verdict.is_fault(), is_fault);
        }
    }
}
