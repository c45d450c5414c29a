//! Commands that set or show how the shell behaves.

use std::io::Write;

use super::Arguments;
use crate::errors::RunError;
use crate::output::Mode;
use crate::session::{Bail, Session};

fn on(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

pub fn bail(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let bail = &mut session.settings.bail;
    *bail = if arguments.switch(*bail == Bail::On)? { Bail::On } else { Bail::Off };
    Ok(())
}

pub fn changes(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.settings.changes = arguments.switch(session.settings.changes)?;
    Ok(())
}

pub fn echo(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.settings.echo = arguments.switch(session.settings.echo)?;
    Ok(())
}

pub fn headers(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.style.headers = arguments.switch(session.style.headers)?;
    Ok(())
}

pub fn progress(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.settings.progress = arguments.switch(session.settings.progress)?;
    Ok(())
}

pub fn stats(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.settings.stats = arguments.switch(session.settings.stats)?;
    Ok(())
}

pub fn timer(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.settings.timer = arguments.switch(session.settings.timer)?;
    Ok(())
}

pub fn maxrows(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    match arguments.optional()? {
        None => writeln!(session.sink, "{}", session.style.rows_max)?,
        Some(text) => match text.parse() {
            Ok(rows) if rows > 0 => session.style.rows_max = rows,
            _ => return Err(RunError::command(format_args!(".maxrows takes a number above 0, not {text:?}"))),
        },
    }
    Ok(())
}

pub fn maxwidth(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    match arguments.optional()? {
        None => writeln!(session.sink, "{}", session.settings.width_max)?,
        Some(text) => match text.parse() {
            Ok(width) => session.settings.width_max = width,
            Err(_) => return Err(RunError::command(format_args!(".maxwidth takes a number, not {text:?}"))),
        },
    }
    Ok(())
}

/// A mode brings its own separators.
pub fn mode(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let (name, table) = match arguments.words.as_slice() {
        [] => {
            writeln!(session.sink, "{}", session.style.mode.name())?;
            return Ok(());
        }
        [name] => (name, None),
        [name, table] if Mode::named(name) == Some(Mode::Insert) => (name, Some(table)),
        _ => return Err(arguments.usage()),
    };
    let Some(mode) = Mode::named(name) else {
        let names = Mode::names().join(", ");
        return Err(RunError::command(format_args!("no mode {name:?}; there are {names}")));
    };
    let style = &mut session.style;
    style.mode = mode;
    style.separator = None;
    style.row_separator = "\n".to_owned();
    if let Some(table) = table {
        style.table.clone_from(table);
    }
    Ok(())
}

pub fn nullvalue(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    session.style.null = Some(arguments.single()?.to_owned());
    Ok(())
}

pub fn pager(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    match arguments.optional()? {
        None => {
            let pager = session.settings.pager.as_deref();
            writeln!(session.sink, "{}", pager.map_or_else(|| "off".to_owned(), |command| format!("on: {command}")))?;
        }
        Some("on") => session.settings.pager = Some(Session::default_pager()),
        Some("off") => session.settings.pager = None,
        Some(command) => session.settings.pager = Some(command.to_owned()),
    }
    Ok(())
}

pub fn separator(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let (column, row) = match arguments.words.as_slice() {
        [column] => (column, None),
        [column, row] => (column, Some(row)),
        _ => return Err(arguments.usage()),
    };
    session.style.separator = Some(super::unescaped(column));
    if let Some(row) = row {
        session.style.row_separator = super::unescaped(row);
    }
    Ok(())
}

pub fn width(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let width = |word: &String| {
        let width = word.parse::<i32>().ok().filter(|width| width.unsigned_abs() <= 10_000);
        width.ok_or_else(|| RunError::command(format_args!(".width takes numbers up to 10000, not {word:?}")))
    };
    session.style.widths = arguments.words.iter().map(width).collect::<Result<_, _>>()?;
    Ok(())
}

pub fn show(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    arguments.none()?;
    let (style, settings) = (&session.style, &session.settings);
    let widths: Vec<String> = style.widths.iter().map(ToString::to_string).collect();
    let bail = match settings.bail {
        Bail::Statements => "at statements",
        Bail::On => "on",
        Bail::Off => "off",
    };
    let lines = [
        ("mode", style.mode.name()),
        ("headers", on(style.headers).to_owned()),
        ("nullvalue", format!("{:?}", style.null_text())),
        ("separator", format!("{:?} {:?}", style.separator_text(), style.row_separator)),
        ("width", widths.join(" ")),
        ("maxrows", style.rows_max.to_string()),
        ("maxwidth", settings.width_max.to_string()),
        ("output", session.sink.name().to_owned()),
        ("bail", bail.to_owned()),
        ("changes", on(settings.changes).to_owned()),
        ("echo", on(settings.echo).to_owned()),
        ("pager", settings.pager.clone().unwrap_or_else(|| "off".to_owned())),
        ("progress", on(settings.progress).to_owned()),
        ("readonly", on(settings.read_only).to_owned()),
        ("stats", on(settings.stats).to_owned()),
        ("timer", on(settings.timer).to_owned()),
    ];
    let engine = ["memory_limit", "threads", "temp_directory", "temp_compression", "max_temp_size"];
    let mut values = Vec::new();
    for name in engine {
        let value = session.texts(&format!("SHOW {name}"))?.into_iter().flatten().last().flatten();
        values.push((name, value.unwrap_or_default()));
    }
    for (name, value) in lines.into_iter().chain(values) {
        writeln!(session.sink, "{}", format!("{name:>16}: {value}").trim_end())?;
    }
    Ok(())
}
