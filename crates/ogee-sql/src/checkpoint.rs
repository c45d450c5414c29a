//! Where planning, which waits for nothing, notices that nobody waits for it any more.
//!
//! A statement is planned on one thread (`large_stack`), which knows its context; rules ask here now and then whether to go on.
//!
//! Not here: who interrupts.

use std::{cell::RefCell, sync::Arc};

use datafusion::error::Result;
use ogee_exec::ExecError;
use ogee_functions::error::to_datafusion;

use crate::context::StatementContext;

thread_local! {
    static CURRENT: RefCell<Option<Arc<StatementContext>>> = const { RefCell::new(None) };
}

/// While it lives, what is planned on this thread is of one statement.
pub struct Planned {
    before: Option<Arc<StatementContext>>,
}

impl StatementContext {
    /// From now on this thread plans the statement.
    pub fn enter(self: &Arc<Self>) -> Planned {
        Planned { before: CURRENT.replace(Some(Arc::clone(self))) }
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// The statement that is planned on this thread, for what goes on when it runs and waits for nothing either.
pub(crate) fn current() -> Option<Arc<StatementContext>> {
    CURRENT.with_borrow(Clone::clone)
}

/// # Errors
/// The statement that is planned here was interrupted.
pub fn check() -> Result<()> {
    let interrupted = CURRENT.with_borrow(|current| current.as_ref().is_some_and(|context| context.is_interrupted()));
    if interrupted { Err(to_datafusion(ExecError::Cancelled)) } else { Ok(()) }
}
