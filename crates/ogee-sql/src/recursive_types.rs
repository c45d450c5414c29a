//! Types of recursive queries: rows that a term finds are cast to those of the first rows.
//!
//! DataFusion types the rows that a term reads, and casts those that it finds, when the text is planned. Then a `CASE` has the type of its first result, `VALUES` and unions that of their first rows, and
//! the first rows turn out to be of another type than those that the term was planned for. So before types are coerced a rule asks which ones the first rows will have, has the term read rows of those, and takes
//! the casts back; once types are coerced, another casts what the term finds. With `USING KEY` rows are cast as they are found, and not what an aggregate makes of them.
//!
//! Not here: how recursive queries are planned (`recursions`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    common::{
        DFSchema, DFSchemaRef, Result,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::{cte_worktable::CteWorkTable, provider_as_source},
    logical_expr::{
        Expr, LogicalPlan, LogicalPlanBuilder, Projection, RecursiveQuery, TableScan, TableScanBuilder, Union,
        expr::Cast,
    },
    optimizer::{AnalyzerRule, analyzer::type_coercion::TypeCoercion},
};

use crate::{
    common_types::CommonTypes,
    quotients::Division,
    recursions::{is_first, is_work_table},
    trees::{Nodes, Tree},
};

/// Has terms read rows of the types that the first rows have.
#[derive(Debug)]
pub(crate) struct RecursiveTypes(pub(crate) Arc<Division>);

impl AnalyzerRule for RecursiveTypes {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let retyped = plan.nodes_up_where(is_recursive, |plan| match plan {
            LogicalPlan::RecursiveQuery(query) => self.retyped(query, config),
            plan => Ok(Transformed::no(plan)),
        })?;
        if !retyped.transformed {
            return Ok(retyped.data);
        }
        retyped.data.nodes_up(|node| Ok(Transformed::yes(node.recompute_schema()?))).data()
    }

    fn name(&self) -> &str {
        "recursive_types"
    }
}

impl RecursiveTypes {
    /// The schema of `plan` once types are coerced.
    fn coerced(&self, plan: &LogicalPlan, config: &ConfigOptions) -> Result<DFSchemaRef> {
        let common = CommonTypes(Arc::clone(&self.0)).analyze(plan.clone(), config)?;
        Ok(Arc::clone(TypeCoercion::new().analyze(common, config)?.schema()))
    }

    fn retyped(&self, query: RecursiveQuery, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
        let schema = self.coerced(&query.static_term, config)?;
        let stale = types(&query.schema);
        let mut query = query;
        let mut changed = false;
        if stale != types(&schema) {
            let term = Arc::unwrap_or_clone(query.recursive_term);
            let term = without_casts(reading(&query.name, &schema, term)?, &stale)?;
            let qualified = query.schema.iter().zip(schema.fields());
            let qualified = qualified.map(|((relation, _), field)| (relation.cloned(), Arc::clone(field))).collect();
            let schema = DFSchema::new_with_metadata(qualified, query.schema.metadata().clone())?;
            (query.recursive_term, query.schema) = (Arc::new(term), Arc::new(schema));
            changed = true;
        }
        let term = Arc::unwrap_or_clone(query.recursive_term).down(|plan| match plan {
            LogicalPlan::Union(union) if matches!(&union.inputs[..], [first, _] if is_first(first)) => {
                self.as_first(union, config)
            }
            plan => Ok(Transformed::no(plan)),
        })?;
        changed |= term.transformed;
        query.recursive_term = Arc::new(match term.transformed {
            true => term.data.nodes_up(|node| Ok(Transformed::yes(node.recompute_schema()?))).data()?,
            false => term.data,
        });
        let query = LogicalPlan::RecursiveQuery(query);
        Ok(if changed { Transformed::yes(query) } else { Transformed::no(query) })
    }

