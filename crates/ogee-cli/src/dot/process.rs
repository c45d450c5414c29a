//! Commands about the process: its directory, its end, other processes.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use signal_hook::consts::SIGINT;

use super::Arguments;
use crate::errors::RunError;
use crate::session::Session;

pub fn cd(_: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let directory = arguments.single()?;
    std::env::set_current_dir(directory)
        .map_err(|error| RunError::command(format_args!("cannot change to {directory}: {error}")))
}

pub fn exit(_: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    let code = match arguments.optional()? {
        None => 0,
        Some(text) => text.parse::<u8>().map_err(|_| {
            RunError::command(format_args!("{} takes a code from 0 to 255, not {text:?}", arguments.command.name))
        })?,
    };
    Err(RunError::Quit(i32::from(code)))
}

pub fn print(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    Ok(writeln!(session.sink, "{}", arguments.words.join(" "))?)
}

pub fn version(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    arguments.none()?;
    Ok(writeln!(session.sink, "ogee {}", env!("CARGO_PKG_VERSION"))?)
}

/// Signals are the other process's meanwhile.
pub fn shell(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    if arguments.rest.is_empty() {
        return Err(arguments.usage());
    }
    session.sink.flush()?;
    session.interrupts.ignore();
    let status = Command::new("sh").arg("-c").arg(arguments.rest).status();
    session.interrupts.detach();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if status.signal() == Some(SIGINT) => Err(RunError::Interrupted(SIGINT)),
        Ok(status) => Err(RunError::command(format_args!("the command ended with {status}"))),
        Err(error) => Err(RunError::command(format_args!("the command cannot be started: {error}"))),
    }
}
