//! Strings of pinned rows as buffers of arrays, so that gathering them copies views and no bytes.
//!
//! ```text
//! row      length, prefix, pointer into a heap page
//! array    length, prefix, number of the page's buffer, offset on the page
//! ```
//!
//! The bytes are then looked at where they are, by whoever looks at them at all. A buffer keeps its page pinned, so arrays that leave the query,
//! whose pages would stay with them, are copied first ([`own_strings`]).

use std::{panic::AssertUnwindSafe, ptr::NonNull, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use ogee_memory::{PAGE_SIZE, PinnedPage};
use ogee_vector::{PhysicalType, VectorError};

use crate::{NestedCodec, PinnedRows, PinnedSerial, RowView};

/// No buffer.
const NONE: u32 = u32::MAX;
/// Frames of memory between the first and the last page, at most: a terabyte of them. Their table then has 16 MiB.
const FRAMES_MAX: usize = 1 << 22;

/// The heap pages of rows, each a buffer.
#[derive(Debug)]
pub struct HeapBuffers {
    buffers: Arc<[Buffer]>,
    /// Number of the first frame, and the buffer of each from there on.
    first: usize,
    numbers: Box<[u32]>,
}

impl HeapBuffers {
    /// The heap pages of `rows`; `None` if there are none, or if they lie too far apart.
    pub fn of<'a>(rows: impl Iterator<Item = &'a PinnedRows> + Clone) -> Option<Self> {
        Self::of_pages(rows.flat_map(PinnedRows::heap_pages))
    }

    /// The page of `rows`, if rows may have strings.
    pub fn of_serial(rows: &PinnedSerial) -> Option<Self> {
        if rows.has_strings() { Self::of_pages(std::iter::once(&rows.page)) } else { None }
    }

    fn of_pages<'a>(pages: impl Iterator<Item = &'a PinnedPage> + Clone) -> Option<Self> {
        // Strings that are longer than a page have one of their own, which may begin anywhere.
        let pages = pages.filter(|page| page.len() == PAGE_SIZE);
        let frame = |address: *const u8| address as usize / PAGE_SIZE;
        let frames = pages.clone().map(|page| frame(page.as_ptr()));
        let (first, last) = (frames.clone().min()?, frames.max()?);
        if last - first >= FRAMES_MAX {
            return None;
        }
        let mut numbers = vec![NONE; last - first + 1].into_boxed_slice();
        let mut buffers = Vec::new();
        for page in pages {
            let number = &mut numbers[frame(page.as_ptr()) - first];
            // Pages of rows share some.
            if *number == NONE {
                assert!(page.as_ptr().addr().is_multiple_of(PAGE_SIZE), "a frame begins at a multiple of its size");
                *number = buffers.len() as u32;
                let start = NonNull::new(page.as_ptr()).expect("a page has an address");
                // SAFETY: the page's bytes were touched, and stay where they are while the buffer has it pinned. Strings on it do not change any more.
                buffers.push(unsafe {
                    Buffer::from_custom_allocation(start, PAGE_SIZE, Arc::new(AssertUnwindSafe(page.clone())))
                });
            }
        }
        Some(Self { buffers: buffers.into(), first, numbers })
    }

    /// The buffers, which [`view`](Self::view) numbers.
    pub(crate) fn buffers(&self) -> &Arc<[Buffer]> {
        &self.buffers
    }

    /// What a long string of a row is in an array over the buffers; `None` if it is on none of them.
    #[inline(always)]
    pub(crate) fn view(&self, view: RowView) -> Option<u128> {
        let address = view.pointer() as usize;
        let number = *self.numbers.get((address / PAGE_SIZE).wrapping_sub(self.first))?;
        let offset = address % PAGE_SIZE;
        (number != NONE).then(|| (view.0 & u128::from(u64::MAX)) | u128::from(number) << 64 | (offset as u128) << 96)
    }
}

/// Whether a buffer is a page: those of Arrow are hardly ever of that size at such an address, and may be taken for one then.
fn is_page(buffer: &Buffer) -> bool {
    buffer.len() == PAGE_SIZE && buffer.as_ptr().addr().is_multiple_of(PAGE_SIZE)
}

/// `array` with strings of its own, if it has some of pages that it keeps pinned.
///
/// # Errors
/// When nested values cannot be copied.
pub fn own_strings(array: ArrayRef) -> Result<ArrayRef, VectorError> {
    Ok(match array.data_type() {
        DataType::Utf8View if array.as_string_view().data_buffers().iter().any(is_page) => {
            Arc::new(array.as_string_view().gc())
        }
        DataType::BinaryView if array.as_binary_view().data_buffers().iter().any(is_page) => {
            Arc::new(array.as_binary_view().gc())
        }
        nested if PhysicalType::of(nested)? == PhysicalType::Nested && has_page(&array.to_data()) => {
            let codec = NestedCodec::new(nested)?;
            let bytes = codec.encode(&array)?;
            codec.decode(bytes.as_binary_view())?
        }
        _ => array,
    })
}

fn has_page(data: &arrow_data::ArrayData) -> bool {
    data.buffers().iter().any(is_page) || data.child_data().iter().any(has_page)
}
