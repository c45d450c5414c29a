//! Rows narrow enough to be moved: every layout, offsets and limits, statistics that do not hold, memory for a part of them.

use ogee_vector::Domain;

use super::*;

/// Columns of types that are packed; the last is the row's number.
fn narrow(seed: u64, rows: usize) -> Vec<ArrayRef> {
    let all = columns(seed, rows);
    // Few numbers, any 32 bits, unsigned of 64 bits, bool, double, decimal, date, row number.
    [0, 1, 3, 5, 6, 8, 11, all.len() - 1].map(|column: usize| Arc::clone(&all[column])).to_vec()
}

/// Sorts `columns` by `by`, where statistics say `domains`, and compares what is left of it by `skip` and `fetch`, twice. What was noted on the way.
fn check_packed(
    setup: &Setup,
    columns: &[ArrayRef],
    by: &[(usize, bool, bool)],
    domains: Vec<Domain>,
    (skip, fetch): (usize, Option<usize>),
) -> Vec<String> {
    let spec = SortSpec { keys: keys(columns, by), fetch: None, schema: schema(columns) };
    let (chunks, ctx) = setup.run(columns, |query, mut input| {
        input.source = Arc::new(Hinted { chunks: input.source, domains });
        let mut rows = sort(query, input, spec)?;
        // Half of it at a time.
        rows.limit((skip / 2) as u64, fetch.map(|fetch| (fetch + skip) as u64));
        rows.limit((skip - skip / 2) as u64, fetch.map(|fetch| fetch as u64));
        assert!(rows.operators.is_empty(), "the source does it");
        Ok(rows)
    });
    let mut expected = expected(columns, by);
    expected.drain(..skip.min(expected.len()));
    expected.truncate(fetch.unwrap_or(usize::MAX));
    let got = numbers(&chunks);
    let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(wrong.is_none() && got.len() == expected.len(), "{setup:?} by {by:?}: row {wrong:?} of {}", got.len());
    assert!(chunks.iter().all(|chunk| chunk.len() <= setup.chunk));
    came_along(setup, columns, &chunks, &expected);
    all_is_given_back(setup, &ctx);
    let notes = ctx.counters.strategies();
    assert!(notes.iter().any(|note| note.ends_with("packed rows")), "{notes:?}");
    notes
}

/// Columns `chosen` of all, and the number of the row.
fn some(all: &[ArrayRef], chosen: &[usize]) -> Vec<ArrayRef> {
    chosen.iter().chain([&(all.len() - 1)]).map(|&column| Arc::clone(&all[column])).collect()
}

#[test]
fn every_packed_type_sorts_as_arrow_does() {
    let all = narrow(11, 20_000);
    for (n, setup) in SETUPS.iter().enumerate() {
        if 20_000 * setup.threads / setup.chunk >= 20_000 {
            continue;
        }
        for column in 0..all.len() - 1 {
            let (descending, first) = ((n + column) % 2 == 0, (n + column) / 2 % 2 == 0);
            let columns = some(&all, &[column]);
            check_packed(setup, &columns, &[(0, descending, first), (1, !descending, first)], Vec::new(), (0, None));
        }
        // Several keys, a key twice, and columns that are none.
        let columns = some(&all, &[0, 3, 6]);
        check_packed(
            setup,
            &columns,
            &[(0, true, false), (1, false, true), (0, false, true), (3, true, true)],
            Vec::new(),
            (0, None),
        );
    }
}

#[test]
fn offsets_and_limits_leave_out_whole_ranges() {
    let rows = 60_000;
    let all = narrow(12, rows);
    let columns = some(&all, &[1]);
    for setup in &SETUPS {
        if rows * setup.threads / setup.chunk >= 60_000 {
            continue;
        }
        for (skip, fetch) in [
            (0, None),
            (1, Some(1)),
            (rows - 1, None),
            (rows / 2, Some(7000)),
            (rows, None),
            (rows / 3, None),
            (5, Some(0)),
        ] {
            check_packed(setup, &columns, &[(0, false, true), (1, true, true)], Vec::new(), (skip, fetch));
        }
    }
}

#[test]
fn statistics_are_only_hints() {
    let rows = 40_000;
    let domain = |nulls, low, high| Domain { nulls, integers: Some((low, high)) };
    let number = domain(false, 0, rows as i64 - 1);
    let r = &mut Random(13);
    let late = |row: usize, value: i64| if row > rows / 2 { value * 1_000_000_007 } else { value };
    let values: Vec<i64> = (0..rows).map(|row| late(row, r.next(100) as i64)).collect();
    let nulls: Vec<Option<i64>> = (0..rows).map(|row| (row < rows - 3).then(|| r.next(100) as i64)).collect();
    let row_numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    for setup in &SETUPS {
        if rows * setup.threads / setup.chunk >= 60_000 {
            continue;
        }
        let kept: [ArrayRef; 2] = [Arc::new(Int64Array::from(values.clone())), Arc::clone(&row_numbers)];
        let broken: [ArrayRef; 2] = [Arc::new(Int64Array::from(nulls.clone())), Arc::clone(&row_numbers)];
        let by = [(0, true, true), (1, false, false)];
        let whole = domain(false, 0, 99 * 1_000_000_007);
        let notes = check_packed(setup, &kept, &by, vec![whole, number], (3, None));
        assert!(!notes.iter().any(|note| note.contains("do not hold")), "{notes:?}");
        for (columns, hint) in [(&kept, domain(false, 0, 99)), (&broken, domain(false, 0, 99))] {
            let notes = check_packed(setup, columns, &by, vec![hint, number], (3, Some(rows / 2)));
            assert!(notes.iter().any(|note| note.contains("do not hold")), "{notes:?}");
        }
    }
}

#[test]
fn more_runs_than_memory_can_merge_at_once() {
    let setup = Setup { limit: 4 << 20, threads: 2, spill_always: false, chunk: 2048 };
    let rows = 1_500_000;
    let mut r = Random(14);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| r.next(1 << 40) as i64))),
        Arc::new(Int64Array::from_iter_values(0..rows)),
    ];
    let spec = SortSpec {
        keys: keys(&columns, &[(0, false, false), (1, false, false)]),
        fetch: None,
        schema: schema(&columns),
    };
    let (chunks, ctx) = setup.run(&columns, |query, input| sort(query, input, spec));
    assert!(numbers(&chunks) == expected(&columns, &[(0, false, false), (1, false, false)]));
    let notes = ctx.counters.strategies();
    assert!(notes.iter().any(|note| note == "sort: several passes"), "{notes:?}");
    assert!(ctx.memory.stats().peak_used <= setup.limit, "within the limit");
}

#[test]
fn rows_that_are_all_equal_are_one_range() {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![7; 300_000])), Arc::new(Int64Array::from(vec![0; 300_000]))];
    for setup in [&SETUPS[0], &SETUPS[3]] {
        let spec = SortSpec { keys: keys(&columns, &[(0, false, false)]), fetch: None, schema: schema(&columns) };
        let (chunks, _) = setup.run(&columns, |query, input| {
            let mut rows = sort(query, input, spec)?;
            rows.limit(123_456, None);
            Ok(rows)
        });
        assert_eq!(numbers(&chunks).len(), 300_000 - 123_456);
    }
}
