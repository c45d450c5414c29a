//! A table of the files that a path means.
//!
//! As DataFusion's listing table, but for three things: which files there are is `listing`'s matter, a partition's
//! value may be NULL, and a column that the directories name takes the place of the files' column of that name.
//!
//! Not here: reading.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{Array, AsArray, RecordBatch},
        datatypes::{Field, FieldRef, Schema, SchemaRef},
    },
    catalog::{Session, TableProvider},
    common::{ColumnStatistics, DFSchema, Statistics},
    datasource::{
        TableType,
        file_format::FileFormat,
        listing::{PartitionedFile, helpers::expr_applicable_for_cols},
        physical_plan::{FileGroup, FileScanConfigBuilder},
        table_schema::TableSchemaBuilder,
    },
    error::Result,
    execution::cache::{
        SchemaFingerprint, TableScopedPath,
        cache_manager::{CachedFileMetadata, FileStatisticsCache},
    },
    logical_expr::{Expr, TableProviderFilterPushDown, utils::conjunction},
    object_store::ObjectMeta,
    physical_expr::{create_physical_expr, execution_props::ExecutionProps},
    physical_plan::{ExecutionPlan, empty::EmptyExec},
    scalar::ScalarValue,
};
use futures::{StreamExt, TryStreamExt};

use super::{Kind, files_here, files_of, listing::Found, partitions::Partitions};
use crate::{remote, spelling};

/// Files whose statistics are asked for at once.
const AT_ONCE: usize = 32;

/// Files as a table.
#[derive(Debug)]
pub struct FileTable {
    path: String,
    kind: Kind,
    format: Arc<dyn FileFormat>,
    /// The files' columns that no directory names, as the files call them.
    file_schema: SchemaRef,
    partitions: Partitions,
    /// The columns, as statements call them.
    schema: SchemaRef,
    /// Where each column is among those of the files and then the partitions'.
    places: Vec<usize>,
    statistics: Option<Arc<FileStatisticsCache>>,
    fingerprint: Arc<SchemaFingerprint>,
}

impl FileTable {
    /// Of the files that `path` means, with the columns that were found in them.
    pub(super) fn new(
        path: String,
        kind: Kind,
        format: Arc<dyn FileFormat>,
        columns: &Schema,
        partitions: Partitions,
        statistics: Option<Arc<FileStatisticsCache>>,
    ) -> Self {
        let mut own: Vec<FieldRef> = Vec::new();
        // Of a column that both have, the place is the files', the value is the directories'.
        let mut shared: Vec<(usize, usize)> = Vec::new();
        for (index, field) in columns.fields().iter().enumerate() {
            let is_same = |partition: &FieldRef| partition.name().eq_ignore_ascii_case(field.name());
            match partitions.fields.iter().position(is_same) {
                Some(partition) => shared.push((index, partition)),
                None => own.push(Arc::clone(field)),
            }
        }
        let mut fields = partitions.fields.clone();
        for (index, partition) in &shared {
            // Of two spellings the one that needs no quotes.
            let name = columns.field(*index).name();
            let needs_none = |name: &str| !name.contains(|letter: char| letter.is_uppercase());
            if needs_none(name) || !needs_none(fields[*partition].name()) {
                fields[*partition] = Arc::new(fields[*partition].as_ref().clone().with_name(name));
            }
        }
        let folded = fields.iter().map(|field| Arc::new(spelling::spelled(field, field.name())));
        let partitions = Partitions { fields: folded.collect(), ..partitions };
        let mut next = 0;
        let mut places: Vec<usize> = (0..columns.fields().len())
            .map(|index| match shared.iter().find(|(place, _)| *place == index) {
                Some((_, partition)) => own.len() + partition,
                None => {
                    next += 1;
                    next - 1
                }
            })
            .collect();
        let others = (0..partitions.fields.len()).filter(|other| !shared.iter().any(|(_, taken)| taken == other));
        places.extend(others.map(|other| own.len() + other));
        let all: Vec<FieldRef> = own.iter().chain(&partitions.fields).cloned().collect();
        let schema = Schema::new_with_metadata(
            places.iter().map(|place| Arc::clone(&all[*place])).collect::<Vec<_>>(),
            columns.metadata().clone(),
        );
        let schema = spelling::fold(&schema);
        // What is said of a column is the same below and above the names that it has.
        for (field, place) in schema.fields().iter().zip(&places) {
            if let Some(own) = own.get_mut(*place)
                && own.metadata() != field.metadata()
            {
                *own = Arc::new(own.as_ref().clone().with_metadata(field.metadata().clone()));
            }
        }
        let file_schema = Arc::new(Schema::new_with_metadata(own, columns.metadata().clone()));
        let fingerprint = Arc::new(SchemaFingerprint::from_schema(&file_schema));
        Self { path, kind, format, file_schema, partitions, schema, places, statistics, fingerprint }
    }

