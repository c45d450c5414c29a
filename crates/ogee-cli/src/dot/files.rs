//! Commands that read and write files.

use std::path::Path;

use super::Arguments;
use crate::errors::RunError;
use crate::output::{Sink, identifier, quoted};
use crate::script;
use crate::session::Session;

/// Opens `file` to be written.
fn written(file: &str) -> Result<Sink, RunError> {
    Sink::file(Path::new(file)).map_err(|error| RunError::command(format_args!("cannot write {file}: {error}")))
}

pub fn output(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.sink = match arguments.optional()? {
        None | Some("stdout" | "-") => Sink::stdout(),
        Some(file) => written(file)?,
    };
    session.once = None;
    Ok(())
}

pub fn once(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.once = Some(written(arguments.single()?)?);
    Ok(())
}

pub fn read(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    script::file(session, Path::new(arguments.single()?))
}

pub fn open(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    match arguments.optional()? {
        None | Some(":memory:") => session.reopen(),
        Some(_) => Err(RunError::command("database files come later; .open starts over in memory")),
    }
}

/// Files of other kinds are known by their name.
const OTHERS: [&str; 7] = [".parquet", ".json", ".ndjson", ".jsonl", ".arrow", ".feather", ".ipc"];

pub fn import(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let mut words = arguments.words.iter();
    let (mut is_csv, mut skip, mut names) = (false, None, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--csv" | "-csv" => is_csv = true,
            "--skip" | "-skip" => {
                let count = words.next().ok_or_else(|| arguments.usage())?;
                let count = count.parse::<u32>();
                skip = Some(count.map_err(|_| RunError::command(".import --skip takes a number of lines"))?);
            }
            flag if flag.starts_with("--") => return Err(arguments.usage()),
            name => names.push(name),
        }
    }
    let [file, table] = names[..] else { return Err(arguments.usage()) };
    let is_other = !is_csv && OTHERS.iter().any(|ending| file.to_ascii_lowercase().ends_with(ending));
    let source = match (is_other, skip) {
        (true, None) => quoted(file),
        (true, Some(_)) => return Err(RunError::command(".import --skip is for CSV files")),
        (false, _) => {
            let separator = session.style.separator.as_ref().map(|text| format!(", delim = {}", quoted(text)));
            let skip = skip.map(|count| format!(", skip = {count}"));
            format!("read_csv({}{}{})", quoted(file), separator.unwrap_or_default(), skip.unwrap_or_default())
        }
    };
    let name = table.split('.').map(identifier).collect::<Vec<_>>().join(".");
    let exists = session.texts(&format!("DESCRIBE {name}")).is_ok();
    match exists {
        true => session.statement(&format!("INSERT INTO {name} SELECT * FROM {source}")),
        false => session.statement(&format!("CREATE TABLE {name} AS SELECT * FROM {source}")),
    }
}
