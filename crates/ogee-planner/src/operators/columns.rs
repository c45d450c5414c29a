//! Which columns a scan reads, and what becomes of them.
//!
//! Not here: which rows.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, projection::ProjectionExprs},
};
use ogee_exec::{ExecError, Expr, OpenPipeline, Project};

use crate::expr::translate;

/// The columns of a scan.
#[derive(Debug)]
pub(super) struct ScanColumns {
    /// Columns to read, of the files' and then the partitions'.
    pub(super) read: Vec<usize>,
    /// Those columns in the types that the table declares.
    pub(super) schema: SchemaRef,
    /// What becomes of them, unless they are the output as they are: expressions over them, and their names.
    output: Option<Vec<(Arc<dyn PhysicalExpr>, String)>>,
}

impl ScanColumns {
    /// Those that give `projection`, or all if there is none, of a table with the columns `table`, and that `filter` reads; `None` if an expression cannot be put over them.
    pub(super) fn of(
        projection: Option<&ProjectionExprs>,
        table: &Schema,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Option<Self> {
        let wanted: Vec<(Arc<dyn PhysicalExpr>, String)> = match projection {
            Some(exprs) => exprs.iter().map(|p| (Arc::clone(&p.expr), p.alias.clone())).collect(),
            None => table
                .fields()
                .iter()
                .enumerate()
                .map(|(i, f)| (Arc::new(Column::new(f.name(), i)) as Arc<dyn PhysicalExpr>, f.name().clone()))
                .collect(),
        };
        let (read, output) = columns_to_read(&wanted, filter)?;
        let schema = Arc::new(Schema::new(read.iter().map(|&i| table.field(i).clone()).collect::<Vec<_>>()));
        let output = output.then(|| {
            wanted.iter().map(|(expr, name)| Ok((reindex(expr, &read)?, name.clone()))).collect::<Result<Vec<_>>>()
        });
        Some(Self { schema, output: output.transpose().ok()?, read })
    }

    /// `expr` over the table's columns as one over those that are read.
    pub(super) fn over_read(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        reindex(expr, &self.read)
    }

    /// The expressions that rows are turned into.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.output.iter().flatten().map(|(expr, _)| expr)
    }

    /// Has rows of `pipeline` turned into them.
    pub(super) fn project(&self, pipeline: &mut OpenPipeline) -> Result<(), ExecError> {
        if let Some(output) = &self.output {
            let exprs = output
                .iter()
                .map(|(expr, _)| translate(expr, &self.schema))
                .collect::<Result<Vec<Expr>>>()
                .map_err(ogee_functions::error::to_exec)?;
            pipeline.operators.push(Arc::new(Project::new(exprs)));
        }
        Ok(())
    }

    /// What comes out, as `EXPLAIN` shows it.
    pub(super) fn shown(&self) -> String {
        let names: Vec<_> = match &self.output {
            None => self.schema.fields().iter().map(|field| field.name().clone()).collect(),
            Some(output) => output
                .iter()
                .map(|(expr, name)| if expr.is::<Column>() { name.clone() } else { format!("{expr} as {name}") })
                .collect(),
        };
        names.join(", ")
    }
}

/// The columns that `wanted` and `filter` read, and whether more than reading them in this order is to be done.
fn columns_to_read(
    wanted: &[(Arc<dyn PhysicalExpr>, String)],
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> Option<(Vec<usize>, bool)> {
    let plain: Option<Vec<usize>> =
        wanted.iter().map(|(expr, _)| expr.downcast_ref::<Column>().map(Column::index)).collect();
    if let (Some(columns), None) = (&plain, filter) {
        let mut sorted = columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == columns.len() {
            return Some((columns.clone(), false));
        }
    }
    let mut columns = Vec::new();
    for expr in wanted.iter().map(|(expr, _)| expr).chain(filter) {
        expr.apply(|node| {
            columns.extend(node.downcast_ref::<Column>().map(Column::index));
            Ok(TreeNodeRecursion::Continue)
        })
        .ok()?;
    }
    columns.sort_unstable();
    columns.dedup();
    Some((columns, true))
}

/// `expr` over the table's columns as an expression over `columns` of them.
fn reindex(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let index = columns.iter().position(|&c| c == column.index()).expect("collected from the same expressions");
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
        })
        .data()
}
