//! Window functions against values computed row by row.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray, cast::AsArray, new_null_array, types};
use arrow_schema::{DataType, Field, Schema};
use ogee_exec::{
    ExecError, Expr,
    window::{
        Bound, Extent, ForeignWindow, ForeignWindowStream, Frame, LeadingRows, Unit, Wanted, Which, WindowCall,
        WindowFunction as W, WindowSpec, window,
    },
};

use crate::{Random, SETUPS, Setup, is_sampled, keys, schema};

/// Rows with a partition, an order with ties, a value with NULLs, a string, and their number.
fn rows(seed: u64, rows: usize, partitions: u64) -> Vec<ArrayRef> {
    let mut r = Random(seed);
    // Half of the rows are in one partition.
    let partition = |r: &mut Random| if r.next(2) == 0 { 0 } else { r.next(partitions) as i64 };
    vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| partition(&mut r)))),
        Arc::new(Int64Array::from(r.some(rows, |r| r.next(rows as u64 / 3 + 1) as i64))),
        Arc::new(Int64Array::from(r.some(rows, |r| r.next(1000) as i64 - 500))),
        Arc::new(StringViewArray::from_iter(r.some(rows, |r| format!("a string that is not so short {}", r.next(50))))),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ]
}

/// The sum of column 2 over the row and the two before it.
#[derive(Debug)]
struct SumOfThree {
    streams: bool,
}

#[derive(Default)]
struct SumOfThreeStream {
    before: Vec<i64>,
}

impl SumOfThreeStream {
    fn add(&mut self, values: &ArrayRef) -> ArrayRef {
        let sums = values.as_primitive::<types::Int64Type>().iter().map(|value| {
            self.before.push(value.unwrap_or(0));
            if self.before.len() > 3 {
                self.before.remove(0);
            }
            self.before.iter().sum::<i64>()
        });
        Arc::new(Int64Array::from_iter_values(sums))
    }
}

