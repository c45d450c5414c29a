//! How many rows a predicate lets through.
//!
//! On a sample wherever that is possible, else by what is known of columns: one over the number of distinct values, parts of a range, and
//! constants where nothing is known.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{
            BinaryExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
            NotExpr,
        },
        utils::{collect_columns, split_conjunction},
    },
    scalar::ScalarValue,
};

use super::profile::{Column, Leaf, Match, Profile, number};

/// A comparison by size that says nothing about where.
const RANGE: f64 = 1.0 / 3.0;

/// A pattern.
const LIKE: f64 = 0.1;

/// Anything else.
const UNKNOWN: f64 = 0.25;

/// The rows of `input` for which `predicate`, over its columns, is true.
pub(super) fn filtered(input: &Profile, predicate: &Arc<dyn PhysicalExpr>) -> Profile {
    let parts: Vec<_> = split_conjunction(predicate).into_iter().cloned().collect();
    let scope = Scope { columns: &input.columns };
    let Some((leaf, own)) = scope.of_one_leaf(&parts) else {
        let selectivity: f64 = parts.iter().map(|part| scope.selectivity(part)).product();
        return Profile { rows: input.rows * selectivity, columns: input.columns.clone() };
    };
    let tested = leaf.test(&own);
    let selectivity = match &tested {
        Some(tested) => joint(tested, |part| scope.by_facts(&parts[part])),
        None => parts.iter().map(|part| scope.selectivity(part)).product(),
    };
    let passed = tested.and_then(|tested| tested.all());
    let about: HashSet<usize> = own.iter().flat_map(collect_columns).map(|column| column.index()).collect();
    let rows = input.rows * selectivity;
    let restricted = leaf.restrict(leaf.rows * selectivity, &about, passed.as_ref());
    let columns = input.columns.iter().map(|column| Column {
        leaf: if Arc::ptr_eq(&column.leaf, &leaf) { Arc::clone(&restricted) } else { Arc::clone(&column.leaf) },
        index: column.index,
        by: column.by.clone(),
        cast_to: column.cast_to.clone(),
    });
    Profile { rows, columns: columns.collect() }
}

/// What a sample says about all parts of a predicate together.
///
/// A sample that is not the whole table and has few or no rows for which all parts hold says little; then the product of the parts, as if
/// they were independent, weighs as much as one such row would. The same for a part alone and its `prior`, what is known of it otherwise.
fn joint(tested: &super::profile::Tested, prior: impl Fn(usize) -> f64) -> f64 {
    let rows = tested.rows as f64;
    let hits = tested.all().map(|all| all.true_count());
    if let (Some(hits), true) = (hits, tested.whole) {
        let unknown = tested.parts.iter().enumerate().filter(|(_, part)| part.is_none());
        return hits as f64 / rows.max(1.0) * unknown.map(|(index, _)| prior(index)).product::<f64>();
    }
    let priors: Vec<f64> = (0..tested.parts.len()).map(prior).collect();
    let smoothed = |hits: usize, prior: f64| smoothed(hits as f64, rows, prior);
    let alone = |(part, &prior): (&Option<_>, &f64)| match part {
        Some(part) => smoothed(datafusion::arrow::array::BooleanArray::true_count(part), prior),
        None => prior,
    };
    let independent: f64 = tested.parts.iter().zip(&priors).map(alone).product();
    let unknown: f64 =
        tested.parts.iter().zip(&priors).filter(|(part, _)| part.is_none()).map(|(_, &prior)| prior).product();
    let known = tested.parts.iter().flatten().count();
    match hits {
        None => independent,
        Some(_) if known == 1 => independent,
        Some(hits) => smoothed(hits, independent / unknown.max(1e-12)) * unknown,
    }
}

/// The part of all rows that `hits` of `rows` sampled rows speak for, where `prior` was expected: that counts as much as one hit. Where hits are
/// many it was wrong, and they are believed but for their standard error.
pub(super) fn smoothed(hits: f64, rows: f64, prior: f64) -> f64 {
    let expected = (hits + 1.0) / (rows + 1.0 / prior.clamp(1e-12, 1.0));
    expected.max((hits - hits.sqrt()) / rows.max(1.0))
}

fn is_range(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// A leaf and expressions over its columns.
type OverLeaf = (Arc<Leaf>, Vec<Arc<dyn PhysicalExpr>>);

/// Columns that the columns of an expression refer to by index.
pub(super) struct Scope<'c> {
    pub(super) columns: &'c [Column],
}

