//! Serial rows come back as they were, whatever their values, however they were divided, and wherever their pages have been.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "rows are addressed by pointers")]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int16Array,
    Int64Array, NullArray, StringViewArray, UInt16Array, UInt32Array, UInt64Array, cast::AsArray, types::Int64Type,
};
use arrow_schema::DataType;
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_row::{
    HeapBuffers, RadixBits, RowLayout, RowLayoutBuilder, RowStage, SerialForm, SerialPartition, SerialPlace,
    SerialRows, gather_column_from,
};

const ROWS: usize = 20_000;
/// Rows of one chunk.
const CHUNK: usize = 700;
/// Bytes of state.
const STATE: usize = 11;

fn manager(spill_always: bool) -> Arc<BufferManager> {
    let limit = 64 << 20;
    BufferManager::new(MemoryConfig { limit, spill_always, counts_process: false, ..MemoryConfig::default() }).unwrap()
}

fn mixed(row: usize) -> u64 {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Values of any number of bytes, both signs, and NULLs.
fn some(row: usize) -> Option<u64> {
    let value = mixed(row);
    (!value.is_multiple_of(7)).then_some(value >> (value % 64))
}

fn signed(row: usize) -> Option<i64> {
    some(row).map(|value| if mixed(row) & 128 == 0 { value as i64 } else { (value as i64).wrapping_neg() })
}

/// Strings of no byte up to more than a page.
fn text(row: usize, longest: usize) -> Option<String> {
    let lens = [0, 1, 4, 11, 12, 13, 16, 40, 300];
    let len = if row % 1999 == 1998 { longest } else { lens[row % lens.len()] };
    some(row).map(|value| format!("{value:x}").chars().cycle().take(len).collect())
}

/// Columns: a key that numbers the rows, others, and payload.
fn columns(longest: usize) -> Vec<(ArrayRef, bool)> {
    let rows = || 0..ROWS;
    let decimals = |precision, wide: bool| {
        let value = |row| signed(row).map(|v| if wide { i128::from(v) << (row % 60) } else { i128::from(v >> 8) });
        Decimal128Array::from_iter(rows().map(value)).with_precision_and_scale(precision, 2).unwrap()
    };
    let key = |row| text(row, longest);
    vec![
        (Arc::new(Int64Array::from_iter_values(rows().map(|row| row as i64))), true),
        (Arc::new(StringViewArray::from_iter(rows().map(key))), true),
        (Arc::new(Int16Array::from_iter(rows().map(|row| signed(row).map(|v| v as i16)))), true),
        (Arc::new(Int64Array::from_iter(rows().map(signed))), false),
        (Arc::new(UInt64Array::from_iter(rows().map(some))), false),
        (Arc::new(UInt32Array::from_iter(rows().map(|row| some(row).map(|v| v as u32)))), false),
        (Arc::new(UInt16Array::from_iter(rows().map(|row| some(row).map(|v| v as u16)))), false),
        (Arc::new(Int8Array::from_iter(rows().map(|row| signed(row).map(|v| v as i8)))), false),
        (Arc::new(Date32Array::from_iter(rows().map(|row| signed(row).map(|v| v as i32)))), false),
        (Arc::new(BooleanArray::from_iter(rows().map(|row| some(row).map(|v| v % 3 == 0)))), false),
        (Arc::new(Float64Array::from_iter(rows().map(|row| signed(row).map(|v| v as f64 / 3.0)))), false),
        (Arc::new(decimals(18, false)), false),
        (Arc::new(decimals(38, true)), false),
        (Arc::new(NullArray::new(ROWS)), false),
        (Arc::new(BinaryViewArray::from_iter(rows().map(|row| text(row * 31, longest)))), false),
    ]
}

fn layout(columns: &[(ArrayRef, bool)]) -> Arc<RowLayout> {
    let mut layout = RowLayoutBuilder::default();
    for (column, is_key) in columns {
        let (data_type, nullable) = (column.data_type().clone(), column.null_count() > 0);
        if *is_key {
            layout.key(data_type, nullable)
        } else {
            layout.payload(data_type, nullable)
        };
    }
    layout.state(STATE);
    layout.build().unwrap()
}

fn state(row: usize) -> [u8; STATE] {
    std::array::from_fn(|at| (row * 7 + at) as u8)
}

/// The rows of `columns`.
fn written(mut rows: SerialRows, layout: &RowLayout, columns: &[(ArrayRef, bool)]) -> Vec<SerialPartition> {
    let mut stage = RowStage::default();
    for first in (0..ROWS).step_by(CHUNK) {
        let count = CHUNK.min(ROWS - first);
        stage.reset(layout, count);
        stage.write_hashes(&(first..first + count).map(|row| mixed(row + 1)).collect::<Vec<_>>());
        for (index, (column, _)) in columns.iter().enumerate() {
            stage.write_column(layout, index, &column.slice(first, count), None);
        }
        for row in 0..count {
            let state = state(first + row);
            // SAFETY: within the row.
            unsafe { stage.row_mut(row).add(layout.state_offset()).cast::<[u8; STATE]>().write_unaligned(state) };
        }
        // SAFETY: staged rows of `columns`, which have their strings.
        unsafe { rows.scatter(&stage).unwrap() };
    }
    rows.into_partitions()
}

/// All rows of `parts` are those of `columns`, each once, where its hash belongs.
fn check(parts: Vec<SerialPartition>, radix: RadixBits, layout: &Arc<RowLayout>, columns: &[(ArrayRef, bool)]) {
    let mut seen = [false; ROWS];
    let (mut stage, mut states) = (RowStage::default(), Vec::new());
    for (number, mut part) in parts.into_iter().enumerate() {
        let (rows, mut read) = (part.rows(), 0);
        while let Some(last) = part.num_pages().checked_sub(1) {
            let page = part.pin_page(last).unwrap();
            let heap = HeapBuffers::of_serial(&page);
            let mut place = SerialPlace::default();
            // SAFETY: `place` is this page's.
            while unsafe { page.read(&mut place, 97, &mut stage, &mut states) } {
                let rows: Vec<*const u8> = (0..stage.rows()).map(|row| stage.row(row)).collect();
                // SAFETY: staged rows, whose strings are on the page.
                let column = |index| unsafe { gather_column_from(layout, index, &rows, heap.as_ref()).unwrap() };
                let ids = column(0);
                for (index, (expected, _)) in columns.iter().enumerate() {
                    let values = column(index);
                    for (row, id) in ids.as_primitive::<Int64Type>().values().iter().enumerate() {
                        assert_eq!(&values.slice(row, 1), &expected.slice(*id as usize, 1), "column {index}, row {id}");
                    }
                }
                for ((&id, &at), &row) in ids.as_primitive::<Int64Type>().values().iter().zip(&states).zip(&rows) {
                    let id = id as usize;
                    assert!(!std::mem::replace(&mut seen[id], true), "row {id} comes twice");
                    assert_eq!(radix.partition(RadixBits::stored_hash(mixed(id + 1))), number);
                    // SAFETY: the state within the row on the page, and within the staged row.
                    unsafe {
                        assert_eq!(at.cast::<[u8; STATE]>().read_unaligned(), state(id));
                        assert_eq!(row.add(layout.state_offset()).cast::<[u8; STATE]>().read_unaligned(), state(id));
                        assert_eq!(ogee_row::row_hash(row), RadixBits::stored_hash(mixed(id + 1)));
                    }
                }
                read += rows.len();
            }
            drop(page);
            part.pop_page();
        }
        assert_eq!((part.rows(), read), (0, rows));
    }
    assert!(seen.iter().all(|seen| *seen), "no row is lost");
}

#[test]
fn rows_come_back_as_they_were_and_are_divided_further() {
    for spill_always in [false, true] {
        for longest in [1000, 300_000] {
            let memory = manager(spill_always);
            let columns = columns(longest);
            let layout = layout(&columns);
            let form = Arc::new(SerialForm::new(Arc::clone(&layout)));
            let room = |radix| SerialRows::new(&form, Arc::clone(&memory), "test", radix, None);
            let radix = RadixBits::new(3);
            check(written(room(radix), &layout, &columns), radix, &layout, &columns);
            let below = radix.below(2).unwrap();
            let parts = written(room(radix), &layout, &columns);
            let mut all = Vec::new();
            for part in parts {
                let rows = part.rows();
                let mut divided = room(below);
                divided.append_partition(part).unwrap();
                let divided = divided.into_partitions();
                assert_eq!(divided.iter().map(SerialPartition::rows).sum::<usize>(), rows);
                all.extend(divided);
            }
            check(all, RadixBits::new(5), &layout, &columns);
        }
    }
}

#[test]
fn rows_take_the_bytes_that_their_values_need() {
    let memory = manager(false);
    let rows = || 0..ROWS as i64;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|row| row * 99)));
    let prices: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|row| -row * 99)));
    let columns = [(keys, true), (prices, false)];
    let layout = layout(&columns);
    let form = Arc::new(SerialForm::new(Arc::clone(&layout)));
    let rows = SerialRows::new(&form, memory, "test", RadixBits::new(0), None);
    let parts = written(rows, &layout, &columns);
    // Hash, state, a byte of widths, three bytes and less for each value.
    let row = 4 + STATE + 1 + 3 + 3;
    let bytes: usize = (0..parts[0].num_pages()).map(|page| parts[0].page(page).len()).sum();
    assert!(bytes <= (ROWS * row).next_multiple_of(ogee_memory::PAGE_SIZE), "{bytes} bytes");
    assert!(bytes < ROWS * layout.width(), "rows are narrower");
}

