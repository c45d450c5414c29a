//! Sorts against Arrow's, under hostile settings: small memory, everything spilled, tiny chunks, one to eight lanes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/drain.rs"]
mod drain;
#[path = "sort/guesses.rs"]
mod guesses;
#[path = "support/hinted.rs"]
mod hinted;
#[path = "sort/packed.rs"]
mod packed;
#[path = "support/random.rs"]
mod random;
#[path = "support/sampled.rs"]
mod sampled;
#[path = "sort/strings.rs"]
mod strings;
#[path = "sort/window.rs"]
mod window;

use std::{sync::Arc, time::Duration};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array, Float64Array,
    Int8Array, Int32Array, Int64Array, IntervalDayTimeArray, IntervalMonthDayNanoArray, ListArray, StringViewArray,
    TimestampMicrosecondArray, UInt16Array, UInt64Array, cast::AsArray, types,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, i256};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_schema::{Field, Schema, SchemaRef};
use ogee_exec::{
    ChunksSource, ExecContext, ExecError, ExecSettings, Expr, Filter, Limit, OpenPipeline, Query,
    sort::{SortKey, SortSpec, sort, supports},
};
use ogee_memory::{BufferManager, MemoryConfig};
use ogee_vector::Chunk;

use self::{drain::drain, hinted::Hinted, random::Random, sampled::is_sampled};

impl Random {
    fn some<T>(&mut self, rows: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<Option<T>> {
        (0..rows).map(|_| (self.next(9) > 0).then(|| value(self))).collect()
    }
}

/// One column of each kind of key, of few values each so that later ones decide; the last is the row's number.
fn columns(seed: u64, rows: usize) -> Vec<ArrayRef> {
    let mut r = Random(seed);
    let prefix = "a prefix that all of them share, ";
    let decimal = Decimal128Array::from(r.some(rows, |r| i128::from(r.next(9)) - 4)).with_precision_and_scale(12, 2);
    let wide =
        Decimal128Array::from(r.some(rows, |r| (i128::from(r.next(9)) - 4) << 90)).with_precision_and_scale(38, 2);
    let widest = Decimal256Array::from(r.some(rows, |r| i256::from_parts(r.next(9).into(), i128::from(r.next(5)) - 2)));
    vec![
        Arc::new(Int64Array::from(r.some(rows, |r| r.next(7) as i64 - 3))),
        Arc::new(Int32Array::from(r.some(rows, |r| r.next(u64::from(u32::MAX)) as u32 as i32))),
        Arc::new(Int8Array::from(r.some(rows, |r| r.next(5) as i8 - 2))),
        Arc::new(UInt64Array::from(r.some(rows, |r| r.next(4) << 62))),
        Arc::new(UInt16Array::from(r.some(rows, |r| r.next(4) as u16 * 20_000))),
        Arc::new(BooleanArray::from(r.some(rows, |r| r.next(2) == 0))),
        Arc::new(Float64Array::from(r.some(rows, |r| match r.next(6) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            other => other as f64 - 3.5,
        }))),
        Arc::new(Float32Array::from(r.some(rows, |r| r.next(5) as f32 * -1.5 + 3.0))),
        Arc::new(decimal.unwrap()),
        Arc::new(wide.unwrap()),
        Arc::new(widest),
        Arc::new(Date32Array::from(r.some(rows, |r| r.next(5) as i32 - 2))),
        Arc::new(TimestampMicrosecondArray::from(r.some(rows, |r| r.next(1 << 50) as i64))),
        Arc::new(IntervalMonthDayNanoArray::from(r.some(rows, |r| {
            IntervalMonthDayNano::new(r.next(3) as i32 - 1, r.next(3) as i32 - 1, r.next(3) as i64 - 1)
        }))),
        Arc::new(IntervalDayTimeArray::from(
            r.some(rows, |r| IntervalDayTime::new(r.next(3) as i32 - 1, r.next(3) as i32 - 1)),
        )),
        Arc::new(StringViewArray::from_iter(r.some(rows, |r| match r.next(4) {
            0 => "ab\0"[..r.next(4) as usize].to_owned(),
            1 => format!("{prefix}{}{}", r.next(30), &prefix[..r.next(20) as usize]),
            2 => prefix[..r.next(prefix.len() as u64) as usize].to_owned(),
            _ => format!("{}", r.next(1000)),
        }))),
        Arc::new(ListArray::from_iter_primitive::<types::Int32Type, _, _>(
            r.some(rows, |r| (0..r.next(3)).map(|_| Some(r.next(3) as i32)).collect::<Vec<_>>()),
        )),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ]
}

