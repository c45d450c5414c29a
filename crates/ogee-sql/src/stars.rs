//! What only the columns of tables can tell: which are joined by `NATURAL`, which `* REPLACE` and `* ILIKE` mean, and whether a name in `ORDER BY` is an output's.
//!
//! The planner makes `NATURAL` joins as if the columns of both sides were equal, also where a `RIGHT` or `FULL` join has none on the left; takes tables without a common column for
//! a cross join; shows a column of `USING` where the first table by the alphabet has it; leaves `REPLACE` of a column that is not there out, and all of `ILIKE`. So the tables concerned are planned by themselves first, for the names of their
//! columns: the join gets its `USING` (`syntax::using` knows the rest), and `ILIKE` becomes an `EXCLUDE`. Statements without these words are not looked at twice.
//!
//! Not here: what the planner knows well, such as `* EXCLUDE`.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    arrow::datatypes::DataType,
    execution::SessionState,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            ExcludeSelectItem, Ident, Join, JoinConstraint, ObjectName, OrderBy, Query, Select, SelectItem, SetExpr,
            Statement, TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
        },
    },
};

use crate::{
    names::normal_name,
    plan::plan,
    scopes::{Scopes, knowing},
    statement::parse,
    syntax,
};
use ogee_functions::{Error, Result};

/// Writes out the joins and stars of `statement` that depend on the columns of tables.
///
/// # Errors
/// Those of planning the tables; a column that is not there.
pub async fn write_out(state: &SessionState, statement: &mut Parsed) -> Result<()> {
    write_out_known(state, statement, true).await
}

/// `anew`: queries whose columns are asked for may themselves have to be written out.
async fn write_out_known(state: &SessionState, statement: &mut Parsed, anew: bool) -> Result<()> {
    // Each join that is found is gone when it is written out.
    while let Some(site) = find(statement, Kind::Join, 0) {
        let names = all_columns(state, site, anew).await?;
        put(statement, Kind::Join, 0, &names)?;
    }
    let mut nth = 0;
    while let Some(site) = find(statement, Kind::Fields, nth) {
        // What is wrong with the query is told when the whole is planned.
        let written = match all_columns(state, site, anew).await {
            Ok(names) => put(statement, Kind::Fields, nth, &names)?,
            Err(_) => false,
        };
        nth += usize::from(!written);
    }
    nth = 0;
    while let Some(site) = find(statement, Kind::All, nth) {
        // What is wrong with the query is told when the whole is planned.
        let written = match all_columns(state, site, anew).await {
            Ok(names) => put(statement, Kind::All, nth, &names)?,
            Err(_) => false,
        };
        nth += usize::from(!written);
    }
    nth = 0;
    while let Some(site) = find(statement, Kind::Order, nth) {
        // What is wrong with a table is told when the whole is planned.
        let written = match all_columns(state, site, anew).await {
            Ok(names) => put(statement, Kind::Order, nth, &names)?,
            Err(_) => false,
        };
        nth += usize::from(!written);
    }
    nth = 0;
    while let Some(site) = find(statement, Kind::Star, nth) {
        let names = all_columns(state, site, anew).await?;
        put(statement, Kind::Star, nth, &names)?;
        nth += 1;
    }
    nth = 0;
    while let Some(site) = find(statement, Kind::Using, nth) {
        let must = site.must;
        let written = match all_columns(state, site, anew).await {
            Ok(names) => put(statement, Kind::Using, nth, &names)?,
            Err(error) if must => return Err(error),
            // What is wrong with a table is told when the whole is planned.
            Err(_) => false,
        };
        nth += usize::from(!written);
    }
    Ok(())
}

/// The names of the columns of each of the tables of `site`, then of those within.
async fn all_columns(state: &SessionState, site: Site, anew: bool) -> Result<Vec<Vec<String>>> {
    let mut names = Vec::with_capacity(site.tables.len());
    for query in site.tables {
        names.push(columns(state, query, anew).await?);
    }
    for queries in site.within {
        let mut known = None;
        for query in queries {
            known = columns(state, query, anew).await.ok();
            if known.is_some() {
                break;
            }
        }
        names.push(known.unwrap_or_else(|| vec![syntax::UNKNOWN.to_owned()]));
    }
    Ok(names)
}

