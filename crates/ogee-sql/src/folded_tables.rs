//! Tables of others, whose columns are called by small letters as all are.
//!
//! Tables of this engine call their columns so themselves (`ogee_files::spelling`). Others, which were registered with a session or made by `CREATE EXTERNAL TABLE`, are wrapped.
//!
//! Not here: views, whose queries are planned with such tables.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    common::{
        Constraints, Statistics,
        tree_node::{Transformed, TransformedResult},
    },
    datasource::TableType,
    error::Result,
    logical_expr::{Expr, TableProviderFilterPushDown, dml::InsertOp},
    physical_plan::ExecutionPlan,
};
use ogee_files::spelling::{self, named};

use crate::trees::Tree;

/// A table whose columns are called by small letters.
#[derive(Debug)]
pub(crate) struct FoldedTable {
    inner: Arc<dyn TableProvider>,
    schema: SchemaRef,
    /// What the table itself calls its columns.
    names: HashMap<String, String>,
}

impl FoldedTable {
    /// `inner` as others see it.
    pub(crate) fn new(inner: Arc<dyn TableProvider>) -> Self {
        let own = inner.schema();
        let schema = spelling::fold(&own);
        let pairs = schema.fields().iter().zip(own.fields());
        let names = pairs.map(|(folded, own)| (folded.name().clone(), own.name().clone())).collect();
        Self { inner, schema, names }
    }

    fn own_name(&self, name: &str) -> String {
        self.names.get(name).map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// `expr` over the table's own columns.
    fn own(&self, expr: &Expr) -> Result<Expr> {
        let named = expr.clone().up(|node| match node {
            Expr::Column(mut column) => {
                column.name = self.own_name(&column.name);
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        named.data()
    }

    fn all_own(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.own(expr)).collect()
    }
}

#[async_trait]
impl TableProvider for FoldedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.inner.get_table_definition()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(&self.own_name(column))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.inner.scan(state, projection, &self.all_own(filters)?, limit).await?;
        match projection {
            Some(columns) => named(scan, &self.schema.project(columns)?),
            None => named(scan, &self.schema),
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let own = filters.iter().map(|filter| self.own(filter)).collect::<Result<Vec<_>>>()?;
        self.inner.supports_filters_pushdown(&own.iter().collect::<Vec<_>>())
    }

    fn statistics(&self) -> Option<Statistics> {
        self.inner.statistics()
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.insert_into(state, named(input, &self.inner.schema())?, insert_op).await
    }

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.delete_from(state, self.all_own(&filters)?).await
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = |(name, value): (String, Expr)| Ok((self.own_name(&name), self.own(&value)?));
        let assignments = assignments.into_iter().map(own).collect::<Result<Vec<_>>>()?;
        self.inner.update(state, assignments, self.all_own(&filters)?).await
    }

    async fn truncate(&self, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.truncate(state).await
    }
}