fn schema(columns: &[ArrayRef]) -> SchemaRef {
    let field = |(i, column): (usize, &ArrayRef)| Field::new(format!("c{i}"), column.data_type().clone(), true);
    Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

#[derive(Debug)]
struct Setup {
    limit: usize,
    threads: usize,
    spill_always: bool,
    chunk: usize,
}

const SETUPS: [Setup; 6] = [
    Setup { limit: 1 << 30, threads: 2, spill_always: false, chunk: 2048 },
    Setup { limit: 1 << 30, threads: 1, spill_always: false, chunk: 1000 },
    Setup { limit: 1 << 30, threads: 8, spill_always: false, chunk: 7 },
    Setup { limit: 4 << 20, threads: 1, spill_always: false, chunk: 2048 },
    Setup { limit: 10 << 20, threads: 4, spill_always: false, chunk: 512 },
    Setup { limit: 24 << 20, threads: 8, spill_always: true, chunk: 2048 },
];

impl Setup {
    fn context(&self) -> ExecContext {
        let memory = BufferManager::new(MemoryConfig {
            limit: self.limit,
            spill_always: self.spill_always,
            counts_process: false,
            ..MemoryConfig::default()
        });
        let settings = ExecSettings { threads: self.threads, chunk_capacity: self.chunk, ..ExecSettings::default() };
        ExecContext::new(memory.unwrap(), settings)
    }

    /// The rows that `build` makes of `columns`.
    fn run(
        &self,
        columns: &[ArrayRef],
        build: impl FnOnce(&mut Query, OpenPipeline) -> Result<OpenPipeline, ExecError>,
    ) -> (Vec<Chunk>, ExecContext) {
        let rows = columns[0].len();
        let whole = Chunk::new(columns.to_vec(), rows);
        let chunks = (0..rows).step_by(self.chunk).map(|at| whole.slice(at, self.chunk.min(rows - at))).collect();
        let ctx = self.context();
        let mut query = Query::new(ctx.clone());
        let open = build(&mut query, OpenPipeline::new(ChunksSource::new(schema(columns), chunks))).unwrap();
        (drain(query, open, self.threads).unwrap(), ctx)
    }
}

fn keys(columns: &[ArrayRef], by: &[(usize, bool, bool)]) -> Vec<SortKey> {
    let key = |&(column, descending, nulls_first): &(usize, bool, bool)| SortKey {
        expr: Expr::Column(column),
        data_type: columns[column].data_type().clone(),
        descending,
        nulls_first,
    };
    by.iter().map(key).collect()
}

/// The numbers of the rows (the last column) in the order of `by`, as Arrow has it.
fn expected(columns: &[ArrayRef], by: &[(usize, bool, bool)]) -> Vec<i64> {
    let column = |&(column, descending, nulls_first): &(usize, bool, bool)| SortColumn {
        values: Arc::clone(&columns[column]),
        options: Some(SortOptions { descending, nulls_first }),
    };
    let order = lexsort_to_indices(&by.iter().map(column).collect::<Vec<_>>(), None).unwrap();
    order.values().iter().map(|&row| i64::from(row)).collect()
}

fn numbers(chunks: &[Chunk]) -> Vec<i64> {
    let values = |chunk: &Chunk| {
        chunk.column(chunk.num_columns() - 1).array.as_primitive::<types::Int64Type>().values().to_vec()
    };
    chunks.iter().flat_map(values).collect()
}

fn check(setup: &Setup, columns: &[ArrayRef], by: &[(usize, bool, bool)], fetch: Option<usize>) {
    let spec = SortSpec { keys: keys(columns, by), fetch, schema: schema(columns) };
    assert!(supports(&spec));
    let (chunks, ctx) = setup.run(columns, |query, input| sort(query, input, spec));
    let mut expected = expected(columns, by);
    expected.truncate(fetch.unwrap_or(usize::MAX));
    let got = numbers(&chunks);
    assert_eq!(got.len(), expected.len(), "{setup:?} by {by:?} {fetch:?}");
    let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(wrong.is_none(), "{setup:?} by {by:?} {fetch:?}: row {wrong:?} of {}", got.len());
    came_along(setup, columns, &chunks, &expected);
    all_is_given_back(setup, &ctx);
}

/// Whether each chunk has, of all columns, the rows of these numbers.
fn came_along(setup: &Setup, columns: &[ArrayRef], chunks: &[Chunk], expected: &[i64]) {
    let mut at = 0;
    for chunk in chunks {
        let rows: Vec<u32> = expected[at..at + chunk.len()].iter().map(|&row| row as u32).collect();
        at += chunk.len();
        for (column, all) in columns.iter().enumerate() {
            let wanted = ogee_vector::gather_array(all, &rows).unwrap();
            assert_eq!(**chunk.column(column).array, *wanted, "{setup:?} column {column}");
        }
    }
}

fn all_is_given_back(setup: &Setup, ctx: &ExecContext) {
    // A page that is being read ahead lives until it has been read.
    let held = || {
        let stats = ctx.memory.stats();
        (stats.pinned, stats.temp_bytes, stats.reserved)
    };
    let read_ahead = (0..2000).find(|_| {
        let done = held() == (0, 0, 0);
        if !done {
            std::thread::sleep(Duration::from_millis(1));
        }
        done
    });
    assert!(read_ahead.is_some(), "{setup:?}: all is given back, {:?}", held());
}

#[test]
fn every_type_sorts_as_arrow_does() {
    let columns = columns(1, 2000);
    let number = columns.len() - 1;
    for (n, setup) in SETUPS.iter().enumerate() {
        for column in 0..number {
            let bits = n + column;
            check(setup, &columns, &[(column, bits % 2 == 0, bits / 2 % 2 == 0), (number, false, false)], None);
        }
    }
}

#[test]
fn many_keys_and_many_rows() {
    let rows = 25_000;
    let columns = columns(2, rows);
    let number = columns.len() - 1;
    for setup in &SETUPS {
        // Without a string between them, with one, with nested values; a key of its own.
        for by in [
            vec![(0, false, true), (2, true, false), (9, true, true), (4, false, false)],
            vec![(5, true, false), (15, false, false), (6, true, true)],
            vec![(15, true, true), (16, true, false), (15, false, false), (3, true, false)],
            vec![(12, true, false)],
        ] {
            let mut by = by;
            by.push((number, true, false));
            if rows * setup.threads / setup.chunk < 40_000 {
                check(setup, &columns, &by, None);
            }
        }
    }
}

#[test]
fn first_rows_only() {
    let columns = columns(3, 12_000);
    let number = columns.len() - 1;
    for setup in &SETUPS {
        for fetch in [0, 10, 5000, 50_000] {
            check(setup, &columns, &[(1, true, false), (number, false, false)], Some(fetch));
            check(setup, &columns, &[(15, false, true), (0, false, true), (number, true, false)], Some(fetch));
        }
    }
}

#[test]
fn offsets_and_limits_leave_out_what_comes_before_and_after() {
    let rows = 30_000;
    let columns = columns(8, rows);
    for setup in &SETUPS {
        // Few prefixes, and many.
        for by in [
            [(15, false, true), (columns.len() - 1, true, false)],
            [(12, true, true), (columns.len() - 1, false, false)],
        ] {
            let all = expected(&columns, &by);
            for (skip, fetch) in [(1, None), (rows / 2, Some(700)), (rows - 1, Some(5)), (rows, None), (20_000, None)] {
                if rows * setup.threads / setup.chunk >= 40_000 {
                    continue;
                }
                let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
                let (chunks, ctx) = setup.run(&columns, |query, input| {
                    let mut rows = sort(query, input, spec)?;
                    rows.limit(skip as u64, fetch);
                    assert!(rows.operators.is_empty(), "the source does it");
                    Ok(rows)
                });
                let to = fetch.map_or(rows, |fetch| rows.min(skip + fetch as usize));
                assert!(numbers(&chunks) == all[skip..to.max(skip)], "{setup:?} {by:?} {skip} {fetch:?}");
                all_is_given_back(setup, &ctx);
            }
        }
    }
}

#[test]
fn equal_rows_keep_their_order_on_one_lane() {
    let columns = columns(4, 30_000);
    for limit in [4 << 20, 1 << 30] {
        let setup = Setup { limit, threads: 1, spill_always: false, chunk: 2048 };
        for by in [[(0, false, false), (2, true, true)], [(15, false, true), (5, true, false)]] {
            let mut stable: Vec<(usize, bool, bool)> = by.to_vec();
            stable.push((columns.len() - 1, false, false));
            let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
            let (chunks, _) = setup.run(&columns, |query, input| sort(query, input, spec));
            assert!(numbers(&chunks) == expected(&columns, &stable), "{setup:?} {by:?}");
        }
    }
}

#[test]
fn small_memory_takes_several_passes() {
    let setup = Setup { limit: 4 << 20, threads: 2, spill_always: false, chunk: 2048 };
    let rows = 300_000;
    let mut r = Random(5);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| r.next(1 << 40) as i64))),
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("a string of some length {row}")))),
        Arc::new(Int64Array::from_iter_values(0..rows)),
    ];
    let by = [(0, false, false), (2, false, false)];
    let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
    let (chunks, ctx) = setup.run(&columns, |query, input| sort(query, input, spec));
    assert!(numbers(&chunks) == expected(&columns, &by));
    let notes = ctx.counters.strategies();
    assert!(notes.iter().any(|note| note == "sort: several passes"), "{notes:?}");
    assert!(ctx.memory.stats().peak_used <= setup.limit, "within the limit");
}

