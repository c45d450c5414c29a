//! Joins of rows with the last row before them: of those with equal keys the one with the greatest value that is not greater, or, in the other
//! direction, the least that is not less.
//!
//! Rows of both sides are divided by the hash of the keys (`window::divide`), by the same bits, so that whatever there is of them each is written once at
//! most. A lane takes a part of each side, sorts both by hash, keys and value (`parts`), and goes through them side by side, once (`source`). What it keeps
//! is one row of the right side. Without keys both sides are sorted as a whole, and one lane goes through them.
//!
//! Not here: conditions beyond those. They would have to choose among the rows before, and not among the pairs.

mod parts;
mod source;

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, SchemaRef};

use self::{
    parts::{Filled, Parts, Sides},
    source::AsofSource,
};
use crate::{
    ExecError, Expr, OpenPipeline, Query, RowOrder, Sink,
    sort::{SortKey, SortPlan, SortSink, SortSpec, SortedRows, supports},
    window::divide::DivideSink,
};

/// Which rows come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsofKind {
    /// Rows of the left side with the row that they meet.
    Inner,
    /// All rows of the left side, with NULLs where they meet none.
    Left,
    /// Rows of the left side that meet one, and rows of the right side that none meets, with NULLs.
    Right,
    /// All rows of both sides.
    Full,
    /// Rows of the left side that meet one, alone.
    Semi,
    /// Rows of the left side that meet none, alone.
    Anti,
}

impl AsofKind {
    /// Whether rows of the left side come out that meet one.
    fn gives_met(self) -> bool {
        self != Self::Anti
    }

    /// Whether rows of the left side come out that meet none.
    fn gives_unmet(self) -> bool {
        matches!(self, Self::Left | Self::Full | Self::Anti)
    }

    /// Whether rows of the right side come out that none meets.
    fn gives_unmet_right(self) -> bool {
        matches!(self, Self::Right | Self::Full)
    }

    /// Whether columns of the right side come out.
    fn gives_right(self) -> bool {
        !matches!(self, Self::Semi | Self::Anti)
    }
}

/// An expression over each side.
#[derive(Clone, Debug)]
pub struct AsofKey {
    /// Over the columns of the left side.
    pub left: Expr,
    /// Over those of the right side.
    pub right: Expr,
    /// Normalized type of both.
    pub data_type: DataType,
}

/// What to join.
#[derive(Clone, Debug)]
pub struct AsofSpec {
    /// Which rows come out.
    pub kind: AsofKind,
    /// What must be equal; NULL equals nothing.
    pub keys: Vec<AsofKey>,
    /// What orders rows with equal keys: a row meets the one before it there. A row in which it is NULL meets none.
    pub by: AsofKey,
    /// Values come before a row that are greater than its own, and the least of them is the last.
    pub descending: bool,
    /// A value that is equal comes before.
    pub or_equal: bool,
    /// The columns of the left side, in normalized types.
    pub left: SchemaRef,
    /// Those of the right side.
    pub right: SchemaRef,
    /// Columns given, in normalized types: those of the left side, and those of the right one if the kind gives any.
    pub schema: SchemaRef,
}

impl AsofSpec {
    /// The order of one side.
    fn order(&self, expr: impl Fn(&AsofKey) -> Expr) -> Vec<SortKey> {
        let key = |key: &AsofKey, descending| SortKey {
            expr: expr(key),
            data_type: key.data_type.clone(),
            descending,
            // Behind all rows that are met.
            nulls_first: false,
        };
        self.keys.iter().map(|of| key(of, false)).chain([key(&self.by, self.descending)]).collect()
    }

    fn sides(&self) -> [(Vec<SortKey>, &SchemaRef); 2] {
        [(self.order(|key| key.left.clone()), &self.left), (self.order(|key| key.right.clone()), &self.right)]
    }

    /// Whether the engine can run it.
    pub fn is_supported(&self) -> bool {
        self.sides()
            .into_iter()
            .all(|(keys, schema)| supports(&SortSpec { keys, fetch: None, schema: Arc::clone(schema) }))
    }
}

/// Both sides bound to row layouts, of which the keys have the same bytes.
struct AsofPlan {
    spec: AsofSpec,
    left: Arc<SortPlan>,
    right: Arc<SortPlan>,
    /// Bytes of the sort keys before what orders rows with equal keys.
    equal: usize,
}

impl AsofPlan {
    fn new(spec: AsofSpec) -> Result<Self, ExecError> {
        let hashed = |keys: &[SortKey]| {
            keys[..keys.len() - 1].iter().map(|key| (key.expr.clone(), key.data_type.clone())).collect()
        };
        let [left, right] = spec.sides().map(|(keys, schema)| {
            let hashed = hashed(&keys);
            Ok::<_, ExecError>(Arc::new(SortPlan::new(Arc::clone(schema), &keys, hashed)?))
        });
        let (left, right) = (left?, right?);
        let equal = left.keys.bytes_of(spec.keys.len());
        Ok(Self { spec, left, right, equal })
    }
}

/// Adds the pipelines that divide, or sort, the rows of both sides; what comes back are the rows joined.
///
/// # Errors
/// [`ExecError::Vector`] when a type has no row form; ask [`AsofSpec::is_supported`] first.
pub fn asof(
    query: &mut Query,
    mut left: OpenPipeline,
    right: OpenPipeline,
    spec: AsofSpec,
) -> Result<OpenPipeline, ExecError> {
    let plan = Arc::new(AsofPlan::new(spec)?);
    let ctx = query.ctx().clone();
    let (left_sink, right_sink, sides): (Arc<dyn Sink>, Arc<dyn Sink>, _) = if plan.spec.keys.is_empty() {
        let whole = |plan: &Arc<SortPlan>| {
            let sorted = Arc::new(SortedRows::default());
            let sink = SortSink::fixed(plan, ctx.clone(), None, Arc::clone(&sorted)).among(2);
            (Arc::new(sink), sorted)
        };
        let (left_sink, left) = whole(&plan.left);
        let (right_sink, right) = whole(&plan.right);
        let order = RowOrder::default();
        order.serialize();
        (left_sink, right_sink, Sides::Whole { left, right, order })
    } else {
        let parts = Arc::new(Parts::new(&plan));
        // Of the side that takes more: both are divided by the same bits.
        let bytes = |side: &OpenPipeline, plan: &SortPlan| {
            side.source.rows_estimate().map(|rows| rows.saturating_mul(plan.layout.width() as u64))
        };
        let both = bytes(&left, &plan.left).zip(bytes(&right, &plan.right)).map(|(left, right)| left.max(right));
        let radix = Arc::new(OnceLock::new());
        let sink = |plan: &Arc<SortPlan>, is_left| {
            let rows = both.map(|bytes| bytes / plan.layout.width() as u64);
            let filled = Arc::new(Filled { parts: Arc::clone(&parts), ctx: ctx.clone(), is_left });
            Arc::new(DivideSink::new(plan, &ctx, ("asof", None), rows, Arc::clone(&radix), filled))
        };
        (sink(&plan.left, true), sink(&plan.right, false), Sides::Parts(Arc::clone(&parts)))
    };
    let right = query.add(right, right_sink);
    // One after the other: each then has all of the memory for its open pages, and the second knows the bits of the first.
    left.deps.push(right);
    let left = query.add(left, left_sink);
    let mut rows = OpenPipeline::new(Arc::new(AsofSource::new(plan, ctx, sides)));
    rows.deps.extend([right, left]);
    Ok(rows)
}
