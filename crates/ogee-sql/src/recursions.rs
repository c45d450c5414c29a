//! Recursive queries as a node of their own, whose term reads its rows in as many places as it likes: those that the last iteration found, or all so far.
//!
//! DataFusion's own node lets a term read its rows in one place, and knows neither `recurring.t` nor `USING KEY`. So once subqueries are joins, a rule takes its nodes apart: reads of the query become scans
//! of [`RecursionRows`], the marks that the text was given (`syntax::using_key`) are taken out, and of a query with keys what groups the rows of a key is a third plan beside the two terms.
//!
//! A subquery that is left as one is computed before the iterations, and does not see their rows: reads in one are refused by name.
//!
//! Not here: how a recursive query runs (`ogee-datafusion`).

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{Field, Schema, SchemaRef},
    catalog::{Session, TableProvider},
    common::{
        DFSchemaRef, Result, ScalarValue, not_impl_err, plan_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::{TableType, cte_worktable::CteWorkTable, provider_as_source, source_as_provider},
    logical_expr::{
        Expr, Extension, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, ScalarUDF, TableScan, TypeSignature,
        UserDefinedLogicalNodeCore,
    },
    optimizer::AnalyzerRule,
    physical_plan::{ExecutionPlan, work_table::WorkTableExec},
};

use crate::{
    markers,
    trees::{Nodes, Tree},
};

/// The function whose calls mark a place of a recursive query.
pub(crate) const MARK: &str = "ogee_recursion";

/// The mark of the rows that a query with keys begins with; the positions of its keys come behind, and how many columns it has as it is written.
pub(crate) const FIRST: &str = "first";

/// What the mark ends with where of the rows of a key the last one counts.
pub(crate) const LAST: &str = "last";

/// The schema in which a query finds all its rows so far, and their mark.
pub(crate) const RECURRING: &str = "recurring";

/// The column that says which of the rows that were found was where.
pub const PLACE: &str = "ogee_place";

/// Which rows of a recursive query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub enum RowsOf {
    /// Those that the last iteration found.
    Iteration,
    /// All so far.
    All,
    /// All that were found for the keys of the last iteration, before they are grouped.
    Keys,
}

impl RowsOf {
    /// What the rows of the query `name` are called in a physical plan.
    pub fn table_name(self, name: &str) -> String {
        format!("{name}, {self}")
    }
}

impl fmt::Display for RowsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iteration => "rows of the iteration",
            Self::All => "all rows",
            Self::Keys => "rows of the keys",
        })
    }
}

/// Rows that a recursive query has while it runs, as a table.
#[derive(Debug)]
struct RecursionRows {
    name: String,
    of: RowsOf,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for RecursionRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = self.of.table_name(&self.name);
        Ok(Arc::new(WorkTableExec::new(name, Arc::clone(&self.schema), projection.cloned())?))
    }
}

/// What a recursive query keeps of the rows that it finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub enum Keeping {
    /// All: `UNION ALL`.
    All,
    /// Each once: `UNION`.
    Distinct,
    /// A row for each key: `USING KEY`.
    Keyed {
        /// Where the key is among the columns.
        keys: Vec<usize>,
        /// The next iteration reads rows of keys that are not what they were (`UNION`), and not all that were found (`UNION ALL`).
        only_changed: bool,
        /// Of the rows that were found for a key the last one counts, whatever was before.
        only_last: bool,
    },
}

/// A recursive query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recursion {
    /// What it is called.
    pub name: String,
    /// What is kept of its rows.
    pub keeping: Keeping,
    /// The first rows; what finds more of them in those; with keys, what a key's rows are together.
    terms: Vec<LogicalPlan>,
    schema: DFSchemaRef,
}

