//! Nodes of DataFusion's plans that say what is to be done, and that islands take over.
//!
//! What one does is its [`Work`]; the rest is the same for all.
//!
//! Not here: operators of islands, which count rows as they run (`ogee-datafusion`).

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{Statistics, internal_err, stats::Precision, tree_node::TreeNodeRecursion},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
        ReplaceChildrenOptions, apply_expression_roots,
        execution_plan::{Boundedness, EmissionType},
        statistics::StatisticsArgs,
    },
};

/// One partition, no order.
pub fn properties(schema: SchemaRef) -> Arc<PlanProperties> {
    properties_of(EquivalenceProperties::new(schema))
}

/// One partition, and `equivalences`, orders included.
pub fn properties_of(equivalences: EquivalenceProperties) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        equivalences,
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// What a node does.
pub trait Work: fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// What the node is called.
    const NAME: &'static str;

    /// The expressions that it evaluates.
    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    /// How many rows it gives, where that is known.
    fn known_rows(&self) -> Option<usize> {
        None
    }

    /// Its rows where it is in no island.
    fn run(&self) -> Result<SendableRecordBatchStream> {
        internal_err!("{} runs only within an island", Self::NAME)
    }
}

/// A node of a plan: one partition, no order.
#[derive(Debug)]
pub struct Node<W> {
    work: Arc<W>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl<W: Work> Node<W> {
    /// The node that does `work` to `inputs`, and gives rows of `schema`.
    pub fn new(work: W, inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef) -> Self {
        Self { work: Arc::new(work), inputs, properties: properties(schema) }
    }

    /// What it does.
    pub fn work(&self) -> &Arc<W> {
        &self.work
    }

    /// What it does it to.
    pub fn inputs(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.inputs
    }
}

impl<W: Work> DisplayAs for Node<W> {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", W::NAME, self.work)
    }
}

impl<W: Work> ExecutionPlan for Node<W> {
    fn name(&self) -> &str {
        W::NAME
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
        let (work, properties) = (Arc::clone(&self.work), Arc::clone(&self.properties));
        Ok(Arc::new(Self { work, inputs: children, properties }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.work.expressions(), f)
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = self.work.known_rows() {
            statistics.num_rows = Precision::Exact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.work.run()
    }
}