/// The name of an output whose fields are asked for.
const FIELDS: &str = "fields of the struct";

/// The names of what `query` gives; or of the fields that its output of the name above has.
async fn columns(state: &SessionState, query: Query, anew: bool) -> Result<Vec<String>> {
    let mut statement = Parsed::Statement(Box::new(Statement::Query(Box::new(query))));
    let plan = match plan(state, statement.clone()).await {
        // The `WITH` of the place may have joins whose turn has not come.
        Err(_) if anew => {
            Box::pin(write_out_known(state, &mut statement, false)).await?;
            plan(state, statement).await?
        }
        plan => plan?,
    };
    if let [field] = &plan.schema().fields()[..]
        && field.name() == FIELDS
    {
        return Ok(match field.data_type() {
            DataType::Struct(fields) => fields.iter().map(|field| field.name().clone()).collect(),
            _ => Vec::new(),
        });
    }
    Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A `NATURAL` join.
    Join,
    /// Outputs that may be the fields of a struct.
    Fields,
    /// Names in an order that may be an output's and a column's.
    Order,
    /// `ORDER BY ALL` of as many outputs as stars stand for.
    All,
    /// Joins with `USING`.
    Using,
    /// A star with `REPLACE` or `ILIKE`.
    Star,
}

/// What to do at a place that is found.
enum Task<'a> {
    /// Say which tables' columns it depends on.
    Ask,
    /// Write it out with these.
    Put(&'a [Vec<String>]),
}

/// A place that is found.
struct Site {
    /// Give the columns of its tables.
    tables: Vec<Query>,
    /// And those of what subqueries select from: for each of them the queries that may tell.
    within: Vec<Vec<Query>>,
    /// It cannot stay as it is.
    must: bool,
}

enum Found {
    Asked(Site),
    Put,
    /// It stays as it is.
    Left,
    Failed(Error),
}

fn find(statement: &mut Parsed, kind: Kind, nth: usize) -> Option<Site> {
    let mut places = Places { kind, nth, task: Task::Ask, scopes: Scopes::default() };
    match syntax::visit(statement, &mut places) {
        ControlFlow::Break(Found::Asked(site)) => Some(site),
        _ => None,
    }
}

/// Whether it was written out.
fn put(statement: &mut Parsed, kind: Kind, nth: usize, names: &[Vec<String>]) -> Result<bool> {
    let mut places = Places { kind, nth, task: Task::Put(names), scopes: Scopes::default() };
    match syntax::visit(statement, &mut places) {
        ControlFlow::Break(Found::Failed(error)) => Err(error),
        found => Ok(matches!(found, ControlFlow::Break(Found::Put))),
    }
}

struct Places<'a> {
    kind: Kind,
    /// So many places are passed by.
    nth: usize,
    task: Task<'a>,
    scopes: Scopes,
}

