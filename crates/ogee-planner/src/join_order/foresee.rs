//! Samples that will be asked for, read while a statement is planned.
//!
//! What the order of joins depends on most, filters on single tables, is in the statement as it was written. Planning is the work of one thread up to
//! there, and reading the samples takes about as long: another thread begins with it at once.
//!
//! Nothing depends on what is found here: what was not foreseen is read when it is asked for.
//!
//! Not here: reading (`pieces`).

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use datafusion::{
    arrow::datatypes::FieldRef,
    catalog::TableProvider,
    common::{
        Column, TableReference,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::{
        listing::{ListingTable, ListingTableUrl},
        source_as_provider,
    },
    logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, TableScan, utils::split_conjunction},
    object_store::{ObjectMeta, path::Path as StorePath},
};
use ogee_files::{FileTable, spelling::known_spelling};

use super::{
    pieces,
    sample::{Claim, Columns, Samples},
};

/// A table of more files is not looked at: its files are listed once more here.
const FILES_MAX: usize = 64;

/// Samples that are being read.
pub struct Foreseen {
    stop: Arc<AtomicBool>,
    reading: Option<tokio::task::JoinHandle<()>>,
}

impl Foreseen {
    /// Waits until nothing is read any more. What nobody has begun with is left.
    pub async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reading) = self.reading.take() {
            // Without it the columns are read by those who ask for them.
            let _ = reading.await;
        }
    }
}

impl Drop for Foreseen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Columns of a table of files that a filter looks at.
struct Wanted {
    /// What the table was made of.
    path: String,
    files: Files,
    fields: Vec<FieldRef>,
}

/// The files of a table.
enum Files {
    Known(Vec<ObjectMeta>),
    Below(PathBuf, Box<Pattern>),
}

/// Which files of a directory are the table's.
struct Pattern {
    url: ListingTableUrl,
    extension: String,
}

impl Pattern {
    fn has(&self, path: &StorePath) -> bool {
        path.as_ref().ends_with(&self.extension) && self.url.contains(path, false)
    }
}

/// Begins to read what the joins of `plan` will be ordered by, if the engine has a thread for it. Call on the engine's runtime.
pub fn begin(samples: &Arc<Samples>, plan: &LogicalPlan) -> Foreseen {
    let stop = Arc::new(AtomicBool::new(false));
    let wanted = if samples.threads() > 1 { wanted(plan) } else { Vec::new() };
    let reading = (!wanted.is_empty()).then(|| {
        let (samples, stop) = (Arc::clone(samples), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || read(&samples, wanted, &stop))
    });
    Foreseen { stop, reading }
}

/// The columns of files that filters in `plan` look at; none unless tables are joined.
fn wanted(plan: &LogicalPlan) -> Vec<Wanted> {
    let (mut wanted, mut joins) = (Vec::new(), false);
    let mut look = |node: &LogicalPlan| {
        match node {
            LogicalPlan::Filter(filter) => add(&filter.predicate, node, &mut wanted),
            LogicalPlan::Join(join) => join.filter.iter().for_each(|filter| add(filter, node, &mut wanted)),
            _ => {}
        }
        joins |= matches!(node, LogicalPlan::Join(_));
        // Subqueries become joins but for those whose only value is computed first.
        node.apply_expressions(|expr| {
            let becomes_join = |expr: &Expr| match expr {
                Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                expr => matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)),
            };
            joins = joins || expr.exists(|expr| Ok(becomes_join(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    };
    // The closure does not fail.
    let visited = plan.apply_with_subqueries(&mut look);
    if visited.is_ok() && joins { wanted } else { Vec::new() }
}

/// Adds the columns of those parts of `predicate` that are about one table below `node`: what is true of several tables is estimated by its parts.
fn add(predicate: &Expr, node: &LogicalPlan, wanted: &mut Vec<Wanted>) {
    for part in split_conjunction(predicate) {
        let columns: HashSet<&Column> = part.column_refs();
        let mut relations = columns.iter().map(|column| column.relation.as_ref());
        let Some(Some(relation)) = relations.next() else { continue };
        if !relations.all(|other| other == Some(relation)) {
            if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = part {
                add(left, node, wanted);
                add(right, node, wanted);
            }
            continue;
        }
        let Some(scan) = node.inputs().into_iter().find_map(|input| scan_of(input, relation)) else { continue };
        let Ok(provider) = source_as_provider(&scan.source) else { continue };
        let schema = provider.schema();
        let fields = columns.iter().filter_map(|column| schema.fields().find(&column.name));
        // As the files call them.
        let fields = fields.map(|(_, field)| match known_spelling(field) {
            Some(spelling) => Arc::new(field.as_ref().clone().with_name(spelling)),
            None => Arc::clone(field),
        });
        let Some(path) = path_of(provider.as_ref()) else { continue };
        // Of a table that is known already, or has the same files.
        match wanted.iter_mut().find(|wanted| wanted.path == path) {
            Some(known) => known.fields.extend(fields),
            None => {
                let Some(files) = files_below(provider.as_ref()) else { continue };
                wanted.push(Wanted { path, files, fields: fields.collect() });
            }
        }
    }
}

/// What tells a table of files from others.
fn path_of(table: &dyn TableProvider) -> Option<String> {
    if let Some(table) = table.downcast_ref::<FileTable>() {
        return Some(table.path().to_owned());
    }
    let [url] = table.downcast_ref::<ListingTable>()?.table_paths().as_slice() else { return None };
    Some(url.to_string())
}

/// Where the files of a table are found.
fn files_below(table: &dyn TableProvider) -> Option<Files> {
    if let Some(table) = table.downcast_ref::<FileTable>() {
        return table.plain_files().filter(|files| files.len() <= FILES_MAX).map(Files::Known);
    }
    let table = table.downcast_ref::<ListingTable>()?;
    let [url] = table.table_paths().as_slice() else { return None };
    if url.scheme() != "file" || !table.options().table_partition_cols.is_empty() {
        return None;
    }
    let location = Path::new("/").join(url.prefix().as_ref());
    let pattern = Pattern { url: url.clone(), extension: table.options().file_extension.clone() };
    Some(Files::Below(location, Box::new(pattern)))
}

/// The scan of the table that is known as `relation` in `plan`.
fn scan_of<'a>(plan: &'a LogicalPlan, relation: &TableReference) -> Option<&'a TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => (scan.table_name == *relation).then_some(scan),
        LogicalPlan::SubqueryAlias(alias) => match &*alias.input {
            LogicalPlan::TableScan(scan) => (alias.alias == *relation).then_some(scan),
            _ => None,
        },
        LogicalPlan::Join(_) | LogicalPlan::Filter(_) => {
            plan.inputs().into_iter().find_map(|input| scan_of(input, relation))
        }
        _ => None,
    }
}