impl Scope<'_> {
    /// The leaf that all columns of `parts` are of, if there is one, and the parts over its columns.
    fn of_one_leaf(&self, parts: &[Arc<dyn PhysicalExpr>]) -> Option<OverLeaf> {
        let columns: HashSet<usize> = parts.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        let mut leaves = columns.iter().map(|&column| &self.columns[column].leaf);
        let leaf = leaves.next()?;
        if !leaves.all(|other| Arc::ptr_eq(other, leaf)) {
            return None;
        }
        let own = |part: &Arc<dyn PhysicalExpr>| {
            let moved = Arc::clone(part).transform_up(|node| {
                let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
                let of = &self.columns[column.index()];
                let moved: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(column.name(), of.index));
                // The sampled rows are those of the leaf.
                Ok(Transformed::yes(match &of.cast_to {
                    Some(to) => Arc::new(CastExpr::new(moved, to.clone(), None)),
                    None => moved,
                }))
            });
            moved.data().ok()
        };
        Some((Arc::clone(leaf), parts.iter().map(own).collect::<Option<_>>()?))
    }

    /// The part of the rows for which `expr` is true.
    pub(super) fn selectivity(&self, expr: &Arc<dyn PhysicalExpr>) -> f64 {
        let prior = || self.by_facts(expr);
        let Some((leaf, own)) = self.of_one_leaf(std::slice::from_ref(expr)) else { return prior() };
        leaf.test(&own).map_or_else(prior, |tested| joint(&tested, |_| prior())).clamp(0.0, 1.0)
    }

    /// The column that `expr` is, types aside.
    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<&Column> {
        match expr.downcast_ref::<CastExpr>() {
            Some(cast) => self.column(cast.expr()),
            None => self.columns.get(expr.downcast_ref::<ColumnExpr>()?.index()),
        }
    }

    /// What is said by the form of `expr` and the facts about its columns.
    fn by_facts(&self, expr: &Arc<dyn PhysicalExpr>) -> f64 {
        let negated = |yes: f64, negated: bool| if negated { 1.0 - yes } else { yes };
        let selectivity = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            match binary.op() {
                Operator::And => self.selectivity(binary.left()) * self.selectivity(binary.right()),
                Operator::Or => {
                    1.0 - (1.0 - self.selectivity(binary.left())) * (1.0 - self.selectivity(binary.right()))
                }
                op => self.comparison(binary.left(), *op, binary.right()),
            }
        } else if let Some(not) = expr.downcast_ref::<NotExpr>() {
            1.0 - self.selectivity(not.arg())
        } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
            let one = self.column(list.expr()).map_or(LIKE, |column| 1.0 / column.distinct());
            negated((one * list.list().len() as f64).min(1.0), list.negated())
        } else if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            self.column(is_null.arg()).map_or(LIKE, |column| column.facts().nulls)
        } else if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            1.0 - self.column(is_not_null.arg()).map_or(LIKE, |column| column.facts().nulls)
        } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            negated(LIKE, like.negated())
        } else if let Some(literal) = expr.downcast_ref::<Literal>() {
            f64::from(u8::from(literal.value() == &ScalarValue::Boolean(Some(true))))
        } else if expr.is::<ColumnExpr>() {
            0.5
        } else {
            UNKNOWN
        };
        selectivity.clamp(0.0, 1.0)
    }

    fn comparison(&self, left: &Arc<dyn PhysicalExpr>, op: Operator, right: &Arc<dyn PhysicalExpr>) -> f64 {
        let literal =
            |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().map(|literal| literal.value().clone());
        let (column, other) = match (self.column(left), self.column(right)) {
            (Some(left), Some(right)) => {
                return match op {
                    Operator::Eq | Operator::IsNotDistinctFrom => Match::of_columns(left, right).selectivity,
                    Operator::NotEq | Operator::IsDistinctFrom => 1.0 - Match::of_columns(left, right).selectivity,
                    _ if is_range(op) => RANGE,
                    _ => UNKNOWN,
                };
            }
            (Some(column), None) => (column, literal(right).map(|value| (op, value))),
            (None, Some(column)) => (column, literal(left).zip(op.swap()).map(|(value, op)| (op, value))),
            (None, None) => return if is_range(op) { RANGE } else { UNKNOWN },
        };
        match op {
            Operator::Eq | Operator::IsNotDistinctFrom => return 1.0 / column.distinct(),
            Operator::NotEq | Operator::IsDistinctFrom => return 1.0 - 1.0 / column.distinct(),
            _ if is_range(op) => {}
            _ => return UNKNOWN,
        }
        let facts = column.facts();
        let Some(((op, value), (min, max))) = other.zip(facts.range) else { return RANGE };
        let Some(value) = number(&value).filter(|_| max > min) else { return RANGE };
        let below = ((value - min) / (max - min)).clamp(0.0, 1.0);
        let part = if matches!(op, Operator::Lt | Operator::LtEq) { below } else { 1.0 - below };
        // A bound that lies at the end of the range still lets a value through.
        part.max(1.0 / column.distinct()) * (1.0 - facts.nulls)
    }
}
