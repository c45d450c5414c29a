//! Files as tables: finding them, their types, readers of CSV, JSON and Arrow, and what `COPY` writes.
//!
//! Lanes of the engine read pieces of text files side by side (`text_scan`); elsewhere a file is read from its beginning to its end by one reader (`read_through` is what
//! DataFusion sees of it). A reader takes a few MiB without asking and reserves what goes beyond (`text_memory`). What a file has not is an error that names it.
//!
//! Not here: decoding Parquet (`ogee-scan`).

mod arrow_ipc;
mod cells;
pub mod copy;
pub mod copy_target;
mod csv;
mod json;
mod parquet_sink;
mod pieces;
mod read_through;
pub mod remote;
pub mod spelling;
mod tables;
mod text_memory;
mod text_scan;
mod text_sink;

pub use arrow_ipc::ArrowFormats;
pub use csv::CsvFormats;
pub use json::JsonFormats;
pub use tables::{
    CaughtFormats, CheckedTables, ExternalAccess, FileTable, FileTables, Read, is_file_name, reads_files,
    reads_files_apart, state_of, with_one_state,
};
pub use text_scan::TextFiles;