/// Reads columns, those of a table at a time, until there are no more or somebody says `stop`.
fn read(samples: &Samples, wanted: Vec<Wanted>, stop: &AtomicBool) {
    let sample = |wanted: Wanted| -> Option<Columns> {
        let files = match wanted.files {
            Files::Known(files) => files,
            Files::Below(location, pattern) => files_of(&location, &pattern)?,
        };
        Some((samples.of_known_files(&files)?, wanted.fields))
    };
    let mut columns: Vec<Columns> = wanted.into_iter().filter_map(sample).collect();
    // The longest first: it will be waited for.
    columns.sort_by_key(|(table, fields)| std::cmp::Reverse(table.bytes_of(fields)));
    for (table, fields) in &columns {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // One thread plans.
        let claimed = Claim::new(table, fields);
        pieces::read(claimed.as_slice(), samples.threads() - 1);
    }
}

/// The files of a table as listing gives them, if they are few and none is in a directory further down.
fn files_of(location: &Path, files_of_table: &Pattern) -> Option<Vec<ObjectMeta>> {
    let file = |location: StorePath, path: &Path| {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let (last_modified, size) = (metadata.modified().ok()?.into(), metadata.len());
        Some(ObjectMeta { location, last_modified, size, e_tag: None, version: None })
    };
    if location.is_file() {
        return Some(vec![file(StorePath::from_filesystem_path(location).ok()?, location)?]);
    }
    let mut files = Vec::new();
    for entry in location.read_dir().ok()? {
        let path = entry.ok()?.path();
        if files.len() == FILES_MAX {
            return None;
        }
        let stored = StorePath::from_absolute_path(&path).ok()?;
        if files_of_table.has(&stored) {
            files.push(file(stored, &path)?);
        } else if path.is_dir() {
            return None;
        }
    }
    files.sort_by(|a, b| a.location.cmp(&b.location));
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_extension_unless_a_directory_has_more() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["b.parquet", "a.parquet", "notes.txt"] {
            std::fs::write(directory.path().join(name), name).expect("a file");
        }
        let names = |files: Vec<ObjectMeta>| -> Vec<String> {
            files.iter().map(|file| file.location.filename().unwrap_or_default().to_owned()).collect()
        };
        let of = |path: &str| {
            let url = format!("{}{path}", directory.path().display());
            Pattern { url: ListingTableUrl::parse(url).expect("a path"), extension: ".parquet".to_owned() }
        };
        // As `CREATE EXTERNAL TABLE` makes them of directories, and as they are written.
        let pattern = of("/").url.with_glob("*.parquet").expect("a pattern");
        let pattern = Pattern { url: pattern, extension: ".parquet".to_owned() };
        assert_eq!(names(files_of(directory.path(), &pattern).expect("two files")), ["a.parquet", "b.parquet"]);
        assert_eq!(names(files_of(directory.path(), &of("/a*.parquet")).expect("one file")), ["a.parquet"]);
        let files = files_of(directory.path(), &of("/")).expect("two files");
        assert!(files.iter().all(|file| file.size == 9));
        assert_eq!(names(files), ["a.parquet", "b.parquet"]);
        let one = files_of(&directory.path().join("b.parquet"), &of("/b.parquet")).expect("a file");
        assert_eq!(names(one), ["b.parquet"]);
        std::fs::create_dir(directory.path().join("year=2020")).expect("a directory");
        assert!(files_of(directory.path(), &of("/")).is_none());
        assert!(files_of(&directory.path().join("none"), &of("/none/")).is_none());
    }
}
