//! Which visits are made over which links, as the experiment's file says.
//!
//! Is not: what a visit does (`application`).

use std::fs;
use std::num::NonZeroU32;

use serde::Deserialize;
use tandem_netsim::link::LinkConfig;
use tandem_report::arm::Arm;
use tandem_testbed::LabError;
use tandem_testbed::endpoints::Version;
use tandem_testbed::links::LinkSpec;

use super::VisitsOptions;
use super::kind::Kind;

/// The experiment where no file is named.
const BUILT_IN: &str = include_str!("../../../../../experiments/visits.toml");

/// What the file says, less what the options leave out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Visits of each arm that are not first ones, where the visit does not say.
    trials: NonZeroU32,
    /// The same for all visits, by an option.
    all_trials: Option<NonZeroU32>,
    pub(super) links: Vec<PlannedLink>,
    pub(super) arms: Vec<Arm>,
    pub(super) visits: Vec<Visit>,
}

/// A link, and what it means.
#[derive(Debug)]
pub(super) struct PlannedLink {
    pub(super) spec: LinkSpec,
    pub(super) config: LinkConfig,
}

/// A task, and how often a day has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Visit {
    /// What tables call it.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What the server speaks, and nothing else.
    pub(super) version: Version,
    pub(super) a_day: NonZeroU32,
    /// Measured visits begin so long after the one before at the earliest. 0: as soon as nothing of
    /// that one is left on the link.
    #[serde(default)]
    pub(super) apart_seconds: u64,
    /// Measured visits beside the first. Default: the experiment's.
    pub(super) trials: Option<NonZeroU32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    seed: u64,
    trials: NonZeroU32,
    links: Vec<String>,
    arms: Vec<Arm>,
    visit: Vec<Visit>,
    #[serde(default)]
    link: Vec<LinkSpec>,
}

impl Plan {
    /// Reads the file of these options.
    ///
    /// # Errors
    /// `Io`; `Usage` for what is no plan, and for a link or a visit that it does not have.
    pub(super) fn load(options: &VisitsOptions) -> Result<Self, LabError> {
        let (name, text) = match &options.file {
            None => ("experiments/visits.toml".to_owned(), BUILT_IN.to_owned()),
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    fs::read_to_string(path).map_err(LabError::io(format!("read {name}")))?;
                (name, text)
            }
        };
        let mut plan = Self::parse(&text, &name)?;
        let known = plan.links.iter().map(|link| link.spec.name.as_str());
        check(&options.links, &known.collect::<Vec<_>>(), "link")?;
        let known = plan.visits.iter().map(|visit| visit.name.as_str());
        check(&options.visits, &known.collect::<Vec<_>>(), "visit")?;
        let is_wanted =
            |wanted: &[String], name: &String| wanted.is_empty() || wanted.contains(name);
        plan.links
            .retain(|link| is_wanted(&options.links, &link.spec.name));
        plan.visits
            .retain(|visit| is_wanted(&options.visits, &visit.name));
        plan.all_trials = options.trials.and_then(NonZeroU32::new);
        Ok(plan)
    }

    /// How often a visit is made beside the first.
    pub(super) fn trials(&self, visit: &Visit) -> u32 {
        let trials = self.all_trials.or(visit.trials).unwrap_or(self.trials);
        trials.get()
    }

    fn parse(text: &str, name: &str) -> Result<Self, LabError> {
        let file: File = toml::from_str(text)
            .map_err(|error| LabError::usage(name, error.to_string().trim_end().to_owned()))?;
        let link = |name: &String| {
            let own = file.link.iter().find(|link| link.name == *name);
            let spec = own.cloned().unwrap_or_else(|| LinkSpec::preset(name));
            let config = spec.config()?;
            Ok(PlannedLink { spec, config })
        };
        for arm in &file.arms {
            if *arm != Arm::Plain && first_of(*arm).is_none() {
                let why = "is not among plain, packet and tunnel";
                return Err(LabError::usage(format!("{name}: arm {}", arm.name()), why));
            }
        }
        Ok(Self {
            seed: file.seed,
            trials: file.trials,
            all_trials: None,
            links: file
                .links
                .iter()
                .map(link)
                .collect::<Result<_, LabError>>()?,
            arms: file.arms,
            visits: file.visit,
        })
    }
}

/// The arm of first visits; `None` where a first visit is like any other, and for arms that have
/// no visits.
pub(super) fn first_of(arm: Arm) -> Option<Arm> {
    // Arms are compared, not matched: the other ones are another experiment's.
    [
        (Arm::Packet, Arm::PacketCold),
        (Arm::Tunnel, Arm::TunnelCold),
    ]
    .into_iter()
    .find_map(|(again, first)| (again == arm).then_some(first))
}

/// Whether all that are wanted are known.
fn check(wanted: &[String], known: &[&str], what: &str) -> Result<(), LabError> {
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(LabError::usage(
            format!("the {what} {unknown}"),
            format!("is none of these: {}", known.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_experiment_is_a_plan() -> Result<(), LabError> {
        let plan = Plan::parse(BUILT_IN, "visits.toml")?;
        assert_eq!(plan.arms, [Arm::Plain, Arm::Packet, Arm::Tunnel]);
        assert!(plan.visits.iter().any(|visit| visit.kind == Kind::Page));
        Ok(())
    }

    #[test]
    fn what_cannot_be_visited_is_refused_by_name() {
        let refused = |from: &str, to: &str| {
            let text = BUILT_IN.replacen(from, to, 1);
            let plan = Plan::parse(&text, "visits.toml").map(|_| ());
            plan.expect_err(to).to_string()
        };
        assert!(refused("\"tunnel\"", "\"tunnel-cold\"").contains("arm tunnel-cold"));
        assert!(refused("\"iridium\"", "\"pigeon\"").contains("link pigeon"));
        assert!(refused("a-day = 20", "a-day = 0").contains("a-day"));
        assert!(refused("kind = \"page\"", "kind = \"pages\"").contains("pages"));
        let known = check(&["pag".to_owned()], &["page", "poll"], "visit");
        let said = known.map_err(|error| error.to_string());
        assert!(
            said.is_err_and(|said| said.contains("the visit pag") && said.contains("page, poll"))
        );
    }
}
