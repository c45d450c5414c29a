//! Common table expressions that a query reads more than once: computed once.
//!
//! DataFusion plans each use of a `WITH` query as a copy. One that groups, sorts out duplicates, ranks or rolls dice is worth keeping: it is run
//! first, its rows become pages of the pool, and the query reads them as a table. Others are cheaper to run again, since each use
//! pushes its own conditions into them; so is one of which each use wants a part of its own, such as a year.
//!
//! Not here: running them (`session`); recursive ones; those within subqueries.

use std::ops::ControlFlow;

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    logical_expr::LogicalPlan,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            BinaryOperator, Expr, Ident, ObjectName, Query, SetExpr, Statement, TableFactor, TableWithJoins, Visit,
            Visitor, With,
        },
    },
};

use crate::session::parse;

/// The query of a statement that reads rows by common table expressions.
pub(crate) fn query_with(statement: &mut Parsed) -> Option<&mut Query> {
    let Parsed::Statement(statement) = statement else { return None };
    let Statement::Query(query) = statement.as_mut() else { return None };
    query.with.as_ref().is_some_and(|with| !with.recursive).then_some(query)
}

/// Whether more than one place reads common table expression `index` of `query`.
pub(crate) fn is_shared(query: &Query, index: usize) -> bool {
    let Some(cte) = query.with.as_ref().and_then(|with| with.cte_tables.get(index)) else { return false };
    let mut uses = Uses { name: normalized(&cte.alias.name), reads: 0 };
    query.visit(&mut uses).is_continue() && uses.reads > 1
}

/// Counts who reads a name.
struct Uses {
    name: String,
    reads: usize,
}

fn normalized(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

impl Visitor for Uses {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [part] = &relation.0[..]
            && part.as_ident().is_some_and(|ident| normalized(ident) == self.name)
        {
            self.reads += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Whether each place that reads common table expression `index` wants only rows with one value of a column: the conditions then reach what it reads, and
/// all parts together are seldom more than the whole.
pub(crate) fn is_divided(query: &Query, index: usize) -> bool {
    let Some(cte) = query.with.as_ref().and_then(|with| with.cte_tables.get(index)) else { return false };
    let name = normalized(&cte.alias.name);
    let (mut all, mut parts) = (Uses { name: name.clone(), reads: 0 }, Parts { name, reads: 0 });
    query.visit(&mut all).is_continue() && query.visit(&mut parts).is_continue() && parts.reads == all.reads
}

/// Counts who reads a name, of those who compare one of its columns with a constant.
struct Parts {
    name: String,
    reads: usize,
}

impl Parts {
    fn add(&mut self, body: &SetExpr) {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.add(left);
                self.add(right);
            }
            SetExpr::Select(select) => {
                let factors = |from: &'_ TableWithJoins| -> Vec<TableFactor> {
                    let joined = from.joins.iter().map(|join| &join.relation);
                    std::iter::once(&from.relation).chain(joined).cloned().collect()
                };
                let factors: Vec<TableFactor> = select.from.iter().flat_map(factors).collect();
                let alone = factors.len() == 1;
                for factor in &factors {
                    let TableFactor::Table { name, alias, .. } = factor else { continue };
                    let Some(name) = single(name).filter(|name| *name == self.name) else { continue };
                    let alias = alias.as_ref().map_or(name, |alias| normalized(&alias.name));
                    let wanted = select.selection.as_ref().is_some_and(|condition| divides(condition, &alias, alone));
                    self.reads += usize::from(wanted);
                }
            }
            // Queries in brackets are visited by themselves.
            _ => {}
        }
    }
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.add(&query.body);
        ControlFlow::Continue(())
    }
}

/// A name of one part.
fn single(name: &ObjectName) -> Option<String> {
    let [part] = &name.0[..] else { return None };
    part.as_ident().map(normalized)
}

