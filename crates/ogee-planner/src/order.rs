//! Orders that a plan relies on.
//!
//! Morsels keep no order. So sources declare none ([`ClearOrderings`], before any other rule): otherwise DataFusion, at one partition, drops
//! sorts and picks operators that need sorted input. What order is left in a plan comes from sorts (and a few sources in memory), and
//! [`is_ordered`] tells where it reaches. Limits belong to the sort below them ([`LimitsOnSorts`]). DataFusion's rule that makes what operators rely
//! on, in seven passes that build the plan anew, is applied to plans in which something is missing ([`Requirements`]).
//!
//! What the statement sorts stays sorted: that rule would drop a sort of rows that it takes for sorted already, by an order that our operators do not keep, or by a
//! column that it takes for constant: a union of single rows, or a key of grouping sets, which is NULL in some of them. A limit above would then take
//! any rows. And it moves what a window sorts below a limit, with the number of rows behind an offset for those before it. While the rule runs, sorts and limits are therefore nodes that it
//! does not know ([`Kept`]).
//!
//! Not here: sorting.

use std::{cell::Cell, fmt, sync::Arc};

use datafusion::{
    common::{
        JoinType,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::{
        physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder},
        source::DataSourceExec,
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        LexOrdering, LexRequirement, OrderingRequirements, PhysicalExpr, PhysicalSortExpr, expressions::Column,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
        PlanProperties, ReplaceChildrenOptions,
        aggregates::AggregateExec,
        joins::{HashJoinExec, HashJoinExecBuilder},
        limit::GlobalLimitExec,
        projection::{ProjectionExec, ProjectionExpr},
        replace_children_if_necessary,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};

thread_local! {
    /// Whether the statement that is being planned asks for an order of its rows. All rules see a plan one after the other on one thread.
    static ASKED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether the plan that the rules are at was asked for in an order, and does not only happen to have one: windows leave one, and a sort that was
/// asked for is dropped where they do. Told once, to the last rule; true if it is not known.
pub fn take_asked() -> bool {
    ASKED.take().unwrap_or(true)
}

/// Makes scans of files one partition without a declared order.
#[derive(Debug, Default)]
pub struct ClearOrderings;

impl PhysicalOptimizerRule for ClearOrderings {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let cleared = plan.transform_up(|node| {
            let config = node
                .downcast_ref::<DataSourceExec>()
                .and_then(|source| source.data_source().downcast_ref::<FileScanConfig>())
                .filter(|config| {
                    !config.output_ordering.is_empty()
                        || config.output_partitioning.is_some()
                        || config.preserve_order
                        || config.file_groups.len() > 1
                });
            let Some(config) = config else { return Ok(Transformed::no(node)) };
            let files = config.file_groups.iter().flat_map(FileGroup::iter).cloned().collect();
            let cleared = FileScanConfigBuilder::from(config.clone())
                .with_output_ordering(Vec::new())
                .with_output_partitioning(None)
                .with_preserve_order(false)
                .with_file_groups(vec![FileGroup::new(files)])
                .build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(cleared) as Arc<dyn ExecutionPlan>))
        });
        let plan = cleared.data()?;
        // No sorts are there yet but the statement's own.
        ASKED.set(Some(is_sorted(&plan)));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "clear_orderings"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Puts limits and offsets on the sorts that they count the rows of, below projections. A projection that drops a column of the order has none, and
/// DataFusion then takes the sort below an offset for one that nobody needs.
#[derive(Debug, Default)]
pub struct LimitsOnSorts;

/// Whether rows of `plan` are sorted but for projections on top.
fn is_projected_sort(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SortExec>() || plan.downcast_ref::<ProjectionExec>().is_some_and(|above| is_projected_sort(above.input()))
}

impl PhysicalOptimizerRule for LimitsOnSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let lowered = plan.transform_down(|node| {
            let limit = node.downcast_ref::<GlobalLimitExec>().filter(|limit| is_projected_sort(limit.input()));
            let Some(limit) = limit.filter(|limit| limit.input().is::<ProjectionExec>()) else {
                return Ok(Transformed::no(node));
            };
            let projection = limit.input();
            let below = Arc::clone(projection.children()[0]);
            let limit = Arc::new(GlobalLimitExec::new(below, limit.skip(), limit.fetch()));
            Ok(Transformed::yes(replace_children_if_necessary(Arc::clone(projection), vec![limit])?))
        });
        lowered.data()
    }

    fn name(&self) -> &str {
        "limits_on_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// DataFusion's check that operators have what they require. What is constant, and so in order, may be known before a rule moves projections and not after:
/// the rows are then sorted.
#[derive(Debug)]
pub struct Checked {
    check: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl Checked {
    /// `check` behind all rules that change plans.
    pub fn new(check: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { check }
    }
}

impl PhysicalOptimizerRule for Checked {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match self.check.optimize(Arc::clone(&plan), config) {
            Ok(plan) => Ok(plan),
            Err(_) => self.check.optimize(plan.transform_up(with_sorted_inputs).data()?, config),
        }
    }

    fn name(&self) -> &str {
        self.check.name()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `node` above sorts of those inputs that are not in the order that it requires.
fn with_sorted_inputs(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<_> = node.children().into_iter().map(Arc::clone).collect();
    let mut is_changed = false;
    for (required, input) in node.required_input_ordering().into_iter().zip(&mut inputs) {
        let Some(required) = required else { continue };
        let order: LexRequirement = required.into_single();
        if !input.equivalence_properties().ordering_satisfy_requirement(order.iter().cloned())? {
            let several = input.output_partitioning().partition_count() > 1;
            let sort = SortExec::new(LexOrdering::from(order), Arc::clone(input)).with_preserve_partitioning(several);
            *input = Arc::new(sort);
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Transformed::no(node));
    }
    Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
}

/// DataFusion's rule that adds what operators require of their inputs, for plans that lack some of it.
#[derive(Debug)]
pub struct Requirements {
    ensure: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl Requirements {
    /// Spares `ensure` plans that need nothing.
    pub fn new(ensure: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { ensure }
    }
}

/// Whether all operators in `plan` have what they require: one partition everywhere, and orders that are there. No order is merged out of several.
fn has_requirements(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = plan.children();
    plan.output_partitioning().partition_count() == 1
        && !plan.is::<SortPreservingMergeExec>()
        && plan.required_input_ordering().into_iter().zip(&inputs).all(|(required, input)| {
            let met = |required: OrderingRequirements| {
                input.equivalence_properties().ordering_satisfy_requirement(required.into_single())
            };
            required.is_none_or(|required| met(required).unwrap_or(false))
        })
        && inputs.into_iter().all(has_requirements)
}

/// A join that marks the rows of its right side, with its columns chosen above it: DataFusion's rule knows nothing of the mark where it follows an order to one side, and panics.
fn choose_above_marks(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
    let (JoinType::RightMark, Some(chosen)) = (*join.join_type(), &join.projection) else {
        return Ok(Transformed::no(node));
    };
    let whole = HashJoinExecBuilder::from(join).with_projection_ref(None).build()?;
    let schema = whole.schema();
    let column = |&index: &usize| {
        let name = schema.field(index).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, index)), alias: name.clone() }
    };
    let columns: Vec<ProjectionExpr> = chosen.iter().map(column).collect();
    Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(columns, Arc::new(whole))?)))
}

