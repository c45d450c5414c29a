//! What the keys of a grouping determine.
//!
//! A column that is a key of an input determines the other columns of a grouping of it only where it is a key of all of that input. DataFusion has it do so, too, where the input is a join that
//! repeats it: of `SELECT d.k, x FROM (SELECT DISTINCT k FROM t) AS d CROSS JOIN u GROUP BY d.k, x` it takes `k` for unique. A join with that kept one row of several, and `ORDER BY k, x` sorted by
//! `k`. Before each rule that asks, groupings get the dependencies that they have.
//!
//! Not here: who asks: `replace_distinct_aggregate`, `eliminate_join`, `eliminate_duplicated_expr`, `optimize_projections`.

use std::sync::Arc;

use datafusion::{
    common::{
        Dependency, FunctionalDependence, FunctionalDependencies,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{Aggregate, Expr, LogicalPlan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules that ask what determines what.
const ASKING: &[&str] =
    &["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// `rules`, with one before each that asks.
pub(crate) fn with_dependencies(rules: Vec<Rule>) -> Vec<Rule> {
    let before = |rule: Rule| {
        let asks = ASKING.contains(&rule.name());
        asks.then(|| Arc::new(Dependencies) as Rule).into_iter().chain([rule])
    };
    rules.into_iter().flat_map(before).collect()
}

#[derive(Debug)]
struct Dependencies;

impl OptimizerRule for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut any = false;
        plan.apply_with_subqueries(|node| {
            any |= matches!(node, LogicalPlan::Aggregate(aggregate) if right(aggregate).is_some());
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !any {
            return Ok(Transformed::no(plan));
        }
        // What is above has its dependencies from there.
        plan.transform_up_with_subqueries(|node| {
            let mut node = node.recompute_schema()?;
            if let LogicalPlan::Aggregate(aggregate) = &mut node
                && let Some(right) = right(aggregate)
            {
                let schema = aggregate.schema.as_ref().clone().with_functional_dependencies(right)?;
                aggregate.schema = Arc::new(schema);
            }
            Ok(Transformed::yes(node))
        })
    }
}

/// What the keys of `aggregate` determine, if its schema says otherwise.
fn right(aggregate: &Aggregate) -> Option<FunctionalDependencies> {
    let keys = &aggregate.group_expr;
    // A key that is there twice is one column.
    let are_columns = keys.len() + aggregate.aggr_expr.len() == aggregate.schema.fields().len();
    if keys.len() < 2 || !are_columns || matches!(keys.as_slice(), [Expr::GroupingSet(_), ..]) {
        return None;
    }
    let known = aggregate.schema.functional_dependencies();
    let holds = |dependence: &FunctionalDependence| is_whole(dependence, keys.len()) || is_key(dependence, aggregate);
    if known.iter().all(holds) {
        return None;
    }
    let mut kept: Vec<FunctionalDependence> = known.iter().filter(|dependence| holds(dependence)).cloned().collect();
    if kept.is_empty() {
        let source: Vec<usize> = (0..keys.len()).collect();
        let nullable = source.iter().any(|&key| aggregate.schema.field(key).is_nullable());
        let all = (0..aggregate.schema.fields().len()).collect();
        kept.push(FunctionalDependence::new(source, all, nullable).with_mode(Dependency::Single));
    }
    Some(FunctionalDependencies::new(kept))
}

/// Whether it is one of all keys.
fn is_whole(dependence: &FunctionalDependence, keys: usize) -> bool {
    (0..keys).all(|key| dependence.source_indices.contains(&key))
}

/// Whether what determines is a key of all of the input.
fn is_key(dependence: &FunctionalDependence, aggregate: &Aggregate) -> bool {
    let input = aggregate.input.schema();
    let names = input.field_names();
    let sources: Option<Vec<String>> = dependence
        .source_indices
        .iter()
        .map(|&key| aggregate.group_expr.get(key).map(|key| key.schema_name().to_string()))
        .collect();
    let Some(sources) = sources else { return false };
    input.functional_dependencies().iter().any(|of_input| {
        of_input.mode == Dependency::Single
            && of_input.source_indices.iter().all(|&field| sources.contains(&names[field]))
    })
}
