//! Scans of local CSV and JSON files: DataFusion's as the engine's.
//!
//! Not here: how they are read (`ogee_files`).

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    datasource::{physical_plan::FileScanConfig, source::DataSourceExec},
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
};
use ogee_exec::{ExecContext, ExecError, Expr, Limit, OpenPipeline, Project};
use ogee_files::TextFiles;

use super::scan::{columns_to_read, reindex};
use crate::expr::translate;

/// A scan of local files of text, with what was pushed into it.
#[derive(Debug)]
pub struct TextScan {
    files: TextFiles,
    /// Columns to read, of the table's.
    projection: Vec<usize>,
    /// Those columns.
    read_schema: SchemaRef,
    /// What becomes of them, unless they are the output as they are: expressions over them, and their names.
    output: Option<Vec<(Arc<dyn PhysicalExpr>, String)>>,
    limit: Option<u64>,
}

impl TextScan {
    /// What `node` reads, or `None` if that are no such files.
    pub fn of(node: &DataSourceExec) -> Option<Self> {
        let config = node.data_source().downcast_ref::<FileScanConfig>()?;
        let files = TextFiles::of(config)?;
        let table = files.table_schema();
        let wanted: Vec<(Arc<dyn PhysicalExpr>, String)> = match files.projection() {
            Some(exprs) => exprs.iter().map(|p| (Arc::clone(&p.expr), p.alias.clone())).collect(),
            None => table
                .fields()
                .iter()
                .enumerate()
                .map(|(i, f)| (Arc::new(Column::new(f.name(), i)) as Arc<dyn PhysicalExpr>, f.name().clone()))
                .collect(),
        };
        let (projection, output) = columns_to_read(&wanted, None)?;
        let read_schema = Arc::new(Schema::new(projection.iter().map(|&i| table.field(i).clone()).collect::<Vec<_>>()));
        let output = output.then(|| {
            wanted
                .iter()
                .map(|(expr, name)| Ok((reindex(expr, &projection)?, name.clone())))
                .collect::<Result<Vec<_>>>()
        });
        let limit = config.limit.map(|rows| rows as u64);
        Some(Self { read_schema, output: output.transpose().ok()?, limit, projection, files })
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The expressions that rows are turned into.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.output.iter().flatten().map(|(expr, _)| Arc::clone(expr)).collect()
    }

    /// A pipeline that begins with the scan.
    pub fn open(&self, ctx: &ExecContext) -> Result<OpenPipeline, ExecError> {
        let mut pipeline = OpenPipeline::new(self.files.source(ctx, &self.projection));
        if let Some(limit) = self.limit {
            pipeline.operators.push(Arc::new(Limit::new(0, Some(limit))));
        }
        if let Some(output) = &self.output {
            let exprs = output
                .iter()
                .map(|(expr, _)| translate(expr, &self.read_schema))
                .collect::<Result<Vec<Expr>>>()
                .map_err(ogee_functions::error::to_exec)?;
            pipeline.operators.push(Arc::new(Project::new(exprs)));
        }
        Ok(pipeline)
    }
}

impl fmt::Display for TextScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = match &self.output {
            None => self.read_schema.fields().iter().map(|field| field.name().clone()).collect(),
            Some(output) => output
                .iter()
                .map(|(expr, name)| if expr.is::<Column>() { name.clone() } else { format!("{expr} as {name}") })
                .collect(),
        };
        write!(f, "{}, projection=[{}]", self.files, names.join(", "))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}
