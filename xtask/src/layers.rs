//! The arrows between crates: what `Cargo.toml` files say, held against the table of layers.
//!
//! Two questions: does a crate depend only on the crates of the workspace that its row allows, and
//! do cores keep away from what would give them sockets, threads, files, a clock or randomness?
//! Direct dependencies are read as declared; for cores, what they reach in the end is looked at
//! too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

use crate::finding::Finding;
use crate::table::{Kind, LAYERS, Layer, layer};
use crate::tree::Tree;

/// External crates that a core may not name in its `Cargo.toml` (tests apart), by what they bring.
const BANNED_IN_CORES: [(&str, &[&str]); 6] = [
    (
        "sockets",
        &[
            "socket2", "mio", "nfq", "hyper", "reqwest", "ureq", "quinn", "tun",
        ],
    ),
    (
        "an async runtime",
        &["tokio", "async-std", "smol", "polling", "futures-executor"],
    ),
    ("system calls", &["nix", "libc", "rustix", "signal-hook"]),
    (
        "a random source",
        &["getrandom", "fastrand", "rand_os", "uuid"],
    ),
    ("files", &["tempfile", "walkdir", "dirs", "memmap2"]),
    (
        "what belongs to a program",
        &[
            "tracing-subscriber",
            "env_logger",
            "clap",
            "anyhow",
            "eyre",
            "rayon",
        ],
    ),
];
/// External crates that a core may not even reach through another crate.
const BANNED_IN_REACH: [&str; 9] = [
    "tokio",
    "async-std",
    "smol",
    "mio",
    "nfq",
    "nix",
    "socket2",
    "tracing-subscriber",
    "signal-hook",
];
/// Features of `rand` that bring a thread-local or operating-system generator. `rand` 0.9's names.
const RAND_GLOBAL_FEATURES: [&str; 4] = ["default", "thread_rng", "os_rng", "getrandom"];

/// When a dependency is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// In the crate itself or its build script.
    Shipped,
    /// In tests, benches and examples only.
    Tests,
}

/// One declared dependency.
#[derive(Clone, Debug)]
struct Dependency {
    name: String,
    when: Use,
    features: Vec<String>,
}

/// One crate of the workspace: its declared dependencies, and the external ones in its reach, each
/// with the path that leads there.
#[derive(Clone, Debug, Default)]
struct Member {
    name: String,
    dependencies: Vec<Dependency>,
    reaches: BTreeMap<String, Vec<String>>,
}

/// Arrows that the table does not allow.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(tree.root.join("Cargo.toml"))
        // What other systems would need is not downloaded for this.
        .other_options([
            "--filter-platform".to_owned(),
            "x86_64-unknown-linux-gnu".to_owned(),
        ])
        .exec()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(judge(&members(&metadata)))
}

fn members(metadata: &Metadata) -> Vec<Member> {
    let read = |package: &&cargo_metadata::Package| Member {
        name: package.name.to_string(),
        dependencies: package
            .dependencies
            .iter()
            .map(|dependency| {
                let default = dependency
                    .uses_default_features
                    .then(|| "default".to_owned());
                Dependency {
                    name: dependency.name.clone(),
                    when: match dependency.kind {
                        DependencyKind::Development => Use::Tests,
                        _ => Use::Shipped,
                    },
                    features: dependency.features.iter().cloned().chain(default).collect(),
                }
            })
            .collect(),
        reaches: reach(metadata, &package.id),
    };
    metadata.workspace_packages().iter().map(read).collect()
}

/// Every package that `start` reaches by shipped dependencies, by name, with the path of names.
fn reach(metadata: &Metadata, start: &PackageId) -> BTreeMap<String, Vec<String>> {
    let name_of: BTreeMap<&PackageId, &str> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package.name.as_str()))
        .collect();
    let nodes = metadata
        .resolve
        .as_ref()
        .map_or(&[][..], |resolve| &resolve.nodes);
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([start]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    while let Some((id, path)) = queue.pop_front() {
        let Some(node) = nodes.iter().find(|node| node.id == *id) else {
            continue;
        };
        for dependency in &node.deps {
            let shipped = dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind == DependencyKind::Normal);
            if !shipped || !seen.insert(&dependency.pkg) {
                continue;
            }
            let name = name_of
                .get(&dependency.pkg)
                .copied()
                .unwrap_or_default()
                .to_owned();
            let mut path = path.clone();
            path.push(name.clone());
            found.entry(name).or_insert_with(|| path.clone());
            queue.push_back((&dependency.pkg, path));
        }
    }
    found
}

