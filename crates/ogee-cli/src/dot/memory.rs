//! `.memory`: what the engine holds and has spilled.

use std::io::Write;

use ogee_memory::process_account;

use super::Arguments;
use crate::errors::RunError;
use crate::session::Session;
use crate::sizes;

pub fn memory(session: &mut Session, arguments: &Arguments) -> Result<(), RunError> {
    arguments.none()?;
    let stats = session.database.memory_stats();
    let lines = [
        ("limit", stats.limit as u64),
        ("process", process_account().anonymous_bytes() as u64),
        ("pool", stats.used as u64),
        ("pool at most", stats.peak_used as u64),
        ("spilled", stats.spilled_bytes),
        ("read back", stats.read_back_bytes),
        ("temporary files", stats.temp_bytes),
    ];
    for (name, bytes) in lines {
        writeln!(session.sink, "{name:>16}: {}", sizes::shown(bytes))?;
    }
    for (name, bytes) in stats.consumers.iter().filter(|(_, bytes)| *bytes > 0) {
        writeln!(session.sink, "{:>16}: {}", format!("of {name}"), sizes::shown(*bytes as u64))?;
    }
    Ok(())
}