impl Places<'_> {
    /// `SELECT * FROM from`, with the queries that are known here.
    fn query(&self, from: &str, star: &str) -> Result<Query> {
        self.parsed(&format!("SELECT {star} FROM {from}"))
    }

    /// The query that is written in `text`, with those that are known here.
    fn parsed(&self, text: &str) -> Result<Query> {
        let Some(Parsed::Statement(statement)) = parse(text)?.pop().map(|statement| statement.0) else {
            return Err(Error::Internal(format!("'{text}' is no statement")));
        };
        let Statement::Query(query) = *statement else {
            return Err(Error::Internal(format!("'{text}' is no query")));
        };
        Ok(*knowing(query, &self.scopes.known().with))
    }

    fn in_select(&mut self, select: &mut Select) -> Result<Option<Found>> {
        if matches!(self.kind, Kind::Order | Kind::All | Kind::Using) {
            return Ok(None);
        }
        if self.kind == Kind::Join {
            for table in &mut select.from {
                if !table.joins.iter_mut().any(is_natural) {
                    continue;
                }
                match self.task {
                    Task::Ask => {
                        let queries = syntax::factors(table).map(|factor| self.query(&factor.to_string(), "*"));
                        return Ok(Some(Found::Asked(Site {
                            tables: queries.collect::<Result<_>>()?,
                            within: Vec::new(),
                            must: true,
                        })));
                    }
                    Task::Put(names) => {
                        in_joins(table, names)?;
                        return Ok(Some(Found::Put));
                    }
                }
            }
            return Ok(None);
        }
        let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
        if self.kind == Kind::Fields {
            return self.in_fields(select, &from);
        }
        for item in &mut select.projection {
            let star = match &item {
                SelectItem::Wildcard(_) => "*".to_owned(),
                SelectItem::QualifiedWildcard(table, _) => table.to_string(),
                _ => continue,
            };
            let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item else { continue };
            if options.opt_replace.is_none() && options.opt_ilike.is_none() {
                continue;
            }
            if self.nth > 0 {
                self.nth -= 1;
                continue;
            }
            match self.task {
                Task::Ask => {
                    let tables = vec![self.query(&from.join(", "), &star)?];
                    return Ok(Some(Found::Asked(Site { tables, within: Vec::new(), must: true })));
                }
                Task::Put(names) => {
                    in_star(options, names.first().map_or(&[], Vec::as_slice), &star)?;
                    return Ok(Some(Found::Put));
                }
            }
        }
        Ok(None)
    }
}

impl Places<'_> {
    /// Outputs that are the fields of a struct.
    fn in_fields(&mut self, select: &mut Select, from: &[String]) -> Result<Option<Found>> {
        for at in 0..select.projection.len() {
            let Some(of) = syntax::unnested(select, &select.projection[at]) else { continue };
            if self.nth > 0 {
                self.nth -= 1;
                continue;
            }
            let Task::Put(names) = self.task else {
                let from = if from.is_empty() { "(SELECT 1)".to_owned() } else { from.join(", ") };
                let tables = vec![self.query(&from, &format!("{of} AS \"{FIELDS}\""))?];
                return Ok(Some(Found::Asked(Site { tables, within: Vec::new(), must: false })));
            };
            let fields = names.first().map_or(&[][..], Vec::as_slice);
            if fields.is_empty() {
                return Ok(Some(Found::Left));
            }
            syntax::write_out_fields(select, at, &of, fields)?;
            return Ok(Some(Found::Put));
        }
        Ok(None)
    }

    /// Joins of the `SELECT`s that a query is made of; `order` is that of a query that is one.
    fn in_set(&mut self, set: &mut SetExpr, order: Option<&mut OrderBy>) -> Result<Option<Found>> {
        match set {
            SetExpr::Select(select) => self.in_using(select, order),
            SetExpr::SetOperation { left, right, .. } => match self.in_set(left, None)? {
                None => self.in_set(right, None),
                found => Ok(found),
            },
            // Queries in brackets are visited by themselves.
            _ => Ok(None),
        }
    }

    fn in_using(&mut self, select: &mut Select, order: Option<&mut OrderBy>) -> Result<Option<Found>> {
        let Some(must) = syntax::has_using(select) else { return Ok(None) };
        if self.nth > 0 {
            self.nth -= 1;
            return Ok(None);
        }
        let joined = |table: &TableWithJoins| {
            syntax::factors(table).map(|factor| (factor.to_string(), lateral(factor))).collect::<Vec<_>>()
        };
        match self.task {
            Task::Ask => {
                let all: Vec<String> = select.from.iter().map(ToString::to_string).collect();
                let all = all.join(", ");
                let factors: Vec<_> = select.from.iter().flat_map(joined).collect();
                let queries = factors.into_iter().map(|(factor, lateral)| match lateral {
                    // It is known only with the tables beside it.
                    Some(name) => self.query(&all, &format!("{name}.*")),
                    None => self.query(&factor, "*"),
                });
                let tables = queries.collect::<Result<_>>()?;
                let within = syntax::sources_within(select).into_iter().map(|from| {
                    let alone = syntax::names_alone(&from);
                    std::iter::once(from).chain(alone).filter_map(|from| self.query(&from, "*").ok()).collect()
                });
                let within = within.collect();
                Ok(Some(Found::Asked(Site { tables, within, must })))
            }
            Task::Put(names) => {
                let within = syntax::sources_within(select);
                let (names, within_names) = names.split_at(names.len() - within.len().min(names.len()));
                let within: syntax::Sources = within.into_iter().zip(within_names.iter().cloned()).collect();
                if syntax::write_out_using(select, order, Some(names), within) {
                    return Ok(Some(Found::Put));
                }
                if must {
                    let message = "a RIGHT or FULL JOIN with USING of such tables is not supported; use ON";
                    return Err(Error::Unsupported(message.to_owned()));
                }
                Ok(Some(Found::Left))
            }
        }
    }
}