/// Whether a condition asks for one value of a column of `relation`, the only one there is if it is `alone`.
fn divides(condition: &Expr, relation: &str, alone: bool) -> bool {
    let is_column = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => parts.len() == 2 && normalized(&parts[0]) == relation,
        Expr::Identifier(_) => alone,
        _ => false,
    };
    match condition {
        Expr::Nested(inner) => divides(inner, relation, alone),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            divides(left, relation, alone) || divides(right, relation, alone)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            is_column(left) && is_constant(right) || is_column(right) && is_constant(left)
        }
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Nested(expr) | Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } => is_constant(expr),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

/// Common table expression `index` of `query` as a statement of its own.
pub(crate) fn body(query: &Query, index: usize) -> Option<Parsed> {
    let with = query.with.as_ref()?;
    let mut body = (*with.cte_tables.get(index)?.query).clone();
    let mut before = with.cte_tables[..index].to_vec();
    match &mut body.with {
        Some(own) if own.recursive => return None,
        Some(own) => {
            before.append(&mut own.cte_tables);
            own.cte_tables = before;
        }
        own if !before.is_empty() => *own = Some(With { cte_tables: before, ..with.clone() }),
        _ => {}
    }
    Some(Parsed::Statement(Box::new(Statement::Query(Box::new(body)))))
}

/// Whether computing the rows of `plan` twice would cost more than keeping them.
pub(crate) fn is_worthwhile(plan: &LogicalPlan) -> bool {
    has(plan, |node| matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_)))
}

/// Whether it would give other rows.
pub(crate) fn is_volatile(plan: &LogicalPlan) -> bool {
    has(plan, |node| node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile))
}

/// Whether it takes some of its rows, which could be others the next time.
pub(crate) fn is_cut(plan: &LogicalPlan) -> bool {
    has(plan, |node| matches!(node, LogicalPlan::Limit(_)))
}

/// Whether `is` holds for a node of `plan` or of its subqueries.
fn has(plan: &LogicalPlan, is: impl Fn(&LogicalPlan) -> bool) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        found |= is(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && found
}

/// Has common table expression `index` of `query` read the rows of `table`, a name without quotes in it.
pub(crate) fn read_from(query: &mut Query, index: usize, table: &str) {
    let mut statements = parse(&format!("SELECT * FROM \"{table}\"")).expect("a statement in plain SQL");
    let Some(Parsed::Statement(statement)) = statements.pop().map(|statement| statement.0) else {
        unreachable!("parsed from the text above");
    };
    let Statement::Query(all) = *statement else { unreachable!("parsed from the text above") };
    if let Some(with) = &mut query.with {
        with.cte_tables[index].query = all;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn divided(rest: &str) -> bool {
        let mut statement = parse(&format!("WITH w AS (SELECT a, b, count(*) c FROM t GROUP BY a, b) {rest}")).unwrap();
        let mut statement = statement.pop().unwrap().0;
        is_divided(query_with(&mut statement).unwrap(), 0)
    }

    #[test]
    fn each_use_must_want_a_part() {
        assert!(divided("SELECT * FROM w x, w AS y WHERE x.a = 1 AND (y.a = 1 + 1 AND x.b = y.b)"));
        assert!(divided("SELECT * FROM w x JOIN \"w\" y ON x.b = y.b WHERE x.a = 1 AND 2 = y.a"));
        assert!(divided("SELECT * FROM (SELECT b FROM W WHERE a = -1) x, w WHERE w.a = CAST('1' AS int)"));
        assert!(divided("SELECT b FROM w WHERE a = 1 UNION SELECT b FROM w WHERE a = 2"));
        assert!(!divided("SELECT * FROM w x, w y WHERE x.a = 1 AND x.b = y.b"));
        assert!(!divided("SELECT * FROM w x, w y WHERE x.a = 1 AND y.a > 1"));
        assert!(!divided("SELECT * FROM w x, w y WHERE x.a = 1 AND y.a = x.a"));
        assert!(!divided("SELECT * FROM w x, w y WHERE x.a = 1 OR y.a = 1"));
        // Whose column that is cannot be told without the tables.
        assert!(!divided("SELECT * FROM w x, w y WHERE x.a = 1 AND b = 2"));
        assert!(!divided("SELECT b FROM w WHERE a = 1 AND b < (SELECT max(b) FROM w)"));
    }
}
