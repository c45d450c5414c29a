//! Arrow files and streams: batches of columns, as programs exchange them.
//!
//! DataFusion's reader takes what the file says for granted: lengths that are allocated, places in the file, compressed buffers that may
//! become anything. A batch is read as a whole, so that its memory is reserved first; who writes a file decides how large its batches are.
//!
//! ```text
//! file:    footer ──> places of dictionaries and batches ──┐
//! stream:  schema, message, message, ...  ─────────────────┴──message──> checked, reserved, decompressed ──> arrays
//! ```
//!
//! Not here: writing (DataFusion's), which types are known (`files/checks.rs`).

mod format;
mod message;
mod reader;
mod source;

pub use format::ArrowFormats;
pub(crate) use reader::look_at_columns;
