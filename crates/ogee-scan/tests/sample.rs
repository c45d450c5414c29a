//! Rows that are read for a sample are those of the file, whatever the column, and reading leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    builder::{Int64Builder, ListBuilder},
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use arrow_select::{concat::concat, take::take};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_scan::RowReader;
use ogee_vector::normalize_array;
use parquet::{
    arrow::{ArrowWriter, arrow_reader::RowSelector},
    basic::Compression,
    file::properties::WriterProperties,
};

const ROWS: usize = 30_000;
const ROW_GROUP: usize = 12_000;

fn memory(limit: usize) -> Arc<BufferManager> {
    BufferManager::new(MemoryConfig { limit, counts_process: false, ..MemoryConfig::default() }).unwrap()
}

/// Rows with columns of several kinds: numbers with few and with many values, strings with few values, with many, and with more than a
/// dictionary takes, NULLs, lists.
fn rows() -> RecordBatch {
    let numbers = || 0..ROWS as i64;
    let mut lists = ListBuilder::new(Int64Builder::new());
    for number in numbers() {
        (0..number % 4).for_each(|item| lists.values().append_value(number + item));
        lists.append(number % 7 != 0);
    }
    let lists: ListArray = lists.finish();
    let string = |number: i64| format!("{:x} is a string of some length", number.wrapping_mul(0x1e37_79b9_7f4a_7c15));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("number", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("few", Arc::new(Int32Array::from_iter(numbers().map(|n| (n % 5 != 0).then_some(n as i32 % 3))))),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values(numbers().map(i128::from)).with_data_type(DataType::Decimal128(9, 2)),
            ),
        ),
        ("name", Arc::new(StringArray::from_iter(numbers().map(|n| (n % 11 != 3).then(|| string(n)))))),
        (
            "kind",
            Arc::new(StringArray::from_iter_values(
                numbers().map(|n| ["short", "a kind that is longer", ""][n as usize % 3]),
            )),
        ),
        ("list", Arc::new(lists)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn write(path: &Path, rows: &RecordBatch, compression: Compression) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_data_page_row_count_limit(1_000)
        .set_dictionary_page_size_limit(100 << 10)
        .set_write_batch_size(500)
        .set_compression(compression)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

#[test]
fn sampled_rows_are_those_of_the_file() {
    let rows = rows();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.parquet");
    // Of a row group: the first, some within a page, some over pages, the last.
    let selections: [&[(usize, usize)]; 4] = [
        &[(0, 1)],
        &[(5, 20), (1_500, 300), (7_990, 40), (11_960, 40)],
        &[(0, 10), (1_500, 300), (2_700, 2_000), (11_990, 10)],
        &[(0, 12_000)],
    ];
    for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
        write(&path, &rows, compression);
        let memory = memory(256 << 20);
        let size = path.metadata().unwrap().len();
        let first = RowReader::open(Arc::clone(&memory), path.clone(), size, None).unwrap();
        let known = Arc::clone(first.metadata());
        let again = RowReader::open(Arc::clone(&memory), path.clone(), size, Some(known)).unwrap();
        assert_eq!(first.metadata().num_row_groups(), 3);
        for (selected, reader) in selections.iter().flat_map(|&selected| [(selected, &first), (selected, &again)]) {
            let (mut selectors, mut at) = (Vec::new(), 0);
            for &(start, len) in selected {
                selectors.extend([RowSelector::skip(start - at), RowSelector::select(len)]);
                at = start + len;
            }
            for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
                let found = reader.read(field, 1, &selectors).unwrap();
                let slices: Vec<ArrayRef> =
                    selected.iter().map(|&(start, len)| column.slice(ROW_GROUP + start, len)).collect();
                let expected = concat(&slices.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
                assert_eq!(&found, &normalize_array(&expected).unwrap(), "{} of {selected:?}", field.name());
            }
            // A column that the file does not have, and one of another type.
            let absent = Arc::new(Field::new("absent", DataType::Utf8View, true));
            let found = reader.read(&absent, 1, &selectors).unwrap();
            let count: usize = selected.iter().map(|(_, len)| len).sum();
            assert_eq!((found.len(), found.null_count()), (count, count));
            let wider = Arc::new(Field::new("few", DataType::Int64, true));
            let found = reader.read(&wider, 1, &selectors[..2]).unwrap();
            let (start, len) = selected[0];
            let expected = cast(&rows["few"].slice(ROW_GROUP + start, len), &DataType::Int64).unwrap();
            assert_eq!(&found, &expected);
        }
        drop((first, again));
        assert_eq!(memory.stats().reserved, 0, "nothing stays reserved");
    }
    // What is expected is not trivial.
    let middle = take(&rows["name"], &Int32Array::from(vec![0, 1, 3]), None).unwrap();
    assert_eq!((middle.null_count(), rows["list"].null_count() > 0), (1, true));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let rows = rows();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.parquet");
    write(&path, &rows, Compression::SNAPPY);
    let size = path.metadata().unwrap().len();
    let name = Arc::new(rows.schema().field_with_name("name").unwrap().clone());

    let error = RowReader::open(memory(64 << 20), path.clone(), size + 1, None).err().unwrap();
    assert_eq!(error.code(), "OGEE_R002", "{error}");
    let error = RowReader::open(memory(64 << 20), directory.path().join("none"), size, None).err().unwrap();
    assert_eq!(error.code(), "OGEE_R001", "{error}");

    // Somebody else has the memory.
    let memory = memory(64 << 20);
    let reader = RowReader::open(Arc::clone(&memory), path, size, None).unwrap();
    let all = memory.reserve("all", memory.budget()).unwrap();
    let error = reader.read(&name, 0, &[RowSelector::select(10)]).unwrap_err();
    assert!(matches!(error, ogee_exec::ExecError::Memory(_)), "{error}");
    drop(all);
    assert_eq!(reader.read(&name, 0, &[RowSelector::select(10)]).unwrap().len(), 10);
}
