//! Keys of a grouping that are not in its `GROUP BY`.
//!
//! DataFusion's planner adds the columns that it thinks the keys determine: of `SELECT k, count(*) FROM (SELECT d.k, x FROM (SELECT DISTINCT k FROM t) AS d CROSS JOIN u GROUP BY d.k, x) GROUP BY k`
//! it takes `k` for unique, and groups by `x` as well (see `dependencies`). Where a grouping of a plan may be such, the statement is planned again, with a mark behind the keys that are written; those
//! behind the mark go, and who selects one of them is told to write it.
//!
//! Not here: what is determined where the optimizer asks.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    common::{
        Column, ScalarValue, get_target_functional_dependencies,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan},
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{Expr as Written, GroupByExpr, Select, SelectItem, Value, VisitorMut},
    },
};

use crate::{
    syntax,
    trees::{Nodes, Tree},
};

/// Comes behind the keys that are written.
const MARK: &str = "\u{1}end of keys";

/// Whether a grouping of `plan` may have keys that are not written.
pub(crate) fn may_have_any(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.each_node(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            any |= may_be_added(aggregate);
        }
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

fn may_be_added(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    if schema.functional_dependencies().is_empty() {
        return false;
    }
    let [.., last] = &aggregate.group_expr[..] else { return false };
    if let Expr::GroupingSet(_) = last {
        return true;
    }
    let names: Vec<String> = aggregate.group_expr.iter().map(|key| key.schema_name().to_string()).collect();
    let targets = get_target_functional_dependencies(schema, &names).unwrap_or_default();
    let columns: Vec<Column> = targets.into_iter().map(|at| Column::from(schema.qualified_field(at))).collect();
    // They come last, and all of them do.
    matches!(last, Expr::Column(last) if columns.contains(last))
        && columns.iter().all(|column| names.contains(&column.flat_name()))
}

/// Puts the mark behind the keys of every grouping of `statement`.
pub(crate) fn mark(statement: &mut Parsed) {
    let visited = syntax::visit(statement, &mut Marks);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

struct Marks;

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::All(modifiers) = &select.group_by {
            let known =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            if !select.projection.iter().all(known) {
                return ControlFlow::Continue(());
            }
            let is_key = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => !syntax::has_aggregate(expr),
                _ => false,
            };
            let keys = (1..).zip(&select.projection).filter(|(_, item)| is_key(item));
            let keys = keys.map(|(position, _)| Written::value(Value::Number(position.to_string(), false))).collect();
            select.group_by = GroupByExpr::Expressions(keys, modifiers.clone());
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by
            && !keys.is_empty()
        {
            keys.push(Written::value(Value::SingleQuotedString(MARK.to_owned())));
        }
        ControlFlow::Continue(())
    }
}

/// `plan` of a marked statement without the marks, and without the keys behind them.
///
/// # Errors
/// A column is selected that is not among the keys.
pub(crate) fn without_marks(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut added: HashSet<Column> = HashSet::new();
    let plan = plan.nodes_up(|node| {
        let node = match node {
            LogicalPlan::Aggregate(aggregate) => without_mark(aggregate, &mut added)?,
            node => node,
        };
        check(&node, &added)?;
        node.recompute_schema().map(Transformed::yes)
    });
    plan.data()
}

fn without_mark(aggregate: Aggregate, added: &mut HashSet<Column>) -> Result<LogicalPlan> {
    let Aggregate { input, mut group_expr, aggr_expr, .. } = aggregate;
    match &mut group_expr[..] {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter_mut().for_each(|set| cut(set, added)),
        _ => cut(&mut group_expr, added),
    }
    Aggregate::try_new(input, group_expr, aggr_expr).map(LogicalPlan::Aggregate)
}

fn cut(keys: &mut Vec<Expr>, added: &mut HashSet<Column>) {
    let is_mark = |key: &Expr| matches!(key, Expr::Literal(ScalarValue::Utf8(Some(text)), _) if text == MARK);
    if let Some(at) = keys.iter().position(is_mark) {
        added.extend(keys.drain(at..).filter_map(|key| match key {
            Expr::Column(column) => Some(column),
            _ => None,
        }));
    }
}

/// Whether all columns that `node` reads are there.
fn check(node: &LogicalPlan, added: &HashSet<Column>) -> Result<()> {
    if added.is_empty() || matches!(node, LogicalPlan::Aggregate(_)) {
        return Ok(());
    }
    let inputs = node.inputs();
    if inputs.is_empty() {
        return Ok(());
    }
    let missing =
        |column: &Column| added.contains(column) && !inputs.iter().any(|input| input.schema().has_column(column));
    node.each_expression(|expr| {
        expr.each(|expr| {
            let column = match expr {
                Expr::Column(column) => missing(column).then_some(column),
                Expr::ScalarSubquery(subquery) => outer(&subquery.outer_ref_columns, &missing),
                Expr::Exists(exists) => outer(&exists.subquery.outer_ref_columns, &missing),
                Expr::InSubquery(query) => outer(&query.subquery.outer_ref_columns, &missing),
                Expr::SetComparison(query) => outer(&query.subquery.outer_ref_columns, &missing),
                _ => None,
            };
            match column {
                Some(column) => Err(not_a_key(column)),
                None => Ok(TreeNodeRecursion::Continue),
            }
        })
    })?;
    Ok(())
}

fn outer<'a>(columns: &'a [Expr], missing: &impl Fn(&Column) -> bool) -> Option<&'a Column> {
    columns.iter().find_map(|column| match column {
        Expr::OuterReferenceColumn(_, column) if missing(column) => Some(column),
        _ => None,
    })
}

fn not_a_key(column: &Column) -> DataFusionError {
    let name = column.flat_name();
    DataFusionError::Plan(format!(
        "column {name} must be in GROUP BY, or within an aggregate such as any_value({name})"
    ))
}
