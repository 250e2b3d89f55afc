//! Which chains are expected from whom: names and wildcards (RFC 6125,
//! section 6.4), sites, order, expiry, clocks that move, strangers who would fill the index.

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/stores.rs"]
mod stores;

use certificate::Certificate;
use stores::{NOW, days, learn, site};
use tandem_store::{Kind, Limits, MemoryStore, ObjectId, Site, Store as _};

fn leaf(serial: u32, names: &[&str]) -> Vec<u8> {
    Certificate {
        serial,
        dns_names: names,
        ..Certificate::default()
    }
    .der()
}

fn issuer() -> Vec<u8> {
    Certificate {
        common_name: "Test Issuer",
        ..Certificate::default()
    }
    .der()
}

#[test]
fn a_site_is_expected_to_show_what_it_showed() {
    let mut store = MemoryStore::new(Limits::default());
    let chain = [leaf(1, &[]), issuer()];
    let address = Site::Address("192.0.2.1:443".parse().expect("an address"));
    for site in [site("www.example.com"), address] {
        assert_eq!(store.expected(Kind::Chain, &site, NOW, 3), []);
        let id = learn(&mut store, &site, &chain, NOW);
        assert_eq!(store.expected(Kind::Chain, &site, NOW, 3), [id]);
        let found = store.object(Kind::Chain, &id).expect("learned");
        let ders: Vec<Vec<u8>> = found
            .parts
            .iter()
            .map(|digest| store.part(digest).expect("in the chain").to_vec())
            .collect();
        assert_eq!(ders, chain);
        assert_eq!(store.object_by_prefix(&id.prefix4()), Some(found.clone()));
        let (digest, der) = store
            .part_by_prefix(&found.parts[1].prefix16())
            .expect("in the chain");
        assert_eq!((digest, &*der), (found.parts[1], &*chain[1]));
    }
}

#[test]
fn names_in_the_leaf_lead_to_the_chain_and_wildcards_stand_for_one_label() {
    let mut store = MemoryStore::new(Limits::default());
    let id = learn(
        &mut store,
        &site("one.example.com"),
        &[leaf(1, &["*.example.com", "example.org"]), issuer()],
        NOW,
    );
    for matching in ["two.example.com", "example.org", "TWO.example.com."] {
        assert_eq!(
            store.expected(Kind::Chain, &site(matching), NOW, 3),
            [id],
            "{matching}"
        );
    }
    for other in [
        "example.com",
        "a.b.example.com",
        "www.example.org",
        "xample.org",
    ] {
        assert_eq!(
            store.expected(Kind::Chain, &site(other), NOW, 3),
            [],
            "{other}"
        );
    }
}

#[test]
fn servers_of_strangers_that_were_asked_for_a_name_do_not_crowd_out_the_one_that_has_it() {
    let mut store = MemoryStore::new(Limits::default());
    let bank = site("bank.example");
    let own = learn(&mut store, &bank, &[leaf(1, &["bank.example"])], NOW);
    let strangers: Vec<ObjectId> = (2..5)
        .map(|serial| learn(&mut store, &bank, &[leaf(serial, &["other.example"])], NOW))
        .collect();
    // One that nobody showed here comes last, though it has the name.
    let elsewhere = learn(
        &mut store,
        &site("other.example"),
        &[leaf(9, &["bank.example"])],
        NOW,
    );
    let expected = store.expected(Kind::Chain, &bank, NOW, 9);
    assert_eq!(expected[0], own);
    assert_eq!(expected[1..4], [strangers[2], strangers[1], strangers[0]]);
    assert_eq!(expected[4..], [elsewhere]);
}

#[test]
fn the_common_name_counts_only_without_alternative_names() {
    let mut store = MemoryStore::new(Limits::default());
    let alone = Certificate {
        common_name: "alone.example",
        ..Certificate::default()
    }
    .der();
    let beside = Certificate {
        common_name: "beside.example",
        dns_names: &["san.example"],
        ..Certificate::default()
    }
    .der();
    let alone = store.learn(Kind::Chain, None, &[&alone], NOW);
    let beside = store.learn(Kind::Chain, None, &[&beside], NOW);
    assert_eq!(
        store.expected(Kind::Chain, &site("alone.example"), NOW, 3),
        [alone]
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("san.example"), NOW, 3),
        [beside]
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("beside.example"), NOW, 3),
        []
    );
}

#[test]
fn names_of_issuers_lead_nowhere() {
    let mut store = MemoryStore::new(Limits::default());
    store.learn(
        Kind::Chain,
        None,
        &[&leaf(1, &["leaf.example"]), &leaf(2, &["issuer.example"])],
        NOW,
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("issuer.example"), NOW, 3),
        []
    );
}

