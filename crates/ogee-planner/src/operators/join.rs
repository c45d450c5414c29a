//! Joins: DataFusion's hash, nested loop and cross joins as the engine's.
//!
//! DataFusion's left side is the one that is built. A join without a pair of expressions that must be equal is looked up by comparisons, if its condition
//! has some, or is a hash join without keys: all rows of the build side are one chain, which each chunk of the probe side walks at once.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use datafusion::{
    arrow::datatypes::{DataType, SchemaRef},
    common::{JoinSide, JoinType, NullEquality},
    error::Result,
    logical_expr::Operator,
    physical_expr::{PhysicalExpr, expressions::BinaryExpr, split_conjunction},
    physical_plan::{
        ExecutionPlan,
        joins::{
            CrossJoinExec, HashJoinExec, NestedLoopJoinExec,
            utils::{ColumnIndex, JoinFilter, build_join_schema},
        },
    },
};
use ogee_exec::{
    OpenPipeline, RowsExpected,
    aggregate::is_storable,
    join::{Bound, JoinColumn, JoinKey, JoinKind, JoinSpec, RangeKeys, Residual},
};
use ogee_vector::{normalize_schema, normalize_type};

use super::window::columns_of;
use crate::expr::{translate, translate_predicate};

/// A join that the engine can do.
#[derive(Debug)]
pub struct Join {
    kind: JoinKind,
    /// Expressions that must be equal: over the build side, over the probe side.
    on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    filter: Option<JoinFilter>,
    nulls_equal: bool,
    null_aware: bool,
    output: Vec<JoinColumn>,
    build: SchemaRef,
    probe: SchemaRef,
}

fn kind(join_type: JoinType) -> JoinKind {
    match join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::BuildOuter,
        JoinType::Right => JoinKind::ProbeOuter,
        JoinType::Full => JoinKind::FullOuter,
        JoinType::LeftSemi => JoinKind::BuildSemi,
        JoinType::LeftAnti => JoinKind::BuildAnti,
        JoinType::LeftMark => JoinKind::BuildMark,
        JoinType::RightSemi => JoinKind::ProbeSemi,
        JoinType::RightAnti => JoinKind::ProbeAnti,
        JoinType::RightMark => JoinKind::ProbeMark,
    }
}

fn column(index: &ColumnIndex) -> JoinColumn {
    match index.side {
        JoinSide::Left => JoinColumn::Build(index.index),
        JoinSide::Right => JoinColumn::Probe(index.index),
        JoinSide::None => JoinColumn::Mark,
    }
}

/// The side that all columns of `expr`, which is part of `filter`, are of.
fn side_of(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let sides = columns_of([expr]).into_iter().map(|column| filter.column_indices()[column].side);
    sides.map(Some).reduce(|all, side| all.filter(|_| all == side)).flatten()
}

/// The comparisons of the sides in `filter` that rows may be looked up by: one for each direction, of the same value of the build side if there are such.
fn range_keys(filter: &JoinFilter) -> Option<RangeKeys> {
    let (mut uppers, mut lowers) = (Vec::new(), Vec::new());
    for part in split_conjunction(filter.expression()) {
        let Some(comparison) = part.downcast_ref::<BinaryExpr>() else { continue };
        let (left, right) = (comparison.left(), comparison.right());
        let (build, probe, op) = match (side_of(left, filter), side_of(right, filter)) {
            (Some(JoinSide::Left), Some(JoinSide::Right)) => (left, right, Some(*comparison.op())),
            (Some(JoinSide::Right), Some(JoinSide::Left)) => (right, left, comparison.op().swap()),
            _ => continue,
        };
        let bounds = match op {
            Some(Operator::Lt | Operator::LtEq) => &mut uppers,
            Some(Operator::Gt | Operator::GtEq) => &mut lowers,
            _ => continue,
        };
        let bound = || {
            let data_type = normalize_type(&build.data_type(filter.schema()).ok()?);
            let (of_build, of_probe) =
                (translate(build, filter.schema()).ok()?, translate(probe, filter.schema()).ok()?);
            let known = normalize_type(&probe.data_type(filter.schema()).ok()?) == data_type
                && !matches!(data_type, DataType::Null | DataType::Interval(_))
                && !data_type.is_nested()
                && !of_build.is_volatile()
                && !of_probe.is_volatile();
            known.then_some(Bound { build: of_build, probe: of_probe, data_type })
        };
        bounds.extend(bound().map(|bound| (build, bound)));
    }
    let pair = uppers.iter().find_map(|(upper, _)| {
        let lower = lowers.iter().position(|(lower, _)| upper == lower)?;
        Some((uppers.iter().position(|(build, _)| build == upper)?, lower))
    });
    let (upper, lower) = pair.unwrap_or((0, 0));
    let take = |bounds: Vec<(_, Bound)>, at| bounds.into_iter().nth(at).map(|(_, bound)| bound);
    let keys = RangeKeys { upper: take(uppers, upper), lower: take(lowers, lower), same: pair.is_some() };
    (keys.upper.is_some() || keys.lower.is_some()).then_some(keys)
}

