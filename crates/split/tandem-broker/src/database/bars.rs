//! What is held against addresses because of records that were changed there, as it is kept.
//!
//! Is not: what it means ([`tandem_barnraising::roster`]).
//!
//! How: its times are those of the clock by which the broker counts, which is not the wall's, and
//! begins anew with each start. So each transaction also says what both showed.

use std::net::IpAddr;

use rusqlite::{Connection, OptionalExtension as _, params};
use tandem_barnraising::roster::Bar;
use tandem_wire::UnixTime;

use super::{number, unsigned};

/// From version 4 on. Without a term that runs `until` is -1.
pub(super) const TABLES: &str = "
    CREATE TABLE bars (
        address TEXT PRIMARY KEY NOT NULL,
        proofs INTEGER NOT NULL,
        last INTEGER NOT NULL,
        terms INTEGER NOT NULL,
        until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE clocks (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        steady INTEGER NOT NULL,
        wall INTEGER NOT NULL
    ) STRICT;
";

/// When something was written,
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clocks {
    /// by the clock by which the broker counts,
    pub(crate) steady: UnixTime,
    /// and by the wall's.
    pub(crate) wall: UnixTime,
}

impl Clocks {
    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR REPLACE INTO clocks VALUES (1, ?1, ?2)")?
            .execute(params![number(self.steady.0), number(self.wall.0)])?;
        Ok(())
    }

    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let clocks = connection.query_row("SELECT steady, wall FROM clocks", [], |row| {
            Ok(Self {
                steady: UnixTime(unsigned(row, 0)?),
                wall: UnixTime(unsigned(row, 1)?),
            })
        });
        Ok(clocks.optional()?.unwrap_or_default())
    }
}

pub(super) fn write(connection: &Connection, bar: &Bar) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO bars VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            bar.address.to_string(),
            bar.proofs,
            number(bar.last.0),
            bar.terms,
            bar.until.map_or(-1, |until| number(until.0)),
        ])?;
    Ok(())
}

pub(super) fn delete(connection: &Connection, address: IpAddr) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM bars WHERE address = ?1")?
        .execute([address.to_string()])?;
    Ok(())
}

pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<Bar>> {
    let mut statement = connection
        .prepare("SELECT address, proofs, last, terms, until FROM bars ORDER BY address")?;
    let bars = statement.query_map([], |row| {
        let text: String = row.get(0)?;
        Ok(Bar {
            address: text.parse().map_err(|_| rusqlite::Error::InvalidQuery)?,
            proofs: row.get(1)?,
            last: UnixTime(unsigned(row, 2)?),
            terms: row.get(3)?,
            until: match row.get::<_, i64>(4)? {
                -1 => None,
                _ => Some(UnixTime(unsigned(row, 4)?)),
            },
        })
    })?;
    bars.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// In the order in which they are read.
    pub(in super::super) fn bars() -> [Bar; 2] {
        let first = Bar {
            address: IpAddr::from([192, 0, 2, 7]),
            proofs: 1,
            last: UnixTime(5),
            terms: 0,
            until: None,
        };
        let second = Bar {
            address: IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 0]),
            terms: 3,
            until: Some(UnixTime(0)),
            ..first
        };
        [first, second]
    }
}
