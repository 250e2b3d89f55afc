//! Questions as PowerDNS writes them, and such as it would never. Is not: PowerDNS itself
//! (`tests/powerdns.rs`).

use proptest::prelude::*;

use super::*;
use crate::zone::tests::zone;

fn backend() -> Backend {
    let zone = zone(
        "a.b.example.org",
        &["192.0.2.1", "2001:db8::1"],
        &["say \"a\\b\""],
    );
    // A receiver keeps its last value also when the sender has gone.
    let (_, zone) = watch::channel(Arc::new(zone));
    Backend { zone }
}

fn ask(method: &str, parameters: Value) -> Value {
    let question = json!({"method": method, "parameters": parameters}).to_string();
    backend().answer(question.as_bytes())["result"].clone()
}

#[test]
fn a_lookup_tells_the_records_of_one_type_or_all() {
    let kinds = |kind: &str, name: &str| -> Vec<String> {
        let result = ask("lookup", json!({"qname": name, "qtype": kind}));
        let records = result.as_array().expect("a list").clone();
        let kind = |record: &Value| record["qtype"].as_str().expect("a type").to_owned();
        records.iter().map(kind).collect()
    };
    assert_eq!(kinds("AAAA", "A.b.example.org."), ["AAAA"]);
    assert_eq!(
        kinds("ANY", "a.b.example.org"),
        ["A", "AAAA", "HTTPS", "CAA", "CAA"]
    );
    assert_eq!(
        kinds("ANY", "b.example.org."),
        [""; 0],
        "a name between has no records"
    );
    assert_eq!(kinds("ANY", "other.test."), [""; 0]);
    assert_eq!(
        kinds("ANY", "example.org."),
        ["NS", "SOA", "CAA", "CAA"],
        "it signs by itself"
    );
}

#[test]
fn a_lookup_of_one_type_turns_no_other() {
    let addresses: Vec<String> = (0..24).map(|last| format!("192.0.2.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let zone = zone("www.example.org", &addresses, &[]);
    let site = parse("www.example.org").expect("a name");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        for kind in ["A", "CAA", "HTTPS"] {
            let found = lookup(&zone, &site, Some(kind));
            let found = found.as_array().expect("a list").clone();
            let of_kind = found.iter().filter(|_| kind == "A");
            seen.extend(of_kind.map(|record| record["content"].to_string()));
        }
    }
    assert_eq!(seen.len(), 24);
}

#[test]
fn text_and_protocols_are_written_as_a_zone_file_has_them() {
    let content = |name: &str, kind: &str| {
        ask("lookup", json!({"qname": name, "qtype": kind}))[0]["content"].clone()
    };
    assert_eq!(
        content("_acme-challenge.a.b.example.org.", "TXT"),
        r#""say \"a\\b\"""#
    );
    assert_eq!(content("a.b.example.org.", "HTTPS"), "1 . alpn=http/1.1");
}

#[test]
fn the_neighbours_of_a_name_go_round() {
    let around = |name: &str| {
        let result = ask("getBeforeAndAfterNamesAbsolute", json!({"qname": name}));
        let text = |key: &str| result[key].as_str().expect("text").to_owned();
        (text("before"), text("after"))
    };
    let pair = |before: &str, after: &str| (before.to_owned(), after.to_owned());
    assert_eq!(around(""), pair("", "a.b"));
    assert_eq!(around("a.b."), pair("a.b", "_acme-challenge.a.b"));
    assert_eq!(around("b"), pair("", "a.b"));
    assert_eq!(around("zzz"), pair("ns", ""));
}

#[test]
fn other_zones_and_what_is_not_known_get_no_result() {
    for (method, parameters) in [
        ("getDomainInfo", json!({"name": "example.com."})),
        ("getDomainKeys", json!({"name": "b.example.org."})),
        ("list", json!({"zonename": "example.com."})),
        ("setDomainMetadata", json!({"name": "example.org."})),
        ("replaceRRSet", json!({})),
        ("", Value::Null),
    ] {
        assert_eq!(ask(method, parameters), json!(false), "{method}");
    }
    assert_eq!(
        ask("getDomainInfo", json!({"name": "EXAMPLE.org."}))["serial"],
        json!(7)
    );
}

proptest! {
    #[test]
    fn any_question_is_safe(
        method in "(lookup|list|getDomainInfo|getBeforeAndAfterNamesAbsolute|getDomainKeys|[a-z]{0,5})", name in "\\PC{0,40}", kind in "\\PC{0,6}",
    ) {
        let parameters = json!({"qname": name.clone(), "name": name.clone(), "zonename": name, "qtype": kind});
        let _ = ask(&method, parameters);
    }

    #[test]
    fn any_line_is_safe(line in proptest::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(backend().answer(&line), json!({"result": false}));
    }
}
