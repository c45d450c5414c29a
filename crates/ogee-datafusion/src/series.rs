//! `range` and `generate_series` as DataFusion has them, but for the order that their rows are said to come in.
//!
//! DataFusion takes an aggregate over values that come sorted for one that needs no sort, or for its reverse, while it makes the first physical plan: before any
//! rule of ours could say that morsels keep no order. `array_agg(DISTINCT i ORDER BY i DESC)` then came out ascending.
//!
//! Not here: how a series is counted (`island::series`).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    error::Result,
    functions_table::generate_series::{GenerateSeriesFunc, RangeFunc},
    logical_expr::{Expr, TableType},
    physical_plan::{ExecutionPlan, memory::LazyMemoryExec},
};

/// The functions, by name.
pub(crate) fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 2] {
    [("generate_series", Arc::new(Unordered(GenerateSeriesFunc {}))), ("range", Arc::new(Unordered(RangeFunc {})))]
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