    /// `union`, the first rows of a query with keys and those that its term finds, with the latter cast to the types of the former.
    fn as_first(&self, union: Union, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
        let [first, found] = &union.inputs[..] else { return Ok(Transformed::no(LogicalPlan::Union(union))) };
        let wanted = self.coerced(first, config)?;
        let columns = found.schema().iter().zip(wanted.fields());
        let columns = columns.map(|((relation, field), wanted)| {
            let column = Expr::Column((relation, field).into());
            cast_to(column, wanted).alias_qualified(relation.cloned(), field.name())
        });
        let found = Projection::try_new(columns.collect(), Arc::clone(found))?;
        let inputs = vec![Arc::clone(first), Arc::new(LogicalPlan::Projection(found))];
        Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
    }
}

/// Casts what terms find, once types are coerced.
#[derive(Debug, Default)]
pub(crate) struct TermTypes;

impl AnalyzerRule for TermTypes {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let cast = plan.nodes_up_where(is_recursive, |plan| match plan {
            LogicalPlan::RecursiveQuery(query) => as_first_rows(query),
            plan => Ok(Transformed::no(plan)),
        });
        cast.data()
    }

    fn name(&self) -> &str {
        "term_types"
    }
}

/// `query` whose term finds rows of the types of its first rows.
fn as_first_rows(mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let (wanted, found) = (query.static_term.schema(), query.recursive_term.schema());
    if types(wanted) == types(found) {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let columns = found.iter().zip(wanted.fields()).map(|((relation, field), wanted)| {
        let column = Expr::Column((relation, field).into());
        match field.data_type() == wanted.data_type() {
            true => column,
            false => cast_to(column, wanted).alias_qualified(relation.cloned(), field.name()),
        }
    });
    let term = Projection::try_new(columns.collect(), Arc::clone(&query.recursive_term))?;
    query.recursive_term = Arc::new(LogicalPlan::Projection(term));
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}

fn is_recursive(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::RecursiveQuery(_))
}

fn types(schema: &DFSchema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// `column` as a value like those of `field`.
fn cast_to(column: Expr, field: &Field) -> Expr {
    let field = Field::new("", field.data_type().clone(), true).with_metadata(field.metadata().clone());
    Expr::Cast(Cast { expr: Box::new(column), field: Arc::new(field) })
}

/// The schema of the rows of query `name` that `term` reads, if it does.
pub(crate) fn rows_read(name: &str, term: &LogicalPlan) -> Result<Option<SchemaRef>> {
    let mut read = None;
    term.each_node(|plan| match plan {
        LogicalPlan::TableScan(scan) if scan.table_name.table() == name && is_work_table(scan) => {
            read = Some(scan.source.schema());
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(read)
}

/// `term`, the one of query `name`, reading rows of `schema`.
pub(crate) fn reading(name: &str, schema: &DFSchema, term: LogicalPlan) -> Result<LogicalPlan> {
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let rows = provider_as_source(Arc::new(CteWorkTable::new(name, Arc::new(Schema::new(fields)))));
    let read = term.nodes_up(|plan| match plan {
        LogicalPlan::TableScan(scan) if scan.table_name.table() == name && is_work_table(&scan) => {
            let TableScan { table_name, projection, filters, fetch, .. } = scan;
            let scan = TableScanBuilder::new(table_name, Arc::clone(&rows)).with_projection(projection);
            Ok(Transformed::yes(LogicalPlan::TableScan(scan.with_filters(filters).with_fetch(fetch).build()?)))
        }
        plan => Ok(Transformed::yes(plan.recompute_schema()?)),
    });
    read.data()
}

/// `term` without casts of its outputs to the types `stale`. Those that the text has are in a function of their own (`syntax::using_key`).
fn without_casts(term: LogicalPlan, stale: &[DataType]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = term else { return Ok(term) };
    let without = |(expr, stale): (&Expr, &DataType)| {
        let name = expr.qualified_name();
        let cast = match expr {
            Expr::Alias(alias) => &alias.expr,
            expr => expr,
        };
        match cast {
            Expr::Cast(cast) if cast.field.data_type() == stale => {
                cast.expr.as_ref().clone().alias_qualified(name.0, name.1)
            }
            _ => expr.clone(),
        }
    };
    let exprs = projection.expr.iter().zip(stale).map(without).collect::<Vec<_>>();
    LogicalPlanBuilder::from(projection.input).project(exprs)?.build()
}
