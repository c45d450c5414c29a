//! The plan of a statement: put in other words where DataFusion refuses it as it is, and no others.
//!
//! Not here: the words (`syntax`, `names`), and rules on plans (`rules`).

use std::collections::HashSet;

use datafusion::{
    common::{Column, SchemaError},
    error::DataFusionError,
    execution::SessionState,
    logical_expr::LogicalPlan,
    sql::{parser::Statement as ParsedStatement, sqlparser::ast::Ident},
};
use ogee_functions::{Error, Result};

use crate::{
    asked, cte_names, implicit_keys, meant_names,
    names::{hides_casts, is_clash, name_all},
    short_aliases, spellings,
    statement::parse,
    syntax, times, wide_lists,
};

/// How often a statement is put in other words, one output a time, before it is refused.
const REWRITES: usize = 32;

/// The plan of `statement`, whose groupings have the keys that are written.
pub async fn plan(state: &SessionState, mut statement: ParsedStatement) -> Result<LogicalPlan> {
    spellings::fold_names(&mut statement);
    let mut marked = statement.clone();
    let plan = in_other_words(state, statement).await?;
    if !implicit_keys::may_have_any(&plan)? {
        return Ok(plan);
    }
    implicit_keys::mark(&mut marked);
    let plan = in_other_words(state, marked).await?;
    Ok(implicit_keys::without_marks(plan)?)
}

/// The plan of `statement`, put in other words where DataFusion refuses it as it is.
async fn in_other_words(state: &SessionState, statement: ParsedStatement) -> Result<LogicalPlan> {
    let mut statement = statement;
    let mut named = hides_casts(&mut statement);
    if named {
        name_all(&mut statement);
    }
    let mut beside = statement.clone();
    let mut in_two_places = None;
    if syntax::make_lateral_in_subqueries(&mut beside) {
        for _ in 0..REWRITES {
            match wide_lists::plan(state, beside.clone()).await {
                Ok(plan) => return Ok(plan),
                Err(error) => in_two_places = unknown_column(&error),
            }
            let Some(name) = &in_two_places else { break };
            if !write_out_neighbours(state, &mut beside, name).await {
                break;
            }
        }
    }
    let refused = match (wide_lists::plan(state, statement.clone()).await, in_two_places) {
        (Ok(plan), None) => return Ok(plan),
        // DataFusion would take the outer query's, where it is the neighbour's.
        (Ok(_), Some(name)) => {
            return Err(Error::Plan(format!(
                "column '{name}' of a query in FROM may be of a table before it, and of the outer query: write which table's it is"
            )));
        }
        (Err(error), _) => error,
    };
    if let Some(name) = unknown_column(&refused)
        && syntax::bare_calls::write_out(&mut statement, &name)
    {
        return Box::pin(in_other_words(state, statement)).await;
    }
    let (mut other, mut averaged, mut lateral, mut queries_named, mut error) = (statement, false, false, false, None);
    // Outputs may be of outputs, but of themselves without end.
    for _ in 0..REWRITES {
        let why = error.as_ref().unwrap_or(&refused);
        if cte_names::is_twice(why) && cte_names::tell_apart(&mut other) {
            // Planned again.
        } else if cte_names::misses_table(why) && cte_names::drop_unread(&mut other) {
            // What nobody reads need not be there.
        } else if syntax::conditions::are_refused(why) && syntax::conditions::cast(&mut other) {
            // Numbers are conditions, too.
        } else if let Some(column) = outer_struct(why)
            && syntax::take_fields_of(&mut other, &column)
        {
            // A field of an outer query's column is taken of the column.
        } else if is_clash(why) && meant_names::tell_stars_apart(&mut other) {
            Box::pin(asked::write_out(state, &mut other)).await?;
        } else if is_clash(why) && !named {
            name_all(&mut other);
            named = true;
        } else if let Some((columns, names)) = short_aliases::told_of(why)
            && short_aliases::mark(&mut other, columns, names)
        {
            Box::pin(asked::write_out(state, &mut other)).await?;
        } else if is_clash(why) && !queries_named && syntax::name_queries(&mut other) {
            queries_named = true;
        } else if let (true, false, ParsedStatement::Statement(statement)) =
            (times::averages_intervals(why), averaged, &mut other)
        {
            times::name_averages(statement);
            averaged = true;
        } else if write_out_alias(state, &mut other, why).await {
            // Outputs go before tables on the left.
        } else if !lateral && is_unknown_column(why) && syntax::make_lateral(&mut other) {
            lateral = true;
        } else if let Some(column) = unknown(why)
            && meant_names::write_out(&mut other, column.relation.as_ref().map(|table| table.table()), &column.name)
        {
            Box::pin(asked::write_out(state, &mut other)).await?;
        } else {
            // What is wrong is told in the words of the statement as it was written.
            return Err(refused.into());
        }
        match wide_lists::plan(state, other.clone()).await {
            Ok(plan) => return Ok(plan),
            Err(again) => error = Some(again),
        }
    }
    Err(refused.into())
}