impl ForeignWindow for SumOfThree {
    fn columns(&self) -> &[usize] {
        &[2]
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, ExecError> {
        assert_eq!(columns[0].len(), rows);
        Ok(SumOfThreeStream::default().add(&columns[0]))
    }

    fn stream(&self) -> Result<Option<Box<dyn ForeignWindowStream>>, ExecError> {
        Ok(self.streams.then(|| Box::new(SumOfThreeStream::default()) as Box<dyn ForeignWindowStream>))
    }
}

impl ForeignWindowStream for SumOfThreeStream {
    fn push(&mut self, columns: &[ArrayRef], rows: usize, _last: bool) -> Result<ArrayRef, ExecError> {
        assert_eq!(columns[0].len(), rows);
        Ok(self.add(&columns[0]))
    }
}

fn calls() -> Vec<WindowCall> {
    let int = || Some((Expr::Column(2), DataType::Int64));
    let call = |function, arg, output| WindowCall { function, arg, key: None, order_keys: 1, output };
    let text = Some((Expr::Column(3), DataType::Utf8View));
    let mut calls = vec![
        call(W::RowNumber, None, DataType::Int64),
        call(W::Rank, None, DataType::Int64),
        call(W::DenseRank, None, DataType::Int64),
        call(W::PercentRank, None, DataType::Float64),
        call(W::CumeDist, None, DataType::Float64),
        call(W::Ntile(7), None, DataType::Int64),
        call(W::Shift { offset: 3, default: new_null_array(&DataType::Int64, 1) }, int(), DataType::Int64),
        call(W::Shift { offset: -2, default: Arc::new(Int64Array::from(vec![7])) }, int(), DataType::Int64),
        call(W::Shift { offset: -100_000, default: Arc::new(Int64Array::from(vec![9])) }, int(), DataType::Int64),
        call(W::FirstValue, text.clone(), DataType::Utf8View),
        call(W::LastValue(Extent::Partition), text.clone(), DataType::Utf8View),
    ];
    for extent in [Extent::Row, Extent::Peers, Extent::Partition] {
        calls.push(call(W::Min(extent), text.clone(), DataType::Utf8View));
        calls.push(call(W::Max(extent), text.clone(), DataType::Utf8View));
    }
    let rows = |start, end| Extent::Rows { start, end };
    let extents =
        [rows(Some(-2), 1), rows(Some(1), 3), rows(Some(-5), -2), rows(None, 2), rows(None, -3), rows(Some(0), 0)];
    let frame = |start, end| Frame { start, end, descending: false, nulls_first: false };
    let at = |unit, following| Bound::At { unit, following };
    let frames = [
        frame(at(Unit::Groups(1), false), at(Unit::Groups(1), true)),
        frame(at(Unit::Groups(2), true), at(Unit::Groups(4), true)),
        frame(at(Unit::Rows(3), false), at(Unit::Groups(0), true)),
        frame(at(Unit::Rows(2), true), Bound::Unbounded),
    ];
    for frame in frames {
        for which in [Which::Nth(1), Which::Nth(3), Which::Last] {
            for ignore_nulls in [false, true] {
                calls.push(call(W::Chosen { which, frame, ignore_nulls }, int(), DataType::Int64));
            }
        }
    }
    let extents = extents.into_iter().chain(frames.map(Extent::Frame));
    for extent in [Extent::Row, Extent::Peers, Extent::Partition].into_iter().chain(extents) {
        if !matches!(extent, Extent::Rows { .. } | Extent::Frame(_)) {
            calls.push(call(W::LastValue(extent), int(), DataType::Int64));
        }
        calls.push(call(W::Count(extent), int(), DataType::Int64));
        calls.push(call(W::Sum(extent), int(), DataType::Int64));
        calls.push(call(W::Min(extent), int(), DataType::Int64));
        calls.push(call(W::Max(extent), int(), DataType::Int64));
    }
    for streams in [false, true] {
        calls.push(call(W::Foreign(Arc::new(SumOfThree { streams })), None, DataType::Int64));
    }
    calls
}

/// The value of `call` for row `at` of `partition`, whose rows are in order; `ranks` are the numbers of their groups of peers.
fn value(call: &W, at: usize, ranks: &[usize], values: &[Option<i64>], strings: &[Option<String>]) -> String {
    let rows = values.len();
    let first_peer = ranks.iter().position(|&rank| rank == ranks[at]).unwrap();
    let last_peer = ranks.iter().rposition(|&rank| rank == ranks[at]).unwrap();
    // What is seen: from one row up to another, or nothing.
    let end = |extent: &Extent| match extent {
        Extent::Row => at,
        Extent::Peers => last_peer,
        Extent::Partition => rows - 1,
        Extent::Rows { .. } | Extent::Frame(_) => unreachable!("has a start too"),
    };
    let between = |frame: &Frame| {
        let place = |bound: Bound, is_start: bool| match bound {
            Bound::Unbounded if is_start => 0,
            Bound::Unbounded => rows as i64,
            Bound::At { unit, following } => {
                let sign = if following { 1 } else { -1 };
                match unit {
                    Unit::Rows(count) => at as i64 + sign * count as i64 + i64::from(!is_start),
                    Unit::Groups(count) => {
                        let group = ranks[at] as i64 + sign * count as i64;
                        let is_before = |&&rank: &&usize| rank as i64 + i64::from(is_start) <= group;
                        ranks.iter().take_while(is_before).count() as i64
                    }
                    Unit::Values(_) => unreachable!("not asked for"),
                }
            }
        };
        let [start, end] = [(frame.start, true), (frame.end, false)]
            .map(|(bound, is_start)| place(bound, is_start).clamp(0, rows as i64) as usize);
        start.min(end)..end
    };
    let frame = |extent: &Extent| match extent {
        Extent::Rows { start, end } => {
            let place = |distance: i64| (at as i64 + distance).clamp(0, rows as i64) as usize;
            let end = place(end + 1);
            start.map_or(0, place).min(end)..end
        }
        Extent::Frame(frame) => between(frame),
        other => 0..end(other) + 1,
    };
    let text = |value: Option<i64>| value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
    let seen = |extent: &Extent| values[frame(extent)].iter().flatten().copied();
    match call {
        W::RowNumber => (at + 1).to_string(),
        W::Rank => (first_peer + 1).to_string(),
        W::DenseRank => (ranks[at] - ranks[0] + 1).to_string(),
        W::PercentRank if rows == 1 => "0".to_owned(),
        W::PercentRank => (first_peer as f64 / (rows - 1) as f64).to_string(),
        W::CumeDist => ((last_peer + 1) as f64 / rows as f64).to_string(),
        W::Ntile(buckets) => {
            let (least, more) = (rows / *buckets as usize, rows % *buckets as usize);
            let large = more * (least + 1);
            (if at < large { at / (least + 1) } else { more + (at - large) / least } + 1).to_string()
        }
        W::Shift { offset, default } => match usize::try_from(at as i64 - offset) {
            Ok(other) if other < rows => text(values[other]),
            _ => text(default.is_valid(0).then(|| default.as_primitive::<types::Int64Type>().value(0))),
        },
        W::FirstValue => strings[0].clone().unwrap_or_else(|| "NULL".to_owned()),
        W::LastValue(Extent::Partition) if strings.len() == rows => {
            strings[rows - 1].clone().unwrap_or_else(|| "NULL".to_owned())
        }
        W::LastValue(extent) => text(values[end(extent)]),
        W::Count(extent) => seen(extent).count().to_string(),
        W::Sum(extent) => text((seen(extent).count() > 0).then(|| seen(extent).sum())),
        W::Min(extent) | W::Max(extent) if strings.len() == rows => {
            let seen = strings[frame(extent)].iter().flatten();
            let best = if matches!(call, W::Min(_)) { seen.min() } else { seen.max() };
            best.cloned().unwrap_or_else(|| "NULL".to_owned())
        }
        W::Min(extent) => text(seen(extent).min()),
        W::Max(extent) => text(seen(extent).max()),
        W::Chosen { which, frame, ignore_nulls } => {
            let mut seen = values[between(frame)].iter().filter(|value| value.is_some() || !ignore_nulls);
            text(match which {
                Which::Nth(number) => seen.nth(number - 1).copied().flatten(),
                Which::Last => seen.next_back().copied().flatten(),
                Which::Least | Which::Greatest => unreachable!("not asked for"),
            })
        }
        W::Foreign(_) => values[at.saturating_sub(2)..=at].iter().flatten().sum::<i64>().to_string(),
        W::Avg(_) => unreachable!("not asked for"),
    }
}

fn show(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        DataType::Float64 => array.as_any().downcast_ref::<Float64Array>().unwrap().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<types::Int64Type>().value(row).to_string(),
        _ => array.as_string_view().value(row).to_owned(),
    }
}

