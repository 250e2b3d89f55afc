//! An experiment as a TOML file says it: links x endpoints x arms x trials, and how long it will
//! take.
//!
//! ```toml
//! name = "bars"
//! about = "one line"
//! seed = 2026                              # of the order of arms and of the links' chance
//! trials = 20                              # of each arm
//! links = ["iridium", "kite"]              # presets, or names of [[link]] tables
//! endpoints = ["one", "mine"]              # cases (one, three, curl), or names of [[endpoint]] tables
//! arms = ["plain", "packet"]               # plain, pass-through, packet-cold, packet-none, packet, packet-cii, packet-filter,
//!                                          # packet-mcveety, tunnel, tunnel-asleep, tunnel-cold;
//!                                          # peers: quic, quic-zstd, ssh, hysteria, wireguard, resumption, resumption-id,
//!                                          # packet-resumption, tls13, packet-tls13, tunnel-tls13, tunnel-consent,
//!                                          # tunnel-client-consent, tunnel-client-bytes, rfc8879
//! side-by-side = 8                         # optional: units that run at a time on slow links, at the most
//! situations = ["case-0", "case-3"]        # optional: what is the matter with the proxies; each with every link and endpoints
//!
//! [[link]]
//! name = "kite"
//! up = 64000                               # bit/s
//! down = 64000
//! delay-ms = 20.0                          # one way
//!
//! [[endpoint]]
//! name = "mine"
//! client = "curl"                          # curl, s_client, gnutls-cli, rustls
//! server = "nginx"                         # nginx, s_server, rustls
//! arms = ["plain"]                         # optional: those of the arms above that these take part in
//! version = "1.2"
//! key = "ecdsa-p256"                       # rsa-2048, -3072, -4096, ecdsa-p256, -p384, ed25519, ml-dsa-44, -65
//! openssl = "3.5"                          # optional: s_client and s_server of that OpenSSL
//! groups = "X25519"                        # optional: for the key exchange; s_client and s_server
//! chain = 3
//! repeat-after-ms = 2000                   # optional: how long TCP waits before it repeats; in situations only
//! client-chain = 1                         # optional: the server asks, and the client shows so many certificates
//! clients = 1000                           # optional: so many come, each with its own; all once, and a sample of `trials` again
//! ```
//!
//! Is not: the running of it, which is `runner`.

use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use tandem_netsim::link::LinkConfig;

use crate::crowd;
use crate::plan::{Plan, Renewed};
use crate::schedule::{self, Company, Need};
use crate::setup::Setup;
use tandem_report::arm::{Arm, StoreState};
use tandem_report::situation::Situation;
use tandem_testbed::LabError;
use tandem_testbed::endpoints::{ClientProgram, Endpoints, ServerProgram, Version};
use tandem_testbed::links::{self, LinkSpec};
use tandem_testbed::openssl::Openssl;
use tandem_testbed::pki::KeyKind;
use tandem_testbed::topology::{Family, Gateways};

/// Units that run side by side at the most unless the file says otherwise: a bound on memory, some
/// 100 MB each. What the processors bear is the schedule's matter.
const SIDE_BY_SIDE: usize = 24;

/// What `--quick` may take, seconds.
const QUICK_SECONDS: f64 = 75.0;

/// Trials of each arm with `--quick`, where there is time for more than one.
const QUICK_TRIALS: u32 = 3;

/// An experiment that is complete and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name; files are called by it.
    pub name: String,
    /// What it is for, one line.
    pub about: String,
    /// Of all its chance.
    pub seed: u64,
    /// Measured trials of each arm.
    pub trials: u32,
    /// In the file's order.
    pub links: Vec<LinkSpec>,
    /// In the file's order.
    pub endpoints: Vec<Endpoints>,
    /// In the file's order.
    pub arms: Vec<Arm>,
    /// Units that run at a time on slow links, at the most.
    pub side_by_side: usize,
    /// In the file's order; empty for ordinary trials.
    pub situations: Vec<Situation>,
}

