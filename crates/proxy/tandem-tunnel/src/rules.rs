//! The rules of the client side: which connections go through the tunnel, which go to their server
//! from here, and which are refused.
//!
//! Is: rules, their text form, and the decision over a connection. Is not: the carrying out, nor
//! the allow list of the server side (`allowed`).
//!
//! ```text
//! ACTION [to=NAME|NETWORK,...] [ports=PORT|FIRST-LAST,...] [from=NETWORK,...]
//! direct to=*.example.com ports=443 from=10.0.0.0/8
//! ```
//!
//! Invariants: the first rule that matches decides, and [`Action::Tunnel`] where none does; a part
//! that a rule does not have matches everything; a connection is decided as soon as no later
//! knowledge can change the outcome. An address that is IPv4 in IPv6's clothes counts as IPv4.

mod first_flight;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use tandem_link::tunnel::Target;

pub use first_flight::{FirstFlight, Hello};

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It crosses the tunnel.
    Tunnel,
    /// The client side itself connects to the server, and passes bytes untouched.
    Direct,
    /// The client sees a refusal, or a reset.
    Refuse,
}

/// What is known of the server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerName<'a> {
    /// The client may still say it in its hello.
    Awaited,
    /// This is it.
    Known(&'a str),
    /// The client does not say it.
    Unsaid,
}

/// What the rules say of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// This, whatever the hello says.
    Now(Action),
    /// It depends on the name in the hello.
    WithName,
}

/// Rules in their order. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<ClientRule>,
}

/// One rule: an action, and which connections it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRule {
    action: Action,
    /// Empty: to any server.
    to: Vec<Destination>,
    /// Empty: to any port.
    ports: Vec<RangeInclusive<u16>>,
    /// Empty: of any client.
    from: Vec<IpNet>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    /// This name, in lower case and without a final dot.
    Name(String),
    /// Every name that ends in a dot and this one.
    Below(String),
    Network(IpNet),
}

/// The parts of a rule, as the operator wrote them. An empty list matches everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'a> {
    /// Names and networks; one of them is enough.
    pub to: &'a [&'a str],
    /// Ports and ranges of ports.
    pub ports: &'a [&'a str],
    /// Networks of clients.
    pub from: &'a [&'a str],
}

/// Why a rule cannot be read: the operator's fault. Each names the word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientRuleError {
    /// The action.
    #[error("`{0}` is no action: a rule begins with `tunnel`, `direct` or `refuse`")]
    Action(String),
    /// Something else than `to=`, `ports=` or `from=`.
    #[error("`{0}` is no part of a rule: behind the action stand `to=`, `ports=` and `from=`")]
    Part(String),
    /// The same part again.
    #[error("`{0}` stands there twice: write its values behind each other, with commas")]
    Twice(String),
    /// Neither a name nor a network.
    #[error(
        "`{0}` is neither a name nor a network: write www.example.com, *.example.com, 192.0.2.1 or \
         192.0.2.0/24"
    )]
    Destination(String),
    /// Not a network.
    #[error("`{0}` is not a network: write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32")]
    Network(String),
    /// Bits behind the prefix are set: one of the two is wrong.
    #[error("`{0}` has bits behind the prefix length")]
    HostBits(String),
    /// Not a port, nor a range of them.
    #[error("`{0}` is neither a port nor a range of ports: write 443 or 8000-8999")]
    Ports(String),
}

impl FromStr for Action {
    type Err = ClientRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tunnel" => Ok(Self::Tunnel),
            "direct" => Ok(Self::Direct),
            "refuse" => Ok(Self::Refuse),
            other => Err(ClientRuleError::Action(other.to_owned())),
        }
    }
}

impl FromStr for ClientRule {
    type Err = ClientRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let action = words.next().unwrap_or_default().parse()?;
        let (mut to, mut ports, mut from) = (None, None, None);
        for word in words {
            let (key, values) = word
                .split_once('=')
                .ok_or_else(|| ClientRuleError::Part(word.to_owned()))?;
            let part = match key {
                "to" => &mut to,
                "ports" => &mut ports,
                "from" => &mut from,
                _ => return Err(ClientRuleError::Part(word.to_owned())),
            };
            let values: Vec<&str> = values.split(',').collect();
            if part.replace(values).is_some() {
                return Err(ClientRuleError::Twice(format!("{key}=")));
            }
        }
        let parts = Parts {
            to: to.as_deref().unwrap_or_default(),
            ports: ports.as_deref().unwrap_or_default(),
            from: from.as_deref().unwrap_or_default(),
        };
        Self::new(action, parts)
    }
}

