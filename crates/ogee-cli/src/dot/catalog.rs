//! Commands that tell of tables and databases.

use std::collections::BTreeMap;
use std::io::Write;

use super::Arguments;
use crate::errors::RunError;
use crate::output::{identifier, width};
use crate::session::Session;
use crate::terminal;

/// Characters of a line where there is no terminal that has others.
const LINE: usize = 80;

/// A table or view.
struct Table {
    database: String,
    schema: String,
    name: String,
}

impl Table {
    /// Its name as it is written: without the places that names are looked for in anyway.
    fn written(&self) -> String {
        match (self.database.as_str(), self.schema.as_str()) {
            ("memory", "main") => identifier(&self.name),
            ("memory", schema) => format!("{}.{}", identifier(schema), identifier(&self.name)),
            (database, _) => format!("{}.{}", identifier(database), identifier(&self.name)),
        }
    }
}

/// The tables and views whose names are like the pattern, if there is one.
fn listed(session: &Session, pattern: Option<&str>) -> Result<Vec<Table>, RunError> {
    let rows = session.texts("SHOW ALL TABLES")?;
    let mut tables: Vec<Table> = rows
        .into_iter()
        .filter_map(|row| {
            let mut values = row.into_iter().flatten();
            Some(Table { database: values.next()?, schema: values.next()?, name: values.next()? })
        })
        .filter(|table| pattern.is_none_or(|pattern| is_like(&table.name, pattern)))
        .collect();
    tables.sort_by(|a, b| {
        (&a.database != "memory", &a.database, &a.schema, &a.name).cmp(&(
            &b.database != "memory",
            &b.database,
            &b.schema,
            &b.name,
        ))
    });
    Ok(tables)
}

/// Whether `text` is `LIKE pattern`, in any case.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.to_lowercase().chars().collect(), pattern.to_lowercase().chars().collect());
    // Where the last `%` was, and what it covers so far.
    let (mut at, mut next) = (0, 0);
    let mut many = None;
    while at < text.len() {
        match pattern.get(next) {
            Some('%') => {
                many = Some((next, at));
                next += 1;
            }
            Some(letter) if *letter == '_' || *letter == text[at] => {
                at += 1;
                next += 1;
            }
            _ => match &mut many {
                Some((place, covered)) => {
                    *covered += 1;
                    (at, next) = (*covered, *place + 1);
                }
                None => return false,
            },
        }
    }
    pattern[next..].iter().all(|letter| *letter == '%')
}

pub fn databases(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    arguments.none()?;
    for name in session.database.names() {
        writeln!(session.sink, "{name}")?;
    }
    Ok(())
}

pub fn tables(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let names: Vec<String> = listed(session, arguments.optional()?)?.iter().map(Table::written).collect();
    let room = terminal::size().filter(|_| session.sink.is_terminal()).map_or(LINE, |(_, columns)| columns);
    for line in in_columns(&names, room) {
        writeln!(session.sink, "{line}")?;
    }
    Ok(())
}

/// Names in columns, one below the other, as `ls` lists them.
fn in_columns(names: &[String], room: usize) -> Vec<String> {
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0) + 2;
    let columns = (room / widest).max(1);
    let lines = names.len().div_ceil(columns);
    let line = |line: usize| {
        let padded = |name: &String| format!("{name}{}", " ".repeat(widest - width(name)));
        let line: String = names.iter().skip(line).step_by(lines).map(padded).collect();
        line.trim_end().to_owned()
    };
    (0..lines).map(line).collect()
}

/// Queries of views, by schema and name.
fn views(session: &Session) -> Result<BTreeMap<(String, String), String>, RunError> {
    let rows = session.texts(
        "SELECT database_name || '.' || schema_name, view_name, sql FROM duckdb_views() WHERE sql IS NOT NULL",
    )?;
    let view = |row: Vec<Option<String>>| {
        let mut values = row.into_iter().flatten();
        Some(((values.next()?, values.next()?), values.next()?))
    };
    Ok(rows.into_iter().filter_map(view).collect())
}

pub fn schema(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let views = views(session)?;
    for table in listed(session, arguments.optional()?)? {
        let place = format!("{}.{}", table.database, table.schema);
        let text = match views.get(&(place, table.name.clone())) {
            Some(definition) => definition.trim_end_matches(';').to_owned(),
            None => made(session, &table.written())?,
        };
        writeln!(session.sink, "{text};")?;
    }
    Ok(())
}

/// The statement that makes a table, from what `DESCRIBE` says of its columns: names, types, NULL, keys and defaults.
fn made(session: &Session, table: &str) -> Result<String, RunError> {
    let columns = session.texts(&format!("DESCRIBE {table}"))?;
    let keys =
        |kind: &str| columns.iter().filter(|column| column.get(3).and_then(Option::as_deref) == Some(kind)).count();
    let has_joint_key = keys("PRI") > 1;
    let mut parts = Vec::new();
    let mut joint = Vec::new();
    for column in &columns {
        let value = |at: usize| column.get(at).and_then(Option::as_deref);
        let name = identifier(value(0).unwrap_or_default());
        let mut part = format!("{name} {}", value(1).unwrap_or_default());
        if let Some(default) = value(4) {
            part.push_str(&format!(" DEFAULT {default}"));
        }
        match value(3) {
            Some("PRI") if has_joint_key => joint.push(name),
            Some("PRI") => part.push_str(" PRIMARY KEY"),
            Some("UNI") => part.push_str(" UNIQUE"),
            _ => {}
        }
        if value(2) == Some("NO") && value(3) != Some("PRI") {
            part.push_str(" NOT NULL");
        }
        parts.push(part);
    }
    if has_joint_key {
        parts.push(format!("PRIMARY KEY ({})", joint.join(", ")));
    }
    Ok(format!("CREATE TABLE {table} ({})", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_like() {
        for (text, pattern) in [("orders", "ord%"), ("Orders", "o_d%s"), ("a", "%"), ("", "%%"), ("abcabd", "%abd")] {
            assert!(is_like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("orders", "ord"), ("orders", "o_"), ("", "_"), ("abc", "%abd%")] {
            assert!(!is_like(text, pattern), "{text} {pattern}");
        }
    }

    #[test]
    fn names_are_listed_in_columns() {
        let names = ["a", "bb", "ccc", "d", "e"].map(String::from);
        assert_eq!(in_columns(&names, 10), ["a    d", "bb   e", "ccc"]);
        assert_eq!(in_columns(&names, 3).len(), 5);
        assert!(in_columns(&[], 80).is_empty());
    }
}
