//! What two brokers copy: tables of plain cells, and what has changed in them since the last time.
//!
//! Is: the form in which a copy crosses, JSON behind a length, and its bounds. Is not: what the
//! tables mean. Those of members are the database's own ([`crate::database`]).
//!
//! Invariants: a frame that is longer, or makes more rows, than a site can have is refused; what
//! has not changed does not cross again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::{Deserialize, Serialize};
use tandem_barnraising::list::MAX_MEMBERS;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Longest frame in bytes: a full roster in two tables, a row of some 400 bytes each.
const MAX_FRAME: usize = 8 << 20;
/// Rows of a table: of members, and of addresses that are barred, there are no more.
const MAX_ROWS: usize = MAX_MEMBERS;
/// Tables.
const MAX_TABLES: usize = 16;

/// One value. Its kinds are those of SQLite that the database uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Integer(i64),
    Text(String),
    /// In hexadecimal digits.
    Blob {
        hex: String,
    },
}

impl std::fmt::Debug for Cell {
    /// Some are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cell")
    }
}

impl Cell {
    pub(crate) fn blob(bytes: &[u8]) -> Self {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Blob { hex }
    }

    /// The bytes of a blob.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let Self::Blob { hex } = self else {
            return None;
        };
        let digits = hex.as_bytes();
        let (pairs, rest) = digits.as_chunks::<2>();
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
        let bytes = pairs.iter().map(byte).collect();
        if rest.is_empty() { bytes } else { None }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(_) | Self::Blob { .. } => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Blob { .. } => None,
        }
    }
}

pub(crate) type Row = Vec<Cell>;

/// Rows by the names of their tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tables(pub(crate) BTreeMap<String, BTreeSet<Row>>);

/// What crosses: changes of the tables, and the sender's time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// The version of the tables.
    pub(crate) format: i64,
    /// The sender's wall clock,
    pub(crate) wall: u64,
    /// and the one by which it counts.
    pub(crate) steady: u64,
    pub(crate) gone: Tables,
    pub(crate) new: Tables,
}

impl Tables {
    pub(crate) fn insert(&mut self, table: &str, row: Row) {
        self.0.entry(table.to_owned()).or_default().insert(row);
    }

    pub(crate) fn rows(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.0.get(table).into_iter().flatten()
    }

    /// Those rows that `other` does not have.
    fn without(&self, other: &Self) -> Self {
        let left = |table: &String, rows: &BTreeSet<Row>| match other.0.get(table) {
            Some(there) => rows.difference(there).cloned().collect(),
            None => rows.clone(),
        };
        let tables = self
            .0
            .iter()
            .map(|(table, rows)| (table.clone(), left(table, rows)));
        Self(tables.filter(|(_, rows)| !rows.is_empty()).collect())
    }

    /// What leads from `before` to these.
    pub(crate) fn since(&self, before: &Self, format: i64, (wall, steady): (u64, u64)) -> Frame {
        Frame {
            format,
            wall,
            steady,
            gone: before.without(self),
            new: self.without(before),
        }
    }

    /// Takes a frame in; whether it says anything.
    ///
    /// # Errors
    /// There would be more than a site can have.
    pub(crate) fn apply(&mut self, frame: Frame) -> io::Result<bool> {
        let is_news = !frame.gone.0.is_empty() || !frame.new.0.is_empty();
        for (table, rows) in frame.gone.0 {
            if let Some(there) = self.0.get_mut(&table) {
                there.retain(|row| !rows.contains(row));
            }
        }
        for (table, rows) in frame.new.0 {
            self.0.entry(table).or_default().extend(rows);
        }
        let fits = self.0.values().all(|rows| rows.len() <= MAX_ROWS);
        match fits && self.0.len() <= MAX_TABLES {
            true => Ok(is_news),
            false => Err(malformed("more rows than a site can have")),
        }
    }
}

impl Frame {
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let length = u32::try_from(bytes.len()).ok();
        let length = length.filter(|length| *length as usize <= MAX_FRAME);
        let length = length.ok_or_else(|| malformed("a frame that is too long"))?;
        to.write_u32(length).await?;
        to.write_all(&bytes).await?;
        to.flush().await
    }

    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let length = from.read_u32().await? as usize;
        if length > MAX_FRAME {
            return Err(malformed("a frame that is too long"));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

pub(crate) fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(rows: &[(&str, i64)]) -> Tables {
        let mut tables = Tables::default();
        for (table, number) in rows {
            let hex = format!("{number:02x}");
            tables.insert(table, vec![Cell::Integer(*number), Cell::Blob { hex }]);
        }
        tables
    }

    #[tokio::test]
    async fn changes_lead_from_one_copy_to_the_next_and_nothing_else_crosses() {
        let steps = [
            tables(&[]),
            tables(&[("a", 1), ("a", 2), ("b", 1)]),
            tables(&[("a", 2), ("a", 3)]),
            tables(&[("a", 2), ("a", 3)]),
            tables(&[]),
        ];
        let mut copy = Tables::default();
        for (index, step) in steps.windows(2).enumerate() {
            let frame = step[1].since(&step[0], 2, (7, 8));
            let crossed: usize = frame.new.0.values().map(BTreeSet::len).sum();
            assert_eq!(crossed, [3, 1, 0, 0][index]);
            let mut bytes = Vec::new();
            frame.write(&mut bytes).await.expect("memory");
            let frame = Frame::read(&mut &bytes[..]).await.expect("as written");
            assert_eq!((frame.format, frame.wall, frame.steady), (2, 7, 8));
            assert_eq!(copy.apply(frame).expect("few"), index != 2);
            for (table, rows) in &copy.0 {
                let wanted = step[1].0.get(table).cloned().unwrap_or_default();
                assert_eq!(*rows, wanted, "{table}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_longer_or_more_than_a_site_can_have_is_refused() {
        let bytes = u32::MAX.to_be_bytes();
        assert!(Frame::read(&mut &bytes[..]).await.is_err());
        let many: Vec<(&str, i64)> = (0..=MAX_ROWS as i64).map(|number| ("a", number)).collect();
        let frame = tables(&many).since(&Tables::default(), 2, (7, 8));
        assert!(Tables::default().apply(frame).is_err());
        for text in ["", "[]", "{\"format\":1}", "{\"format\":1,\"wall\":-1}"] {
            let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
            bytes.extend(text.as_bytes());
            assert!(Frame::read(&mut &bytes[..]).await.is_err(), "{text}");
        }
    }

    #[test]
    fn what_may_be_a_key_is_not_shown() {
        let shown = format!("{:?}", tables(&[("a", 47)]));
        assert!(!shown.contains("47") && !shown.contains("2f"), "{shown}");
    }
}