#[test]
fn long_strings_do_not_pin_all_of_their_pages() {
    // Strings of a page of rows would take 50 MiB.
    let setup = Setup { limit: 24 << 20, threads: 2, spill_always: false, chunk: 64 };
    let rows = 4000;
    let mut r = Random(7);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|_| format!("{:?}{}", "x".repeat(r.next(30_000) as usize), r.next(100))),
        )),
        Arc::new(Int64Array::from_iter_values(0..rows)),
    ];
    let by = [(0, true, false), (1, false, false)];
    let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
    let (chunks, ctx) = setup.run(&columns, |query, input| sort(query, input, spec));
    assert!(numbers(&chunks) == expected(&columns, &by));
    assert!(ctx.memory.stats().spilled_bytes > 0, "more than fits");
}

#[test]
fn operators_above_keep_the_order() {
    let columns = columns(6, 30_000);
    let by = [(1, false, true), (columns.len() - 1, false, false)];
    for setup in &SETUPS {
        let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
        let flag = columns[5].as_boolean();
        let kept: Vec<i64> = expected(&columns, &by)
            .into_iter()
            .filter(|&n| flag.is_valid(n as usize) && flag.value(n as usize))
            .collect();
        let (chunks, _) = setup.run(&columns, |query, input| {
            let mut rows = sort(query, input, spec.clone())?;
            rows.operators.push(Arc::new(Filter::new(Expr::Column(5))));
            Ok(rows)
        });
        assert!(numbers(&chunks) == kept, "{setup:?}");
        let (chunks, _) = setup.run(&columns, |query, input| {
            let mut rows = sort(query, input, spec)?;
            rows.operators.push(Arc::new(Filter::new(Expr::Column(5))));
            rows.order.as_ref().unwrap().serialize();
            rows.operators.push(Arc::new(Limit::new(100, Some(2000))));
            Ok(rows)
        });
        assert!(numbers(&chunks) == kept[100..2100], "{setup:?}");
    }
}

#[test]
fn zeroes_are_equal_and_every_nan_is_greatest() {
    let values = vec![f64::NAN, 1.0, -0.0, -f64::NAN, f64::INFINITY, 0.0, -1.0];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Float64Array::from(values)), Arc::new(Int64Array::from_iter_values(0..7))];
    let by = [(0, false, false), (1, false, false)];
    let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
    let (chunks, _) = SETUPS[0].run(&columns, |query, input| sort(query, input, spec));
    assert_eq!(numbers(&chunks), [6, 2, 5, 1, 4, 0, 3]);
}