fn check(setup: &Setup, columns: &[ArrayRef], calls: &[WindowCall], partitioned: bool) -> Vec<String> {
    let total = columns[0].len();
    let order = [(1, false, false), (4, false, false)];
    let mut fields: Vec<Field> = schema(columns).fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.extend(calls.iter().enumerate().map(|(i, call)| Field::new(format!("w{i}"), call.output.clone(), true)));
    let spec = WindowSpec {
        partition_by: if partitioned { keys(columns, &[(0, false, true)]) } else { Vec::new() },
        order_by: keys(columns, &order),
        calls: calls.to_vec(),
        leading: None,
        input: schema(columns),
        schema: Arc::new(Schema::new(fields)),
    };
    assert!(spec.is_supported());
    let (chunks, ctx) = setup.run(columns, |query, input| window(query, input, spec));
    // Where each row's values are.
    let mut places = vec![None; total];
    for (number, chunk) in chunks.iter().enumerate() {
        let numbers = chunk.column(4).array.as_primitive::<types::Int64Type>();
        for row in 0..chunk.len() {
            assert!(
                places[numbers.value(row) as usize].replace((number, row)).is_none(),
                "{setup:?}: a row came twice"
            );
        }
    }
    let int = |column: usize, row: usize| {
        let array = columns[column].as_primitive::<types::Int64Type>();
        array.is_valid(row).then(|| array.value(row))
    };
    let mut all: Vec<usize> = (0..total).collect();
    let partition = |row: usize| if partitioned { int(0, row) } else { None };
    all.sort_by_key(|&row| (partition(row), int(1, row).is_none(), int(1, row), row));
    let mut checked = 0;
    for rows in all.chunk_by(|&a, &b| partition(a) == partition(b)) {
        let mut ranks = Vec::with_capacity(rows.len());
        for (at, &row) in rows.iter().enumerate() {
            let same = at > 0 && int(1, rows[at - 1]) == int(1, row);
            ranks.push(if same { ranks[at - 1] } else { at + 1 });
        }
        // Numbered without gaps.
        let mut dense = ranks.clone();
        dense.dedup();
        let ranks: Vec<usize> = ranks.iter().map(|rank| dense.binary_search(rank).unwrap()).collect();
        let values: Vec<Option<i64>> = rows.iter().map(|&row| int(2, row)).collect();
        let text = columns[3].as_string_view();
        let strings: Vec<Option<String>> =
            rows.iter().map(|&row| text.is_valid(row).then(|| text.value(row).to_owned())).collect();
        // All rows of small partitions, some of large ones: the reference looks at the whole partition for each.
        let step = (rows.len() / 150).max(1);
        for at in (0..rows.len()).step_by(step).chain([rows.len() - 1]) {
            let (chunk, row) = places[rows[at]].expect("every row came");
            for (i, call) in calls.iter().enumerate() {
                let strings = match &call.arg {
                    Some((_, DataType::Utf8View)) => strings.as_slice(),
                    _ => &[],
                };
                let got = show(chunks[chunk].column(columns.len() + i).array, row);
                let wanted = value(&call.function, at, &ranks, &values, strings);
                assert_eq!(got, wanted, "{setup:?} {:?}: row {at} of {}", call.function, rows.len());
            }
            checked += 1;
        }
    }
    assert!(checked > 0 && places.iter().all(Option::is_some));
    if !partitioned {
        let order: Vec<usize> = chunks
            .iter()
            .flat_map(|chunk| chunk.column(4).array.as_primitive::<types::Int64Type>().values().to_vec())
            .map(|number| number as usize)
            .collect();
        assert!(order == all, "{setup:?}: without partitions rows come in the order");
    }
    let stats = ctx.memory.stats();
    assert_eq!((stats.pinned, stats.temp_bytes, stats.reserved), (0, 0, 0), "{setup:?}: all is given back");
    ctx.counters.strategies()
}

