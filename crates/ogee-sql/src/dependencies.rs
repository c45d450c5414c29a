//! What the keys of a grouping determine.
//!
//! A column that is a key of an input determines the other columns of a grouping of it only where it is a key of all of that input. DataFusion has it do so, too, where the input is a join that
//! repeats it: of `SELECT d.k, x FROM (SELECT DISTINCT k FROM t) AS d CROSS JOIN u GROUP BY d.k, x` it takes `k` for unique. A join with that kept one row of several, and `ORDER BY k, x` sorted by
//! `k`. Before each rule that asks, groupings get the dependencies that they have, and lists that become rows none. `DISTINCT`, whose rule makes groupings of those below first, is left out only over
//! a grouping by what it selects.
//!
//! Not here: who asks: `replace_distinct_aggregate`, `eliminate_join`, `eliminate_duplicated_expr`, `optimize_projections`.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, DFSchemaRef, Dependency, FunctionalDependence, FunctionalDependencies,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{Aggregate, Distinct, Expr, JoinType, LogicalPlan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::trees::Nodes;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules that ask what determines what.
const ASKING: &[&str] =
    &["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// `rules`, with one before each that asks.
pub(crate) fn with_dependencies(rules: Vec<Rule>) -> Vec<Rule> {
    let before = |rule: Rule| {
        let asks = ASKING.contains(&rule.name());
        let rule = match rule.name() {
            "replace_distinct_aggregate" => Arc::new(DistinctGroups { rule }) as Rule,
            _ => rule,
        };
        asks.then(|| Arc::new(Dependencies) as Rule).into_iter().chain([rule])
    };
    rules.into_iter().flat_map(before).collect()
}

/// Makes groupings of `DISTINCT`.
#[derive(Debug)]
struct DistinctGroups {
    rule: Rule,
}

impl OptimizerRule for DistinctGroups {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Distinct(Distinct::All(input)) = plan else { return self.rule.rewrite(plan, config) };
        let columns: Vec<Column> = input.schema().columns();
        if columns.is_empty() || is_grouped_by(&input, &columns) {
            return self.rule.rewrite(LogicalPlan::Distinct(Distinct::All(input)), config);
        }
        let keys = columns.into_iter().map(Expr::Column).collect();
        Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, keys, Vec::new())?)))
    }
}

/// Whether `plan` has each combination of `columns` once since it is grouped by some of them.
fn is_grouped_by(plan: &LogicalPlan, columns: &[Column]) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_grouped_by(&filter.input, columns),
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) => {
            is_grouped_by(&join.left, columns)
        }
        LogicalPlan::Sort(sort) => is_grouped_by(&sort.input, columns),
        LogicalPlan::Limit(limit) => is_grouped_by(&limit.input, columns),
        LogicalPlan::Projection(projection) => {
            let column = |column: &Column| {
                let at = projection.schema.maybe_index_of_column(column)?;
                match projection.expr[at].clone().unalias() {
                    Expr::Column(column) => Some(column),
                    _ => None,
                }
            };
            is_grouped_by(&projection.input, &columns.iter().filter_map(column).collect::<Vec<_>>())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let column = |column: &Column| {
                let at = alias.schema.maybe_index_of_column(column)?;
                Some(alias.input.schema().columns().swap_remove(at))
            };
            is_grouped_by(&alias.input, &columns.iter().filter_map(column).collect::<Vec<_>>())
        }
        LogicalPlan::Aggregate(aggregate) => {
            let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
            let is_set = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_), ..]);
            !is_set && aggregate.schema.columns()[..keys].iter().all(|key| columns.contains(key))
        }
        _ => false,
    }
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
        plan.each_node(|node| {
            any |= match node {
                LogicalPlan::Aggregate(aggregate) => right(aggregate).is_some(),
                LogicalPlan::Unnest(unnest) => has_any(&unnest.schema),
                _ => false,
            };
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !any {
            return Ok(Transformed::no(plan));
        }
        // What is above has its dependencies from there.
        plan.nodes_up(|node| {
            let mut node = node.recompute_schema()?;
            match &mut node {
                LogicalPlan::Aggregate(aggregate) => {
                    if let Some(right) = right(aggregate) {
                        aggregate.schema = with(&aggregate.schema, right)?;
                    }
                }
                LogicalPlan::Unnest(unnest) => {
                    unnest.schema = with(&unnest.schema, FunctionalDependencies::empty())?;
                }
                _ => {}
            }
            Ok(Transformed::yes(node))
        })
    }
}

fn has_any(schema: &DFSchema) -> bool {
    schema.functional_dependencies().iter().next().is_some()
}

fn with(schema: &DFSchema, dependencies: FunctionalDependencies) -> Result<DFSchemaRef> {
    Ok(Arc::new(schema.clone().with_functional_dependencies(dependencies)?))
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
