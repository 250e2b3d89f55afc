//! Two brokers of a site, so that the loss of one machine loses nothing: the standby copies what
//! the primary knows, answers DNS beside it, and acts in its place while it is gone.
//!
//! ```text
//!   standby                                   primary
//!     | -- connects, both show the one key ---> |
//!     | <---------------------------------- 1 - |  its keeper answers: it does not hang
//!     | -- what it knows ---------------------> |  takes over what happened while it was gone
//!     | <------------------ what it knows now - |
//!     | -- 0 ---------------------------------> |  once a second, and at each change of health:
//!     | <--------------- what has changed since |  what has not changed does not cross again
//! ```
//!
//! Is: who says what when. Is not: what is known ([`crate::keeper`]), or the form of what crosses
//! ([`crate::tables`]).
//!
//! Invariants: both ends hold the broker's key, which is the one thing that admits to the channel:
//! a stranger reads nothing and feeds nothing; which one is the primary is configured and never
//! voted on; the primary takes in what its standby knows before it serves, if that comes in time.

pub(crate) mod primary;
pub(crate) mod standby;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tandem_broker_dns::copied::{Copied, KeyFiles, Lead, Other};
use tandem_channel::{KeyExchange, Protocol};

use crate::config::{Config, Pair};
use crate::database::copy::FORMAT;
use crate::error::BrokerError;
use crate::keeper::Keeper;
use crate::tables::{Cell, Frame, Tables, malformed};

/// The channel between the two. The zone's keys cross it.
const PAIR: Protocol = Protocol {
    name: b"tandem-broker-pair/1",
    key_exchange: KeyExchange::Hybrid,
};

/// How long a connection, a handshake or the first word may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two words of the primary.
const BEAT: Duration = Duration::from_secs(1);
/// A primary that says nothing for so long is gone: ten of its words, and the time that it takes to
/// start anew.
const GONE: Duration = Duration::from_secs(10);
const ZONE: &str = "zone";
/// The primary's first word.
const THERE: u8 = 1;

/// Whose name server leads.
pub(crate) fn lead(pair: &Pair) -> Lead {
    match pair {
        Pair::Primary { .. } => Lead::Leads,
        Pair::Standby { .. } => Lead::Follows,
    }
}

/// A standby makes no key: with one of its own it would be another broker, and its name server
/// another zone's.
///
/// # Errors
/// A key is missing.
pub(crate) fn require_keys(config: &Config) -> Result<(), BrokerError> {
    if !matches!(config.pair, Some(Pair::Standby { .. })) {
        return Ok(());
    }
    let zone = config.dns.as_ref().and_then(|dns| dns.key.clone());
    let missing = |path: &Path| {
        let problem = format!(
            "{} is missing: a standby has the keys of its primary; copy the file from there, for the broker's user alone (chmod 600)",
            path.display()
        );
        BrokerError::setting("pair.primary", problem)
    };
    for path in std::iter::once(config.state.join("key")).chain(zone) {
        if !path.exists() {
            return Err(missing(&path));
        }
    }
    Ok(())
}

/// All that this broker has to tell.
async fn known(keeper: &Keeper, dns: Option<&Other>) -> io::Result<(Tables, u64)> {
    let (mut tables, steady) = keeper.tables().await.map_err(io::Error::other)?;
    if let Some(dns) = dns {
        let copied = Arc::clone(&dns.copied.borrow());
        write_zone(&copied, &mut tables);
    }
    Ok((tables, steady))
}

/// Whether these tables are of the version that this program knows.
fn check_format(frame: &Frame) -> io::Result<()> {
    match frame.format == FORMAT {
        true => Ok(()),
        false => Err(malformed(
            "the other broker is of another version of Tandem: install the same on both machines",
        )),
    }
}

fn write_zone(copied: &Copied, tables: &mut Tables) {
    let mut row =
        |name: &str, cell: Cell| tables.insert(ZONE, vec![Cell::Text(name.to_owned()), cell]);
    row("serial", Cell::Integer(copied.serial.into()));
    for line in &copied.challenge {
        row("challenge", Cell::Text(line.clone()));
    }
    row("key", Cell::blob(&copied.keys.current));
    if let Some(next) = &copied.keys.next {
        row("next", Cell::blob(next));
    }
    if let Some(change) = &copied.keys.change {
        row("change", Cell::blob(change));
    }
}

/// None where the other one is no name server.
fn read_zone(tables: &Tables) -> io::Result<Option<Copied>> {
    let wrong = || malformed("a malformed zone");
    let mut copied = Copied::default();
    let mut keys = KeyFiles::default();
    let mut is_there = false;
    for row in tables.rows(ZONE) {
        let [Cell::Text(name), cell] = &row[..] else {
            return Err(wrong());
        };
        is_there = true;
        match name.as_str() {
            "serial" => {
                let serial = cell.number().and_then(|number| u32::try_from(number).ok());
                copied.serial = serial.ok_or_else(wrong)?;
            }
            "challenge" => copied
                .challenge
                .push(cell.text().ok_or_else(wrong)?.to_owned()),
            "key" => keys.current = cell.bytes().ok_or_else(wrong)?,
            "next" => keys.next = Some(cell.bytes().ok_or_else(wrong)?),
            "change" => keys.change = Some(cell.bytes().ok_or_else(wrong)?),
            _ => return Err(wrong()),
        }
    }
    copied.keys = keys;
    Ok(is_there.then_some(copied))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_server_needs_crosses_whole() {
        let copied = Copied {
            serial: u32::MAX,
            challenge: vec!["a".to_owned(), "b".to_owned()],
            keys: KeyFiles {
                current: vec![0, 255],
                next: Some(vec![7]),
                change: Some(b"introduced 1\n".to_vec()),
            },
        };
        let mut tables = Tables::default();
        assert_eq!(read_zone(&tables).expect("nothing"), None);
        write_zone(&copied, &mut tables);
        assert_eq!(read_zone(&tables).expect("as written"), Some(copied));
        tables.insert(ZONE, vec![Cell::Text("other".to_owned()), Cell::Integer(1)]);
        assert!(read_zone(&tables).is_err());
    }
}