fn judge(members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let Some(row) = layer(&member.name) else {
            let message = format!(
                "{} is not in the table of layers; give it a row",
                member.name
            );
            findings.push(Finding::on("xtask/src/table.rs", message));
            continue;
        };
        let manifest = format!("{}/Cargo.toml", row.folder);
        let mut report = |message: String| findings.push(Finding::on(&manifest, message));
        for dependency in &member.dependencies {
            if let Some(used) = layer(&dependency.name) {
                let allowed = (dependency.when == Use::Tests && used.kind == Kind::Testkit)
                    || row.may_use.contains(&dependency.name.as_str())
                    || (dependency.when == Use::Tests
                        && row.tests_may_use.contains(&dependency.name.as_str()));
                if !allowed {
                    report(format!(
                        "{} may not depend on {} (arrows point down only)",
                        member.name, dependency.name
                    ));
                }
            } else if row.kind == Kind::Core
                && dependency.when == Use::Shipped
                && let Some(why) = banned_in_core(dependency)
            {
                report(format!("{} is a core and may not use {why}", member.name));
            }
        }
        for (used, when) in unused(row, member) {
            findings.push(Finding::on(
                "xtask/src/table.rs",
                format!(
                    "{} may use {used}{when} and does not: take that out",
                    row.name
                ),
            ));
        }
        let mut report = |message: String| findings.push(Finding::on(&manifest, message));
        if row.kind == Kind::Core {
            for banned in BANNED_IN_REACH {
                if let Some(path) = member.reaches.get(banned).filter(|path| path.len() > 1) {
                    report(format!(
                        "{} is a core and reaches {}",
                        member.name,
                        path.join(" -> ")
                    ));
                }
            }
        }
    }
    for row in LAYERS {
        if !members.iter().any(|member| member.name == row.name) {
            let message = format!("{} is in the table but not in the workspace", row.name);
            findings.push(Finding::on("xtask/src/table.rs", message));
        }
    }
    findings
}

/// What a row allows that the crate's `Cargo.toml` does not name; what tests alone use needs no
/// more than to be allowed for them.
fn unused(row: &Layer, member: &Member) -> Vec<(&'static str, &'static str)> {
    let named = |name: &str, tests: bool| {
        let is_so = |dependency: &Dependency| {
            dependency.name == name && (tests || dependency.when == Use::Shipped)
        };
        member.dependencies.iter().any(is_so)
    };
    let shipped = row.may_use.iter().filter(|name| !named(name, false));
    let tests = row.tests_may_use.iter().filter(|name| !named(name, true));
    shipped
        .map(|name| (*name, ""))
        .chain(tests.map(|name| (*name, " in tests")))
        .collect()
}

