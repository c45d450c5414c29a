//! Common table expressions that a query reads more than once: computed once.
//!
//! DataFusion plans each use of a `WITH` query as a copy. One that groups, sorts out duplicates, ranks or rolls dice is worth keeping: it is run
//! first, its rows become pages of the pool, and the query reads them as a table. Others are cheaper to run again, since each use
//! pushes its own conditions into them, unless none has any and few rows are expected to be left of those that are read. Where each use of
//! one that is kept wants a part of its own, such as a year, the rows of all these parts are kept and no others: the conditions reach what
//! it reads, and that is read once.
//!
//! Not here: running them, and how many rows are expected (`ogee-datafusion`); recursive ones; those within subqueries.

use std::{convert::Infallible, ops::ControlFlow};

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    logical_expr::LogicalPlan,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            BinaryOperator, Cte, Expr, Ident, ObjectName, Query, Select, SetExpr, Statement, TableFactor, Visitor, With,
        },
    },
};

use crate::{statement::parse, syntax, trees::Nodes, visitors};

/// The query of a statement that reads rows by common table expressions, or has one that does explained.
pub fn query_with(statement: &mut Parsed) -> Option<&mut Query> {
    let statement = match statement {
        Parsed::Statement(statement) => statement,
        Parsed::Explain(explain) => return query_with(&mut explain.statement),
        _ => return None,
    };
    let Statement::Query(query) = statement.as_mut() else { return None };
    query.with.as_ref().is_some_and(|with| !with.recursive).then_some(query)
}

/// Whether more than one place reads common table expression `index` of `query`.
pub fn is_shared(query: &Query, index: usize) -> bool {
    cte(query, index).is_some_and(|cte| reads(query, cte, |_, _| {}) > 1)
}

/// What common table expression `index` of `query` is called.
pub fn name(query: &Query, index: usize) -> Option<String> {
    cte(query, index).map(|cte| normalized(&cte.alias.name))
}

fn cte(query: &Query, index: usize) -> Option<&Cte> {
    query.with.as_ref()?.cte_tables.get(index)
}

/// How many places in `query` read `cte`. `of_select` is called for each that is a table of a `SELECT`, with that, and with what the table's columns
/// are named by there.
fn reads(query: &Query, cte: &Cte, of_select: impl FnMut(&Select, &str)) -> usize {
    let mut reads = Reads { name: normalized(&cte.alias.name), count: 0, of_select };
    let ControlFlow::Continue(()) = visitors::visit(query, &mut reads);
    reads.count
}

/// Visits who reads a name.
struct Reads<F> {
    name: String,
    count: usize,
    of_select: F,
}

impl<F: FnMut(&Select, &str)> Reads<F> {
    fn selects(&mut self, body: &SetExpr) {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.selects(left);
                self.selects(right);
            }
            SetExpr::Select(select) => {
                for table in tables(select) {
                    let TableFactor::Table { name, alias, .. } = table else { continue };
                    let Some(name) = single(name).filter(|name| *name == self.name) else { continue };
                    let alias = alias.as_ref().map_or(name, |alias| normalized(&alias.name));
                    (self.of_select)(select, &alias);
                }
            }
            // Queries in brackets are visited by themselves.
            _ => {}
        }
    }
}

impl<F: FnMut(&Select, &str)> Visitor for Reads<F> {
    type Break = Infallible;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Infallible> {
        self.count += usize::from(single(relation).is_some_and(|name| name == self.name));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        self.selects(&query.body);
        ControlFlow::Continue(())
    }
}

/// What `select` reads.
fn tables(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(syntax::factors)
}

/// Whether `select` reads one table.
fn has_one_table(select: &Select) -> bool {
    tables(select).nth(1).is_none()
}

/// A name of one part.
fn single(name: &ObjectName) -> Option<String> {
    let [part] = &name.0[..] else { return None };
    part.as_ident().map(normalized)
}