#[test]
fn clustered_keys_are_not_taken_for_one() {
    let mut layout = RowLayoutBuilder::default();
    layout.key(DataType::Int64, false);
    let layout = layout.build().unwrap();
    let form = Arc::new(SerialForm::new(Arc::clone(&layout)));
    // Pages of the first hash come first.
    let partition = |hashes: &[u64]| {
        let mut rows = SerialRows::new(&form, manager(true), "test", RadixBits::new(0), None);
        let mut stage = RowStage::default();
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..CHUNK as i64));
        for &hash in hashes {
            for _ in 0..100 {
                stage.reset(&layout, CHUNK);
                stage.write_column(&layout, 0, &keys, None);
                stage.write_hashes(&[hash << 32; CHUNK]);
                // SAFETY: staged rows without strings.
                unsafe { rows.scatter(&stage).unwrap() };
            }
        }
        rows.into_partitions().remove(0)
    };
    let one = partition(&[5]);
    assert!(one.num_pages() > 1);
    assert!(one.has_one_hash(&mut None).unwrap());
    assert!(!partition(&[5, 6]).has_one_hash(&mut None).unwrap());
    let mut seen = None;
    assert!(one.has_one_hash(&mut seen).unwrap() && !partition(&[6]).has_one_hash(&mut seen).unwrap());
}
