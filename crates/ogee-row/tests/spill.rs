//! Rows written, evicted, read back at other addresses, moved to other partitions: the values stay what they were.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "rows are addressed by pointers")]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, Float64Array, Int8Array,
    Int64Array, ListArray, StringViewArray, cast::AsArray, types::Int64Type,
};
use arrow_buffer::i256;
use arrow_schema::DataType;
use ogee_memory::{BufferManager, MemoryConfig, PAGE_SIZE};
use ogee_row::{
    HeapBuffers, NestedCodec, PartitionedRows, PinnedRows, RadixBits, RowLayout, RowLayoutBuilder, RowPartition,
    RowStage, gather_column, gather_column_from, keys_equal, own_strings,
};
use ogee_vector::gather_array;

fn manager(limit: usize, spill_always: bool) -> Arc<BufferManager> {
    let config = MemoryConfig { limit, spill_always, counts_process: false, ..MemoryConfig::default() };
    BufferManager::new(config).unwrap()
}

/// Columns of many types; the first is a number that identifies the row.
fn columns(rows: usize, long: usize) -> Vec<ArrayRef> {
    let text = |i: usize| "ogee spills softly ".repeat(6)[..(i * 13) % 101].to_owned();
    let lists = (0..rows).map(|i| (i % 9 != 0).then(|| (0..i % 4).map(|j| Some((i * j) as i64)).collect::<Vec<_>>()));
    vec![
        Arc::new((0..rows as i64).collect::<Int64Array>()),
        Arc::new((0..rows).map(|i| (i % 3 != 0).then_some(i % 2 == 0)).collect::<BooleanArray>()),
        Arc::new((0..rows).map(|i| (i % 5 != 0).then(|| text(i))).collect::<StringViewArray>()),
        Arc::new((0..rows).map(|i| (i % 7 != 0).then_some((i % 100) as i8 - 50)).collect::<Int8Array>()),
        Arc::new(
            (0..rows)
                .map(|i| (i % 4 != 0).then_some(i as i128 * 1_000_003))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(15, 2)
                .unwrap(),
        ),
        Arc::new(
            (0..rows)
                .map(|i| Some(i256::from_i128(i as i128) * i256::from_i128(i128::MAX / 7)))
                .collect::<Decimal256Array>()
                .with_precision_and_scale(76, 3)
                .unwrap(),
        ),
        Arc::new((0..rows).map(|i| (i % 6 != 0).then_some(i as f64 / 3.0)).collect::<Float64Array>()),
        Arc::new(
            (0..rows)
                .map(|i| (i % 8 != 0).then(|| vec![i as u8; if i % 1000 == 1 { long } else { i % 30 }]))
                .collect::<BinaryViewArray>(),
        ),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
    ]
}

fn layout(columns: &[ArrayRef]) -> Arc<RowLayout> {
    let mut builder = RowLayoutBuilder::default();
    columns[..3].iter().for_each(|c| {
        builder.key(c.data_type().clone(), true);
    });
    columns[3..].iter().for_each(|c| {
        builder.payload(c.data_type().clone(), true);
    });
    assert_eq!(builder.state(24), 0);
    builder.build().unwrap()
}

