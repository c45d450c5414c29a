//! What a statement says in full: first what stands for expressions and queries that are known without its tables, then what those tell.
//!
//! Not here: any of it (`macros`, `asked`, `stars`).

use datafusion::{execution::SessionState, sql::parser::Statement as Parsed};
use ogee_functions::Result;

use crate::{asked, macros, stars};

/// Writes out what `statement` says in short.
///
/// # Errors
/// Those of planning what has to be known, and of asking for it.
pub async fn write_out(state: &SessionState, statement: &mut Parsed) -> Result<()> {
    macros::write_out(state, statement)?;
    asked::write_out(state, statement).await?;
    stars::write_out(state, statement).await
}
