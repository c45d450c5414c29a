//! `ASOF` joins among DataFusion's physical nodes, where nothing but an island runs them.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::Session,
    common::{JoinType, internal_err, not_impl_err},
    error::Result,
    logical_expr::{LogicalPlan, Operator, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext},
    physical_expr::PhysicalExpr,
    physical_plan::ExecutionPlan,
    physical_planner::{ExtensionPlanner, PhysicalPlanner},
};
use ogee_exec::asof::{AsofKey, AsofKind, AsofSpec};
use ogee_planner::{
    expr::translate,
    node::{Node, Work},
};
use ogee_sql::asof::AsofJoin;
use ogee_vector::{normalize_schema, normalize_type};

/// Plans the joins.
pub(crate) struct AsofPlanner;

#[async_trait]
impl ExtensionPlanner for AsofPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.as_any().downcast_ref::<AsofJoin>() else { return Ok(None) };
        let pair = |(left, right): &(_, _)| {
            Ok((
                planner.create_physical_expr(left, logical_inputs[0].schema(), session, planning)?,
                planner.create_physical_expr(right, logical_inputs[1].schema(), session, planning)?,
            ))
        };
        let asof = Asof {
            join_type: join.join_type,
            on: join.on.iter().map(pair).collect::<Result<_>>()?,
            by: pair(&join.by)?,
            op: join.op,
            left: physical_inputs[0].schema(),
            right: physical_inputs[1].schema(),
            schema: Arc::clone(join.schema.inner()),
        };
        if !asof.spec()?.is_supported() {
            return not_impl_err!("ASOF JOIN of columns of these types: {}", asof.schema);
        }
        let schema = Arc::clone(&asof.schema);
        Ok(Some(Arc::new(AsofExec::new(asof, physical_inputs.to_vec(), schema))))
    }
}

/// Expressions over the left and over the right side.
type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// What is joined.
#[derive(Debug)]
pub(crate) struct Asof {
    join_type: JoinType,
    on: Vec<Pair>,
    by: Pair,
    op: Operator,
    left: SchemaRef,
    right: SchemaRef,
    schema: SchemaRef,
}

impl Asof {
    /// The join for the engine.
    pub(crate) fn spec(&self) -> Result<AsofSpec> {
        let key = |(left, right): &Pair| {
            let data_type = normalize_type(&left.data_type(&self.left)?);
            let other = normalize_type(&right.data_type(&self.right)?);
            if data_type != other {
                return not_impl_err!("ASOF JOIN compares {data_type} with {other}");
            }
            Ok(AsofKey { left: translate(left, &self.left)?, right: translate(right, &self.right)?, data_type })
        };
        let kind = match self.join_type {
            JoinType::Inner => AsofKind::Inner,
            JoinType::Left => AsofKind::Left,
            JoinType::Right => AsofKind::Right,
            JoinType::Full => AsofKind::Full,
            JoinType::LeftSemi => AsofKind::Semi,
            JoinType::LeftAnti => AsofKind::Anti,
            other => return internal_err!("ASOF JOIN cannot be {other}"),
        };
        Ok(AsofSpec {
            kind,
            keys: self.on.iter().map(key).collect::<Result<_>>()?,
            by: key(&self.by)?,
            descending: matches!(self.op, Operator::Lt | Operator::LtEq),
            or_equal: matches!(self.op, Operator::GtEq | Operator::LtEq),
            left: normalize_schema(&self.left),
            right: normalize_schema(&self.right),
            schema: normalize_schema(&self.schema),
        })
    }
}

impl fmt::Display for Asof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<_> = self.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        let (left, right) = &self.by;
        write!(f, "{}, on=[{}], by={left} {} {right}", self.join_type, on.join(", "), self.op)
    }
}

/// The join as a node of a plan.
pub(crate) type AsofExec = Node<Asof>;

impl Work for Asof {
    const NAME: &'static str = "AsofExec";

    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.on.iter().chain([&self.by]).flat_map(|(left, right)| [Arc::clone(left), Arc::clone(right)]).collect()
    }
}