impl Join {
    /// The join that `plan` is, with its build and its probe side; `None` if it is none, or the engine cannot keep some column in rows.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let on = join.on().iter().map(|(left, right)| (Arc::clone(left), Arc::clone(right))).collect();
            let made = Self::new(*join.join_type(), on, join.filter(), join.projection.as_deref(), plan)?;
            let nulls_equal = join.null_equality() == NullEquality::NullEqualsNull;
            return Some(Self { nulls_equal, null_aware: join.null_aware, ..made });
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Self::new(*join.join_type(), Vec::new(), join.filter(), join.projection().as_deref(), plan);
        }
        plan.downcast_ref::<CrossJoinExec>()?;
        Self::new(JoinType::Inner, Vec::new(), None, None, plan)
    }

    fn new(
        join_type: JoinType,
        on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
        filter: Option<&JoinFilter>,
        projection: Option<&[usize]>,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Option<Self> {
        let children = plan.children();
        let (build, probe) = (children[0].schema(), children[1].schema());
        let (_, columns) = build_join_schema(&build, &probe, &join_type);
        let output: Vec<JoinColumn> = match projection {
            Some(projection) => projection.iter().map(|&index| column(&columns[index])).collect(),
            None => columns.iter().map(column).collect(),
        };
        let join = Self {
            kind: kind(join_type),
            on,
            filter: filter.cloned(),
            nulls_equal: false,
            null_aware: false,
            output,
            build,
            probe,
        };
        join.is_supported().then_some(join)
    }

    /// Whether keys are of one type on both sides, and all that is kept fits into rows.
    fn is_supported(&self) -> bool {
        let keys = self.on.iter().all(|(left, right)| {
            let types = left.data_type(&self.build).and_then(|left| Ok((left, right.data_type(&self.probe)?)));
            types.is_ok_and(|(left, right)| {
                normalize_type(&left) == normalize_type(&right) && is_storable(&normalize_type(&left))
            })
        });
        let filtered = self.filter.iter().flat_map(|filter| filter.column_indices().iter().map(column));
        let columns = self.output.iter().copied().chain(filtered).all(|column| match column {
            JoinColumn::Build(index) => is_storable(&normalize_type(self.build.field(index).data_type())),
            JoinColumn::Probe(index) => is_storable(&normalize_type(self.probe.field(index).data_type())),
            JoinColumn::Mark => true,
        });
        keys && columns
    }

    /// The expressions that it evaluates.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let on = self.on.iter().flat_map(|(left, right)| [Arc::clone(left), Arc::clone(right)]);
        on.chain(self.filter.iter().map(|filter| Arc::clone(filter.expression()))).collect()
    }

    /// The join for the engine, with `build` as its build side, of `build_rows` rows, and `schema` as what it gives. `groups_wait`: whether groupings on the probe side are to
    /// wait for the build side. `dropped` counts the rows that the join need not look at.
    pub fn spec(
        &self,
        build: &OpenPipeline,
        build_rows: RowsExpected,
        schema: &SchemaRef,
        groups_wait: bool,
        dropped: Arc<AtomicU64>,
    ) -> Result<JoinSpec> {
        let key = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
            Ok(JoinKey {
                build: translate(left, &self.build)?,
                probe: translate(right, &self.probe)?,
                data_type: normalize_type(&left.data_type(&self.build)?),
            })
        };
        let residual = |filter: &JoinFilter| -> Result<Residual> {
            Ok(Residual {
                predicate: translate_predicate(filter.expression(), filter.schema())?,
                columns: filter.column_indices().iter().map(column).collect(),
            })
        };
        Ok(JoinSpec {
            kind: self.kind,
            keys: self.on.iter().map(key).collect::<Result<_>>()?,
            nulls_equal: self.nulls_equal,
            null_aware: self.null_aware,
            residual: self.filter.as_ref().map(residual).transpose()?,
            ranges: self.filter.as_ref().filter(|_| self.on.is_empty()).and_then(range_keys),
            output: self.output.clone(),
            build: normalize_schema(&self.build),
            probe: normalize_schema(&self.probe),
            build_domains: build.domains(),
            build_rows,
            groups_wait,
            dropped,
            schema: normalize_schema(schema),
        })
    }
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)?;
        if !self.on.is_empty() {
            let on: Vec<_> = self.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
            write!(f, ", on=[{}]", on.join(", "))?;
        }
        if let Some(filter) = &self.filter {
            write!(f, ", filter={}", filter.expression())?;
        }
        if self.nulls_equal {
            write!(f, ", nulls_equal")?;
        }
        if self.null_aware {
            write!(f, ", null_aware")?;
        }
        Ok(())
    }
}
