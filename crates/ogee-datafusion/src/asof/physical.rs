//! `ASOF` joins among DataFusion's physical nodes, where nothing but an island runs them.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::Session,
    common::{JoinType, internal_err, not_impl_err, tree_node::TreeNodeRecursion},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext, context::QueryPlanner},
    logical_expr::{LogicalPlan, Operator, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        apply_expression_roots,
    },
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};
use ogee_exec::asof::{AsofKey, AsofKind, AsofSpec};
use ogee_vector::{normalize_schema, normalize_type};

use super::logical::AsofJoin;
use crate::{expr::translate, island::table_properties};

/// DataFusion's planner, and what it lacks.
#[derive(Debug, Default)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(AsofPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

struct AsofPlanner;

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
        let asof = Arc::new(asof);
        let properties = table_properties(Arc::clone(&asof.schema));
        Ok(Some(Arc::new(AsofExec { asof, inputs: physical_inputs.to_vec(), properties })))
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

    /// The expressions that it evaluates.
    pub(crate) fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.on.iter().chain([&self.by]).flat_map(|(left, right)| [Arc::clone(left), Arc::clone(right)]).collect()
    }
}

impl fmt::Display for Asof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<_> = self.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        let (left, right) = &self.by;
        write!(f, "{}, on=[{}], by={left} {} {right}", self.join_type, on.join(", "), self.op)
    }
}

/// An `ASOF` join. It runs only as part of an island.
#[derive(Debug)]
pub(crate) struct AsofExec {
    asof: Arc<Asof>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl AsofExec {
    /// What is joined.
    pub(crate) fn asof(&self) -> &Arc<Asof> {
        &self.asof
    }
}

impl DisplayAs for AsofExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.asof)
    }
}

impl ExecutionPlan for AsofExec {
    fn name(&self) -> &str {
        "AsofExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (asof, properties) = (Arc::clone(&self.asof), Arc::clone(&self.properties));
        Ok(Arc::new(Self { asof, inputs: children, properties }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.asof.expressions(), f)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("{} runs only within an island", self.name())
    }
}