fn normalized(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Whether all places that read common table expression `index` of `query` take its rows as they are: without a condition, and without others to join
/// them with.
pub fn is_read_whole(query: &Query, index: usize) -> bool {
    let Some(cte) = cte(query, index) else { return false };
    let mut whole = 0;
    let all = reads(query, cte, |select, _| whole += usize::from(select.selection.is_none() && has_one_table(select)));
    whole == all
}

/// The rows of common table expression `index` of `query` that are wanted by any of the places that read it, as a condition on its columns; `None` if
/// it cannot be told of each that it wants only some.
pub fn wanted(query: &Query, index: usize) -> Option<Expr> {
    let cte = cte(query, index)?;
    let mut wanted: Vec<Comparisons> = Vec::new();
    let all = reads(query, cte, |select, relation| {
        let part = Part { of: &cte.alias.name, relation, alone: has_one_table(select) };
        let mut compared = Comparisons::new();
        select.selection.iter().for_each(|condition| part.comparisons(condition, &mut compared));
        wanted.extend((!compared.is_empty()).then_some(compared));
    });
    if wanted.len() != all {
        return None;
    }
    let of_columns = |is_of: &dyn Fn(&str) -> bool| {
        let both = |a, b| binary(a, BinaryOperator::And, b);
        let of_use = |comparisons: &Comparisons| {
            comparisons.iter().filter(|(column, _)| is_of(column)).map(|(_, expr)| expr.clone()).reduce(both)
        };
        let mut uses = wanted.iter().map(of_use).collect::<Option<Vec<_>>>()?;
        uses.sort_by_key(ToString::to_string);
        uses.dedup();
        let either = |a, b| binary(a, BinaryOperator::Or, b);
        uses.into_iter().map(nested).reduce(either).map(nested)
    };
    let mut columns: Vec<&String> = wanted.iter().flatten().map(|(column, _)| column).collect();
    columns.sort_unstable();
    columns.dedup();
    let all = of_columns(&|_| true);
    // What is said about a key reaches the rows that are grouped only where nothing is said about an aggregate along with it.
    let each = columns.iter().filter(|_| columns.len() > 1).filter_map(|of| of_columns(&|column| column == *of));
    all.into_iter().chain(each).reduce(|a, b| binary(a, BinaryOperator::And, b))
}

/// Comparisons of columns with constants, with the names of the columns.
type Comparisons = Vec<(String, Expr)>;

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// A table of a `SELECT` of which conditions leave a part.
struct Part<'a> {
    /// The name of the common table expression, which conditions are to be about.
    of: &'a Ident,
    /// What its columns are named by.
    relation: &'a str,
    /// It is the only table, so that columns need no name.
    alone: bool,
}

impl Part<'_> {
    /// Those parts of a condition that compare a column of the table with constants. None is true for NULL: rows that an outer join fills up since
    /// others were not kept do not pass the condition either.
    fn comparisons(&self, condition: &Expr, found: &mut Comparisons) {
        let column = |expr: &Expr| -> Option<(String, Box<Expr>)> {
            let column = match expr {
                Expr::CompoundIdentifier(parts) if parts.len() == 2 && normalized(&parts[0]) == self.relation => {
                    &parts[1]
                }
                Expr::Identifier(column) if self.alone => column,
                _ => return None,
            };
            let of_name = Expr::CompoundIdentifier(vec![self.of.clone(), column.clone()]);
            Some((normalized(column), Box::new(of_name)))
        };
        let compared = match condition {
            Expr::Nested(inner) => return self.comparisons(inner, found),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.comparisons(left, found);
                return self.comparisons(right, found);
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => match (column(left), column(right)) {
                (Some((name, column)), None) if is_constant(right) => {
                    Some((name, binary(*column, op.clone(), (**right).clone())))
                }
                (None, Some((name, column))) if is_constant(left) => {
                    Some((name, binary((**left).clone(), op.clone(), *column)))
                }
                _ => None,
            },
            Expr::Between { expr, negated, low, high } if is_constant(low) && is_constant(high) => {
                let between = |expr| Expr::Between { expr, negated: *negated, low: low.clone(), high: high.clone() };
                column(expr).map(|(name, column)| (name, between(column)))
            }
            Expr::InList { expr, list, negated } if list.iter().all(is_constant) => {
                let within = |expr| Expr::InList { expr, list: list.clone(), negated: *negated };
                column(expr).map(|(name, column)| (name, within(column)))
            }
            _ => None,
        };
        found.extend(compared);
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
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
pub fn body(query: &Query, index: usize) -> Option<Parsed> {
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

/// The rows for which `wanted` is true of what `body`, of common table expression `index` of `query`, gives.
pub fn part(query: &Query, index: usize, body: Parsed, wanted: Expr) -> Option<Parsed> {
    let alias = cte(query, index)?.alias.clone();
    let Parsed::Statement(body) = body else { return None };
    let Statement::Query(body) = *body else { return None };
    let mut outer = parse("SELECT * FROM w WHERE true").expect("a statement in plain SQL").pop()?.0;
    let Parsed::Statement(statement) = &mut outer else { unreachable!("parsed from the text above") };
    let Statement::Query(query) = statement.as_mut() else { unreachable!("parsed from the text above") };
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("parsed from the text above") };
    select.selection = Some(wanted);
    select.from[0].relation = TableFactor::Derived { lateral: false, subquery: body, alias: Some(alias), sample: None };
    Some(outer)
}

/// Whether computing the rows of `plan` twice would cost more than keeping them.
pub fn is_worthwhile(plan: &LogicalPlan) -> bool {
    has(plan, |node| matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_)))
}

