//! The package's example of a broker's configuration: it is complete, it is well-formed, its
//! defaults are the code's, and the guide shows it.

use std::path::Path;

use tandem_broker::Config;

const EXAMPLE: &str = include_str!("../../../../packaging/examples/broker.toml");
const GUIDE: &str = include_str!("../../../../docs/splitting.md");

/// What the file comes to, with the key that only its operator knows.
fn read(text: &str) -> Config {
    let key = "0f".repeat(32);
    let text = text.replace("THE KEY THAT THE ORIGIN LOGS WHEN IT STARTS", &key);
    Config::parse(&text, Path::new("broker.toml")).expect("a file that can be used")
}

#[test]
fn what_stands_behind_a_number_sign_is_known_and_is_the_default() {
    // The default of this one depends on the machine.
    let short = read(&EXAMPLE.replace("#roots", "roots"));
    let with_all: String = EXAMPLE
        .lines()
        .map(|line| {
            let key = line.strip_prefix('#').filter(|key| !key.starts_with(' '));
            // Another policy goes with the one, and a standby has the other.
            let is_other = |key: &&str| key.starts_with("volunteers") || key.starts_with("primary");
            let key = key.filter(|key| !is_other(key));
            format!("{}\n", key.unwrap_or(line))
        })
        .collect();
    let long = read(&with_all);
    let shown = |config: &Config| {
        let Config {
            state,
            roster,
            look,
            renew,
            ..
        } = config;
        format!("{state:?} {roster:?} {look:?} {renew}")
    };
    assert_eq!(shown(&short), shown(&long));
    let (short, long) = (short.dns.expect("a table"), long.dns.expect("a table"));
    assert_eq!((short.ttl, short.key), (long.ttl, long.key));
    assert_eq!(short.observant, long.observant);
    assert!(long.powerdns.is_some() && short.powerdns.is_none());
}

#[test]
fn every_key_of_the_reference_is_in_it() {
    let (_, reference) = GUIDE
        .split_once("### Configuration reference\n")
        .expect("the guide has a reference");
    let (reference, _) = reference.split_once("\n### ").expect("it ends");
    let cells: Vec<&str> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" |").next())
        .collect();
    assert!(cells.len() > 30, "{cells:?}");
    for cell in cells {
        let keys = cell.split(['`', ',', ' ']);
        for key in keys.filter(|key| !key.is_empty()) {
            let is_there = EXAMPLE.lines().any(|line| {
                let line = line.trim_start_matches('#');
                let value = line.strip_prefix(key);
                value.is_some_and(|value| value.is_empty() || value.starts_with(" = "))
            });
            assert!(is_there, "{key} is missing");
        }
    }
}

#[test]
fn the_guide_shows_it_as_it_is() {
    let shown: String = EXAMPLE
        .lines()
        .map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("    {line}\n"),
        })
        .collect();
    assert!(
        GUIDE.contains(&shown),
        "docs/splitting.md has another one than packaging/examples/broker.toml"
    );
}
