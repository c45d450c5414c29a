//! Recursive queries that read themselves in a subquery, refused by name.
//!
//! A subquery is computed before the iterations, or as a join of its own, neither of which sees the rows of the iteration.
//!
//! Not here: how a recursive query runs (`ogee-datafusion`).

use datafusion::{
    common::{Result, not_impl_err, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    datasource::{cte_worktable::CteWorkTable, source_as_provider},
    logical_expr::LogicalPlan,
    optimizer::AnalyzerRule,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecursiveReads;

impl AnalyzerRule for RecursiveReads {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        check(&plan, &mut Vec::new())?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "recursive_reads"
    }
}

/// Refuses a read of a recursive query's rows that is not in the term of one of `queries`. DataFusion does not even take a query for recursive that
/// reads itself in subqueries only.
fn check<'a>(plan: &'a LogicalPlan, queries: &mut Vec<&'a str>) -> Result<()> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let name = scan.table_name.table();
            let reads_rows = || source_as_provider(&scan.source).is_ok_and(|table| table.is::<CteWorkTable>());
            if !queries.contains(&name) && reads_rows() {
                return not_impl_err!(
                    "recursive query {name} reads itself in a subquery; read it in FROM, where it may be joined"
                );
            }
        }
        LogicalPlan::RecursiveQuery(query) => {
            check(&query.static_term, queries)?;
            queries.push(&query.name);
            check(&query.recursive_term, queries)?;
            queries.pop();
            return Ok(());
        }
        _ => {}
    }
    plan.apply_subqueries(|subquery| {
        check(subquery, &mut Vec::new())?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.inputs().into_iter().try_for_each(|input| check(input, queries))
}
