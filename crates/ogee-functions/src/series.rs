//! `range` and `generate_series` as DataFusion has them, but for the order that their rows are said to come in.
//!
//! DataFusion takes an aggregate over values that come sorted for one that needs no sort, or for its reverse, while it makes the first physical plan: before any
//! rule of ours could say that morsels keep no order. `array_agg(DISTINCT i ORDER BY i DESC)` then came out ascending.
//!
//! To DataFusion scans are the same if their tables have one name, which was `range()` for all series: of two subqueries over `range(3)` and `range(5)` one was computed, for both.
//! Here the arguments are a part of the name of what is scanned, behind an alias that is called as before.
//!
//! Not here: how a series of numbers is counted (`ogee_planner::operators`), and those of moments (`times::series`).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::StringViewArray,
        datatypes::{DataType, SchemaRef},
    },
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{
        DFSchema, ScalarValue, TableReference,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    functions_table::generate_series::{GenerateSeriesFunc, RangeFunc},
    logical_expr::{
        Expr, LogicalPlanBuilder, TableType,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    physical_plan::{ExecutionPlan, memory::LazyMemoryExec},
    sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, TableFactor},
};

use crate::{
    text_casts::cast_texts,
    times::{series::MomentTable, session_zone},
};

/// The functions, by name.
pub fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 2] {
    let (series, range) = (GenerateSeriesFunc {}, RangeFunc {});
    [
        ("generate_series", Arc::new(Unordered { function: series, name: "generate_series" })),
        ("range", Arc::new(Unordered { function: range, name: "range" })),
    ]
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
        let args =
            args.into_iter().map(|arg| Ok(as_bigint(with_moments(context.sql_expr_to_logical_expr(arg, &schema)?)?)));
        let args = args.collect::<Result<Vec<_>>>()?;
        let texts: Vec<String> = args.iter().map(ToString::to_string).collect();
        let scanned = TableReference::bare(format!("{function}({})", texts.join(", ")));
        let source = context.context_provider().get_table_function_source(&function, args)?;
        let scan = LogicalPlanBuilder::scan(scanned, source, None)?;
        let scan = match alias {
            Some(_) => scan,
            None => scan.alias(TableReference::bare(format!("{function}()")))?,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(scan.build()?, alias.clone()))))
    }
}

/// `expr` with the dates and timestamps that are written out in it as people write them.
fn with_moments(expr: Expr) -> Result<Expr> {
    let read = |expr: Expr| {
        let Expr::Cast(cast) = &expr else { return Ok(Transformed::no(expr)) };
        let (Expr::Literal(text, _), to) = (&*cast.expr, cast.field.data_type()) else {
            return Ok(Transformed::no(expr));
        };
        let is_local = matches!(to, DataType::Date32 | DataType::Timestamp(_, None));
        let Some(text) = text.try_as_str().flatten().filter(|_| is_local) else { return Ok(Transformed::no(expr)) };
        let moments = cast_texts(&StringViewArray::from_iter_values([text]), to, false)?;
        Ok(Transformed::yes(Expr::Literal(ScalarValue::try_from_array(&moments, 0)?, None)))
    };
    expr.transform_up(read).data()
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
struct Unordered<F> {
    function: F,
    name: &'static str,
}

impl<F: TableFunctionImpl> TableFunctionImpl for Unordered<F> {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let zone = session_zone(args.session().config_options())?;
        if let Some(moments) = MomentTable::of(self.name, args.exprs(), self.name != "range", zone)? {
            return Ok(Arc::new(moments));
        }
        Ok(Arc::new(UnorderedSeries(self.function.call_with_args(args)?)))
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