fn append(rows: &mut PartitionedRows, layout: &RowLayout, columns: &[ArrayRef]) {
    let count = columns[0].len();
    let mut stage = RowStage::default();
    stage.reset(layout, count);
    let codec = NestedCodec::new(columns[8].data_type()).unwrap();
    let encoded = codec.encode(&columns[8]).unwrap();
    for (i, column) in columns.iter().enumerate() {
        stage.write_column(layout, i, if i == 8 { &encoded } else { column }, None);
    }
    let hashes: Vec<u64> = (0..count as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    stage.write_hashes(&hashes);
    let mut addresses = Vec::new();
    // SAFETY: staged rows whose arrays are alive.
    unsafe { rows.append((0..count).map(|i| stage.row(i)), &mut addresses).unwrap() };
    assert_eq!(addresses.len(), count);
}

/// Reads every row back, page by page, and compares it with row `n` of the columns, `n` being its first value.
fn check(partitions: &mut [RowPartition], layout: &RowLayout, columns: &[ArrayRef]) {
    let mut seen = vec![false; columns[0].len()];
    for partition in partitions {
        for index in 0..partition.num_pages() {
            let page = partition.pin_page(index).unwrap();
            let rows: Vec<*const u8> = (0..page.len()).map(|row| page.row(row).cast_const()).collect();
            // SAFETY: the page is pinned with its heap pages.
            let got: Vec<ArrayRef> =
                (0..columns.len()).map(|c| unsafe { gather_column(layout, c, &rows).unwrap() }).collect();
            let ids = got[0].as_primitive::<Int64Type>();
            for row in 0..rows.len() {
                let id = ids.value(row) as usize;
                assert!(!std::mem::replace(&mut seen[id], true), "row {id} once");
                for (c, (got, expected)) in got.iter().zip(columns).enumerate() {
                    assert_eq!(got.slice(row, 1).to_data(), expected.slice(id, 1).to_data(), "row {id} column {c}");
                }
            }
        }
    }
    assert!(seen.into_iter().all(|seen| seen), "every row");
}

/// The columns of all rows, as arrays that refer to the pages with their strings, and the numbers of the rows.
fn refer(partitions: &mut [RowPartition], layout: &RowLayout, columns: usize) -> Vec<Vec<ArrayRef>> {
    let mut all = Vec::new();
    for partition in partitions {
        let pages: Vec<PinnedRows> = (0..partition.num_pages()).map(|page| partition.pin_page(page).unwrap()).collect();
        let heap = HeapBuffers::of(pages.iter());
        let rows = pages.iter().flat_map(|page| (0..page.len()).map(|row| page.row(row).cast_const()));
        let rows: Vec<*const u8> = rows.collect();
        // SAFETY: the pages are pinned with their heap pages.
        let gather = |column| unsafe { gather_column_from(layout, column, &rows, heap.as_ref()).unwrap() };
        all.push((0..columns).map(gather).collect());
    }
    all
}

#[test]
fn arrays_keep_the_pages_that_they_refer_to() {
    // Strings that are longer than a page are copied among those that are not.
    for long in [100, 400_000] {
        let memory = manager(64 << 20, true);
        let columns = columns(30_000, long);
        let layout = layout(&columns);
        let mut rows = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(3), false);
        append(&mut rows, &layout, &columns);
        let mut partitions = rows.into_partitions();
        let mut arrays = refer(&mut partitions, &layout, columns.len());
        drop(partitions);
        // Whoever takes the memory does not get these pages.
        drop((0..20).map(|_| memory.allocate("other").unwrap()).collect::<Vec<_>>());
        for is_own in [false, true] {
            for part in &arrays {
                let ids = part[0].as_primitive::<Int64Type>();
                for (got, expected) in part.iter().zip(&columns) {
                    let rows: Vec<u32> = ids.values().iter().map(|&id| id as u32).collect();
                    let expected = gather_array(expected, &rows).unwrap();
                    assert_eq!(got.to_data(), expected.to_data());
                }
            }
            assert_eq!(memory.stats().pinned == 0, is_own, "arrays keep pages unless their strings are their own");
            arrays.iter_mut().flatten().for_each(|array| *array = own_strings(Arc::clone(array)).unwrap());
        }
        assert_eq!(memory.stats().temp_bytes, 0);
    }
}

#[test]
fn parts_of_a_partition_have_the_strings_of_their_rows() {
    for (with_rows, long) in [(false, 400_000), (false, 100), (true, 100)] {
        let memory = manager(64 << 20, true);
        let columns = columns(30_000, long);
        let layout = layout(&columns);
        let mut rows = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(1), false);
        if with_rows {
            rows.keep_strings_with_rows();
        }
        append(&mut rows, &layout, &columns);
        let partitions = rows.into_partitions();
        let pages: usize = partitions.iter().map(RowPartition::num_pages).sum();
        let mut parts: Vec<RowPartition> = partitions.into_iter().flat_map(|part| part.into_parts(3)).collect();
        assert!(parts.iter().all(|part| (1..=3).contains(&part.num_pages())));
        assert!(parts.len() > 2 && parts.iter().map(RowPartition::num_pages).sum::<usize>() == pages);
        check(&mut parts, &layout, &columns);
        // Pages with strings of several parts are there until the last of these is gone.
        while parts.len() > 1 {
            drop(parts.remove(0));
            parts[0].pin_page(0).unwrap();
        }
        drop(parts);
        let stats = memory.stats();
        assert_eq!((stats.pinned, stats.temp_bytes), (0, 0));
    }
    let layout = layout(&columns(1, 1));
    let rows = PartitionedRows::new(layout, manager(64 << 20, false), "test", RadixBits::new(0), false);
    assert!(rows.into_partitions().remove(0).into_parts(1).is_empty());
}