impl Places<'_> {
    /// The order of a query whose outputs may hide columns.
    fn in_order(&mut self, query: &mut Query) -> Result<Option<Found>> {
        if !syntax::has_shared_names(query) {
            return Ok(None);
        }
        if self.nth > 0 {
            self.nth -= 1;
            return Ok(None);
        }
        let SetExpr::Select(select) = &*query.body else { return Ok(None) };
        match self.task {
            Task::Ask => {
                let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
                let tables = vec![self.query(&from.join(", "), "*")?];
                Ok(Some(Found::Asked(Site { tables, within: Vec::new(), must: false })))
            }
            Task::Put(names) => {
                let written = syntax::tell_outputs_apart(query, names.first().map_or(&[], Vec::as_slice))?;
                Ok(Some(if written { Found::Put } else { Found::Left }))
            }
        }
    }
}

impl Places<'_> {
    /// The order of a query by all of its outputs, some of which stars stand for.
    fn in_order_by_all(&mut self, query: &mut Query) -> Result<Option<Found>> {
        if !syntax::is_by_all(query) {
            return Ok(None);
        }
        if self.nth > 0 {
            self.nth -= 1;
            return Ok(None);
        }
        match self.task {
            Task::Ask => {
                let tables = vec![self.parsed(&query.body.to_string())?];
                Ok(Some(Found::Asked(Site { tables, within: Vec::new(), must: false })))
            }
            Task::Put(names) => {
                syntax::order_by_positions(query, names.first().map_or(0, Vec::len));
                Ok(Some(Found::Put))
            }
        }
    }
}

/// The name of a table that may use columns of those before it.
fn lateral(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Derived { lateral: true, .. } | TableFactor::Function { lateral: true, .. } => {
            syntax::name_of(factor)
        }
        TableFactor::UNNEST { .. } => syntax::name_of(factor),
        _ => None,
    }
}

impl VisitorMut for Places<'_> {
    type Break = Found;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Found> {
        self.scopes.enter(query);
        if matches!(self.kind, Kind::Order | Kind::All) {
            let found = if self.kind == Kind::Order { self.in_order(query) } else { self.in_order_by_all(query) };
            return match found {
                Ok(None) => ControlFlow::Continue(()),
                Ok(Some(found)) => ControlFlow::Break(found),
                Err(error) => ControlFlow::Break(Found::Failed(error)),
            };
        }
        if self.kind == Kind::Using {
            return match self.in_set(&mut query.body, query.order_by.as_mut()) {
                Ok(None) => ControlFlow::Continue(()),
                Ok(Some(found)) => ControlFlow::Break(found),
                Err(error) => ControlFlow::Break(Found::Failed(error)),
            };
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Found> {
        self.scopes.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Found> {
        match self.in_select(select) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(found)) => ControlFlow::Break(found),
            Err(error) => ControlFlow::Break(Found::Failed(error)),
        }
    }
}

fn is_natural(join: &mut Join) -> bool {
    syntax::constraint(join).is_some_and(|on| matches!(on, JoinConstraint::Natural))
}

