//! How many grouping sets a query may have.
//!
//! `CUBE` of n keys has 2^n of them, all of which are written out while the statement is planned. They are counted in the parsed text.
//!
//! Not here: what the sets mean.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, GroupByWithModifier, Select, Visit, Visitor};
use ogee_functions::{Error, Result};

use crate::visitors;

/// Grouping sets of one query: those of a `CUBE` of 12 keys.
pub(crate) const GROUPING_SETS_MAX: u64 = 4096;

/// # Errors
/// [`Error::Unsupported`] if a query of `statement` has more grouping sets.
pub(crate) fn check(statement: &impl Visit) -> Result<()> {
    match visitors::visit(statement, &mut Queries) {
        ControlFlow::Break(sets) => Err(Error::Unsupported(format!(
            "GROUP BY makes {sets} grouping sets, {GROUPING_SETS_MAX} is the most; \
             CUBE of n keys makes 2^n of them: name those that you need with GROUPING SETS"
        ))),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Queries;

impl Visitor for Queries {
    /// How many sets it has.
    type Break = String;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return ControlFlow::Continue(()) };
        // What stands side by side is combined each with each.
        let mut sets = keys.iter().map(sets_of).fold(1, u64::saturating_mul);
        for modifier in modifiers {
            sets = sets.saturating_mul(match modifier {
                GroupByWithModifier::Cube => power(keys.len()),
                GroupByWithModifier::Rollup => keys.len() as u64 + 1,
                GroupByWithModifier::GroupingSets(sets) => sets_of(sets),
                _ => 1,
            });
        }
        match sets {
            u64::MAX => ControlFlow::Break("countless".to_owned()),
            sets if sets > GROUPING_SETS_MAX => ControlFlow::Break(sets.to_string()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn sets_of(key: &Expr) -> u64 {
    match key {
        Expr::Cube(keys) => power(keys.len()),
        Expr::Rollup(keys) => keys.len() as u64 + 1,
        // A set may be a CUBE or a ROLLUP itself.
        Expr::GroupingSets(sets) => sets
            .iter()
            .map(|set| match set.as_slice() {
                [one] => sets_of(one),
                _ => 1,
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}

fn power(keys: usize) -> u64 {
    u32::try_from(keys).ok().and_then(|keys| 2u64.checked_pow(keys)).unwrap_or(u64::MAX)
}