#[test]
fn rows_survive_eviction_and_reload_at_other_addresses() {
    for (spill_always, long) in [(false, 400_000), (true, 400_000), (true, 100)] {
        let memory = manager(64 << 20, spill_always);
        let columns = columns(30_000, long);
        let layout = layout(&columns);
        let mut rows = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(3), false);
        append(&mut rows, &layout, &columns);
        let mut partitions = rows.into_partitions();
        assert_eq!(partitions.iter().map(RowPartition::rows).sum::<usize>(), 30_000);
        if spill_always {
            // Other pages take the memory, so that reloaded ones land elsewhere.
            let _others: Vec<_> = (0..20).map(|_| memory.allocate("other").unwrap()).collect();
            check(&mut partitions, &layout, &columns);
            assert!(memory.stats().read_back_bytes > 0);
        }
        check(&mut partitions, &layout, &columns);
        drop(partitions);
        let stats = memory.stats();
        assert_eq!((stats.pinned, stats.temp_bytes), (0, 0), "destroyed pages leave nothing");
    }
}

#[test]
fn a_page_of_rows_has_bounded_strings() {
    // Several of a heap page, and one that has a page of its own.
    for (rows, long) in [(2_000, 20_000), (200, 700_000)] {
        let memory = manager(32 << 20, false);
        let mut columns = columns(rows, 0);
        let text = |i: usize| (!i.is_multiple_of(10)).then(|| vec![i as u8; long - i % 100]);
        columns[7] = Arc::new((0..rows).map(text).collect::<BinaryViewArray>());
        let layout = layout(&columns);
        let mut written =
            PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(1), false);
        append(&mut written, &layout, &columns);
        // A page of rows and, where it is not full, one of strings for each partition.
        assert!(memory.stats().pinned <= 2 * 2 * PAGE_SIZE, "{} bytes stay pinned", memory.stats().pinned);
        let mut partitions = written.into_partitions();
        for partition in &partitions {
            let most = (0..partition.num_pages()).map(|page| partition.page_bytes(page)).max().unwrap();
            assert!(most <= 20 * PAGE_SIZE, "{most} bytes are pinned with a page");
        }
        check(&mut partitions, &layout, &columns);
    }
}

#[test]
fn rows_move_to_other_partitions_with_their_strings() {
    let memory = manager(64 << 20, true);
    let columns = columns(20_000, 300_000);
    let layout = layout(&columns);
    let mut rows = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(0), false);
    append(&mut rows, &layout, &columns);
    let below = RadixBits::new(0).below(4).unwrap();
    let mut target = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", below, false);
    let mut addresses = Vec::new();
    for mut partition in rows.into_partitions() {
        while partition.num_pages() > 0 {
            let page = partition.pin_page(partition.num_pages() - 1).unwrap();
            // SAFETY: the page is pinned with its heap pages.
            unsafe { target.append((0..page.len()).map(|r| page.row(r).cast_const()), &mut addresses).unwrap() };
            drop(page);
            partition.pop_page();
        }
    }
    let mut partitions = target.into_partitions();
    assert_eq!(partitions.len(), 16);
    assert!(partitions.iter().all(|p| p.rows() > 500), "spread");
    check(&mut partitions, &layout, &columns);
}

#[test]
fn retained_rows_stay_where_they_are_until_they_are_released() {
    let memory = manager(16 << 20, true);
    let columns = columns(10_000, 100);
    let layout = layout(&columns);
    let mut rows = PartitionedRows::new(Arc::clone(&layout), Arc::clone(&memory), "test", RadixBits::new(2), true);
    append(&mut rows, &layout, &columns);
    assert!(rows.retained_bytes() > 0);
    assert_eq!(memory.stats().spilled_bytes, 0, "pinned pages are not evicted");
    rows.release();
    assert_eq!(rows.retained_bytes(), 0);
    assert!(memory.stats().spilled_bytes > 0, "now they may be");
}

