//! Recursive queries: each iteration runs the recursive term over the rows that the last one found.
//!
//! The rows of an iteration, the *working table*, are pages of the pool; they go to whoever reads the query as they are found, and are dropped
//! after the next iteration. `UNION` without `ALL` keeps only rows that are new: the term becomes a grouping of itself, joined against all rows so
//! far (an anti join for which NULL equals NULL). Both run in islands, so they spill as any other. All rows so far are kept in blocks each
//! of which has more rows than those behind it together, or is full: few pages, and a row is copied as many times as the number of rows
//! has doubled since.
//!
//! With `USING KEY` there is a row for each key. An iteration groups the rows that were found for the keys of its own, now and before; their new rows take the place of the old ones, and those that are
//! not what they were are what the next iteration reads. Grouping, taking out the old rows and looking for what has changed are plans like the terms.
//!
//! Not here: what a term does (islands), and how the plan is made of the text (`ogee_sql::recursions`).

mod exec;
mod work_table;

use std::{collections::HashSet, fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    catalog::Session,
    common::{
        JoinType, NullEquality, internal_err, not_impl_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{LogicalPlan, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy},
        joins::{HashJoinExec, PartitionMode},
        work_table::WorkTableExec,
    },
    physical_planner::{ExtensionPlanner, PhysicalPlanner},
};
use ogee_memory::BufferManager;
use ogee_planner::node::{Node, Work};
use ogee_sql::recursions::{Keeping, PLACE, Recursion, RowsOf};

use self::work_table::WorkTable;
pub(crate) use self::{
    exec::RecursionExec,
    work_table::{WorkScanExec, WorkTableScan},
};

/// A recursive query as a node of a plan, whose inputs are its terms; what is run is a [`RecursionExec`].
pub(crate) type RecursionTerms = Node<Terms>;

/// What a recursive query does with its terms.
#[derive(Debug)]
pub(crate) struct Terms {
    name: String,
    keeping: Keeping,
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name={}, keeping={:?}", self.name, self.keeping)
    }
}

impl Work for Terms {
    const NAME: &'static str = "RecursionTerms";
}

/// Plans recursive queries.
pub(crate) struct RecursionPlanner;

#[async_trait]
impl ExtensionPlanner for RecursionPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(recursion) = node.as_any().downcast_ref::<Recursion>() else { return Ok(None) };
        let terms = Terms { name: recursion.name.clone(), keeping: recursion.keeping.clone() };
        let schema = Arc::clone(node.schema().inner());
        Ok(Some(Arc::new(RecursionTerms::new(terms, physical_inputs.to_vec(), schema))))
    }
}

/// What is kept of the rows of a recursive query, and where.
#[derive(Clone, Debug)]
enum Kept {
    /// All go to whoever reads the query; kept only for a term that reads them all.
    Rows { all: Option<Arc<WorkTable>> },
    /// A row for each key.
    Keyed(KeyedTables),
}

/// The rows of a query with keys.
#[derive(Clone, Debug)]
struct KeyedTables {
    /// A row for each key.
    all: Arc<WorkTable>,
    /// All rows that were found, each with its place; those of this iteration alone where the last one of a key counts.
    history: Arc<WorkTable>,
    /// Those that this iteration found.
    found: Arc<WorkTable>,
    /// What the keys of this iteration have now.
    new: Arc<WorkTable>,
    only_changed: bool,
    only_last: bool,
}

/// A recursive query whose reads are bound, before its plans are made islands.
pub(crate) struct Bound {
    /// The first rows; what finds more of them; with keys, what groups, what has changed and what stays.
    pub(crate) plans: Vec<Arc<dyn ExecutionPlan>>,
    rows: Arc<WorkTable>,
    kept: Kept,
}