#[test]
fn all_chains_of_a_farm_are_expected_the_newest_seen_first() {
    let mut store = MemoryStore::new(Limits::default());
    let farm = site("farm.example");
    let chains: Vec<Vec<Vec<u8>>> = (1..=4)
        .map(|serial| vec![leaf(serial, &[]), issuer()])
        .collect();
    let ids: Vec<ObjectId> = chains
        .iter()
        .map(|chain| learn(&mut store, &farm, chain, NOW))
        .collect();
    assert_eq!(
        store.expected(Kind::Chain, &farm, NOW, 9),
        [ids[3], ids[2], ids[1], ids[0]]
    );
    learn(&mut store, &farm, &chains[1], NOW);
    assert_eq!(
        store.expected(Kind::Chain, &farm, NOW, 3),
        [ids[1], ids[3], ids[2]]
    );
    assert_eq!(store.expected(Kind::Chain, &farm, NOW, 0), []);
}

#[test]
fn a_renewed_certificate_comes_before_the_old() {
    let mut store = MemoryStore::new(Limits::default());
    let www = site("www.example");
    let old = learn(&mut store, &www, &[leaf(1, &["www.example"])], NOW);
    let renewed = learn(&mut store, &www, &[leaf(2, &["www.example"])], days(1));
    assert_eq!(
        store.expected(Kind::Chain, &www, days(1), 3),
        [renewed, old]
    );
}

#[test]
fn what_a_site_showed_comes_before_what_strangers_claim_about_it() {
    let mut store = MemoryStore::new(Limits::default());
    let victim = site("victim.example");
    let own = learn(&mut store, &victim, &[leaf(1, &["victim.example"])], NOW);
    for serial in 10..20 {
        learn(
            &mut store,
            &site("stranger.example"),
            &[leaf(serial, &["victim.example"])],
            days(1),
        );
    }
    assert_eq!(store.expected(Kind::Chain, &victim, days(1), 3)[0], own);
}

#[test]
fn what_a_site_showed_long_ago_is_expected_no_more_unless_its_name_matches() {
    let mut store = MemoryStore::new(Limits::default());
    let (named, other) = (site("named.example"), site("other.example"));
    let id = learn(&mut store, &named, &[leaf(1, &["named.example"])], NOW);
    learn(&mut store, &other, &[leaf(1, &["named.example"])], NOW);
    assert_eq!(store.expected(Kind::Chain, &other, days(30), 3), [id]);
    assert_eq!(store.expected(Kind::Chain, &other, days(31), 3), []);
    assert_eq!(store.expected(Kind::Chain, &named, days(31), 3), [id]);
}

#[test]
fn what_a_site_shows_again_is_remembered_from_then_on() {
    let mut store = MemoryStore::new(Limits::default());
    let www = site("www.example");
    let id = learn(&mut store, &www, &[leaf(1, &[])], NOW);
    learn(&mut store, &www, &[leaf(1, &[])], days(25));
    assert_eq!(store.expected(Kind::Chain, &www, days(55), 3), [id]);
    assert_eq!(store.expected(Kind::Chain, &www, days(56), 3), []);
}

#[test]
fn an_expired_leaf_is_not_expected_of_anyone() {
    let mut store = MemoryStore::new(Limits::default());
    // The validity includes its last second (RFC 5280, section 4.1.2.5).
    let www = site("www.example");
    let ending = Certificate {
        not_after: "20250615120000Z",
        dns_names: &["www.example"],
        ..Certificate::default()
    }
    .der();
    let id = learn(&mut store, &www, &[ending], days(-1));
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 3), [id]);
    assert_eq!(
        store.expected(
            Kind::Chain,
            &www,
            tandem_wire::clock::UnixTime(NOW.0 + 1),
            3
        ),
        []
    );
    assert!(
        store.object(Kind::Chain, &id).is_some(),
        "it may still be asked for by its name"
    );
}

#[test]
fn a_clock_that_jumps_reorders_nothing_and_loses_nothing() {
    let mut store = MemoryStore::new(Limits::default());
    let www = site("www.example");
    let future = learn(&mut store, &www, &[leaf(1, &[])], days(20_000));
    let present = learn(&mut store, &www, &[leaf(2, &[])], NOW);
    let past = learn(&mut store, &www, &[leaf(3, &[])], days(-20));
    assert_eq!(
        store.expected(Kind::Chain, &www, NOW, 9),
        [past, present, future]
    );
    assert_eq!(
        store.expected(Kind::Chain, &www, days(-10_000), 9),
        [past, present, future]
    );
    // Last-seen times never go back: seen again in 1998, the chain is as recent as it was.
    learn(&mut store, &www, &[leaf(2, &[])], days(-10_000));
    assert_eq!(
        store.expected(Kind::Chain, &www, days(29), 9),
        [present, future]
    );
}

