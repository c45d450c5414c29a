//! What a reader of one row group will need, out of the footer and the headers of the first pages.
//!
//! ```text
//! fixed    two decoded batches, one read-ahead window per column
//! pages    per column: decoded dictionary, one page; for views the pages that a batch spans
//!          once: the largest page again, and its compressed bytes, while it replaces the one before
//! ```
//!
//! Sizes of later pages are not in the footer (the offset index, where it is loaded, has their compressed sizes). A page is
//! taken to be as large as the first, and at least the usual 1 MiB where the column chunk is as large. Whatever exceeds that
//! is asked for when it is met ([`Grant`](crate::grant::Grant)).
//!
//! Not here: reserving.

use std::sync::Arc;

use parquet::{basic::Compression, file::metadata::ColumnChunkMetaData};

use crate::{
    columns::{BATCH_ROWS_MAX, Leaf},
    footer::OpenFile,
    page_header::PageSizes,
};

/// Bytes of a page that most writers aim at.
const USUAL_PAGE: usize = 1 << 20;

/// Bytes of a decoded batch, at most: very wide rows are read fewer at a time.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Rows of a batch where memory is scarce.
const LEAST_BATCH_ROWS: usize = 1024;

/// A way to read a row group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rows decoded at once.
    pub(crate) batch_rows: usize,
    /// Bytes read ahead per column.
    pub(crate) read_ahead: usize,
    /// Bytes held beside pages.
    pub(crate) fixed: usize,
    /// Bytes to reserve.
    pub(crate) bytes: usize,
}

/// What a reader needs.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// To read fast.
    pub(crate) comfortable: Plan,
    /// To begin at all.
    pub(crate) least: Plan,
    /// The column that needs most, and what it needs at least.
    pub(crate) largest: (String, usize),
}

struct Column {
    /// Decoded, per row.
    width: usize,
    /// Bytes of pages that decoded rows point into, per row.
    retained: usize,
    dictionary: usize,
    /// Uncompressed.
    first_page: usize,
    usual_page: usize,
    /// Compressed bytes for each 256 of the page.
    compressed_256: usize,
}

impl Estimate {
    /// For row group `row_group` of `file`, of which at most `rows` rows are wanted at once.
    pub(crate) fn new(file: &Arc<OpenFile>, row_group: usize, rows: usize) -> Self {
        let meta = file.metadata.row_group(row_group);
        let row_count = usize::try_from(meta.num_rows()).unwrap_or(0).max(1);
        let columns: Vec<Column> = file
            .columns
            .leaves
            .iter()
            .map(|leaf| Column::new(file, row_group, leaf, meta.column(leaf.index), row_count))
            .collect();
        let comfortable = plan(&columns, rows.min(BATCH_ROWS_MAX), 128 << 10, |c| c.usual_page);
        let least = plan(&columns, rows.min(LEAST_BATCH_ROWS), 16 << 10, |c| c.first_page);
        let needs =
            |column: &Column| plan(std::slice::from_ref(column), least.batch_rows, 16 << 10, |c| c.first_page).bytes;
        let largest = columns
            .iter()
            .zip(&file.columns.leaves)
            .map(|(column, leaf)| (leaf.name.clone(), needs(column)))
            .max_by_key(|(_, bytes)| *bytes)
            .unwrap_or_default();
        Self { comfortable, least, largest }
    }
}

fn plan(columns: &[Column], rows: usize, read_ahead: usize, page: impl Fn(&Column) -> usize) -> Plan {
    // A footer says what it likes: nothing may overflow, and what is too large is refused when it is asked for.
    let sum = |of: &dyn Fn(&Column) -> usize| columns.iter().map(of).fold(0, usize::saturating_add);
    let row = sum(&|c| c.width.saturating_add(c.retained));
    let batch_rows = (BATCH_BYTES_MAX / row.max(1)).clamp(1, rows.max(1));
    let fixed = sum(&|c| (2 * batch_rows).saturating_mul(c.width).saturating_add(read_ahead));
    let retained = |c: &Column| c.retained.saturating_mul(batch_rows);
    let pages = sum(&|c| c.dictionary.saturating_add(page(c)).saturating_add(retained(c)));
    let loading = |c: &Column| page(c).saturating_add((page(c) / 256).saturating_mul(c.compressed_256));
    let loading = columns.iter().map(loading).max().unwrap_or(0);
    Plan { batch_rows, read_ahead, fixed, bytes: fixed.saturating_add(pages).saturating_add(loading) }
}

impl Column {
    fn new(file: &OpenFile, row_group: usize, leaf: &Leaf, meta: &ColumnChunkMetaData, rows: usize) -> Self {
        let size = |bytes: i64| usize::try_from(bytes).unwrap_or(0);
        let header = |offset: i64| u64::try_from(offset).ok().and_then(|offset| file.bytes.page_sizes(offset));
        let uncompressed = size(meta.uncompressed_size());
        let compressed_256 = match meta.compression() {
            Compression::UNCOMPRESSED => 0,
            _ => (size(meta.compressed_size()).saturating_mul(256) / uncompressed.max(1)).clamp(1, 256),
        };
        let dictionary = meta.dictionary_page_offset().and_then(header).filter(|sizes| sizes.dictionary);
        let dictionary = dictionary.map_or(0, |sizes| sizes.uncompressed);
        let data = uncompressed.saturating_sub(dictionary);
        let first_page = match header(meta.data_page_offset()) {
            Some(PageSizes { dictionary: false, uncompressed, .. }) => uncompressed,
            _ => data.min(USUAL_PAGE),
        };
        let index = file.metadata.offset_index().and_then(|index| index.get(row_group)?.get(leaf.index));
        let largest =
            index.and_then(|column| column.page_locations().iter().map(|page| page.compressed_page_size).max());
        let usual_page = match largest.and_then(|bytes| usize::try_from(bytes).ok()) {
            // Sizes of the index are compressed ones; how well a single page compresses is unknown.
            Some(bytes) if compressed_256 == 0 => bytes,
            Some(bytes) => bytes.saturating_mul(256) / compressed_256,
            None => USUAL_PAGE,
        };
        let values = size(meta.num_values()).div_ceil(rows).max(1);
        // Length of all values, where the writer noted it: more than the pages have if there is a dictionary.
        let text = size(meta.unencoded_byte_array_data_bytes().unwrap_or(0)).max(data);
        Self {
            width: leaf.width.saturating_mul(values).saturating_add(if leaf.is_copied_bytes {
                text.div_ceil(rows)
            } else {
                0
            }),
            retained: if leaf.is_view { data.div_ceil(rows) } else { 0 },
            dictionary: leaf.held_per_dictionary_byte.saturating_mul(dictionary),
            first_page,
            usual_page: usual_page.min(data).max(first_page),
            compressed_256,
        }
    }
}