fn banned_in_core(dependency: &Dependency) -> Option<String> {
    if dependency.name == "rand" {
        let global = |feature: &&String| RAND_GLOBAL_FEATURES.contains(&feature.as_str());
        return dependency
            .features
            .iter()
            .find(global)
            .map(|feature| format!("rand with its feature {feature} (a global random source)"));
    }
    BANNED_IN_CORES
        .iter()
        .find(|(_, crates)| crates.contains(&dependency.name.as_str()))
        .map(|(brings, _)| format!("{} (it brings {brings})", dependency.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole workspace, each crate with all that the table allows it, and this besides.
    fn workspace(changed: &str, more: Vec<Dependency>) -> Vec<Member> {
        let member = |row: &Layer| {
            let shipped = row.may_use.iter().map(|name| uses(name, Use::Shipped, &[]));
            let tests = row.tests_may_use.iter();
            let tests = tests.map(|name| uses(name, Use::Tests, &[]));
            Member {
                name: row.name.to_owned(),
                dependencies: shipped.chain(tests).collect(),
                reaches: BTreeMap::new(),
            }
        };
        let mut members: Vec<Member> = LAYERS.iter().map(member).collect();
        for member in members.iter_mut().filter(|member| member.name == changed) {
            member.dependencies.extend(more.iter().cloned());
        }
        members
    }

    fn uses(name: &str, when: Use, features: &[&str]) -> Dependency {
        let features = features.iter().map(|&feature| feature.to_owned()).collect();
        Dependency {
            name: name.to_owned(),
            when,
            features,
        }
    }

    fn messages(changed: &str, dependency: Dependency) -> Vec<String> {
        judge(&workspace(changed, vec![dependency]))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn an_allowed_arrow_is_allowed() {
        assert!(messages("tandem-engine", uses("tandem-wire", Use::Shipped, &[])).is_empty());
        assert!(messages("tandem-packet", uses("tandem-netsim", Use::Tests, &[])).is_empty());
    }

    #[test]
    fn an_upward_arrow_is_found() {
        assert_eq!(
            messages("tandem-wire", uses("tandem-engine", Use::Shipped, &[])),
            ["tandem-wire may not depend on tandem-engine (arrows point down only)"]
        );
        assert_eq!(
            messages("tandem-wire", uses("tandem-store", Use::Tests, &[])).len(),
            1
        );
        assert_eq!(
            messages("tandem", uses("xtask", Use::Shipped, &[])).len(),
            1
        );
    }

    #[test]
    fn an_arrow_for_tests_is_not_one_for_the_crate() {
        assert_eq!(
            messages("tandem-packet", uses("tandem-netsim", Use::Shipped, &[])).len(),
            1
        );
    }

    #[test]
    fn what_helps_tests_is_for_tests_alone() {
        assert!(messages("tandem-wire", uses("tandem-testkit", Use::Tests, &[])).is_empty());
        assert_eq!(
            messages("tandem-wire", uses("tandem-testkit", Use::Shipped, &[])).len(),
            1
        );
    }

    #[test]
    fn a_core_with_a_socket_crate_is_found_and_an_adapter_with_one_is_not() {
        assert_eq!(
            messages("tandem-engine", uses("tokio", Use::Shipped, &[])),
            ["tandem-engine is a core and may not use tokio (it brings an async runtime)"]
        );
        assert!(messages("tandem-packet-io", uses("nix", Use::Shipped, &[])).is_empty());
        assert!(messages("tandem-engine", uses("tempfile", Use::Tests, &[])).is_empty());
    }

    #[test]
    fn a_core_may_use_seeded_randomness_only() {
        assert!(messages("tandem-netsim", uses("rand", Use::Shipped, &["std"])).is_empty());
        assert_eq!(
            messages("tandem-netsim", uses("rand", Use::Shipped, &["thread_rng"])).len(),
            1
        );
        assert_eq!(
            messages("tandem-netsim", uses("rand", Use::Shipped, &["default"])).len(),
            1
        );
    }

    #[test]
    fn a_core_that_reaches_a_runtime_through_another_crate_is_found() {
        let mut members = workspace("", Vec::new());
        let path = vec!["helper".to_owned(), "tokio".to_owned()];
        let core = members
            .iter_mut()
            .find(|member| member.name == "tandem-wire");
        let core = core.expect("it is in the table");
        core.reaches.insert("tokio".to_owned(), path);
        let found = judge(&members);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.ends_with("reaches helper -> tokio"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn an_allowance_that_no_manifest_uses_is_found() {
        let without = |name: &str, used: &str| {
            let mut members = workspace("", Vec::new());
            for member in members.iter_mut().filter(|member| member.name == name) {
                member.dependencies.retain(|other| other.name != used);
            }
            members
        };
        let messages = |members: &[Member]| -> Vec<String> {
            judge(members).into_iter().map(|f| f.message).collect()
        };
        assert!(messages(&workspace("", Vec::new())).is_empty());
        assert_eq!(
            messages(&without("tandem-link", "tandem-wire")),
            ["tandem-link may use tandem-wire and does not: take that out"]
        );
        assert_eq!(
            messages(&without("tandem-packet", "tandem-netsim")),
            ["tandem-packet may use tandem-netsim in tests and does not: take that out"]
        );
        // In tests alone is not enough for what is allowed in the crate.
        let mut members = without("tandem-link", "tandem-wire");
        for member in members
            .iter_mut()
            .filter(|member| member.name == "tandem-link")
        {
            let dependency = uses("tandem-wire", Use::Tests, &[]);
            member.dependencies.push(dependency);
        }
        assert_eq!(messages(&members).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let mut members = workspace("", Vec::new());
        members[0].name = "tandem-new".to_owned();
        let found: Vec<String> = judge(&members).into_iter().map(|f| f.message).collect();
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
