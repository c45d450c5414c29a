//! Outputs that `HAVING` uses by their names.
//!
//! A key goes first; then the name is the output's, also if a column of the tables has it: `SELECT k, max(v) AS v .. GROUP BY k HAVING v > 2`. DataFusion finds the column, which is
//! no key, and refuses. So what the output is stands there in its place, but not within aggregates: these are over columns.
//!
//! Not here: names of outputs in `WHERE` (`aliases`) and `ORDER BY` (`order_names`).

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, VisitMut, VisitorMut};

use super::outer_aggregates::is_aggregate;
use crate::names::{base_name, normal_name};

/// Puts what outputs are where `HAVING` has their names.
pub(super) fn in_select(select: &mut Select) {
    let Some(having) = &mut select.having else { return };
    let mut outputs: HashMap<String, &Expr> = HashMap::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            outputs.insert(normal_name(alias), expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        for key in keys {
            if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = key {
                outputs.remove(&base_name(key));
            }
        }
    }
    if !outputs.is_empty() {
        let visited = having.visit(&mut Names { outputs, within: 0 });
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }
}

struct Names<'a> {
    outputs: HashMap<String, &'a Expr>,
    /// How many aggregates and subqueries deep the visitor is.
    within: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.within += usize::from(matches!(expr, Expr::Function(function) if is_aggregate(function)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if is_aggregate(function) => self.within -= 1,
            Expr::Identifier(name) if self.within == 0 => {
                if let Some(output) = self.outputs.get(&normal_name(name)) {
                    *expr = Expr::Nested(Box::new((*output).clone()));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