impl PhysicalOptimizerRule for Requirements {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(below_projections).data()?;
        if has_requirements(&plan) {
            return Ok(plan);
        }
        let plan = plan.transform_up(choose_above_marks).data()?;
        let kept = plan.transform_up(|node| Ok(Kept::of(&node).map_or(Transformed::no(node), Transformed::yes)));
        let made = self.ensure.optimize(kept.data()?, config)?;
        let shown = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<Kept>() {
            Some(kept) => Transformed::yes(Arc::clone(&kept.node)),
            None => Transformed::no(node),
        };
        made.transform_up(|node| Ok(shown(node))).data()
    }

    fn name(&self) -> &str {
        self.ensure.name()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort of a projection's rows by columns that it only passes on is one of the rows below: the projection then computes those that a limit leaves.
fn below_projections(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = node.downcast_ref::<SortExec>().filter(|sort| !sort.preserve_partitioning()) else {
        return Ok(Transformed::no(node));
    };
    let Some(projection) = sort.input().downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
    let passed_on = |by: &PhysicalSortExpr| {
        let column = by.expr.downcast_ref::<Column>()?;
        let below = &projection.expr().get(column.index())?.expr;
        below.is::<Column>().then(|| PhysicalSortExpr::new(Arc::clone(below), by.options))
    };
    let Some(by) = sort.expr().iter().map(passed_on).collect::<Option<Vec<_>>>().and_then(LexOrdering::new) else {
        return Ok(Transformed::no(node));
    };
    let sorted = Arc::new(SortExec::new(by, Arc::clone(projection.input())).with_fetch(sort.fetch())) as _;
    let sorted = below_projections(sorted)?.data;
    Ok(Transformed::yes(replace_children_if_necessary(Arc::clone(sort.input()), vec![sorted])?))
}

/// A sort or a limit that the rule which makes orders takes for any other node.
#[derive(Debug)]
struct Kept {
    node: Arc<dyn ExecutionPlan>,
}

impl Kept {
    /// `node` if that is a sort or a limit.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let is_sort = node.downcast_ref::<SortExec>().is_some_and(|sort| !sort.preserve_partitioning());
        (is_sort || node.is::<GlobalLimitExec>()).then(|| Arc::new(Self { node: Arc::clone(node) }) as _)
    }
}

impl DisplayAs for Kept {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.node.fmt_as(format, f)
    }
}

impl ExecutionPlan for Kept {
    fn name(&self) -> &str {
        "KeptExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.node.children()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn fetch(&self) -> Option<usize> {
        self.node.fetch()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { node: replace_children_if_necessary(Arc::clone(&self.node), children)? }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.node.execute(partition, context)
    }
}

/// Whether a sort orders the rows of `plan`. Windows declare orders of what they compute, which nobody asks for.
fn is_sorted(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes = |(maintains, child): (bool, &Arc<dyn ExecutionPlan>)| maintains && is_sorted(child);
    plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || !plan.is::<AggregateExec>() && plan.maintains_input_order().into_iter().zip(plan.children()).any(passes)
}

/// Whether the rows of `plan` come in an order that somebody may have asked for: it has one, or passes one on (a projection may have
/// dropped the columns it is by). A sort by what DataFusion takes for constants declares none. Groups have an order only by chance.
pub fn is_ordered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<AggregateExec>() {
        return false;
    }
    plan.is::<SortExec>()
        || plan.properties().output_ordering().is_some()
        || plan
            .maintains_input_order()
            .into_iter()
            .zip(plan.children())
            .any(|(maintains, child)| maintains && is_ordered(child))
}
