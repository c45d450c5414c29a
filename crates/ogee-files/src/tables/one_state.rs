//! The state of a session as one statement is planned with it. A copy has all functions in its maps, and takes longer than finding a file.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
};

use datafusion::execution::SessionState;
use parking_lot::RwLock;

tokio::task_local! {
    static STATE: OnceLock<Arc<SessionState>>;
}

/// Runs `planning`, in which all tables of files and all views are found with one copy of a session's state.
pub async fn with_one_state<F: Future>(planning: F) -> F::Output {
    STATE.scope(OnceLock::new(), planning).await
}

/// The state of `session`, which is the one whose statement is planned, as it was when it was first asked for.
pub fn state_of(session: &RwLock<SessionState>) -> Arc<SessionState> {
    let copy = || Arc::new(session.read().clone());
    STATE.try_with(|state| Arc::clone(state.get_or_init(copy))).unwrap_or_else(|_| copy())
}
