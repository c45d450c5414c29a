//! What a statement leaves to its tables: pivots, stars within expressions, and limits that are computed.
//!
//! Which outputs `PIVOT t ON a` has depends on the columns of `t` and on the values in `a`; how many rows `LIMIT 10%` leaves on how many there are. Such a place is written out when the columns are
//! known, by planning what is selected from, and the values, by running a query for them: the session does that ([`Asks`]). Places within others come first, so that each asks queries without any.
//! Statements that have none are looked at once, and nothing is planned for them.
//!
//! Not here: what is written at a place (`pivots`, `columns_of`, `limits`).

use std::{convert::Infallible, ops::ControlFlow, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{Array, AsArray, RecordBatch, StringArray},
        compute::cast,
        datatypes::DataType,
    },
    common::TableReference,
    execution::SessionState,
    logical_expr::LogicalPlan,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            Expr, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableWithJoins, Visitor, VisitorMut,
        },
    },
};
use ogee_functions::{Error, Result, type_names::sql_name_of};

use crate::{
    columns_of, in_full, limits,
    names::normal_name,
    options::{Options, PIVOT_COLUMNS_MAX},
    pivots,
    plan::plan,
    scopes::{Known, Scopes, knowing},
    short_aliases,
    spellings::spelling_of,
    statement::parse,
    syntax, visitors,
};

/// Runs queries whose rows a plan depends on.
#[async_trait]
pub trait Asks: std::fmt::Debug + Send + Sync {
    /// The rows of `plan`.
    ///
    /// # Errors
    /// Those of running it.
    async fn rows(&self, state: &SessionState, plan: LogicalPlan) -> Result<Vec<RecordBatch>>;
}

/// The one who is asked, as an extension of a session's configuration.
#[derive(Debug)]
pub struct Asked(pub Arc<dyn Asks>);

/// A column of what is selected from.
pub(crate) struct Column {
    pub(crate) table: Option<TableReference>,
    pub(crate) name: String,
    /// The name as it is spelled.
    pub(crate) spelling: String,
    pub(crate) data_type: DataType,
    /// What SQL calls the type.
    pub(crate) sql_type: String,
    pub(crate) is_nullable: bool,
}

/// Answers questions at a place of a statement, where the queries of each `WITH` around are known.
pub(crate) struct Answers<'a> {
    state: &'a SessionState,
    known: Known,
}

impl Answers<'_> {
    /// Whether `name` is that of a query of a `WITH` around.
    pub(crate) fn is_with(&self, name: &ObjectName) -> bool {
        let [part] = &name.0[..] else { return false };
        part.as_ident().is_some_and(|name| self.known.query(&normal_name(name)).is_some())
    }

    /// How many columns a pivot may make.
    pub(crate) fn pivot_columns(&self) -> usize {
        let options = self.state.config().get_extension::<Options>();
        options.map_or(PIVOT_COLUMNS_MAX, |options| options.pivot_columns())
    }

    /// The columns of `SELECT outputs FROM from`.
    pub(crate) async fn columns(&self, outputs: Vec<SelectItem>, from: &[TableWithJoins]) -> Result<Vec<Column>> {
        let mut query = query("SELECT 0 FROM ogee")?;
        if let SetExpr::Select(select) = &mut *query.body {
            (select.projection, select.from) = (outputs, from.to_vec());
        }
        let plan = self.plan(query).await?;
        let columns = plan.schema().iter().map(|(table, field)| Column {
            table: table.cloned(),
            name: field.name().clone(),
            spelling: spelling_of(field),
            data_type: field.data_type().clone(),
            sql_type: sql_name_of(field),
            is_nullable: field.is_nullable(),
        });
        Ok(columns.collect())
    }

    /// The rows of `query`, whose values are texts.
    pub(crate) async fn rows(&self, query: Box<Query>) -> Result<Vec<Vec<Option<String>>>> {
        let Some(asked) = self.state.config().get_extension::<Asked>() else {
            return Err(Error::Unsupported(
                "what depends on the rows of a table is not supported in this session".to_owned(),
            ));
        };
        if let Some(name) = recursive_of(&query, &self.known) {
            return Err(Error::Unsupported(format!(
                "the rows of '{name}' are not known within it; in a recursive query list the values of PIVOT with IN, and limit by numbers"
            )));
        }
        let plan = self.plan(query).await?;
        let mut rows = Vec::new();
        for batch in asked.0.rows(self.state, plan).await? {
            let texts = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
            let texts =
                texts.collect::<std::result::Result<Vec<_>, _>>().map_err(datafusion::error::DataFusionError::from)?;
            let texts: Vec<_> = texts.iter().map(|column| column.as_string::<i32>()).collect();
            for row in 0..batch.num_rows() {
                let text = |column: &&StringArray| column.is_valid(row).then(|| column.value(row).to_owned());
                rows.push(texts.iter().map(text).collect());
            }
        }
        Ok(rows)
    }

    async fn plan(&self, query: Box<Query>) -> Result<LogicalPlan> {
        let query = knowing(query, &self.known.with);
        let mut asked = Parsed::Statement(Box::new(Statement::Query(query)));
        Box::pin(in_full::write_out(self.state, &mut asked)).await?;
        plan(self.state, asked).await
    }
}