/// One link with one pair of endpoints: all its arms, interleaved.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The link as the file says it.
    pub link: LinkSpec,
    /// What it means.
    pub config: LinkConfig,
    /// The endpoints.
    pub endpoints: Endpoints,
    /// What is the matter; `None` in ordinary trials.
    pub situation: Option<Situation>,
    /// Of this unit's chance.
    pub seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    name: String,
    about: String,
    seed: u64,
    trials: u32,
    links: Vec<String>,
    endpoints: Vec<String>,
    arms: Vec<Arm>,
    side_by_side: Option<usize>,
    #[serde(default)]
    situations: Vec<Situation>,
    #[serde(default)]
    link: Vec<LinkSpec>,
    #[serde(default)]
    endpoint: Vec<Endpoints>,
}

impl Experiment {
    /// Reads a file.
    ///
    /// # Errors
    /// `Usage` with the place in the file; `Io` where it cannot be read.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path)
            .map_err(LabError::io(format!("read {}", path.display())))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a text that stands in `file`.
    ///
    /// # Errors
    /// `Usage` with the place in the text.
    pub fn parse(text: &str, file: &str) -> Result<Self, LabError> {
        let wrong = |why: String| LabError::usage(file, why);
        let parsed: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text
                .bytes()
                .take(start)
                .filter(|byte| *byte == b'\n')
                .count();
            LabError::usage(format!("{file}:{line}"), error.message().replace('\n', " "))
        })?;
        let named_link = |name: &String| {
            parsed
                .link
                .iter()
                .find(|link| link.name == *name)
                .cloned()
                .unwrap_or_else(|| LinkSpec::preset(name))
        };
        let named_endpoints = |name: &String| {
            parsed
                .endpoint
                .iter()
                .find(|endpoints| endpoints.name == *name)
                .cloned()
                .map_or_else(|| Endpoints::case(name), Ok)
        };
        let experiment = Self {
            links: parsed.links.iter().map(named_link).collect(),
            endpoints: parsed
                .endpoints
                .iter()
                .map(named_endpoints)
                .collect::<Result<_, _>>()?,
            name: parsed.name,
            about: parsed.about,
            seed: parsed.seed,
            trials: parsed.trials,
            arms: parsed.arms,
            side_by_side: parsed.side_by_side.unwrap_or(SIDE_BY_SIDE).max(1),
            situations: parsed.situations,
        };
        let roams = experiment
            .situations
            .iter()
            .any(|situation| Plan::of(*situation).gateways == Gateways::Two);
        let has_v6 = experiment
            .endpoints
            .iter()
            .any(|endpoints| endpoints.family.family() == Family::V6);
        if roams && has_v6 {
            return Err(wrong(
                "situations with two gateways at an end are IPv4 only".to_owned(),
            ));
        }
        for link in &experiment.links {
            link.config()?;
        }
        let any_client_chain = experiment
            .endpoints
            .iter()
            .any(|endpoints| endpoints.client_chain > 0);
        if any_client_chain && !experiment.situations.is_empty() {
            return Err(wrong(
                "situations are about servers' chains: no client-chain with them".to_owned(),
            ));
        }
        if !experiment.situations.is_empty() && experiment.arms.iter().any(|arm| arm.is_peer()) {
            return Err(wrong("peers are not run in situations".to_owned()));
        }
        if !experiment.situations.is_empty() && experiment.arms.iter().any(|arm| arm.is_tunnel()) {
            return Err(wrong("the tunnel is not run in situations".to_owned()));
        }
        for endpoints in &experiment.endpoints {
            let can_be_many = endpoints.client_chain == 1 && endpoints.key == KeyKind::EcdsaP256;
            if endpoints.clients > 0 && !can_be_many {
                return Err(wrong(format!(
                    "{}: clients need client-chain = 1 and key = \"ecdsa-p256\"",
                    endpoints.name
                )));
            }
            let are_openssl = endpoints.client == ClientProgram::SClient
                && endpoints.server == ServerProgram::SServer;
            if endpoints.key.openssl() == Openssl::Current && endpoints.openssl != Openssl::Current
            {
                return Err(wrong(format!(
                    "{}: a key of this kind needs openssl = \"3.5\"",
                    endpoints.name
                )));
            }
            if !are_openssl && (endpoints.openssl != Openssl::System || endpoints.groups.is_some())
            {
                return Err(wrong(format!(
                    "{}: openssl and groups are for s_client and s_server",
                    endpoints.name
                )));
            }
            if endpoints.client == ClientProgram::Rustls && endpoints.client_chain > 0 {
                return Err(wrong(format!(
                    "{}: the client on rustls shows no certificates",
                    endpoints.name
                )));
            }
            let arms = experiment.arms_of(endpoints);
            if let Some(unknown) = endpoints.arms.iter().find(|arm| !arms.contains(arm)) {
                let (name, arm) = (&endpoints.name, unknown.name());
                return Err(wrong(format!(
                    "{name}: {arm} is not among the arms of the file"
                )));
            }
            for arm in arms {
                if let Some(why) = Setup::of(arm).obstacle(endpoints) {
                    let (name, arm) = (&endpoints.name, arm.name());
                    return Err(wrong(format!("{name}: the arm {arm} {why}")));
                }
            }
        }
        if experiment.trials == 0
            || experiment.links.is_empty()
            || experiment.endpoints.is_empty()
            || experiment.arms.is_empty()
        {
            return Err(wrong(
                "needs at least one link, one pair of endpoints, one arm and one trial".to_owned(),
            ));
        }
        if !is_file_name(&experiment.name) {
            return Err(wrong(format!(
                "name = {:?}: letters, digits and hyphens only, since files are called by it",
                experiment.name
            )));
        }
        Ok(experiment)
    }

    /// Keeps only these links, endpoints, arms or situations; an empty list keeps all.
    ///
    /// # Errors
    /// `Usage` for a name that the experiment does not have.
    pub fn restrict(
        &mut self,
        links: &[String],
        endpoints: &[String],
        arms: &[String],
        situations: &[String],
    ) -> Result<(), LabError> {
        keep(&mut self.situations, situations, "situation", |situation| {
            situation.name()
        })?;
        keep(&mut self.links, links, "link", |link| &link.name)?;
        keep(&mut self.endpoints, endpoints, "endpoints", |pair| {
            &pair.name
        })?;
        keep(&mut self.arms, arms, "arm", |arm| arm.name())
    }

    /// Leaves out the arms that take a program which `is_there` does not find; which, and what each
    /// takes.
    pub fn leave_out_missing(
        &mut self,
        is_there: impl Fn(&str) -> bool,
    ) -> Vec<(Arm, &'static str)> {
        let takes = |arm: &Arm| {
            Setup::of(*arm)
                .program()
                .filter(|program| !is_there(program))
        };
        let arms = self.arms.iter();
        let missing: Vec<(Arm, &'static str)> =
            arms.filter_map(|arm| Some((*arm, takes(arm)?))).collect();
        self.arms.retain(|arm| takes(arm).is_none());
        for endpoints in &mut self.endpoints {
            endpoints.arms.retain(|arm| takes(arm).is_none());
        }
        missing
    }

    /// Leaves out the ends whose OpenSSL `is_there` does not find; which.
    pub fn leave_out_without_openssl(&mut self, is_there: impl Fn(Openssl) -> bool) -> Vec<String> {
        let (kept, missing) = std::mem::take(&mut self.endpoints)
            .into_iter()
            .partition(|endpoints| is_there(endpoints.openssl));
        self.endpoints = kept;
        let missing: Vec<Endpoints> = missing;
        missing
            .into_iter()
            .map(|endpoints| endpoints.name)
            .collect()
    }

    /// Cuts it down to about a minute; says what was left out.
    pub fn make_quick(&mut self) -> Vec<String> {
        let full = self.trials;
        self.trials = self.trials.min(QUICK_TRIALS);
        let mut left_out = Vec::new();
        while self.estimate().as_secs_f64() > QUICK_SECONDS {
            if self.trials > 1 {
                self.trials -= 1;
            } else if let Some(slowest) = (self.links.len() > 1).then(|| self.slowest_link()) {
                left_out.push(self.links.remove(slowest).name);
            } else if self.endpoints.len() > 1 {
                left_out.extend(self.endpoints.pop().map(|pair| pair.name));
            } else if self.situations.len() > 1 {
                left_out.extend(
                    self.situations
                        .pop()
                        .map(|situation| situation.name().to_owned()),
                );
            } else {
                break;
            }
        }
        if self.trials < full {
            left_out.push(format!("{} of {full} trials", full - self.trials));
        }
        left_out
    }

    /// Its situations; none is one, too.
    fn situations(&self) -> Vec<Option<Situation>> {
        match self.situations.as_slice() {
            [] => vec![None],
            situations => situations.iter().copied().map(Some).collect(),
        }
    }

    /// All its units, each link with all endpoints in turn.
    ///
    /// # Errors
    /// `Usage` where a link cannot be.
    pub fn units(&self) -> Result<Vec<Unit>, LabError> {
        let mut seeds = rand_pcg::Pcg64Mcg::new(u128::from(self.seed));
        let mut units = Vec::new();
        for link in &self.links {
            for endpoints in &self.endpoints {
                for situation in self.situations() {
                    units.push(Unit {
                        link: link.clone(),
                        config: link.config()?,
                        endpoints: endpoints.clone(),
                        situation,
                        seed: seeds.random(),
                    });
                }
            }
        }
        Ok(units)
    }

    /// The arms that these ends take part in, in the file's order.
    pub fn arms_of(&self, endpoints: &Endpoints) -> Vec<Arm> {
        let takes_part = |arm: &&Arm| endpoints.arms.is_empty() || endpoints.arms.contains(arm);
        self.arms.iter().filter(takes_part).copied().collect()
    }

    /// The order of arms in one round of trials: the same for the same seed.
    pub fn order(&self, unit: &Unit, round: u32) -> Vec<Arm> {
        let mut order = self.arms_of(&unit.endpoints);
        let mut chance = rand_pcg::Pcg64Mcg::new(u128::from(unit.seed) << 32 | u128::from(round));
        order.shuffle(&mut chance);
        order
    }

    /// How long it will take, by arithmetic: bytes by the links' rates, round trips by their
    /// delays, slow links side by side.
    pub fn estimate(&self) -> Duration {
        let Ok(units) = self.units() else {
            return Duration::ZERO;
        };
        let needs = units.iter().map(|unit| self.need(unit)).collect();
        let processors = schedule::processors();
        Duration::from_secs_f64(schedule::seconds(needs, self.side_by_side, processors))
    }

    /// Trials of an arm in a unit.
    pub(crate) fn trials_of(&self, unit: &Unit, arm: Arm) -> u64 {
        match unit.endpoints.clients {
            0 => u64::from(self.trials),
            clients => {
                let sample = usize::try_from(self.trials).unwrap_or(usize::MAX);
                crowd::trials(arm, clients, sample, &unit.config) as u64
            }
        }
    }

    /// Rounds of a unit: as many as its arm with the most trials has.
    pub(crate) fn rounds(&self, unit: &Unit) -> u32 {
        let most = self
            .arms_of(&unit.endpoints)
            .into_iter()
            .map(|arm| self.trials_of(unit, arm))
            .max();
        u32::try_from(most.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// What a unit takes.
    pub(crate) fn need(&self, unit: &Unit) -> Need {
        Need {
            seconds: self.unit_seconds(unit),
            trials: self
                .arms_of(&unit.endpoints)
                .into_iter()
                .map(|arm| self.trials_of(unit, arm) as f64)
                .sum(),
            company: if links::is_slow(&unit.config) {
                Company::Others
            } else {
                Company::Nobody
            },
        }
    }

    fn unit_seconds(&self, unit: &Unit) -> f64 {
        if let Some(situation) = unit.situation {
            return self.staged_seconds(unit, situation);
        }
        // Namespaces, programs and daemons of one lane.
        const SET_UP: f64 = 0.5;
        let arms = self.arms_of(&unit.endpoints);
        let one = |arm: Arm| {
            let mut one = trial_seconds(&unit.config, &unit.endpoints, arm);
            if Setup::of(arm).resumes() && arm.has_proxies() {
                // The visit before.
                one += trial_seconds(&unit.config, &unit.endpoints, Arm::Packet);
            }
            one
        };
        let round: f64 = arms.iter().map(|arm| one(*arm)).sum();
        // An arm rests while the others have their trials, and for what is missing after that.
        let idle: f64 = arms
            .iter()
            .map(|arm| {
                let rest = Setup::of(*arm).rest.as_secs_f64();
                let missing = (rest + one(*arm) - round).max(0.0);
                missing * self.trials_of(unit, *arm) as f64
            })
            .sum();
        arms.iter()
            .map(|arm| SET_UP + one(*arm) * self.trials_of(unit, *arm) as f64)
            .sum::<f64>()
            + idle
            + arms
                .iter()
                .filter(|arm| arm.store() == StoreState::Warm || arm.is_peer())
                .map(|_| trial_seconds(&unit.config, &unit.endpoints, Arm::Plain))
                // Warm-ups run at the same time.
                .fold(0.0, f64::max)
    }

    /// As if every connection were a plain one: those that come before a trial are, and some of
    /// those after.
    fn staged_seconds(&self, unit: &Unit, situation: Situation) -> f64 {
        // Namespaces, certificates, programs and daemons of an arm.
        const SET_UP: f64 = 1.5;
        let plan = Plan::of(situation);
        let one = trial_seconds(&unit.config, &unit.endpoints, Arm::Plain);
        let rehearsals = match plan.renewed {
            Renewed::Once => 1,
            Renewed::Always => self.trials,
        };
        let before = f64::from(rehearsals) * plan.before.len() as f64;
        self.arms.len() as f64 * (SET_UP + one * (f64::from(self.trials) + before))
    }

    fn slowest_link(&self) -> usize {
        let seconds = |link: &LinkSpec| {
            link.config().map_or(0.0, |config| {
                trial_seconds(&config, &self.endpoints[0], Arm::Plain)
            })
        };
        (0..self.links.len())
            .max_by(|a, b| seconds(&self.links[*a]).total_cmp(&seconds(&self.links[*b])))
            .unwrap_or(0)
    }
}

/// How long one connection takes on a link, by arithmetic, seconds.
pub(crate) fn trial_seconds(config: &LinkConfig, endpoints: &Endpoints, arm: Arm) -> f64 {
    /// SYN, hello, key exchange, request, close.
    const ROUND_TRIPS: f64 = 5.0;
    /// IP bytes up: hello, key exchange, request, and eight headers with timestamps of 52 bytes.
    const UP: f64 = 1_000.0;
    /// IP bytes down beside the certificates: hello, signature, Finished, response, and as many
    /// headers.
    const DOWN: f64 = 1_300.0;
    /// What stands for certificates.
    const REFERENCES: usize = 60;
    /// A client's CertificateVerify with an RSA signature.
    const VERIFY: usize = 270;
    /// Starting a client, and being sure that the link has gone quiet.
    const AROUND: f64 = 0.25;
    /// IP bytes each way until a tunnel is up: padded Initials, and a key share and an encapsulated
    /// key of X25519MLKEM768.
    const TUNNEL_SET_UP: f64 = 3_000.0;
    /// What of that is an RSA signature.
    const SIGNATURE: usize = 256;
    /// A share of X25519MLKEM768 and one of X25519, and the answer to the first (RFC 9794 has the
    /// terms; FIPS 203, table 3, the sizes).
    const HYBRID_UP: usize = 1_216 + 32;
    const HYBRID_DOWN: usize = 1_120;
    let natural = endpoints.key.certificate_len();
    let (hybrid_up, hybrid_down) = match (endpoints.openssl, &endpoints.groups) {
        (Openssl::Current, None) => (HYBRID_UP, HYBRID_DOWN),
        (Openssl::Current, Some(_)) | (Openssl::System, _) => (0, 0),
    };
    let signature = endpoints.key.signature_len().saturating_sub(SIGNATURE);
    let leaf = endpoints.leaf_bytes.unwrap_or(natural);
    let issuers = endpoints.issuer_bytes.unwrap_or(natural) * usize::from(endpoints.chain - 1);
    let setup = Setup::of(arm);
    let is_open = endpoints.version != Version::Tls13 || setup.releases_keys().is_some();
    let certificates = if setup.resumes() {
        0
    } else if is_open && (setup.replaces_chains() || setup.releases_keys().is_some()) {
        REFERENCES
    } else {
        leaf + issuers
    };
    let of_client = match endpoints.client_chain.checked_sub(1) {
        None => 0,
        Some(_) if setup.resumes() => 0,
        Some(_) if setup.remembers_clients() => REFERENCES + VERIFY,
        Some(issuers) => {
            let leaf = endpoints.client_leaf_bytes.unwrap_or(natural);
            let issuer = endpoints.client_issuer_bytes.unwrap_or(natural);
            leaf + issuer * usize::from(issuers) + VERIFY
        }
    };
    let set_up = if arm.is_tunnel() && arm.store() == StoreState::Cold {
        TUNNEL_SET_UP
    } else {
        0.0
    };
    AROUND
        + ROUND_TRIPS * (config.up.delay + config.down.delay).as_secs_f64()
        + links::air_seconds(&config.up, UP + (of_client + hybrid_up) as f64 + set_up)
        + links::air_seconds(
            &config.down,
            DOWN + (certificates + hybrid_down + signature) as f64 + set_up,
        )
}

fn keep<T>(
    list: &mut Vec<T>,
    wanted: &[String],
    what: &str,
    name: impl Fn(&T) -> &str,
) -> Result<(), LabError> {
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !list.iter().any(|item| name(item) == wanted.as_str()))
    {
        return Err(LabError::usage(
            format!("{what} {unknown}"),
            "is not in the experiment",
        ));
    }
    list.retain(|item| wanted.iter().any(|wanted| name(item) == wanted));
    Ok(())
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "test"
        about = "a test"
        seed = 7
        trials = 20
        links = ["iridium", "kite"]
        endpoints = ["one", "mine"]
        arms = ["plain", "packet", "packet-cold"]
        [[link]]
        name = "kite"
        up = 10000000
        down = 10000000
        delay-ms = 1.0
        [[endpoint]]
        name = "mine"
        client = "curl"
        version = "1.2"
        key = "ecdsa-p256"
        chain = 3
    "#;

    #[test]
    fn a_mistake_in_the_file_is_told_in_one_line_with_its_place() {
        for (from, to, place, words) in [
            ("trials = ", "trails = ", 5, "trails"),
            ("seed = 7", "seed = \"x\"", 4, "u64"),
            ("arms = [", "arms = [\"plane\", ", 8, "plane"),
        ] {
            let text = TEXT.replace(from, to);
            let error = Experiment::parse(&text, "test.toml").unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with(&format!("test.toml:{place}: ")), "{said}");
            assert!(said.contains(words), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(!said.contains(" | "), "no picture of the line: {said}");
        }
    }

    #[test]
    fn a_file_is_read_and_its_units_are_links_by_endpoints() -> Result<(), LabError> {
        let experiment = Experiment::parse(TEXT, "test.toml")?;
        let names: Vec<(String, String)> = experiment
            .units()?
            .into_iter()
            .map(|unit| (unit.link.name, unit.endpoints.name))
            .collect();
        let expected = [
            ("iridium", "one"),
            ("iridium", "mine"),
            ("kite", "one"),
            ("kite", "mine"),
        ];
        assert!(
            names
                .iter()
                .map(|(link, pair)| (link.as_str(), pair.as_str()))
                .eq(expected)
        );
        Ok(())
    }

    #[test]
    fn every_round_has_every_arm_in_an_order_of_its_own() -> Result<(), LabError> {
        let experiment = Experiment::parse(TEXT, "test.toml")?;
        let unit = &experiment.units()?[0];
        let orders: Vec<Vec<Arm>> = (1..=20)
            .map(|round| experiment.order(unit, round))
            .collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, [Arm::Plain, Arm::PacketCold, Arm::Packet]);
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        assert_eq!(
            experiment.order(unit, 3),
            orders[2],
            "the same seed, the same order"
        );
        Ok(())
    }

    #[test]
    fn ends_may_take_part_in_some_arms_only() -> Result<(), LabError> {
        let text = TEXT.replace("chain = 3", "chain = 3\narms = [\"plain\", \"packet\"]");
        let experiment = Experiment::parse(&text, "test.toml")?;
        let units = experiment.units()?;
        assert_eq!(experiment.order(&units[0], 1).len(), 3);
        let mut order = experiment.order(&units[1], 1);
        order.sort();
        assert_eq!(order, [Arm::Plain, Arm::Packet]);
        Ok(())
    }

    #[test]
    fn the_estimate_follows_the_arithmetic_of_the_link() -> Result<(), LabError> {
        let iridium = LinkSpec::preset("iridium").config()?;
        let plain = trial_seconds(&iridium, &Endpoints::three(), Arm::Plain);
        let warm = trial_seconds(&iridium, &Endpoints::three(), Arm::Packet);
        // 2,726 bytes of certificates at 2,400 bit/s, less the reference's 60.
        assert!((plain - warm - 2_666.0 * 8.0 / 2_400.0).abs() < 1e-6);
        assert!((20.0..25.0).contains(&plain), "{plain}");
        let tunnel = |arm| trial_seconds(&iridium, &Endpoints::three(), arm);
        assert_eq!(tunnel(Arm::Tunnel), warm);
        // 3,000 bytes of set-up each way.
        let set_up = tunnel(Arm::TunnelCold) - plain;
        assert!((set_up - 20.0).abs() < 1e-6, "{set_up}");
        let experiment = Experiment::parse(TEXT, "test.toml")?;
        let full = experiment.estimate();
        let mut quick = experiment.clone();
        let left_out = quick.make_quick();
        assert!(full > Duration::from_secs(600), "{full:?}");
        assert!(quick.estimate() < Duration::from_secs(76));
        assert_eq!(left_out, ["19 of 20 trials"]);
        Ok(())
    }

    #[test]
    fn an_arm_that_rests_does_so_while_the_others_have_their_trials() -> Result<(), LabError> {
        let seconds = |arms: &str, trials: u32| {
            let text = TEXT
                .replace("\"plain\", \"packet\", \"packet-cold\"", arms)
                .replace("trials = 20", &format!("trials = {trials}"))
                .replace("\"iridium\", \"kite\"", "\"iridium\"")
                .replace("\"one\", \"mine\"", "\"three\"");
            let experiment = Experiment::parse(&text, "test.toml")?;
            Ok::<_, LabError>(experiment.unit_seconds(&experiment.units()?[0]))
        };
        let one_more = |arms| Ok::<_, LabError>(seconds(arms, 2)? - seconds(arms, 1)?);
        let rest = crate::setup::REST.as_secs_f64();
        let iridium = LinkSpec::preset("iridium").config()?;
        let asleep = trial_seconds(&iridium, &Endpoints::three(), Arm::TunnelAsleep);
        let alone = one_more("\"tunnel-asleep\"")?;
        assert!((alone - rest - asleep).abs() < 1e-6, "{alone}");
        let beside = one_more("\"plain\", \"tunnel\", \"tunnel-asleep\"")?;
        assert!((beside - alone).abs() < 1e-6, "{beside}");
        Ok(())
    }

    #[test]
    fn arms_whose_program_is_missing_are_left_out_and_named() -> Result<(), LabError> {
        let text = TEXT.replace("\"packet-cold\"", "\"ssh\"");
        let mut experiment = Experiment::parse(&text, "test.toml")?;
        assert_eq!(experiment.leave_out_missing(|_| true), []);
        assert_eq!(experiment.arms.len(), 3);
        let missing = experiment.leave_out_missing(|_| false);
        assert_eq!(missing, [(Arm::Ssh, "sshd")]);
        assert_eq!(experiment.arms, [Arm::Plain, Arm::Packet]);
        Ok(())
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let cases = [
            ("trials = 20", "trials = 0"),
            ("\"plain\",", "\"plane\","),
            ("\"iridium\"", "\"pigeon\""),
            ("\"one\"", "\"seven\""),
            ("name = \"test\"", "name = \"../test\""),
            ("seed = 7", "sead = 7"),
            ("\"packet-cold\"]", "\"rfc8879\"]"),
            ("\"packet-cold\"]", "\"resumption\"]"),
            ("chain = 3", "chain = 3\narms = [\"tls13\"]"),
            ("\"packet-cold\"]", "\"tunnel\"]\nsituations = [\"case-0\"]"),
        ];
        for (right, wrong) in cases {
            let text = TEXT.replacen(right, wrong, 1);
            let result = Experiment::parse(&text, "test.toml");
            assert!(matches!(result, Err(LabError::Usage { .. })), "{wrong}");
        }
        let mut experiment = match Experiment::parse(TEXT, "test.toml") {
            Ok(experiment) => experiment,
            Err(error) => unreachable!("{error}"),
        };
        assert!(
            experiment
                .restrict(&["pigeon".to_owned()], &[], &[], &[])
                .is_err()
        );
        assert!(
            experiment
                .restrict(&["kite".to_owned()], &[], &["plain".to_owned()], &[])
                .is_ok()
        );
        assert_eq!((experiment.links.len(), experiment.arms.len()), (1, 1));
    }
}
