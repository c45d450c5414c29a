//! Queries in `FROM` that use columns of tables before them without the word `LATERAL`.
//!
//! DuckDB lets them: `FROM t, (SELECT unnest(t.l))`. A name within goes to the query's own tables first, so the word changes nothing for those that do without; it is
//! put where a statement was refused since a column is not there.
//!
//! Not here: functions in `FROM`, and queries on the side of a join that may have no row.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{JoinOperator, Select, TableFactor, VisitorMut},
};

/// Makes the queries in `FROM` of `statement` that have tables before them lateral; false if all are, or there is none.
pub(crate) fn make_lateral(statement: &mut Parsed) -> bool {
    let mut queries = Queries { any: false };
    let visited = super::visit(statement, &mut queries);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    queries.any
}

struct Queries {
    any: bool,
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

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        use JoinOperator as J;
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
