//! Scans of local Parquet files: DataFusion's as the engine's.
//!
//! Not here: other formats and other stores, which DataFusion reads.

use std::{fmt, path::PathBuf, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileGroup, FileScanConfig, FileSource, ParquetFileReaderFactory, ParquetSource,
            parquet::{ParquetAccessPlan, ParquetRowSelection},
        },
        source::DataSourceExec,
    },
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
};
use ogee_exec::{ExecContext, ExecError, Expr, Limit, OpenPipeline, Project};
use ogee_scan::{ParquetFile, ParquetScanSpec, ParquetSource as Source, RowPruner};
use ogee_vector::{Domain, normalize_array, normalize_schema};

use super::{domain, prune::PredicatePruner};
use crate::expr::{translate, translate_predicate};

/// A scan of local Parquet files, with what was pushed into it.
#[derive(Debug)]
pub struct ParquetScan {
    files: Vec<ParquetFile>,
    /// The files' columns in the table's types.
    file_schema: SchemaRef,
    /// Columns to read, of the files' and then the partitions'.
    projection: Vec<usize>,
    /// Those columns in the types that the table declares.
    read_schema: SchemaRef,
    /// What is known of them.
    domains: Vec<Domain>,
    pruner: Option<Arc<PredicatePruner>>,
    /// A predicate that nobody above applies again, over the columns read.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// What becomes of the columns read, unless they are the output as they are: expressions over them, and their names.
    output: Option<Vec<(Arc<dyn PhysicalExpr>, String)>>,
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
        let wanted: Vec<(Arc<dyn PhysicalExpr>, String)> = match source.projection() {
            Some(exprs) => exprs.iter().map(|p| (Arc::clone(&p.expr), p.alias.clone())).collect(),
            None => table_schema
                .fields()
                .iter()
                .enumerate()
                .map(|(i, f)| (Arc::new(Column::new(f.name(), i)) as Arc<dyn PhysicalExpr>, f.name().clone()))
                .collect(),
        };
        let (projection, output) = columns_to_read(&wanted, filter.as_ref())?;
        let read_schema: SchemaRef =
            Arc::new(Schema::new(projection.iter().map(|&i| table_schema.field(i).clone()).collect::<Vec<_>>()));
        let listed: Vec<&PartitionedFile> = config.file_groups.iter().flat_map(FileGroup::iter).collect();
        let domains = projection.iter().map(|&column| domain::of_files(&listed, column)).collect();
        let filter = filter.map(|filter| reindex(&filter, &projection)).transpose().ok()?;
        let output = output.then(|| {
            wanted
                .iter()
                .map(|(expr, name)| Ok((reindex(expr, &projection)?, name.clone())))
                .collect::<Result<Vec<_>>>()
        });
        let pruner =
            predicate.and_then(|predicate| PredicatePruner::new(&predicate, tables.file_schema())).map(Arc::new);
        Some(Self {
            files,
            file_schema: normalize_schema(tables.file_schema()),
            projection,
            read_schema,
            domains,
            pruner,
            filter,
            output: output.transpose().ok()?,
            limit: config.limit.map(|rows| rows as u64),
        })
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The expressions that rows are filtered by and turned into.
    pub fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.filter.iter().chain(self.output.iter().flatten().map(|(expr, _)| expr)).cloned().collect()
    }

    /// A pipeline that begins with the scan.
    pub fn open(&self, ctx: &ExecContext) -> Result<OpenPipeline, ExecError> {
        let spec = ParquetScanSpec {
            files: self.files.clone(),
            file_schema: Arc::clone(&self.file_schema),
            projection: self.projection.clone(),
            schema: normalize_schema(&self.read_schema),
            domains: self.domains.clone(),
            pruner: self.pruner.clone().map(|pruner| pruner as Arc<dyn RowPruner>),
            // Which rows a limit takes is open; those that a filter drops do not count.
            limit: self.limit.filter(|_| self.filter.is_none()),
        };
        let mut pipeline = OpenPipeline::new(Source::new(ctx, spec));
        if let Some(filter) = &self.filter {
            let predicate = translate_predicate(filter, &self.read_schema).map_err(ogee_functions::error::to_exec)?;
            pipeline.filter(predicate);
        }
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

impl fmt::Display for ParquetScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files.as_slice() {
            [] => write!(f, "parquet, no files")?,
            [file] => write!(f, "parquet {}", file.path.display())?,
            [first, ..] => write!(f, "parquet, {} files from {} on", self.files.len(), first.path.display())?,
        }
        let names: Vec<_> = match &self.output {
            None => self.read_schema.fields().iter().map(|field| field.name().clone()).collect(),
            Some(output) => output
                .iter()
                .map(|(expr, name)| if expr.is::<Column>() { name.clone() } else { format!("{expr} as {name}") })
                .collect(),
        };
        write!(f, ", projection=[{}]", names.join(", "))?;
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

/// The columns that `wanted` and `filter` read, and whether more than reading them in this order is to be done.
pub(super) fn columns_to_read(
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
pub(super) fn reindex(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let index = columns.iter().position(|&c| c == column.index()).expect("collected from the same expressions");
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
        })
        .data()
}
