//! Scans of local CSV and JSON files: DataFusion's as the engine's.
//!
//! Not here: how they are read (`ogee_files`).

use std::{fmt, sync::Arc};

use datafusion::{
    datasource::{physical_plan::FileScanConfig, source::DataSourceExec},
    physical_expr::PhysicalExpr,
};
use ogee_exec::{ExecContext, ExecError, Limit, OpenPipeline};
use ogee_files::TextFiles;

use super::columns::ScanColumns;

/// A scan of local files of text, with what was pushed into it.
#[derive(Debug)]
pub struct TextScan {
    files: TextFiles,
    columns: ScanColumns,
    limit: Option<u64>,
}

impl TextScan {
    /// What `node` reads, or `None` if that are no such files.
    pub fn of(node: &DataSourceExec) -> Option<Self> {
        let config = node.data_source().downcast_ref::<FileScanConfig>()?;
        let files = TextFiles::of(config)?;
        let columns = ScanColumns::of(files.projection(), files.table_schema(), None)?;
        Some(Self { files, columns, limit: config.limit.map(|rows| rows as u64) })
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The expressions that rows are turned into.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.columns.expressions().cloned().collect()
    }

    /// A pipeline that begins with the scan.
    pub fn open(&self, ctx: &ExecContext) -> Result<OpenPipeline, ExecError> {
        let mut pipeline = OpenPipeline::new(self.files.source(ctx, &self.columns.read));
        if let Some(limit) = self.limit {
            pipeline.operators.push(Arc::new(Limit::new(0, Some(limit))));
        }
        self.columns.project(&mut pipeline)?;
        Ok(pipeline)
    }
}

impl fmt::Display for TextScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, projection=[{}]", self.files, self.columns.shown())?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}