/// Gives the `NATURAL` joins of `table` the columns that both sides have; `names` are those of each of its tables.
fn in_joins(table: &mut TableWithJoins, names: &[Vec<String>]) -> Result<()> {
    let mut left: Vec<&String> = names.first().map_or(Vec::new(), |names| names.iter().collect());
    for (join, right) in table.joins.iter_mut().zip(&names[1..]) {
        if is_natural(join) {
            let right: HashSet<&String> = right.iter().collect();
            let mut seen = HashSet::new();
            let both: Vec<ObjectName> = left
                .iter()
                .filter(|name| right.contains(*name) && seen.insert(**name))
                .map(|name| ObjectName::from(vec![Ident::with_quote('"', (*name).clone())]))
                .collect();
            if both.is_empty() {
                return Err(Error::Plan(format!(
                    "NATURAL JOIN has no column that both sides have; use CROSS JOIN, or JOIN .. ON, with {}",
                    shown(&join.relation)
                )));
            }
            if let Some(constraint) = syntax::constraint(join) {
                *constraint = JoinConstraint::Using(both);
            }
        }
        let known: HashSet<&String> = left.iter().copied().collect();
        left.extend(right.iter().filter(|name| !known.contains(name)));
    }
    Ok(())
}

fn shown(factor: &TableFactor) -> String {
    match factor {
        TableFactor::Table { name, .. } => name.to_string(),
        _ => "this table".to_owned(),
    }
}

/// Checks and writes out the options of a star that stands for `columns`.
fn in_star(options: &mut WildcardAdditionalOptions, columns: &[String], star: &str) -> Result<()> {
    let mut seen = HashSet::new();
    for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = normal_name(&item.column_name);
        if !columns.contains(&name) {
            let known = columns.join(", ");
            return Err(Error::Plan(format!("{star} has no column '{name}' to REPLACE; it has {known}")));
        }
        if !seen.insert(name.clone()) {
            return Err(Error::Plan(format!("column '{name}' is there twice in REPLACE")));
        }
    }
    let excluded: HashSet<String> = syntax::excluded(options).into_iter().collect();
    if let Some(name) = seen.iter().find(|name| excluded.contains(*name)) {
        return Err(Error::Plan(format!("column '{name}' is in both EXCLUDE and REPLACE")));
    }
    if let Some(ilike) = options.opt_ilike.take() {
        let pattern: Vec<char> = ilike.pattern.to_lowercase().chars().collect();
        let is_like = |name: &String| like(&name.to_lowercase().chars().collect::<Vec<_>>(), &pattern);
        let mut others: Vec<&String> =
            columns.iter().filter(|name| !is_like(name) && !excluded.contains(*name)).collect();
        others.sort_unstable();
        others.dedup();
        if columns.iter().all(|name| !is_like(name) || excluded.contains(name)) {
            return Err(Error::Plan(format!("no column of {star} is like '{}'", ilike.pattern)));
        }
        let name = |name: Ident| ObjectName::from(vec![name]);
        let quoted = |other: &&String| name(Ident::with_quote('"', (*other).clone()));
        let mut all: Vec<ObjectName> = options_excluded(options);
        all.extend(others.iter().map(quoted));
        options.opt_exclude = (!all.is_empty()).then_some(ExcludeSelectItem::Multiple(all));
    }
    Ok(())
}

fn options_excluded(options: &WildcardAdditionalOptions) -> Vec<ObjectName> {
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name.clone()],
        Some(ExcludeSelectItem::Multiple(names)) => names.clone(),
        None => Vec::new(),
    }
}

/// Whether `text` is like `pattern`, with `%` and `_`.
fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|at| like(&text[at..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_of_names() {
        let is =
            |text: &str, pattern: &str| like(&text.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>());
        assert!(is("abc", "a%") && is("abc", "%b%") && is("abc", "a_c") && is("", "%") && is("a_c", "a_c"));
        assert!(!is("abc", "b%") && !is("abc", "a_") && !is("", "_") && !is("abc", "ab"));
    }
}