impl ClientRule {
    /// A rule of these parts.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn new(action: Action, parts: Parts<'_>) -> Result<Self, ClientRuleError> {
        Ok(Self {
            action,
            to: read(parts.to, destination)?,
            ports: read(parts.ports, port_range)?,
            from: read(parts.from, network)?,
        })
    }

    fn matches(&self, client: IpAddr, target: &Target, name: ServerName<'_>) -> Match {
        let port = target.port();
        let is_from = self.from.is_empty() || self.from.iter().any(|net| net.contains(&client));
        let is_port = self.ports.is_empty() || self.ports.iter().any(|range| range.contains(&port));
        if !is_from || !is_port {
            return Match::No;
        }
        if self.to.is_empty() || self.to.iter().any(|to| to.covers(target, name)) {
            return Match::Yes;
        }
        let is_by_name = |to: &Destination| match to {
            Destination::Name(_) | Destination::Below(_) => true,
            Destination::Network(_) => false,
        };
        match name {
            ServerName::Awaited if self.to.iter().any(is_by_name) => Match::Perhaps,
            ServerName::Awaited | ServerName::Known(_) | ServerName::Unsaid => Match::No,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Perhaps,
}

impl Destination {
    fn covers(&self, target: &Target, name: ServerName<'_>) -> bool {
        match self {
            Self::Network(network) => match target {
                Target::Address(address) => network.contains(&address.ip().to_canonical()),
                // Resolved at the far side: its address is not known here.
                Target::Name { .. } => false,
            },
            Self::Name(own) => match name {
                ServerName::Known(name) => without_dot(name).eq_ignore_ascii_case(own),
                ServerName::Awaited | ServerName::Unsaid => false,
            },
            Self::Below(parent) => match name {
                ServerName::Known(name) => is_below(without_dot(name), parent),
                ServerName::Awaited | ServerName::Unsaid => false,
            },
        }
    }
}

/// Whether `name` is some labels, a dot, and `parent`.
fn is_below(name: &str, parent: &str) -> bool {
    let (name, parent) = (name.as_bytes(), parent.as_bytes());
    let Some(at) = name.len().checked_sub(parent.len() + 1) else {
        return false;
    };
    let (front, end) = name.split_at(at);
    !front.is_empty() && end[0] == b'.' && end[1..].eq_ignore_ascii_case(parent)
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

impl Rules {
    /// These, in this order.
    pub fn new(rules: Vec<ClientRule>) -> Self {
        Self { rules }
    }

    /// Whether any connection may go to its server from here.
    pub fn has_direct(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.action == Action::Direct)
    }

    /// What becomes of a connection of `client` to `target`. `hello` is the name in the client's
    /// hello; it does not count where the target is a name itself.
    pub fn decide(&self, client: IpAddr, target: &Target, hello: ServerName<'_>) -> Decision {
        let client = client.to_canonical();
        let name = match target {
            Target::Address(_) => hello,
            Target::Name { name, .. } => ServerName::Known(name),
        };
        let mut possible = None;
        for rule in &self.rules {
            match rule.matches(client, target, name) {
                Match::No => {}
                Match::Yes => return settled(possible, rule.action),
                Match::Perhaps => match possible {
                    None => possible = Some(rule.action),
                    Some(action) if action == rule.action => {}
                    Some(_) => return Decision::WithName,
                },
            }
        }
        settled(possible, Action::Tunnel)
    }
}

/// The outcome where rules by name may lead to `possible`, and otherwise it is `last`.
fn settled(possible: Option<Action>, last: Action) -> Decision {
    match possible {
        Some(action) if action != last => Decision::WithName,
        Some(_) | None => Decision::Now(last),
    }
}

fn read<T>(
    words: &[&str],
    parse: fn(&str) -> Result<T, ClientRuleError>,
) -> Result<Vec<T>, ClientRuleError> {
    words.iter().map(|word| parse(word)).collect()
}

fn destination(word: &str) -> Result<Destination, ClientRuleError> {
    if word.contains('/') || word.parse::<IpAddr>().is_ok() {
        return network(word).map(Destination::Network);
    }
    match word.strip_prefix("*.") {
        Some(parent) => name(parent).map(Destination::Below),
        None => name(word).map(Destination::Name),
    }
    .ok_or_else(|| ClientRuleError::Destination(word.to_owned()))
}

/// A name in lower case, without a final dot; `None` where it is none.
fn name(word: &str) -> Option<String> {
    let name = without_dot(word);
    let last = name.rsplit('.').next().unwrap_or_default();
    // No name ends in a label of digits only (RFC 3696, section 2): it is an address, mistyped.
    let is_address = last.bytes().all(|byte| byte.is_ascii_digit());
    let target = Target::Name {
        name: name.to_ascii_lowercase(),
        port: 1,
    };
    let is_whole = name.split('.').all(|label| !label.is_empty());
    match target.validated() {
        Ok(Target::Name { name, .. }) if !is_address && is_whole => Some(name),
        Ok(Target::Name { .. } | Target::Address(_)) | Err(_) => None,
    }
}

/// A network, or one address.
pub(crate) fn network(word: &str) -> Result<IpNet, ClientRuleError> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Ok(IpNet::from(address.to_canonical()));
    }
    let network: IpNet = word
        .parse()
        .map_err(|_| ClientRuleError::Network(word.to_owned()))?;
    if network.trunc() != network {
        return Err(ClientRuleError::HostBits(word.to_owned()));
    }
    Ok(network)
}

fn port_range(word: &str) -> Result<RangeInclusive<u16>, ClientRuleError> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(ClientRuleError::Ports(word.to_owned())),
    }
}

fn port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests;