/// Nodes of a plan that is not copied any more.
const COPIED_NODES_MAX: usize = 256;

/// Whether `plan` has so many nodes that copies of it, and copies of those in others, would take long to plan: of expressions that each read the one before twice, the last would have thousands.
pub fn is_large(plan: &LogicalPlan) -> bool {
    let mut nodes = 0;
    // It never fails.
    let _ = plan.each_node(|_| {
        nodes += 1;
        Ok(if nodes > COPIED_NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    nodes > COPIED_NODES_MAX
}

/// Whether it would give other rows.
pub fn is_volatile(plan: &LogicalPlan) -> bool {
    has(plan, |node| node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile))
}

/// Whether `is` holds for a node of `plan` or of its subqueries.
fn has(plan: &LogicalPlan, is: impl Fn(&LogicalPlan) -> bool) -> bool {
    let mut found = false;
    let visited = plan.each_node(|node| {
        found |= is(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && found
}

/// Has common table expression `index` of `query` read the rows of `table`, a name without quotes in it.
pub fn read_from(query: &mut Query, index: usize, table: &str) {
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

    fn wanted_by(rest: &str) -> Option<String> {
        let mut statement = parse(&format!("WITH w AS (SELECT a, b, count(*) c FROM t GROUP BY a, b) {rest}")).unwrap();
        let mut statement = statement.pop().unwrap().0;
        wanted(query_with(&mut statement).unwrap(), 0).map(|condition| condition.to_string())
    }

    #[test]
    fn each_use_must_want_a_part() {
        let wanted = |rest| wanted_by(rest).unwrap_or_else(|| panic!("{rest}"));
        let both = "SELECT * FROM w x, w AS y WHERE x.a = 1 AND (y.a = 1 + 1 AND x.b = y.b)";
        assert_eq!(wanted(both), "((w.a = 1) OR (w.a = 1 + 1))");
        let joined = "SELECT * FROM w x JOIN \"w\" y ON x.b = y.b WHERE x.a = 1 AND 2 = y.a AND x.b IN (1, 2)";
        assert_eq!(wanted(joined), "((2 = w.a) OR (w.a = 1 AND w.b IN (1, 2))) AND ((2 = w.a) OR (w.a = 1))");
        let inner = "SELECT * FROM (SELECT b FROM W WHERE a = -1) x, w WHERE w.a NOT BETWEEN 1 AND CAST('2' AS int)";
        assert_eq!(wanted(inner), "((w.a = -1) OR (w.a NOT BETWEEN 1 AND CAST('2' AS INT)))");
        assert_eq!(wanted("SELECT b FROM w WHERE a = 1 UNION SELECT b FROM w WHERE a = 1"), "((w.a = 1))");
        assert_eq!(wanted("SELECT * FROM w x, w y WHERE x.a = 1 AND y.a > 1"), "((w.a = 1) OR (w.a > 1))");
        for all in [
            "SELECT * FROM w x, w y WHERE x.a = 1 AND x.b = y.b",
            "SELECT * FROM w x, w y WHERE x.a = 1 AND y.a = x.a",
            "SELECT * FROM w x, w y WHERE x.a = 1 OR y.a = 1",
            "SELECT * FROM w x, w y WHERE x.a = 1 AND y.a IS NULL",
            // Whose column that is cannot be told without the tables.
            "SELECT * FROM w x, w y WHERE x.a = 1 AND b = 2",
            "SELECT b FROM w WHERE a = 1 AND b < (SELECT max(b) FROM w)",
        ] {
            assert_eq!(wanted_by(all), None, "{all}");
        }
    }
}