#[test]
fn functions_see_their_partitions_under_every_setup() {
    for setup in &SETUPS {
        // Values of eighty functions wait for the end of a partition.
        let columns = rows(1, if setup.limit < 16 << 20 { 500 } else { 4000 }, 900);
        check(setup, &columns, &calls(), true);
        check(setup, &columns, &calls(), false);
    }
}

#[test]
fn a_partition_larger_than_memory_is_read_twice() {
    let columns = rows(2, 120_000, 40);
    // Functions that keep little while they wait for the end of a partition, and one that is streamed.
    let mut calls = calls();
    calls.retain(|call| match &call.function {
        W::Foreign(function) => function.stream().unwrap().is_some(),
        W::Shift { offset, .. } => offset.abs() < 10,
        W::RowNumber | W::PercentRank | W::Ntile(_) | W::LastValue(Extent::Partition) => true,
        W::Sum(extent) => matches!(extent, Extent::Row | Extent::Partition),
        _ => false,
    });
    for (limit, threads) in [(16 << 20, 1), (24 << 20, 2)] {
        let setup = Setup { limit, threads, spill_always: false, chunk: 2048 };
        let notes = check(&setup, &columns, &calls, true);
        assert!(notes.iter().any(|note| note == "window: rows read twice"), "{notes:?}");
        check(&setup, &columns, &calls, false);
    }
}

