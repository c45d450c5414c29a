//! Common table expressions that are worth computing once for the rows that they leave.
//!
//! Not here: all that the text and the logical plan tell of them (`ogee_sql::ctes`), running them (`session`).

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::island::expected_rows;

/// Rows that must be read for each that is kept, at least: writing one and reading it again costs about as much as scanning a few.
const CONDENSED: u64 = 8;

/// Rows that must be read at all: planning a query by itself costs a millisecond or two.
const CONDENSED_MIN: u64 = 500_000;

/// Whether `plan` reads so many more rows than it is expected to give that it had better be run once: one in so many is left.
pub(crate) fn condenses(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn read(plan: &Arc<dyn ExecutionPlan>) -> u64 {
        let children = plan.children();
        match &children[..] {
            [] => expected_rows(plan).unwrap_or(0),
            _ => children.into_iter().map(read).fold(0, u64::saturating_add),
        }
    }
    expected_rows(plan).is_some_and(|rows| {
        let read = read(plan);
        read >= CONDENSED_MIN && rows.saturating_mul(CONDENSED) <= read
    })
}
