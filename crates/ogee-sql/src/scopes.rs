//! The common table expressions that are known at a place of a statement, told as a visitor goes through it.
//!
//! Not here: tables, which are known everywhere.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, With};

/// A `WITH` around the place that the visitor is at.
struct Frame {
    with: With,
    /// Where its queries are.
    queries: Vec<*const Query>,
    /// How many of them are known here.
    known: usize,
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
            && !frame.with.recursive
        {
            frame.known = at;
        }
        if let Some(with) = &query.with {
            let queries: Vec<_> = with.cte_tables.iter().map(|cte| std::ptr::from_ref::<Query>(&cte.query)).collect();
            self.frames.push(Frame { with: with.clone(), known: queries.len(), queries });
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
        }
    }

    /// What is known here, the innermost `WITH` first.
    pub(crate) fn known(&self) -> Vec<With> {
        let with =
            |frame: &Frame| With { cte_tables: frame.with.cte_tables[..frame.known].to_vec(), ..frame.with.clone() };
        self.frames.iter().rev().map(with).filter(|with| !with.cte_tables.is_empty()).collect()
    }
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