/// The query that `text` is.
///
/// # Errors
/// [`Error::Internal`] if it is none.
pub(crate) fn query(text: &str) -> Result<Box<Query>> {
    let query = syntax::query_of(text).ok_or_else(|| Error::Internal(format!("'{text}' is no query")))?;
    Ok(Box::new(query))
}

/// The `SELECT` that `text` is.
///
/// # Errors
/// Those of parsing it; [`Error::Internal`] if it is none.
pub(crate) fn select_of(text: &str) -> Result<Select> {
    let statement = parse(text)?.pop().map(|statement| statement.0);
    if let Some(Parsed::Statement(statement)) = statement
        && let Statement::Query(query) = *statement
        && let SetExpr::Select(select) = *query.body
    {
        return Ok(*select);
    }
    Err(Error::Internal(format!("'{text}' is no SELECT")))
}

/// A place that is to be written out.
enum Place {
    Select(Box<Select>),
    /// The order and the limit of a query.
    Query(Box<Query>),
}

impl Place {
    async fn write(&mut self, answers: &Answers<'_>) -> Result<()> {
        match self {
            Self::Select(select) if short_aliases::is_in(select) => short_aliases::write_out(select, answers).await,
            Self::Select(select) if syntax::pivots::marked(select).is_some() => {
                pivots::write_out(select, answers).await
            }
            Self::Select(select) => columns_of::in_select(select, answers).await,
            Self::Query(query) if columns_of::in_order(query) => columns_of::write_out_order(query, answers).await,
            Self::Query(query) => limits::write_out(query, answers).await,
        }
    }
}

/// Writes out the places of `statement` that depend on columns and rows of tables.
///
/// # Errors
/// Those of planning and running what has to be known.
pub(crate) async fn write_out(state: &SessionState, statement: &mut Parsed) -> Result<()> {
    if syntax::look(statement, &mut Any).is_continue() {
        return Ok(());
    }
    while let Some((mut place, known)) = find(statement) {
        place.write(&Answers { state, known }).await?;
        put(statement, place);
    }
    Ok(())
}

/// The first place of `statement`, and what is known there.
fn find(statement: &mut Parsed) -> Option<(Place, Known)> {
    syntax::visit(statement, &mut Places { scopes: Scopes::default(), written: None }).break_value().flatten()
}

/// Puts what is written at the first place of `statement`.
fn put(statement: &mut Parsed, written: Place) {
    let visited = syntax::visit(statement, &mut Places { scopes: Scopes::default(), written: Some(written) });
    debug_assert!(visited.is_break(), "it ends at the place that was found");
}

/// Whether a place in `query` is to be written out.
pub(crate) fn is_place_in(query: &Query) -> bool {
    visitors::visit(query, &mut Any).is_break()
}

/// The name of a recursive query around the place of `query` whose rows `query` reads, itself or by what it selects from.
fn recursive_of(query: &Query, known: &Known) -> Option<String> {
    if known.recursive.is_empty() {
        return None;
    }
    let mut names = TableNames::default();
    let _ = visitors::visit(query, &mut names);
    let mut at = 0;
    while let Some(name) = names.0.get(at) {
        if known.recursive.contains(name) {
            return Some(name.clone());
        }
        if let Some(read) = known.query(name) {
            let _ = visitors::visit(read, &mut names);
        }
        at += 1;
    }
    None
}

/// The names of tables that are not of a schema, each once.
#[derive(Default)]
struct TableNames(Vec<String>);

impl Visitor for TableNames {
    type Break = Infallible;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Infallible> {
        if let [part] = &name.0[..]
            && let Some(name) = part.as_ident().map(normal_name)
            && !self.0.contains(&name)
        {
            self.0.push(name);
        }
        ControlFlow::Continue(())
    }
}

/// Whether there is any place.
struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if limits::is_asked(query) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.projection.iter().any(|item| columns_of::is_written_out(select, item)) || short_aliases::is_in(select)
        {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if columns_of::is_star(function) || pivots::is_pivot(function) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Finds the first place, or puts what is written there.
struct Places {
    scopes: Scopes,
    written: Option<Place>,
}

impl VisitorMut for Places {
    type Break = Option<(Place, Known)>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        // Its own `WITH` comes with the query, which does not know itself.
        let mut known = self.scopes.known();
        if query.with.as_ref().is_some_and(|with| !with.cte_tables.is_empty()) {
            known.with.remove(0);
        }
        self.scopes.leave(query);
        if !columns_of::in_order(query) && !limits::is_asked(query) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(match self.written.take() {
            Some(Place::Query(written)) => {
                *query = *written;
                None
            }
            _ => Some((Place::Query(Box::new(query.clone())), known)),
        })
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let is_place =
            syntax::pivots::marked(select).is_some() || columns_of::is_in(select) || short_aliases::is_in(select);
        if !is_place {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(match self.written.take() {
            Some(Place::Select(written)) => {
                *select = *written;
                None
            }
            _ => Some((Place::Select(Box::new(select.clone())), self.scopes.known())),
        })
    }
}