/// Puts an output in the place of its name, which `why` says is no column's; false if it is no output's.
async fn write_out_alias(state: &SessionState, statement: &mut ParsedStatement, why: &DataFusionError) -> bool {
    let Some(name) = unknown_column(why) else { return false };
    let mut columns = HashSet::new();
    for (from, column) in syntax::alias_sources(statement, &name) {
        if has_column(state, &from, &column).await {
            columns.insert((from, column));
        }
    }
    syntax::write_out_alias(statement, &name, &columns)
}

/// Says which neighbour's column `name` is that queries in `FROM` use; false if it is none's.
async fn write_out_neighbours(state: &SessionState, statement: &mut ParsedStatement, name: &str) -> bool {
    let mut having = syntax::Having::new();
    for from in syntax::sources_beside(statement, name) {
        let has = match select_column(state, &from, name).await {
            Some(Ok(_)) => Some(true),
            Some(Err(error)) if unknown_column(&error).is_some_and(|missing| missing == name) => Some(false),
            _ => None,
        };
        having.insert(from, has);
    }
    syntax::write_out_neighbours(statement, name, &having)
}

/// Whether what is selected from has a column of this name, as far as it can be told by itself.
async fn has_column(state: &SessionState, from: &str, name: &str) -> bool {
    select_column(state, from, name).await.is_some_and(|plan| plan.is_ok())
}

/// The plan of a query of that column alone, or why it cannot be planned; `None` if there is no such text.
async fn select_column(
    state: &SessionState,
    from: &str,
    name: &str,
) -> Option<std::result::Result<LogicalPlan, DataFusionError>> {
    let column = Ident::with_quote('"', name);
    let mut select = parse(&format!("SELECT {column} FROM {from}")).ok()?.pop()?;
    loop {
        let plan = state.statement_to_plan(select.0.clone()).await;
        match plan.as_ref().err().and_then(unknown_column) {
            Some(missing) if missing != name && syntax::bare_calls::write_out(&mut select.0, &missing) => {}
            _ => return Some(plan),
        }
    }
}

/// The column of an outer query whose fields DataFusion's planner does not take.
fn outer_struct(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::NotImplemented(message) => {
            let column = message.strip_prefix("Nested identifiers are not yet supported for OuterReferenceColumn ")?;
            Some(column.rsplit('.').next()?.trim_matches('"').to_owned())
        }
        _ => None,
    }
}

fn is_unknown_column(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SchemaError(error, _) if matches!(**error, SchemaError::FieldNotFound { .. }))
}

/// The name without a table's that stands for no column.
fn unknown_column(error: &DataFusionError) -> Option<String> {
    unknown(error).filter(|column| column.relation.is_none()).map(|column| column.name.clone())
}

/// What stands for no column.
fn unknown(error: &DataFusionError) -> Option<&Column> {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound { field, .. } => Some(field),
            _ => None,
        },
        _ => None,
    }
}