#[test]
fn keys_are_equal_if_their_values_are() {
    let mut builder = RowLayoutBuilder::default();
    let numbers: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, None, Some(f64::NAN), Some(-f64::NAN)]));
    let long = "a string that is not inlined";
    let words: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some(long), Some(long), None, Some(""), Some("x"), Some("x")]));
    builder.key(numbers.data_type().clone(), true);
    builder.key(words.data_type().clone(), true);
    let layout = builder.build().unwrap();
    let mut stage = RowStage::default();
    stage.reset(&layout, 6);
    stage.write_column(&layout, 0, &numbers, None);
    stage.write_column(&layout, 1, &words, None);
    // SAFETY: staged rows whose arrays are alive.
    let equal = |a, b| unsafe { keys_equal(&layout, stage.row(a), stage.row(b)) };
    assert!(equal(0, 1), "one zero");
    assert!(!equal(2, 3), "NULL is not the empty string");
    assert!(equal(4, 5), "one NaN");
    assert!(!equal(0, 4));
    assert!(equal(2, 2), "NULL groups with NULL");
}

/// A number and a string.
fn numbered_layout() -> Arc<RowLayout> {
    let mut builder = RowLayoutBuilder::default();
    builder.key(DataType::Int64, false);
    builder.payload(DataType::Utf8View, false);
    builder.build().unwrap()
}

/// Rows of a number and a string, short ones beside their row; `hash` gives that of each.
fn numbered(
    layout: &Arc<RowLayout>,
    memory: Arc<BufferManager>,
    strings: &[String],
    hash: fn(u64) -> u64,
) -> RowPartition {
    let mut rows = PartitionedRows::new(Arc::clone(layout), memory, "test", RadixBits::new(0), false);
    rows.keep_strings_with_rows();
    let keys: ArrayRef = Arc::new((0..strings.len() as i64).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(strings.iter().map(Some).collect::<StringViewArray>());
    let mut stage = RowStage::default();
    stage.reset(layout, strings.len());
    stage.write_column(layout, 0, &keys, None);
    stage.write_column(layout, 1, &texts, None);
    stage.write_hashes(&(0..strings.len() as u64).map(hash).collect::<Vec<_>>());
    // SAFETY: staged rows whose arrays are alive.
    unsafe { rows.append((0..strings.len()).map(|i| stage.row(i)), &mut Vec::new()).unwrap() };
    rows.into_partitions().remove(0)
}

#[test]
fn a_pin_that_fails_leaves_the_pointers_as_they_were() {
    let memory = manager(16 * PAGE_SIZE, true);
    let layout = numbered_layout();
    // The first string has a page of its own, the others are on the page of their rows.
    let mut strings = vec!["long ".repeat(60_000)];
    strings.extend((0..500).map(|i| format!("a string that is not inlined, number {i}")));
    let mut partition = numbered(&layout, Arc::clone(&memory), &strings, |_| 7);
    assert_eq!(partition.num_pages(), 1);
    // The row page finds room, the page of the long string does not.
    let others: Vec<_> = (0..15).map(|_| memory.allocate("test").unwrap()).collect();
    partition.pin_page(0).unwrap_err();
    drop(others);
    let page = partition.pin_page(0).unwrap();
    let rows: Vec<*const u8> = (0..page.len()).map(|row| page.row(row).cast_const()).collect();
    // SAFETY: the page is pinned with its heap pages.
    let texts = unsafe { gather_column(&layout, 1, &rows) }.unwrap();
    assert!(texts.as_string_view().iter().eq(strings.iter().map(|text| Some(text.as_str()))));
}

#[test]
fn clustered_keys_are_not_taken_for_one() {
    let strings = vec![String::from("short"); 60_000];
    let layout = numbered_layout();
    let partition = |hash: fn(u64) -> u64| numbered(&layout, manager(64 << 20, true), &strings, hash);
    let mut one = partition(|_| 5 << 32);
    assert!(one.num_pages() > 2);
    assert!(one.has_one_hash(&mut None).unwrap());
    assert!(!partition(|row| (5 + row / 50_000) << 32).has_one_hash(&mut None).unwrap());
    let mut seen = None;
    assert!(one.has_one_hash(&mut seen).unwrap() && !partition(|_| 6 << 32).has_one_hash(&mut seen).unwrap());
}
