//! Gather: a column of scattered rows back into an Arrow array.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray, BooleanArray, NullArray, StringViewArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::DataType;
use ogee_vector::{PhysicalType, VectorError};

use crate::{HeapBuffers, NestedCodec, RowLayout, RowView};

/// Bytes of one data buffer of a view array, at most: offsets in views have 32 bits.
const BUFFER_MAX: usize = 1 << 30;

/// Bytes that the long strings of a chunk take together, unless one of its rows has more: what is gathered is copied.
const STRINGS_MAX: usize = 2 << 20;

/// How many of the first of `rows` make one chunk: all, unless their long strings are so long that fewer do; one at least.
///
/// # Safety
/// As [`gather_column`].
pub unsafe fn rows_of_chunk(layout: &RowLayout, rows: &[*const u8]) -> usize {
    if !layout.has_heap() {
        return rows.len();
    }
    let mut bytes = 0;
    for (number, row) in rows.iter().enumerate() {
        for &offset in layout.views() {
            // SAFETY: the caller vouches for the rows, and the layout's offsets are within them.
            let view = unsafe { row.add(offset).cast::<RowView>().read_unaligned() };
            if view.is_long() {
                bytes += view.len();
            }
        }
        if bytes > STRINGS_MAX && number > 0 {
            return number;
        }
    }
    rows.len()
}

/// Column `index` of `rows` as an array; long strings are copied, so that the pages may go.
///
/// # Errors
/// When nested values cannot be decoded.
///
/// # Safety
/// `rows` must point to rows of `layout` on pinned pages, their long strings rebased.
pub unsafe fn gather_column(layout: &RowLayout, index: usize, rows: &[*const u8]) -> Result<ArrayRef, VectorError> {
    // SAFETY: the caller vouches for the rows.
    unsafe { gather_column_from(layout, index, rows, None) }
}

/// The same, but long strings that are on pages of `heap` are not copied: the array keeps the pages pinned.
///
/// # Errors
/// As [`gather_column`].
///
/// # Safety
/// As [`gather_column`].
pub unsafe fn gather_column_from(
    layout: &RowLayout,
    index: usize,
    rows: &[*const u8],
    heap: Option<&HeapBuffers>,
) -> Result<ArrayRef, VectorError> {
    let column = layout.column(index);
    let bit = column.validity;
    // SAFETY: here and below, the caller vouches for the rows, and the layout's offsets are within them.
    let valid = |row: &*const u8| bit.is_none_or(|(byte, mask)| unsafe { *row.add(byte) & mask != 0 });
    let nulls = || {
        if bit.is_none() || rows.iter().all(valid) {
            return None;
        }
        Some(NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |i| valid(&rows[i]))))
    };
    let offset = column.offset;
    Ok(match column.physical {
        PhysicalType::Null => Arc::new(NullArray::new(rows.len())),
        PhysicalType::Bool => {
            // SAFETY: as above.
            let bits = BooleanBuffer::collect_bool(rows.len(), |i| unsafe { *rows[i].add(offset) != 0 });
            Arc::new(BooleanArray::new(bits, nulls()))
        }
        PhysicalType::View | PhysicalType::Nested => {
            // Nested values are decoded, and then have bytes of their own.
            let heap = heap.filter(|_| column.physical == PhysicalType::View);
            // SAFETY: as above.
            let (views, buffers) = unsafe { gather_views(offset, valid, rows, heap) };
            // SAFETY: views were made over these buffers just now; strings came from valid string arrays.
            unsafe {
                match &column.data_type {
                    DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls())),
                    DataType::BinaryView => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls())),
                    nested => {
                        let bytes = BinaryViewArray::new_unchecked(views, buffers, nulls());
                        return NestedCodec::new(nested)?.decode(&bytes);
                    }
                }
            }
        }
        // SAFETY: as above.
        PhysicalType::ShortDecimal => unsafe {
            let values = rows.iter().map(|row| i128::from(row.add(offset).cast::<i64>().read_unaligned()));
            primitive(&column.data_type, values.collect::<Vec<i128>>(), nulls())
        },
        physical => {
            macro_rules! gather {
                ($t:ty) => {{
                    // SAFETY: as above.
                    let values = rows.iter().map(|row| unsafe { row.add(offset).cast::<$t>().read_unaligned() });
                    primitive(&column.data_type, values.collect::<Vec<$t>>(), nulls())
                }};
            }
            match physical.row_width() {
                1 => gather!(u8),
                2 => gather!(u16),
                4 => gather!(u32),
                8 => gather!(u64),
                16 => gather!(i128),
                _ => gather!(i256),
            }
        }
    })
}

/// An array of `data_type` over values of its width.
fn primitive<T: arrow_buffer::ArrowNativeType>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let len = values.len();
    let data = arrow_data::ArrayData::builder(data_type.clone())
        .len(len)
        .add_buffer(Buffer::from(ScalarBuffer::from(values)))
        .nulls(nulls);
    // SAFETY: one buffer of `len` values of the type's width, aligned as a vector of that width or wider; any bits are a valid value.
    make_array(unsafe { data.build_unchecked() })
}

/// # Safety
/// As [`gather_column`]; `offset` is that of a view column.
unsafe fn gather_views(
    offset: usize,
    valid: impl Fn(&*const u8) -> bool,
    rows: &[*const u8],
    heap: Option<&HeapBuffers>,
) -> (ScalarBuffer<u128>, Arc<[Buffer]>) {
    let shared = heap.map_or(0, |heap| heap.buffers().len());
    let mut views = Vec::with_capacity(rows.len());
    let mut buffers = Vec::new();
    let mut bytes: Vec<u8> = Vec::new();
    for row in rows {
        // SAFETY: the caller vouches for the rows.
        let view = unsafe { row.add(offset).cast::<RowView>().read_unaligned() };
        if !view.is_long() || !valid(row) {
            views.push(if valid(row) { view.0 } else { 0 });
            continue;
        }
        if let Some(view) = heap.and_then(|heap| heap.view(view)) {
            views.push(view);
            continue;
        }
        if bytes.len() + view.len() > BUFFER_MAX && !bytes.is_empty() {
            buffers.push(Buffer::from(std::mem::take(&mut bytes)));
        }
        let place = ((shared + buffers.len()) as u128) << 64 | (bytes.len() as u128) << 96;
        views.push((view.0 & u128::from(u64::MAX)) | place);
        // SAFETY: the caller vouches for the pointer.
        bytes.extend_from_slice(unsafe { view.bytes() });
    }
    if !bytes.is_empty() {
        buffers.push(Buffer::from(bytes));
    }
    let buffers = match heap {
        Some(heap) if buffers.is_empty() => Arc::clone(heap.buffers()),
        Some(heap) => heap.buffers().iter().cloned().chain(buffers).collect(),
        None => buffers.into(),
    };
    (views.into(), buffers)
}