    /// The Parquet files here as they are now, if none is told apart by its directories.
    pub fn plain_files(&self) -> Option<Vec<ObjectMeta>> {
        if !self.partitions.fields.is_empty() || self.kind.format != "parquet" || remote::is_url(&self.path) {
            return None;
        }
        let files = files_here(&self.path, Some(&self.kind)).ok()?;
        Some(files.1.into_iter().map(|file| file.meta).filter(|file| file.size > 0).collect())
    }

    /// Where the table's files are.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn is_of_partitions(&self, filter: &Expr) -> bool {
        let names: Vec<&str> = self.partitions.fields.iter().map(|field| field.name().as_str()).collect();
        !names.is_empty() && expr_applicable_for_cols(&names, filter)
    }

    /// The file with its values, and what is known of its columns.
    async fn file(&self, state: &dyn Session, found: Found, values: Vec<ScalarValue>) -> Result<PartitionedFile> {
        let file = PartitionedFile::from(found.meta.clone()).with_partition_values(values);
        if !state.config().collect_statistics() {
            return Ok(file.with_statistics(Arc::new(Statistics::new_unknown(&self.file_schema))));
        }
        let meta = &found.meta;
        let key = TableScopedPath { table: None, path: meta.location.clone() };
        let cached = self.statistics.as_ref().and_then(|cache| cache.get(&key));
        let (statistics, ordering) = match cached.filter(|cached| cached.is_valid_for(meta, &self.fingerprint)) {
            Some(cached) => (cached.statistics, cached.ordering),
            None => {
                let store = remote::store_of(state.runtime_env(), &self.path)?;
                let schema = Arc::clone(&self.file_schema);
                let found = self.format.infer_stats_and_ordering(state, &store, schema, meta).await?;
                let (statistics, ordering) = (Arc::new(found.statistics), found.ordering);
                if let Some(cache) = &self.statistics {
                    let fingerprint = Arc::clone(&self.fingerprint);
                    let known =
                        CachedFileMetadata::new(meta.clone(), fingerprint, Arc::clone(&statistics), ordering.clone());
                    cache.put(&key, known);
                }
                (statistics, ordering)
            }
        };
        let mut file = file.with_statistics(statistics).with_ordering(ordering);
        // DataFusion takes it that no partition is NULL.
        if file.partition_values.iter().any(ScalarValue::is_null) {
            let mut statistics = file.statistics.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            let (rows, first) = (statistics.num_rows, self.file_schema.fields().len());
            for (column, value) in statistics.column_statistics[first..].iter_mut().zip(&file.partition_values) {
                if value.is_null() {
                    *column = ColumnStatistics { null_count: rows, ..ColumnStatistics::new_unknown() };
                }
            }
            file.statistics = Some(Arc::new(statistics));
        }
        Ok(file)
    }

    /// Which of the files with `values` have rows for which all `filters` are true.
    fn chosen(&self, values: &[ScalarValue], filters: &[Expr]) -> Result<bool> {
        let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(true) };
        let fields: Vec<Field> =
            self.partitions.fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = values.iter().map(|value| value.to_array()).collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        let schema = DFSchema::try_from(schema)?;
        let props = ExecutionProps::new();
        let expr = create_physical_expr(&filter, &schema, &props, &Default::default())?;
        let chosen = expr.evaluate(&batch)?.into_array(1)?;
        let chosen = chosen.as_boolean();
        Ok(chosen.is_valid(0) && chosen.value(0))
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters: Vec<Expr> = filters.iter().filter(|filter| self.is_of_partitions(filter)).cloned().collect();
        let (_, found) = files_of(state.runtime_env(), &self.path, Some(&self.kind)).await?;
        let mut wanted = Vec::new();
        for file in found.into_iter().filter(|file| file.meta.size > 0) {
            let values = self.partitions.values(&file)?;
            if self.chosen(&values, &filters)? {
                wanted.push((file, values));
            }
        }
        let files: Vec<PartitionedFile> = futures::stream::iter(wanted)
            .map(|(file, values)| self.file(state, file, values))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let (places, schema): (Vec<usize>, SchemaRef) = match projection {
            Some(columns) => {
                (columns.iter().map(|column| self.places[*column]).collect(), Arc::new(self.schema.project(columns)?))
            }
            None => (self.places.clone(), Arc::clone(&self.schema)),
        };
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let table_schema = TableSchemaBuilder::from(&self.file_schema)
            .with_table_partition_cols(self.partitions.fields.clone())
            .build();
        let whole = Arc::clone(table_schema.table_schema());
        let known = files.iter().filter_map(|file| file.statistics.as_deref());
        let statistics = match files.len() == known.clone().count() {
            true => Statistics::try_merge_iter(known, &whole)?,
            false => Statistics::new_unknown(&whole),
        };
        let source = self.format.file_source(table_schema);
        let config = FileScanConfigBuilder::new(remote::store_url(&self.path)?, source)
            .with_file_groups(vec![FileGroup::new(files).with_statistics(Arc::new(statistics.clone()))])
            .with_statistics(statistics)
            .with_projection_indices(Some(places))?
            .with_limit(limit)
            .build();
        spelling::named(self.format.create_physical_plan(state, config).await?, &schema)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let one = |filter: &&Expr| match self.is_of_partitions(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(one).collect())
    }
}
