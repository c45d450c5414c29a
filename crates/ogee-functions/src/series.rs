//! `range` and `generate_series` as DataFusion has them, but for the order that their rows are said to come in.
//!
//! DataFusion takes an aggregate over values that come sorted for one that needs no sort, or for its reverse, while it makes the first physical plan: before any
//! rule of ours could say that morsels keep no order. `array_agg(DISTINCT i ORDER BY i DESC)` then came out ascending.
//!
//! To DataFusion scans are the same if their tables have one name, which was `range()` for all series: of two subqueries over `range(3)` and `range(5)` one was computed, for both.
//! Here the arguments are a part of the name of what is scanned, behind an alias that is called as before.
//!
//! Not here: how a series is counted (`ogee_planner::operators`).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::{DataType, SchemaRef, TimeUnit},
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{Column, DFSchema, TableReference, plan_err},
    error::Result,
    functions_table::generate_series::{GenerateSeriesFunc, RangeFunc},
    logical_expr::{
        Expr, LogicalPlanBuilder, TableType, cast,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    physical_plan::{ExecutionPlan, memory::LazyMemoryExec},
    sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, TableFactor},
};

use crate::times::infinite::{infinite_text, is_infinite_value};

/// The functions, by name.
pub fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 2] {
    [("generate_series", Arc::new(Unordered(GenerateSeriesFunc {}))), ("range", Arc::new(Unordered(RangeFunc {})))]
}

/// Plans scans of series, each under a name that says which.
#[derive(Debug)]
pub struct SeriesPlanner;

impl RelationPlanner for SeriesPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let function = match &name.0[..] {
            [name] => name.as_ident().map(|name| context.normalize_ident(name.clone())),
            _ => None,
        };
        let unnamed = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        };
        let args: Option<Vec<_>> = args.args.iter().map(unnamed).collect();
        let known = function.filter(|name| functions().iter().any(|(known, _)| known == name));
        let (Some(function), Some(args)) = (known, args) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let schema = DFSchema::empty();
        let args = args.into_iter().map(|arg| Ok(as_bigint(context.sql_expr_to_logical_expr(arg, &schema)?)));
        let args = args.collect::<Result<Vec<_>>>()?;
        if args.iter().any(is_infinite) {
            return plan_err!("{function} with an infinite bound is not supported: it would have no end");
        }
        let texts: Vec<String> = args.iter().map(ToString::to_string).collect();
        let scanned = TableReference::bare(format!("{function}({})", texts.join(", ")));
        let source = context.context_provider().get_table_function_source(&function, args)?;
        let scan = in_micros(LogicalPlanBuilder::scan(scanned, source, None)?)?;
        let scan = match alias {
            Some(_) => scan,
            None => scan.alias(TableReference::bare(format!("{function}()")))?,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(scan.build()?, alias.clone()))))
    }
}

/// The series `scan` with timestamps in microseconds for those in nanoseconds, of which DataFusion makes them.
fn in_micros(scan: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
    let (table, field) = scan.schema().qualified_field(0);
    let zone = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => zone.clone(),
        _ => return Ok(scan),
    };
    let name = field.name().clone();
    let moment = cast(Expr::Column(Column::from((table, field))), DataType::Timestamp(TimeUnit::Microsecond, zone));
    scan.project([moment.alias(name)])
}

/// Whether `expr` is a constant moment that is infinite.
fn is_infinite(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            is_infinite_value(value) || value.try_as_str().flatten().is_some_and(|text| infinite_text(text).is_some())
        }
        Expr::Cast(cast) => is_infinite(&cast.expr),
        _ => false,
    }
}

/// A whole number in the type that the functions take, if `expr` is one of another: the value of a parameter may be.
fn as_bigint(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) if value.data_type().is_integer() => {
            Expr::Literal(value.cast_to(&DataType::Int64).unwrap_or(value), metadata)
        }
        other => other,
    }
}

/// A function whose rows are in no order.
#[derive(Debug)]
struct Unordered<F>(F);

impl<F: TableFunctionImpl> TableFunctionImpl for Unordered<F> {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(UnorderedSeries(self.0.call_with_args(args)?)))
    }
}

#[derive(Debug)]
struct UnorderedSeries(Arc<dyn TableProvider>);

#[async_trait]
impl TableProvider for UnorderedSeries {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = self.0.scan(state, None, filters, limit).await?;
        match ordered.downcast_ref::<LazyMemoryExec>() {
            Some(series) => {
                let series = LazyMemoryExec::try_new(self.schema(), series.generators().clone())?;
                Ok(Arc::new(series.with_projection(projection.cloned())))
            }
            None => self.0.scan(state, projection, filters, limit).await,
        }
    }
}
