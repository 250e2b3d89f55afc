//! The chains that fourteen web sites showed over a decade: each is found by the names in its leaf,
//! by the site, and not after its end; and each comes through an export and an import.
//!
//! The names are read here by another way than the store's, as far as one parser can tell: straight
//! from the extension.

use std::path::PathBuf;

use crate::support::disk::{each_kind, open};
use crate::support::stores::{NOW, learn, site};
use tandem_store::{Digest, HostName, Kind, Limits, ObjectId, Site, Store};
use tandem_store_sqlite::admin::{self, Format, Import};
use tandem_wire::clock::UnixTime;
use tempfile::TempDir;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

struct WebChain {
    site: Site,
    ders: Vec<Vec<u8>>,
    /// DNS names in the leaf.
    names: Vec<String>,
    not_after: UnixTime,
}

fn file() -> Option<PathBuf> {
    tandem_testkit::data("chains/web-chains-until-2025-06.jsonl")
}

fn web_chains() -> Vec<WebChain> {
    let Some(file) = file() else {
        return Vec::new();
    };
    let text = std::fs::read_to_string(file).expect("readable");
    let chains: Vec<WebChain> = text.lines().map(web_chain).collect();
    assert!(chains.len() > 100);
    chains
}

fn web_chain(line: &str) -> WebChain {
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let decode = |der: &serde_json::Value| {
        data_encoding::BASE64
            .decode(der.as_str().expect("text").as_bytes())
            .expect("Base64")
    };
    let ders: Vec<Vec<u8>> = line["chain"]
        .as_array()
        .expect("a list")
        .iter()
        .map(decode)
        .collect();
    let (_, leaf) = X509Certificate::from_der(&ders[0]).expect("a certificate");
    let alternatives = leaf
        .subject_alternative_name()
        .expect("one at most")
        .expect("one on today's web");
    let names = alternatives
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    let names = names.collect();
    let not_after =
        UnixTime(u64::try_from(leaf.validity().not_after.timestamp()).expect("after 1970"));
    WebChain {
        site: site(line["site"].as_str().expect("text")),
        ders,
        names,
        not_after,
    }
}

#[test]
fn every_chain_is_found_by_the_names_in_its_leaf_until_it_ends() {
    let chains = web_chains();
    // A decade at once: more chains of one name than a proxy meets.
    let limits = Limits {
        objects_per_name: chains.len(),
        ..Limits::default()
    };
    for (_home, mut store) in each_kind(&limits) {
        let ids: Vec<ObjectId> = chains
            .iter()
            .map(|chain| learn(store.as_mut(), &chain.site, &chain.ders, NOW))
            .collect();
        let mut names = 0;
        for (chain, id) in chains.iter().zip(&ids) {
            let found = store.object(Kind::Chain, id).expect("learned");
            assert_eq!(
                found.parts,
                chain
                    .ders
                    .iter()
                    .map(|der| Digest::of(der))
                    .collect::<Vec<_>>()
            );
            for name in &chain.names {
                let host = name.replace('*', "some-label");
                let asked = Site::Name(HostName::new(&host).expect("a host name"));
                assert!(
                    store
                        .expected(Kind::Chain, &asked, chain.not_after, 999)
                        .contains(id),
                    "{name}"
                );
                assert!(
                    !store
                        .expected(Kind::Chain, &asked, UnixTime(chain.not_after.0 + 1), 999)
                        .contains(id),
                    "{name}"
                );
                let below =
                    Site::Name(HostName::new(&format!("below.{host}")).expect("a host name"));
                let is_named = chain
                    .names
                    .iter()
                    .any(|other| *other == format!("*.{host}"));
                assert_eq!(
                    store
                        .expected(Kind::Chain, &below, chain.not_after, 999)
                        .contains(id),
                    is_named,
                    "below {name}"
                );
                names += 1;
            }
        }
        eprintln!("{} chains, {names} names, {:?}", ids.len(), store.health());
    }
}

#[test]
fn a_site_is_expected_to_show_the_valid_one_that_was_seen_last() {
    let chains = web_chains();
    for (_home, mut store) in each_kind(&Limits::default()) {
        // In the order of the file, as if each were met in the last second of its validity.
        for chain in &chains {
            let id = learn(store.as_mut(), &chain.site, &chain.ders, chain.not_after);
            assert_eq!(
                store.expected(Kind::Chain, &chain.site, chain.not_after, 1),
                [id]
            );
        }
    }
}

#[test]
fn what_is_exported_and_imported_is_the_same_store() {
    let (Some(file), home) = (file(), TempDir::new().expect("a directory")) else {
        return;
    };
    let limits = Limits::default();
    let [first, second] = ["first", "second"].map(|name| home.path().join(name));
    let how = Import::default();
    let (imported, warnings) =
        admin::import(&first, &limits, &[file], &how, NOW).expect("a sound file");
    assert_eq!(
        (imported.certificates, imported.refused, warnings),
        (0, 0, vec![])
    );
    let lines = home.path().join("exported.jsonl");
    let mut exported = Vec::new();
    let counts = admin::export(&first, Format::JsonLines, &mut exported).expect("a store");
    std::fs::write(&lines, exported).expect("writable");
    admin::import(&second, &limits, &[lines], &how, NOW).expect("our own file");
    let [first, second] = [first, second].map(|path| admin::list(&path).expect("a store"));
    assert_eq!(counts.written, first.chains.len());
    let known = |listing: &admin::Listing| {
        let rows = listing.chains.iter();
        let mut rows: Vec<_> = rows
            .map(|row| {
                (
                    row.id,
                    row.sites.clone(),
                    row.names.clone(),
                    row.certificates.clone(),
                    row.bytes,
                    row.not_after,
                )
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(known(&first), known(&second));
    assert_eq!(first.bytes, second.bytes);
}

#[test]
fn a_store_of_them_survives_being_closed() {
    let chains = web_chains();
    let home = TempDir::new().expect("a directory");
    let mut store = open(&home, &Limits::default());
    let ids: Vec<ObjectId> = chains
        .iter()
        .map(|chain| learn(&mut store, &chain.site, &chain.ders, NOW))
        .collect();
    drop(store);
    let mut store = open(&home, &Limits::default());
    for (chain, id) in chains.iter().zip(&ids) {
        let digests = store.object(Kind::Chain, id).expect("kept").parts;
        let ders: Vec<Vec<u8>> = digests
            .iter()
            .map(|digest| store.part(digest).expect("kept").to_vec())
            .collect();
        assert_eq!(ders, chain.ders);
    }
    assert_eq!(store.health().disk_reads, 0);
}
