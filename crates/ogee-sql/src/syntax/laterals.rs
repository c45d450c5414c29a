//! Queries in `FROM` that use columns of tables before them without the word `LATERAL`, and those without a name.
//!
//! DuckDB lets them: `FROM t, (SELECT unnest(t.l))`. A name within goes to the query's own tables first, so the word changes nothing for those that do without; it is
//! put where a statement was refused since a column is not there, and first of all in subqueries: there, a name may be that of a column of the
//! outer query, too, and DataFusion would take that.
//!
//! Not here: functions in `FROM`, and queries on the side of a join that may have no row.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{Expr, Ident, JoinOperator, Select, TableAlias, TableFactor, VisitorMut},
};

/// Makes the queries in `FROM` of `statement` that have tables before them lateral; false if all are, or there is none.
pub(crate) fn make_lateral(statement: &mut Parsed) -> bool {
    mark(statement, Queries { any: false, depth: None })
}

/// Does so in the subqueries of expressions only.
pub(crate) fn make_lateral_in_subqueries(statement: &mut Parsed) -> bool {
    mark(statement, Queries { any: false, depth: Some(0) })
}

fn mark(statement: &mut Parsed, mut queries: Queries) -> bool {
    let visited = super::visit(statement, &mut queries);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    queries.any
}

/// Names the queries in `FROM` of `statement` that have other tables beside them and no name, as DuckDB does; false if there is none. The columns of a query without a name
/// have none of a table, and DataFusion takes the `k` of one for another's, although no text says just `k`.
pub(crate) fn name_queries(statement: &mut Parsed) -> bool {
    let mut names = Names { count: 0 };
    let visited = super::visit(statement, &mut names);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    names.count > 0
}

struct Names {
    count: usize,
}

impl Names {
    fn name(&mut self, factor: &mut TableFactor) {
        if let TableFactor::Derived { alias: alias @ None, .. } = factor {
            self.count += 1;
            let name = match self.count {
                1 => "unnamed_subquery".to_owned(),
                count => format!("unnamed_subquery{count}"),
            };
            *alias = Some(TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None });
        }
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let beside = select.from.len() > 1;
        for table in &mut select.from {
            if beside || !table.joins.is_empty() {
                self.name(&mut table.relation);
                table.joins.iter_mut().for_each(|join| self.name(&mut join.relation));
            }
        }
        ControlFlow::Continue(())
    }
}

struct Queries {
    any: bool,
    /// How many subqueries are open, if only what is in one is marked.
    depth: Option<usize>,
}

pub(super) fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

impl Queries {
    fn mark(&mut self, factor: &mut TableFactor) {
        if let TableFactor::Derived { lateral, .. } = factor {
            self.any |= !*lateral;
            *lateral = true;
        }
    }
}

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(depth) = &mut self.depth {
            *depth += usize::from(is_subquery(expr));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(depth) = &mut self.depth {
            *depth -= usize::from(is_subquery(expr));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        use JoinOperator as J;
        if self.depth == Some(0) {
            return ControlFlow::Continue(());
        }
        for (at, table) in select.from.iter_mut().enumerate() {
            if at > 0 {
                self.mark(&mut table.relation);
            }
            for join in &mut table.joins {
                if let J::Join(_) | J::Inner(_) | J::Left(_) | J::LeftOuter(_) | J::CrossJoin(_) = join.join_operator {
                    self.mark(&mut join.relation);
                }
            }
        }
        ControlFlow::Continue(())
    }
}
