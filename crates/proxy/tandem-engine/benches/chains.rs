//! How many bytes a certificate chain of the web costs at first contact and at a renewal, beside
//! certificate compression (RFC 8879).
//!
//! Chains that the built-in dictionary has not seen; each figure is over the same ones. A delta is
//! checked: what it is rebuilt to is the flight. zstd is the program of that name, where there is
//! one.
//!
//! Is not: abridged certificates, which no endpoint speaks. Their draft gives figures of its own,
//! on other chains (draft-ietf-tls-cert-abridge: 1,060 bytes at the median, 1,437 at p95).
//!
//! Prints a line for people and a JSON line for scripts per figure. The chains are not part of the
//! project; without them it says so and measures nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a bench reads files and prints"
)]

#[path = "../tests/support/chains.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::read::ZlibEncoder;
use support::{
    BARE, HOLD_OUT, Shown, authorities, brotli, chains, compressed_certificate, flight,
    shown_before, site_of, teach, written, written_with,
};
use tandem_delta::Encoding;
use tandem_engine::Authorities;
use tandem_store::MemoryStore;
use tandem_testkit::bench::script_line;

/// Sizes by the name of what was measured.
type Sizes = BTreeMap<&'static str, Vec<usize>>;

fn main() {
    let chains = chains();
    if chains.is_empty() {
        return;
    }
    let held_out = |shown: &&Shown| *shown.since >= *HOLD_OUT;
    let mut sizes = Sizes::new();
    let given = authorities(&chains);
    for shown in chains.iter().filter(held_out) {
        first_contact(&chains, &given, shown, &mut sizes);
    }
    renewals(&chains, &mut sizes);
    for (name, mut sizes) in sizes {
        sizes.sort_unstable();
        let at = |part: usize| sizes[(sizes.len() - 1) * part / 100];
        let [low, middle, high] = [at(5), at(50), at(95)];
        println!(
            "{name:<40} {:>4} chains: p5 {low:>5}, p50 {middle:>5}, p95 {high:>5} bytes",
            sizes.len()
        );
        for (percentile, value) in [("p5", low), ("p50", middle), ("p95", high)] {
            script_line(&format!("chain_{name}_{percentile}"), value as f64, "bytes");
        }
    }
}

/// A chain of a site that neither proxy has met.
fn first_contact(chains: &[Shown], given: &Authorities, shown: &Shown, sizes: &mut Sizes) {
    let Shown { since, site, chain } = shown;
    let mut add = |name, size| sizes.entry(name).or_default().push(size);
    let bytes = flight(chain);
    add("first_contact_as_it_is", bytes.len() - BARE);
    add(
        "first_contact_rfc8879_brotli",
        compressed_certificate(chain, brotli),
    );
    add(
        "first_contact_rfc8879_zlib",
        compressed_certificate(chain, zlib),
    );
    if let Some(size) = zstd(&[])
        .map(|_| compressed_certificate(chain, |message| zstd(message).expect("it ran before")))
    {
        add("first_contact_rfc8879_zstd", size);
    }
    let nothing = MemoryStore::default;
    let others = || shown_before(chains, since, site);
    let site = site_of(site);
    let mut crossed = |name, mut here: MemoryStore, mut there: MemoryStore| {
        let delta = written(Encoding::Three, &bytes, &site, &mut here, &mut there);
        add(name, delta.len() - BARE);
    };
    crossed("first_contact_nothing_held", nothing(), nothing());
    crossed("first_contact_issuers_held_there", nothing(), others());
    crossed("first_contact_issuers_held", others(), others());
    let given = Some(given);
    add(
        "first_contact_authorities_given",
        written_with(given, given, &bytes).len() - BARE,
    );
}

/// Each chain of a site in turn, both proxies having seen what came before.
fn renewals(chains: &[Shown], sizes: &mut Sizes) {
    let (mut here, mut there) = (MemoryStore::default(), MemoryStore::default());
    let mut met = BTreeSet::new();
    for shown in chains {
        let Shown {
            since,
            site: name,
            chain,
        } = shown;
        let (bytes, site) = (flight(chain), site_of(name));
        if !met.insert(name) && **since >= *HOLD_OUT {
            let delta = written(Encoding::Three, &bytes, &site, &mut here, &mut there);
            let mut add = |name, size| sizes.entry(name).or_default().push(size);
            add("renewal", delta.len() - BARE);
            add(
                "renewal_rfc8879_brotli",
                compressed_certificate(chain, brotli),
            );
        }
        teach(&mut here, &site, &bytes);
        teach(&mut there, &site, &bytes);
    }
}

fn zlib(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = ZlibEncoder::new(message, Compression::best());
    encoder.read_to_end(&mut out).expect("it is compressed");
    out
}

fn zstd(message: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new("zstd");
    command.args(["-19", "--no-check", "--stdout", "--quiet"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take().expect("piped");
    input.write_all(message).expect("it reads");
    drop(input);
    Some(child.wait_with_output().expect("it ends").stdout)
}
