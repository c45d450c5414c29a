//! Help at the prompt: completion, hints, colours, and where Enter ends what is typed.
//!
//! Not here: keys and the line itself, which are `rustyline`'s.

mod completion;
mod highlight;
mod hints;
pub mod keywords;
mod names;
mod tokens;
mod validate;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ogee::Connection;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use names::Names;

/// What helps.
#[derive(Default)]
pub struct Assistant {
    names: RefCell<Names>,
    /// Whether brackets are matched: not in a line that is being run.
    is_editing: Cell<bool>,
}

impl Assistant {
    /// Statements may have run on `connection`.
    pub fn refresh(&mut self, connection: &Arc<Connection>) {
        self.names.get_mut().refresh(connection);
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(completion::complete(line, pos, &mut self.names.borrow_mut()))
    }
}

impl Hinter for Assistant {
    type Hint = hints::Proposal;

    fn hint(&self, line: &str, pos: usize, context: &Context<'_>) -> Option<hints::Proposal> {
        hints::hint(line, pos, context)
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        Cow::Owned(highlight::coloured(line, self.is_editing.get().then_some(pos)))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(highlight::faint(hint))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.is_editing.set(kind != CmdKind::ForcedRefresh);
        true
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match validate::is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}
