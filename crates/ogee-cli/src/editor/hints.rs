//! What the rest of a line may be, shown behind the cursor: of the last statement that began so, or the arguments of a command.

use rustyline::Context;
use rustyline::hint::Hint;
use rustyline::history::SearchDirection;

use super::tokens::is_command;
use crate::dot::COMMANDS;

/// Something to show, and to take over if the cursor is moved to the right.
#[derive(Debug, PartialEq, Eq)]
pub struct Proposal {
    shown: String,
    taken: Option<String>,
}

impl Hint for Proposal {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.taken.as_deref()
    }
}

/// The hint for `line`, if the cursor is at its end.
pub fn hint(line: &str, cursor: usize, context: &Context<'_>) -> Option<Proposal> {
    if line.trim().is_empty() || cursor < line.len() {
        return None;
    }
    remembered(line, context).or_else(|| arguments(line))
}

fn remembered(line: &str, context: &Context<'_>) -> Option<Proposal> {
    let history = context.history();
    let last = history.len().checked_sub(1)?;
    let start = context.history_index().min(last);
    let found = history.starts_with(line, start, SearchDirection::Reverse).ok()??;
    let rest = found.entry.get(line.len()..).filter(|rest| !rest.is_empty())?;
    // One line is shown, so that the lines below stay where they are.
    let shown = match rest.split_once('\n') {
        Some((first, _)) => format!("{first} …"),
        None => rest.to_owned(),
    };
    Some(Proposal { shown, taken: Some(rest.to_owned()) })
}

/// What the command of `line` takes.
fn arguments(line: &str) -> Option<Proposal> {
    let name = line.trim_start();
    if !is_command(line) {
        return None;
    }
    let command = COMMANDS.iter().find(|command| name.strip_suffix(' ') == Some(command.name))?;
    (!command.arguments.is_empty()).then(|| Proposal { shown: command.arguments.to_owned(), taken: None })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use rustyline::history::{DefaultHistory, History};

    use super::*;

    #[test]
    fn hints_are_of_history_and_commands() {
        let mut history = DefaultHistory::new();
        for entry in ["SELECT 1;", "SELECT 2\nFROM t;", "FROM x;"] {
            history.add(entry).unwrap();
        }
        let context = Context::new(&history);
        let shown = |line: &str| hint(line, line.len(), &context).map(|hint| (hint.shown, hint.taken));
        assert_eq!(shown("SELECT 1"), Some((";".to_owned(), Some(";".to_owned()))));
        assert_eq!(shown("SEL"), Some(("ECT 2 …".to_owned(), Some("ECT 2\nFROM t;".to_owned()))));
        assert_eq!(shown("FROM x;"), None);
        assert_eq!(shown(".cd "), Some(("DIRECTORY".to_owned(), None)));
        assert_eq!(shown(""), None);
        assert_eq!(hint("SELECT", 2, &context), None);
    }
}