#[test]
fn rows_beyond_the_first_of_a_partition_may_be_left_out() {
    let call = |function| WindowCall { function, arg: None, key: None, order_keys: 1, output: DataType::Int64 };
    for (turn, setup) in SETUPS.iter().filter(|setup| setup.chunk > 100).enumerate() {
        // Few partitions with many rows, many with few, and strings that rows are kept with or not.
        for (partitions, most, columns) in [(50, 100, 5), (50, 3, 3), (40_000, 2, 3), (40_000, 1, 5), (3000, 7, 5)] {
            let columns = &rows(3 + partitions as u64, 80_000, partitions as u64)[..columns];
            for (nth, wanted) in [Wanted::Rows, Wanted::Peers, Wanted::Groups].into_iter().enumerate() {
                if !is_sampled(turn + nth, 3) {
                    continue;
                }
                let mut fields: Vec<Field> =
                    schema(columns).fields().iter().map(|field| field.as_ref().clone()).collect();
                fields.push(Field::new("n", DataType::Int64, true));
                let function = match wanted {
                    Wanted::Rows => W::RowNumber,
                    Wanted::Peers => W::Rank,
                    Wanted::Groups => W::DenseRank,
                };
                let spec = WindowSpec {
                    partition_by: keys(columns, &[(0, false, true)]),
                    order_by: keys(columns, &[(1, most == 7, false)]),
                    calls: vec![call(function)],
                    leading: Some(LeadingRows { rows: most as usize, wanted }),
                    input: schema(columns),
                    schema: Arc::new(Schema::new(fields)),
                };
                let (chunks, ctx) = setup.run(columns, |query, input| window(query, input, spec));
                let int = |column: usize, row: usize| {
                    let array = columns[column].as_primitive::<types::Int64Type>();
                    array.is_valid(row).then(|| array.value(row))
                };
                let order = |row: usize| {
                    let value = int(1, row);
                    (value.is_none(), value.map(|value| if most == 7 { -value } else { value }))
                };
                let mut got = Vec::new();
                let mut all = 0;
                for chunk in &chunks {
                    all += chunk.len();
                    let order = chunk.column(1).array.as_primitive::<types::Int64Type>();
                    let numbers = chunk.column(columns.len()).array.as_primitive::<types::Int64Type>();
                    let partitions = chunk.column(0).array.as_primitive::<types::Int64Type>();
                    for row in (0..chunk.len()).filter(|&row| numbers.value(row) <= most) {
                        let value = order.is_valid(row).then(|| order.value(row));
                        got.push((partitions.value(row), numbers.value(row), value));
                    }
                }
                got.sort();
                let mut rows: Vec<usize> = (0..columns[0].len()).collect();
                rows.sort_by_key(|&row| (int(0, row), order(row)));
                let mut expected = Vec::new();
                for rows in rows.chunk_by(|&a, &b| int(0, a) == int(0, b)) {
                    let mut number = 0;
                    for (at, &row) in rows.iter().enumerate() {
                        let peers = at > 0 && int(1, rows[at - 1]) == int(1, row);
                        number = match wanted {
                            Wanted::Rows => at as i64 + 1,
                            _ if peers => number,
                            Wanted::Peers => at as i64 + 1,
                            Wanted::Groups => number + 1,
                        };
                        if number <= most {
                            expected.push((int(0, row).unwrap(), number, int(1, row)));
                        }
                    }
                }
                expected.sort();
                assert!(got == expected, "{setup:?} {partitions} {most} {wanted:?}");
                // Runs of a part that does not fit have their own first rows each.
                let few = if setup.limit < 1 << 30 { rows.len() / 4 * 3 } else { got.len() };
                assert!(all <= few, "{setup:?} {partitions} {most} {wanted:?}: {all} rows came");
                let stats = ctx.memory.stats();
                assert_eq!((stats.pinned, stats.temp_bytes, stats.reserved), (0, 0, 0), "{setup:?}: all is given back");
            }
        }
    }
}
