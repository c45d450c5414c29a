//! What a reader holds, page by page, against what it was granted.
//!
//! ```text
//! held = fixed                    decoded batches, read-ahead windows
//!      + per column               decoded dictionary; the page being decoded, or for views every page since the last batch:
//!                                 their values point into it
//!      + while a page is loaded   its compressed bytes, and the page before it
//! ```
//!
//! The grant grows when a page is larger than was foreseen. Where it cannot, the page is refused before it is allocated: if
//! other readers are at work, the reader gives up what it holds and its rows are read later with a larger grant; if not, the
//! query fails and the error names the column.
//!
//! Not here: the estimate to start with (`estimate`), and who may start (`admission`).

use ogee_memory::MemoryError;
use parking_lot::Mutex;

use crate::{admission::Permit, columns::Leaf, page_header::PageSizes};

/// Grants grow in steps of this, so that a slow increase of page sizes does not ask the pool at each page.
const GROWTH: usize = 256 << 10;

/// A page for which there is no room.
pub(crate) struct Refused {
    /// Slot of its column.
    pub(crate) column: usize,
    /// Its bytes, compressed and not.
    pub(crate) page: usize,
    /// Bytes the reader would hold with it.
    pub(crate) needed: usize,
    /// Whether nobody else holds memory whose return could be waited for.
    pub(crate) alone: bool,
    pub(crate) limit: usize,
    pub(crate) source: MemoryError,
}

#[derive(Default)]
struct ColumnPages {
    /// Values of decoded batches point into pages.
    retains: bool,
    /// Bytes for each of a dictionary page.
    held_per_dictionary_byte: usize,
    dictionary: usize,
    pages: usize,
    last: usize,
}

struct State {
    permit: Permit,
    columns: Box<[ColumnPages]>,
    held: usize,
    refused: Option<Refused>,
}

/// The memory of one reader.
pub(crate) struct Grant(Mutex<State>);

impl Grant {
    /// A grant of `permit` for a reader of `leaves` that holds `fixed` bytes beside its pages.
    pub(crate) fn new(permit: Permit, fixed: usize, leaves: &[Leaf]) -> Self {
        let pages = |leaf: &Leaf| ColumnPages {
            retains: leaf.is_view,
            held_per_dictionary_byte: leaf.held_per_dictionary_byte,
            ..ColumnPages::default()
        };
        let columns = leaves.iter().map(pages).collect();
        Self(Mutex::new(State { permit, columns, held: fixed, refused: None }))
    }

    /// Accounts for a page of `column` that is about to be loaded. False: there is no room; see [`take_refused`](Self::take_refused).
    pub(crate) fn load_page(&self, column: usize, sizes: PageSizes, is_compressed: bool) -> bool {
        let mut state = self.0.lock();
        let state = &mut *state;
        let pages = &mut state.columns[column];
        let compressed = if is_compressed { sizes.compressed } else { 0 };
        let (more, replaced) = if sizes.dictionary {
            // The page and the values decoded from it.
            (pages.held_per_dictionary_byte * sizes.uncompressed, 0)
        } else if pages.retains {
            (sizes.uncompressed, 0)
        } else {
            (sizes.uncompressed, pages.last)
        };
        let needed = state.held + more + compressed;
        if needed > state.permit.bytes()
            && let Err(source) = state.permit.grow(needed.next_multiple_of(GROWTH))
        {
            state.refused = Some(Refused {
                column,
                page: sizes.uncompressed + compressed,
                needed,
                alone: state.permit.is_alone(),
                limit: state.permit.limit(),
                source,
            });
            return false;
        }
        if sizes.dictionary {
            pages.dictionary += more;
        } else {
            pages.pages = pages.pages + more - replaced;
            pages.last = sizes.uncompressed;
        }
        state.held = state.held + more - replaced;
        true
    }

    /// A batch was handed out and the one before it is gone: pages of the past are held no more.
    pub(crate) fn end_batch(&self) {
        let mut state = self.0.lock();
        let state = &mut *state;
        for pages in &mut state.columns {
            state.held -= pages.pages - pages.last;
            pages.pages = pages.last;
        }
    }

    /// The page that was refused, if one was.
    pub(crate) fn take_refused(&self) -> Option<Refused> {
        self.0.lock().refused.take()
    }
}