impl Bound {
    /// What `terms` do, with rows in `memory`.
    ///
    /// # Errors
    /// Two columns have one name, by which terms find them.
    pub(crate) fn of(terms: &RecursionTerms, memory: &Arc<BufferManager>) -> Result<Self> {
        let Terms { name, keeping } = &**terms.work();
        let schema = nullable(&ExecutionPlan::schema(terms));
        let mut names = HashSet::new();
        if let Some(field) = schema.fields().iter().find(|field| !names.insert(field.name())) {
            return not_impl_err!(
                "two columns of the recursive query {name} have the name {}; give them names of their own",
                field.name()
            );
        }
        let rows = WorkTable::new(name, &schema, memory);
        let all = WorkTable::new(&RowsOf::All.table_name(name), &schema, memory);
        let reads = |plan: &Arc<dyn ExecutionPlan>, of: RowsOf, table: &Arc<WorkTable>| {
            let name = of.table_name(name);
            let mut found = false;
            let plan = Arc::clone(plan).transform_down(|node| match node.downcast_ref::<WorkTableExec>() {
                Some(work) if WorkTableExec::name(work) == name => {
                    found = true;
                    Ok(Transformed::yes(WorkTableScan::node(table, &node.schema())?))
                }
                _ => Ok(Transformed::no(node)),
            });
            plan.data().map(|plan| (plan, found))
        };
        let [first, term, merge @ ..] = terms.inputs() else { return internal_err!("a recursion has two terms") };
        let (term, _) = reads(term, RowsOf::Iteration, &rows)?;
        let (term, reads_all) = reads(&term, RowsOf::All, &all)?;
        match (keeping, merge) {
            (Keeping::All, []) => {
                let kept = Kept::Rows { all: reads_all.then_some(all) };
                Ok(Self { plans: vec![Arc::clone(first), term], rows, kept })
            }
            (Keeping::Distinct, []) => {
                let plans = vec![distinct(Arc::clone(first))?, unseen(distinct(term)?, WorkTableScan::all(&all)?)?];
                Ok(Self { plans, rows, kept: Kept::Rows { all: Some(all) } })
            }
            (Keeping::Keyed { keys, only_changed, only_last }, [merge]) => {
                let found_schema = nullable(&first.schema());
                let table = |what: &str, schema: &SchemaRef| WorkTable::new(&format!("{name}, {what}"), schema, memory);
                let tables = KeyedTables {
                    history: table("rows so far", &found_schema),
                    found: table("rows found", &found_schema),
                    new: table("new rows", &schema),
                    all,
                    only_changed: *only_changed,
                    only_last: *only_last,
                };
                // The rows that are found have a place besides.
                let columns: Vec<usize> =
                    (0..found_schema.fields().len()).filter(|&at| found_schema.field(at).name() != PLACE).collect();
                let of_found: Vec<usize> = keys.iter().map(|&key| columns[key]).collect();
                let (merge, _) = reads(merge, RowsOf::Keys, &tables.history)?;
                let merge = match only_last {
                    true => merge,
                    false => merge
                        .transform_down(|node| match node.downcast_ref::<WorkScanExec>() {
                            Some(scan) if scan.work().is_of(&tables.history) => {
                                let found = WorkTableScan::all(&tables.found)?;
                                let rows = of_keys(found, node, &of_found, &found_schema)?;
                                Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump))
                            }
                            _ => Ok(Transformed::no(node)),
                        })
                        .data()?,
                };
                let changed = unseen(WorkTableScan::all(&tables.new)?, WorkTableScan::all(&tables.all)?)?;
                let stays = joined(
                    WorkTableScan::all(&tables.new)?,
                    WorkTableScan::all(&tables.all)?,
                    keys.iter().map(|&key| (key, key)),
                    JoinType::RightAnti,
                )?;
                let plans = vec![Arc::clone(first), term, merge, changed, stays];
                Ok(Self { plans, rows, kept: Kept::Keyed(tables) })
            }
            _ => internal_err!("a recursion has two terms, and one more with keys"),
        }
    }
}

/// The schema whose columns may all be NULL.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields: Vec<_> =
        schema.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Each row of `plan` once.
fn distinct(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let column = |(index, name): (usize, &String)| (Arc::new(Column::new(name, index)) as _, name.clone());
    let columns = schema.fields().iter().map(|field| field.name()).enumerate().map(column);
    let keys = PhysicalGroupBy::new_single(columns.collect());
    Ok(Arc::new(AggregateExec::try_new(AggregateMode::Single, keys, Vec::new(), Vec::new(), plan, schema)?))
}

/// The rows of `plan` that `all` does not have.
fn unseen(plan: Arc<dyn ExecutionPlan>, all: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let columns = 0..plan.schema().fields().len();
    joined(plan, all, columns.map(|column| (column, column)), JoinType::LeftAnti)
}

/// The rows of `rows`, some columns of the table `schema`, whose keys, the columns `keys` of it, are among those of `found`.
fn of_keys(
    found: Arc<dyn ExecutionPlan>,
    rows: Arc<dyn ExecutionPlan>,
    keys: &[usize],
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let of_rows = rows.schema();
    let pairs = keys.iter().map(|&key| Ok((key, of_rows.index_of(schema.field(key).name())?)));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    joined(found, rows, pairs, JoinType::RightSemi)
}

/// A join of equal columns, for which NULL equals NULL.
fn joined(
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    columns: impl IntoIterator<Item = (usize, usize)>,
    join_type: JoinType,
) -> Result<Arc<dyn ExecutionPlan>> {
    let column =
        |schema: &SchemaRef, at: usize| Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
    let (of_left, of_right) = (left.schema(), right.schema());
    let on = columns.into_iter().map(|(a, b)| (column(&of_left, a), column(&of_right, b))).collect();
    let mode = PartitionMode::CollectLeft;
    let equality = NullEquality::NullEqualsNull;
    Ok(Arc::new(HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, equality, false)?))
}