impl PartialOrd for Recursion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Recursion {
    fn name(&self) -> &str {
        "Recursion"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.terms.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.keeping {
            Keeping::All => write!(f, "Recursion: {}", self.name),
            Keeping::Distinct => write!(f, "Recursion: {}, distinct", self.name),
            Keeping::Keyed { keys, .. } => {
                let names: Vec<_> = keys.iter().map(|&key| self.schema.field(key).name().as_str()).collect();
                write!(f, "Recursion: {}, key=[{}]", self.name, names.join(", "))
            }
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Self { name, keeping, schema, .. } = self.clone();
        Ok(Self { name, keeping, terms: inputs, schema })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recursions;

impl AnalyzerRule for Recursions {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.nodes_up_where(
            |node| matches!(node, LogicalPlan::RecursiveQuery(_)),
            |plan| match plan {
                LogicalPlan::RecursiveQuery(query) => Ok(Transformed::yes(recursion(query)?)),
                plan => Ok(Transformed::no(plan)),
            },
        );
        let plan = plan.data()?;
        plan.each_node(|plan| match plan {
            LogicalPlan::TableScan(scan) if is_work_table(scan) => not_impl_err!(
                "recursive query {} reads itself in a subquery; read it in FROM, where it may be joined",
                scan.table_name.table()
            ),
            LogicalPlan::Filter(filter) if mark_of(&filter.predicate).is_some() => {
                plan_err!("{RECURRING} rows are read by the term of their own recursive query only")
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "recursions"
    }
}

/// Whether `scan` reads the rows of an iteration.
pub(crate) fn is_work_table(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|table| table.is::<CteWorkTable>())
}

/// The texts of `predicate` if it is a mark: what it marks, and what is said of that.
fn mark_of(predicate: &Expr) -> Option<Vec<&str>> {
    let Expr::ScalarFunction(call) = predicate else { return None };
    let text = |arg| match arg {
        &Expr::Literal(ScalarValue::Utf8(Some(ref text)), _) => Some(text.as_str()),
        _ => None,
    };
    if call.name() == MARK { call.args.iter().map(text).collect() } else { None }
}

/// Whether `predicate` marks `what`.
fn marks(predicate: &Expr, what: &str) -> bool {
    mark_of(predicate).is_some_and(|texts| texts.first() == Some(&what))
}

/// Whether `plan` is the first rows of a query with keys, as its term has them.
pub(crate) fn is_first(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => marks(&filter.predicate, FIRST),
        LogicalPlan::Projection(projection) => is_first(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_first(&alias.input),
        _ => false,
    }
}

/// `query` as a node of ours.
fn recursion(query: RecursiveQuery) -> Result<LogicalPlan> {
    let RecursiveQuery { name, static_term, recursive_term, is_distinct, schema } = query;
    let term = with_rows(&name, RowsOf::Iteration, Arc::unwrap_or_clone(recursive_term))?;
    let (keeping, terms) = match taken_apart(&name, &term)? {
        Some(Apart { keys: Keys { positions, width, only_last }, first, found, merge }) => {
            // A correlated query is one for each of the values that come behind its columns.
            let keys = positions.into_iter().chain(width..schema.fields().len()).collect();
            (Keeping::Keyed { keys, only_changed: is_distinct, only_last }, vec![first, found, merge])
        }
        None => {
            let keeping = if is_distinct { Keeping::Distinct } else { Keeping::All };
            (keeping, vec![Arc::unwrap_or_clone(static_term), term])
        }
    };
    let node = Recursion { name, keeping, terms, schema };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// `plan`, in which `of` the rows of query `name` are read where the query itself is, or all where it is marked so.
fn with_rows(name: &str, of: RowsOf, plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.down(|plan| match plan {
        LogicalPlan::Filter(filter) if marks(&filter.predicate, RECURRING) => {
            let all = with_rows(name, RowsOf::All, Arc::unwrap_or_clone(filter.input))?;
            Ok(Transformed::new(all, true, TreeNodeRecursion::Jump))
        }
        LogicalPlan::TableScan(mut scan) if scan.table_name.table() == name && is_work_table(&scan) => {
            let rows = RecursionRows { name: name.to_owned(), of, schema: scan.source.schema() };
            scan.source = provider_as_source(Arc::new(rows));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        plan => Ok(Transformed::no(plan)),
    });
    changed.data()
}

/// What is said of the keys.
struct Keys {
    positions: Vec<usize>,
    /// How many columns the query has as it is written.
    width: usize,
    only_last: bool,
}

/// The parts of the term of a query with keys.
struct Apart {
    keys: Keys,
    /// The first rows, and those that an iteration finds, each with its place.
    first: LogicalPlan,
    found: LogicalPlan,
    /// What the rows of a key are together.
    merge: LogicalPlan,
}

/// The parts of `term`, if it is that of query `name` with keys.
fn taken_apart(name: &str, term: &LogicalPlan) -> Result<Option<Apart>> {
    let mut parts = None;
    let merge = term.clone().down(|plan| {
        let LogicalPlan::Union(union) = &plan else { return Ok(Transformed::no(plan)) };
        let [first, found] = &union.inputs[..] else { return Ok(Transformed::no(plan)) };
        let Some((first, keys)) = without_mark(first)? else { return Ok(Transformed::no(plan)) };
        let fields: Vec<Field> = union.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let rows = RecursionRows { name: name.to_owned(), of: RowsOf::Keys, schema: Arc::new(Schema::new(fields)) };
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(rows)), None)?;
        let columns = scan.schema().columns().into_iter().zip(union.schema.iter());
        let columns = columns
            .map(|(column, (relation, field))| Expr::Column(column).alias_qualified(relation.cloned(), field.name()));
        let columns: Vec<Expr> = columns.collect();
        let rows = scan.project(columns)?.build()?;
        parts = Some((keys, first, LogicalPlan::clone(found)));
        Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump))
    });
    let merge = merge.data()?;
    Ok(parts.map(|(keys, first, found)| Apart { keys, first, found, merge }))
}

/// `first` without its mark, and the keys that this names; `None` if there is none.
fn without_mark(first: &LogicalPlan) -> Result<Option<(LogicalPlan, Keys)>> {
    let mut keys = None;
    let plan = first.clone().down(|plan| match plan {
        LogicalPlan::Filter(filter) if marks(&filter.predicate, FIRST) => {
            if let Some([_, positions, width, counts]) = mark_of(&filter.predicate).as_deref() {
                let positions = positions.split(',').map(|position| position.parse().ok()).collect::<Option<Vec<_>>>();
                let both = positions.zip(width.parse().ok());
                keys = both.map(|(positions, width)| Keys { positions, width, only_last: *counts == LAST });
            }
            Ok(Transformed::new(Arc::unwrap_or_clone(filter.input), true, TreeNodeRecursion::Stop))
        }
        plan => Ok(Transformed::no(plan)),
    });
    let plan = plan.data()?;
    Ok(keys.map(|keys| (plan, keys)))
}

/// The function of the marks.
pub(crate) fn marker() -> ScalarUDF {
    markers::condition(MARK, TypeSignature::VariadicAny, "a mark of recursive queries, and nothing else")
}
