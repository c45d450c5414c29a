//! Sources over files: Parquet in morsels, read page by page within a memory grant.
//!
//! ```text
//! files ──footer (once, by the lane that comes to it)──> row groups ──> spans, one per reader ──> batches ──> chunks
//!                        │ RowPruner                        │               │ split when a lane is idle
//!                        └ skip, scan, select rows          └ Admission: as many readers at once as memory allows
//! ```
//!
//! A lane takes a row group, asks [`Source::lanes`](ogee_exec::Source::lanes)' admission for the memory its reader will need,
//! and decodes batches of up to 8,192 rows, cut into chunks. A lane that finds no row group left takes the second half of
//! what another lane has still to read, so that a file of one row group keeps all lanes busy.
//!
//! 1. Each selected row is handed out exactly once: a reader claims rows of its span before it decodes them, and only what is
//!    not claimed can be taken from it (`span`).
//! 2. A reader reserves memory before it opens a row group, and more before it loads a page that its estimate did not
//!    foresee (`grant`). No page is allocated that was not granted; its header is looked at first (`pages`).
//! 3. One reader is always admitted if its reservation can be had at all; any further one only as far as the readers of the
//!    source together stay within half of the pool's budget (`admission`). A lane that is refused waits for a reader to end.
//! 4. The metadata of a file is loaded once, is reserved for, and is dropped with the file's last morsel (`footer`).
//! 5. Chunks are in normalized types, with the columns of the table whatever the file's are (`columns`).
//! 6. Rows for which a predicate of the query is not true are left out, and what they have in other columns is not decoded (`batch`, `filter`).
//!
//! Morsels, and taking work from lanes that have too much, after "Morsel-driven parallelism", SIGMOD 2014, section 3.3.
//!
//! Not here: what happens to the rows, SQL, pruning by statistics (a [`RowPruner`] does that), file listing, object stores.

mod admission;
mod batch;
mod codec;
mod columns;
mod decode;
mod delta;
mod dictionary;
mod error;
mod estimate;
mod filter;
mod footer;
mod grant;
mod layouts;
mod library;
mod page_header;
mod pages;
mod reader;
mod restrict;
mod sample;
mod source;
mod span;
mod spec;
mod thrift;
mod work;

pub use error::ScanError;
pub use footer::{has_whole_footer, read_footer};
pub use library::{caught, is_reading};
pub use sample::RowReader;
pub use source::ParquetSource;
pub use spec::{ParquetFile, ParquetScanSpec, RowGroupAccess, RowPruner};
