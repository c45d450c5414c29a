//! Outputs that `HAVING` uses by their names.
//!
//! A key goes first; then the name is the output's, also if a column of the tables has it: `SELECT k, max(v) AS v .. GROUP BY k HAVING v > 2`. DataFusion finds the column, which is
//! no key, and refuses. So what the output is stands there in its place, but not within aggregates: these are over columns.
//!
//! Not here: names of outputs in `WHERE` (`aliases`) and `ORDER BY` (`order_names`).

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, Value, VisitorMut};

use super::outer_aggregates::is_aggregate;
use crate::{
    names::{base_name, normal_name},
    visitors,
};

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
            if let Some(column) = key_column(key, &select.projection, &outputs) {
                outputs.remove(&column);
            }
        }
    }
    if !outputs.is_empty() {
        let visited = visitors::visit_mut(having, &mut Names { outputs, within: 0 });
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }
}

/// The name of the column that `key` is, by its name, that of an output, or a position.
fn key_column(key: &Expr, projection: &[SelectItem], outputs: &HashMap<String, &Expr>) -> Option<String> {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let output = match key {
        Expr::Identifier(name) => outputs.get(&normal_name(name)).copied(),
        Expr::Value(value) => {
            let Value::Number(position, _) = &value.value else { return None };
            match projection.get(position.parse::<usize>().ok()?.checked_sub(1)?)? {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                _ => None,
            }
        }
        _ => None,
    };
    // A column of the tables goes before an output of that name; either way it is no other output.
    output.filter(|expr| is_column(expr)).or(Some(key)).filter(|expr| is_column(expr)).map(base_name)
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
