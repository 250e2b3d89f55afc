//! A rule of tunnel mode in the settings file: `[[rules]]`.
//!
//! Is not: the rules themselves, nor their form on the command line
//! ([`tandem_tunnel::ClientRule`]).

use serde::Deserialize;
use tandem_tunnel::{ClientRule, Parts};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct RuleTable(pub(crate) ClientRule);

/// A rule, as it is written. A part that is left out matches everything.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    /// `tunnel`, `direct` or `refuse`.
    #[serde(rename = "do")]
    action: String,
    /// Names of servers. One of these or of `to_network` is enough.
    to_name: Option<Values>,
    /// Networks of servers.
    to_network: Option<Values>,
    /// Ports of servers.
    to_ports: Option<Values>,
    /// Networks of clients.
    from: Option<Values>,
}

/// One value or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "not a text, a number, or a list of these")]
enum Values {
    One(Value),
    Several(Vec<Value>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(u64),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// The values of a part. An empty list would match everything, which nobody means by it.
fn texts(name: &str, values: Option<&Values>) -> Result<Vec<String>, String> {
    match values {
        None => Ok(Vec::new()),
        Some(Values::One(value)) => Ok(vec![value.text()]),
        Some(Values::Several(values)) if values.is_empty() => {
            Err(format!("{name} is empty; leave it out for all"))
        }
        Some(Values::Several(values)) => Ok(values.iter().map(Value::text).collect()),
    }
}

impl TryFrom<Written> for RuleTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let names = texts("to-name", written.to_name.as_ref())?;
        let networks = texts("to-network", written.to_network.as_ref())?;
        let ports = texts("to-ports", written.to_ports.as_ref())?;
        let from = texts("from", written.from.as_ref())?;
        for name in &names {
            if name.contains('/') || name.parse::<std::net::IpAddr>().is_ok() {
                return Err(format!(
                    "to-name: `{name}` is a network; write it as to-network"
                ));
            }
        }
        for network in &networks {
            if !network.contains('/') && network.parse::<std::net::IpAddr>().is_err() {
                return Err(format!("to-network: `{network}` is not a network"));
            }
        }
        let to: Vec<&str> = names.iter().chain(&networks).map(String::as_str).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let from: Vec<&str> = from.iter().map(String::as_str).collect();
        let parts = Parts {
            to: &to,
            ports: &ports,
            from: &from,
        };
        let action = written.action.parse();
        let rule = action.and_then(|action| ClientRule::new(action, parts));
        rule.map(Self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientRule, String> {
        let read = toml::from_str::<RuleTable>(text);
        read.map(|table| table.0)
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_table_is_the_same_rule_as_its_text() {
        for (table, text) in [
            ("do = \"refuse\"", "refuse"),
            (
                "do = \"direct\"\nto-name = \"*.a.example\"\nto-ports = 443\nfrom = \"10.0.0.0/8\"",
                "direct to=*.a.example ports=443 from=10.0.0.0/8",
            ),
            (
                "do = \"tunnel\"\nto-name = [\"a.example\", \"b.example\"]\n\
                 to-network = [\"192.0.2.1\", \"2001:db8::/32\"]\nto-ports = [80, \"8000-8999\"]",
                "tunnel to=a.example,b.example,192.0.2.1,2001:db8::/32 ports=80,8000-8999",
            ),
        ] {
            assert_eq!(read(table), Ok(text.parse().expect(text)), "{table}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_table_is_named() {
        for (table, part) in [
            ("to-ports = 443", "`do`"),
            ("do = \"block\"", "`block`"),
            ("do = \"direct\"\nto = \"a.example\"", "`to`"),
            ("do = \"direct\"\nto-ports = []", "to-ports is empty"),
            ("do = \"direct\"\nto-ports = 0", "`0`"),
            ("do = \"direct\"\nto-ports = 1.5", "a number"),
            ("do = \"direct\"\nto-name = \"10.0.0.0/8\"", "to-network"),
            ("do = \"direct\"\nto-network = \"a.example\"", "`a.example`"),
            (
                "do = \"direct\"\nto-network = \"10.0.0.1/8\"",
                "`10.0.0.1/8`",
            ),
            ("do = \"direct\"\nfrom = \"a.example\"", "`a.example`"),
        ] {
            let problem = read(table).expect_err(table);
            assert!(problem.contains(part), "{table}: {problem}");
        }
    }
}
