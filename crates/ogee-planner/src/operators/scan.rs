//! Scans of local Parquet files: DataFusion's as the engine's.
//!
//! Not here: other formats and other stores, which DataFusion reads.

use std::{fmt, path::PathBuf, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileGroup, FileScanConfig, FileSource, ParquetFileReaderFactory, ParquetSource,
            parquet::{ParquetAccessPlan, ParquetRowSelection},
        },
        source::DataSourceExec,
    },
    physical_expr::PhysicalExpr,
};
use ogee_exec::{ExecContext, ExecError, Limit, OpenPipeline};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource as Source, RowPruner};
use ogee_vector::{Domain, normalize_array, normalize_schema};

use super::{columns::ScanColumns, domain, prune::PredicatePruner};
use crate::expr::translate_predicate;

/// A scan of local Parquet files, with what was pushed into it.
#[derive(Debug)]
pub struct ParquetScan {
    files: Vec<ParquetFile>,
    /// The files' columns in the table's types.
    file_schema: SchemaRef,
    columns: ScanColumns,
    /// What is known of them.
    domains: Vec<Domain>,
    pruner: Option<Arc<PredicatePruner>>,
    /// A predicate that nobody above applies again, over the columns read.
    filter: Option<Arc<dyn PhysicalExpr>>,
    limit: Option<u64>,
}

impl ParquetScan {
    /// What `node` reads, or `None` if it is not Parquet on this machine's file systems, or asks for what the engine does not do.
    pub fn of(node: &DataSourceExec) -> Option<Self> {
        let config = node.data_source().downcast_ref::<FileScanConfig>()?;
        let source = config.file_source().downcast_ref::<ParquetSource>()?;
        let tables = source.table_schema();
        let foreign = !config.object_store_url.as_str().starts_with("file://")
            || config.expr_adapter_factory.is_some()
            || source.parquet_file_reader_factory().is_some_and(is_custom)
            || !tables.virtual_columns().is_empty()
            || !config.output_ordering.is_empty();
        if foreign {
            return None;
        }
        let files =
            config.file_groups.iter().flat_map(FileGroup::iter).map(parquet_file).collect::<Option<Vec<_>>>()?;
        let table_schema = tables.table_schema();

        let predicate = source.filter();
        let exact = source.table_parquet_options().global.pushdown_filters;
        let filter = predicate.clone().filter(|_| exact);
        let columns = ScanColumns::of(source.projection(), table_schema, filter.as_ref())?;
        let listed: Vec<&PartitionedFile> = config.file_groups.iter().flat_map(FileGroup::iter).collect();
        let domains = columns.read.iter().map(|&column| domain::of_files(&listed, column)).collect();
        let filter = filter.map(|filter| columns.over_read(&filter)).transpose().ok()?;
        let pruner =
            predicate.and_then(|predicate| PredicatePruner::new(&predicate, tables.file_schema())).map(Arc::new);
        Some(Self {
            files,
            file_schema: normalize_schema(tables.file_schema()),
            columns,
            domains,
            pruner,
            filter,
            limit: config.limit.map(|rows| rows as u64),
        })
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The expressions that rows are filtered by and turned into.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.filter.iter().chain(self.columns.expressions()).cloned().collect()
    }

    /// A pipeline that begins with the scan.
    pub fn open(&self, ctx: &ExecContext) -> Result<OpenPipeline, ExecError> {
        let spec = ParquetScanSpec {
            files: self.files.clone(),
            file_schema: Arc::clone(&self.file_schema),
            projection: self.columns.read.clone(),
            schema: normalize_schema(&self.columns.schema),
            domains: self.domains.clone(),
            pruner: self.pruner.clone().map(|pruner| pruner as Arc<dyn RowPruner>),
            // Which rows a limit takes is open; those that a filter drops do not count.
            limit: self.limit.filter(|_| self.filter.is_none()),
        };
        let mut pipeline = OpenPipeline::new(Source::new(ctx, spec));
        if let Some(filter) = &self.filter {
            let predicate =
                translate_predicate(filter, &self.columns.schema).map_err(ogee_functions::error::to_exec)?;
            pipeline.filter(predicate);
        }
        if let Some(limit) = self.limit {
            pipeline.operators.push(Arc::new(Limit::new(0, Some(limit))));
        }
        self.columns.project(&mut pipeline)?;
        Ok(pipeline)
    }
}

impl fmt::Display for ParquetScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files.as_slice() {
            [] => write!(f, "parquet, no files")?,
            [file] => write!(f, "parquet {}", file.path.display())?,
            [first, ..] => write!(f, "parquet, {} files from {} on", self.files.len(), first.path.display())?,
        }
        write!(f, ", projection=[{}]", self.columns.shown())?;
        if let Some(filter) = &self.filter {
            write!(f, ", filter={filter}")?;
        }
        if let Some(pruner) = &self.pruner {
            write!(f, ", {pruner}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

/// Whether files are to be opened in a way that is not DataFusion's own (which differ in caching only). The trait has no other way to ask.
fn is_custom(factory: &Arc<dyn ParquetFileReaderFactory>) -> bool {
    let name = format!("{factory:?}");
    !name.starts_with("CachedParquetFileReaderFactory") && !name.starts_with("DefaultParquetFileReaderFactory")
}

/// Where the file is and what of it is to be read; `None` if it comes with instructions that are not understood here.
fn parquet_file(file: &PartitionedFile) -> Option<ParquetFile> {
    if file.extension::<ParquetAccessPlan>().is_some()
        || file.extension::<ParquetRowSelection>().is_some()
        || file.arrow_schema.is_some()
    {
        return None;
    }
    let row_groups = match &file.range {
        None => None,
        Some(range) => Some(u64::try_from(range.start).ok()?..u64::try_from(range.end).ok()?),
    };
    let partition_values = file
        .partition_values
        .iter()
        .map(|value| normalize_array(&value.to_array_of_size(1).ok()?).ok())
        .collect::<Option<Vec<_>>>()?;
    let rows = file.statistics.as_ref().and_then(|known| known.num_rows.get_value().copied());
    Some(ParquetFile {
        rows: rows.map(|rows| rows as u64),
        // Locations of the local store are paths from the root, without a leading slash.
        path: PathBuf::from("/").join(file.object_meta.location.as_ref()),
        size: file.object_meta.size,
        row_groups,
        partition_values,
    })
}
