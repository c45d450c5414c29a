//! Clauses of function calls that only aggregates and windows have: refused behind scalar functions.
//!
//! DataFusion plans `upper(s) FILTER (WHERE false)` and `upper(s) OVER ()` as `upper(s)`, and `row_number() IGNORE NULLS OVER ()` as `row_number() OVER ()`.
//!
//! Not here: functions that do not exist, which the planner tells.

use std::ops::ControlFlow;

use datafusion::{
    execution::SessionState,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, NullTreatment, Visitor,
        },
    },
};
use ogee_functions::{Error, Result};

use crate::{names::normal_name, syntax};

/// Windows that may leave NULLs out.
const IGNORING_NULLS: &[&str] = &["lag", "lead", "first_value", "last_value", "nth_value"];

/// Functions of one argument that DataFusion lets have more, and over windows none.
const ONE_ARGUMENT: &[&str] = &["count", "first_value", "last_value", "any_value"];

/// Says which call of `statement` has a clause that it cannot have.
///
/// # Errors
/// [`Error::Plan`] that names it.
pub fn check(statement: &Parsed, state: &SessionState) -> Result<()> {
    match syntax::look(statement, &mut Calls { state }) {
        ControlFlow::Break(message) => Err(Error::Plan(message)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Calls<'a> {
    state: &'a SessionState,
}

impl Visitor for Calls<'_> {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(normal_name) else {
            return ControlFlow::Continue(());
        };
        if let FunctionArguments::List(list) = &function.args
            && list.args.len() != 1
            && ONE_ARGUMENT.contains(&name.as_str())
            && !(name == "count" && list.args.is_empty())
        {
            return ControlFlow::Break(format!("'{name}' takes one argument, not {}", list.args.len()));
        }
        let Some(clause) = clause(function) else { return ControlFlow::Continue(()) };
        let is_aggregate = self.state.aggregate_functions().contains_key(&name);
        let is_window = self.state.window_functions().contains_key(&name);
        if !is_aggregate && !is_window {
            if self.state.scalar_functions().contains_key(&name) {
                let kinds = "only aggregates and window functions have";
                return ControlFlow::Break(format!(
                    "'{name}' is a scalar function and takes no {clause}, which {kinds}"
                ));
            }
        } else if ignores_nulls(function) && function.over.is_some() && !ignores_nulls_over_windows(&name) {
            let known = IGNORING_NULLS.join(", ");
            return ControlFlow::Break(format!(
                "IGNORE NULLS of window '{name}' is not supported; only {known} take it"
            ));
        }
        ControlFlow::Continue(())
    }
}

/// Whether the window function `name` can ignore NULL.
fn ignores_nulls_over_windows(name: &str) -> bool {
    let name = name.strip_prefix("ogee_ordered_").or_else(|| name.strip_prefix("ogee_")).unwrap_or(name);
    IGNORING_NULLS.contains(&name)
}

/// The clause of `function` that a scalar function would not have.
fn clause(function: &Function) -> Option<&'static str> {
    if function.over.is_some() {
        return Some("OVER");
    }
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if !function.within_group.is_empty() {
        return Some("WITHIN GROUP");
    }
    if function.null_treatment.is_some() {
        return Some("IGNORE or RESPECT NULLS");
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return Some("DISTINCT");
    }
    list.clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(_) => Some("ORDER BY"),
        FunctionArgumentClause::IgnoreOrRespectNulls(_) => Some("IGNORE or RESPECT NULLS"),
        _ => None,
    })
}

fn ignores_nulls(function: &Function) -> bool {
    let ignore = |treatment: &NullTreatment| matches!(treatment, NullTreatment::IgnoreNulls);
    function.null_treatment.as_ref().is_some_and(ignore)
        || matches!(&function.args, FunctionArguments::List(list) if list.clauses.iter().any(|clause| {
            matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(treatment) if ignore(treatment))
        }))
}
