//! The common table expressions that are known at a place of a statement, told as a visitor goes through it.
//!
//! A recursive query is known within itself as its first rows: they have the columns and the types of all.
//!
//! Not here: tables, which are known everywhere.

use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, SetOperator, With};

use crate::{asked, names::normal_name};

/// A `WITH` around the place that the visitor is at.
struct Frame {
    with: With,
    /// Where its queries are.
    queries: Vec<*const Query>,
    /// How many of them are known here.
    known: usize,
    /// The one that this place is within.
    within: Option<usize>,
}

impl Frame {
    /// The recursive query that this place is within, as its first rows.
    fn own(&self) -> Option<Cte> {
        self.within.filter(|_| self.with.recursive).and_then(|at| first_rows(&self.with.cte_tables[at]))
    }
}

/// What is known at a place.
pub(crate) struct Known {
    /// Queries by their names, the innermost `WITH` first.
    pub(crate) with: Vec<With>,
    /// Names of those among them that the place is within: their columns are known, and their rows are not.
    pub(crate) recursive: Vec<String>,
}

impl Known {
    /// The query of a `WITH` that is called `name`.
    pub(crate) fn query(&self, name: &str) -> Option<&Query> {
        let mut queries = self.with.iter().flat_map(|with| &with.cte_tables);
        queries.find(|cte| normal_name(&cte.alias.name) == name).map(|cte| &*cte.query)
    }
}

/// Those around a place.
#[derive(Default)]
pub(crate) struct Scopes {
    frames: Vec<Frame>,
}

impl Scopes {
    /// The visitor comes to `query`.
    pub(crate) fn enter(&mut self, query: &Query) {
        let here = std::ptr::from_ref::<Query>(query);
        if let Some(frame) = self.frames.last_mut()
            && let Some(at) = frame.queries.iter().position(|query| *query == here)
        {
            (frame.known, frame.within) = (at, Some(at));
        }
        if let Some(with) = &query.with {
            let queries: Vec<_> = with.cte_tables.iter().map(|cte| std::ptr::from_ref::<Query>(&cte.query)).collect();
            self.frames.push(Frame { with: with.clone(), known: queries.len(), queries, within: None });
        }
    }

    /// The visitor leaves `query`.
    pub(crate) fn leave(&mut self, query: &Query) {
        if query.with.is_some() {
            self.frames.pop();
        }
        let here = std::ptr::from_ref::<Query>(query);
        if let Some(frame) = self.frames.last_mut()
            && frame.queries.contains(&here)
        {
            (frame.known, frame.within) = (frame.queries.len(), None);
        }
    }

    /// What is known here.
    pub(crate) fn known(&self) -> Known {
        let mut known = Known { with: Vec::new(), recursive: Vec::new() };
        for frame in self.frames.iter().rev() {
            let own = frame.own();
            known.recursive.extend(own.iter().map(|own| normal_name(&own.alias.name)));
            let cte_tables: Vec<_> = frame.with.cte_tables[..frame.known].iter().cloned().chain(own).collect();
            if !cte_tables.is_empty() {
                known.with.push(With { cte_tables, ..frame.with.clone() });
            }
        }
        known
    }
}

/// `cte` with its first rows alone. There are none as long as a place among them is to be written out, so that it is not asked of itself.
fn first_rows(cte: &Cte) -> Option<Cte> {
    fn first(query: &Query) -> Option<Query> {
        let body = match &*query.body {
            SetExpr::SetOperation { op: SetOperator::Union, left, .. } => left.clone(),
            SetExpr::Query(inner) => Box::new(SetExpr::Query(Box::new(first(inner)?))),
            _ => return None,
        };
        Some(Query { body, order_by: None, limit_clause: None, fetch: None, ..query.clone() })
    }
    let rows = first(&cte.query)?;
    (!asked::is_place_in(&rows)).then(|| Cte { query: Box::new(rows), ..cte.clone() })
}

/// `query`, with the queries that are `known` where it stands.
pub(crate) fn knowing(mut query: Box<Query>, known: &[With]) -> Box<Query> {
    for with in known {
        if query.with.is_none() {
            query.with = Some(with.clone());
        } else {
            let mut outer = Query::clone(&query);
            (outer.with, outer.body) = (Some(with.clone()), Box::new(SetExpr::Query(query)));
            query = Box::new(outer);
        }
    }
    query
}
