//! The rows of the database as another broker of the site is given them.
//!
//! Is not: a copy of the file: what is in memory counts, also while the disk takes nothing.
//!
//! How: a database in memory with the same tables turns rows into cells and back, so that nothing
//! else has to know the columns.
//!
//! Invariant: rows of another version of the tables are refused, and so are those of another site.

use std::collections::BTreeSet;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use tandem_barnraising::roster::Bar;
use tandem_barnraising::uri::Name;

use super::{Kept, Row, Site, VERSION, bars, create, read, write_row, write_site};
use crate::tables::{Cell, Tables};

/// The version of the rows.
pub(crate) const FORMAT: i64 = VERSION;

/// These rows as cells.
pub(crate) fn cells<'a>(
    name: &Name,
    site: Site,
    rows: impl Iterator<Item = &'a Row>,
    bars: &[Bar],
) -> rusqlite::Result<Tables> {
    let database = in_memory()?;
    write_site(&database, name, site)?;
    for row in rows {
        write_row(&database, row)?;
    }
    for bar in bars {
        bars::write(&database, bar)?;
    }
    let mut tables = Tables::default();
    for table in names(&database)? {
        let query = format!("SELECT * FROM {table}");
        let mut statement = database.prepare(&query)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..columns).map(|at| cell(row.get_ref(at)?)).collect()
        })?;
        let rows: BTreeSet<_> = rows.collect::<rusqlite::Result<_>>()?;
        tables.0.insert(table, rows);
    }
    Ok(tables)
}

/// The same back. Tables that the database does not have are left to others.
pub(crate) fn rows(name: &Name, tables: &Tables) -> rusqlite::Result<Kept> {
    let database = in_memory()?;
    for table in names(&database)? {
        for row in tables.rows(&table) {
            let places = vec!["?"; row.len()].join(", ");
            let insert = format!("INSERT INTO {table} VALUES ({places})");
            let values = row
                .iter()
                .map(value)
                .collect::<rusqlite::Result<Vec<_>>>()?;
            database
                .prepare_cached(&insert)?
                .execute(params_from_iter(values))?;
        }
    }
    read(&database, name)
}

fn in_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    create(&connection)?;
    Ok(connection)
}

/// The tables that there are.
fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

fn cell(value: ValueRef<'_>) -> rusqlite::Result<Cell> {
    match value {
        ValueRef::Integer(number) => Ok(Cell::Integer(number)),
        ValueRef::Text(text) => Ok(Cell::Text(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Blob(bytes) => Ok(Cell::blob(bytes)),
        // The tables have neither.
        ValueRef::Null | ValueRef::Real(_) => Err(rusqlite::Error::InvalidQuery),
    }
}

fn value(cell: &Cell) -> rusqlite::Result<Value> {
    Ok(match cell {
        Cell::Integer(number) => Value::Integer(*number),
        Cell::Text(text) => Value::Text(text.clone()),
        Cell::Blob { .. } => {
            let bytes = cell.bytes().ok_or(rusqlite::Error::InvalidQuery)?;
            Value::Blob(bytes)
        }
    })
}