#[test]
fn bytes_that_are_no_certificate_are_held_by_their_digest_and_expected_of_their_site() {
    let mut store = MemoryStore::new(Limits::default());
    let odd = site("odd.example");
    let id = learn(&mut store, &odd, &[b"not a certificate".to_vec()], NOW);
    assert_eq!(store.expected(Kind::Chain, &odd, days(29), 3), [id]);
    let chain = store.object(Kind::Chain, &id).expect("learned");
    assert_eq!(
        store.part(&chain.parts[0]).as_deref(),
        Some(&b"not a certificate"[..])
    );
}

#[test]
fn ten_thousand_names_in_a_certificate_are_indexed_up_to_the_limit() {
    let mut store = MemoryStore::new(Limits::default());
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n}.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hostile = site("hostile.example");
    let id = learn(&mut store, &hostile, &[leaf(1, &names)], NOW);
    assert_eq!(store.expected(Kind::Chain, &hostile, NOW, 3), [id]);
    assert_eq!(
        store.expected(Kind::Chain, &site("n255.example"), NOW, 3),
        [id]
    );
    assert_eq!(
        store.expected(Kind::Chain, &site("n256.example"), NOW, 3),
        []
    );
    let bytes = store.health().bytes;
    assert!(bytes < 400_000, "{bytes}");
}

#[test]
fn chains_that_are_not_worth_keeping_are_named_and_not_held() {
    let limits = Limits {
        parts_per_object: 2,
        object_bytes: 2_000,
        ..Limits::default()
    };
    let mut store = MemoryStore::new(limits);
    let www = site("www.example");
    for chain in [
        vec![],
        vec![vec![]],
        vec![vec![1], vec![2], vec![3]],
        vec![vec![0; 2_001]],
    ] {
        let id = learn(&mut store, &www, &chain, NOW);
        assert_eq!(
            id,
            ObjectId::of(&chain.iter().map(Vec::as_slice).collect::<Vec<_>>())
        );
        assert_eq!(store.object(Kind::Chain, &id), None);
    }
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 9), []);
    assert_eq!(store.health().bytes, 0);
}

#[test]
fn a_site_with_ever_new_chains_and_a_chain_with_ever_new_sites_stay_bounded() {
    let limits = Limits {
        objects_per_site: 4,
        sites_per_object: 4,
        objects_per_name: 4,
        ..Limits::default()
    };
    let mut store = MemoryStore::new(limits);
    let busy = site("busy.example");
    let ids: Vec<ObjectId> = (0..50)
        .map(|serial| learn(&mut store, &busy, &[leaf(serial, &["busy.example"])], NOW))
        .collect();
    assert_eq!(
        store.expected(Kind::Chain, &busy, NOW, 99),
        [ids[49], ids[48], ids[47], ids[46]]
    );
    let shared = [leaf(99, &[])];
    let before = store.health().bytes;
    let sites: Vec<Site> = (0..50).map(|n| site(&format!("n{n}.example"))).collect();
    let id = sites
        .iter()
        .map(|site| learn(&mut store, site, &shared, NOW))
        .last()
        .expect("fifty");
    let expecting: Vec<&Site> = sites
        .iter()
        .filter(|site| store.expected(Kind::Chain, site, NOW, 1) == [id])
        .collect();
    assert_eq!(expecting, sites[46..].iter().collect::<Vec<_>>());
    assert!(store.health().bytes - before < 2_000);
}

#[test]
fn the_least_recently_used_go_when_there_is_no_more_room() {
    let limits = Limits {
        bytes: 20_000,
        ..Limits::default()
    };
    let mut store = MemoryStore::new(limits);
    let www = site("www.example");
    let kept = learn(&mut store, &www, &[leaf(0, &[]), issuer()], NOW);
    for serial in 1..200 {
        learn(&mut store, &www, &[leaf(serial, &[]), issuer()], NOW);
        assert!(
            store.object(Kind::Chain, &kept).is_some(),
            "looked up each time, so never the least recently used"
        );
        assert!(store.health().bytes <= 20_000);
    }
    let health = store.health();
    assert!(health.objects > 10 && health.evicted > 100, "{health:?}");
    assert_eq!(health.objects + health.evicted, 200);
    // The issuer is in every chain, and there once.
    assert_eq!(health.parts, health.objects + 1);
}
