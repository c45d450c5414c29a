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
    /// The recursive one that this place is within, as its first rows.
    own: Option<Cte>,
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
            frame.known = at;
            frame.own = if frame.with.recursive { first_rows(&frame.with.cte_tables[at], query) } else { None };
        }
        if let Some(with) = &query.with {
            let queries: Vec<_> = with.cte_tables.iter().map(|cte| std::ptr::from_ref::<Query>(&cte.query)).collect();
            self.frames.push(Frame { with: with.clone(), known: queries.len(), queries, own: None });
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
            frame.known = frame.queries.len();
            frame.own = None;
        }
    }

    /// What is known here, the innermost `WITH` first.
    pub(crate) fn known(&self) -> Vec<With> {
        let with = |frame: &Frame| {
            let known = frame.with.cte_tables[..frame.known].iter().chain(&frame.own);
            With { cte_tables: known.cloned().collect(), ..frame.with.clone() }
        };
        self.frames.iter().rev().map(with).filter(|with| !with.cte_tables.is_empty()).collect()
    }

    /// The names of recursive queries that this place is within, whose rows are not known.
    pub(crate) fn recursive(&self) -> Vec<String> {
        self.frames.iter().filter_map(|frame| frame.own.as_ref()).map(|own| normal_name(&own.alias.name)).collect()
    }
}

/// `cte`, whose query is now `query`, with its first rows alone. There are none as long as a place among them is to be written out, so that it is not asked of itself.
fn first_rows(cte: &Cte, query: &Query) -> Option<Cte> {
    fn first(query: &Query) -> Option<Query> {
        let body = match &*query.body {
            SetExpr::SetOperation { op: SetOperator::Union, left, .. } => left.clone(),
            SetExpr::Query(inner) => Box::new(SetExpr::Query(Box::new(first(inner)?))),
            _ => return None,
        };
        let with = query.with.clone();
        Some(Query { with, body, order_by: None, limit_clause: None, fetch: None, ..query.clone() })
    }
    let rows = first(query)?;
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
