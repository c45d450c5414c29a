//! Rows with strings, as narrow as statistics and their first rows suggest: whatever is guessed, and whenever it turns out to be wrong, order and
//! values are the same.

use ogee_vector::Domain;

use super::*;

fn domain(nulls: bool, low: i64, high: i64) -> Domain {
    Domain { nulls, integers: Some((low, high)) }
}

const STRINGS: Domain = Domain { nulls: false, integers: None };

/// Sorts `columns` by `by`, where statistics say `domains`. What was noted on the way.
fn check_guessed(
    setup: &Setup,
    columns: &[ArrayRef],
    by: &[(usize, bool, bool)],
    domains: Vec<Domain>,
    skip: usize,
) -> Vec<String> {
    let spec = SortSpec { keys: keys(columns, by), fetch: None, schema: schema(columns) };
    let (chunks, ctx) = setup.run(columns, |query, mut input| {
        input.source = Arc::new(Hinted { chunks: input.source, domains });
        let mut rows = sort(query, input, spec)?;
        rows.limit(skip as u64, None);
        Ok(rows)
    });
    let expected = expected(columns, by).split_off(skip);
    let got = numbers(&chunks);
    let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(wrong.is_none() && got.len() == expected.len(), "{setup:?} by {by:?}: row {wrong:?} of {}", got.len());
    came_along(setup, columns, &chunks, &expected);
    all_is_given_back(setup, &ctx);
    let notes = ctx.counters.strategies();
    assert!(!notes.iter().any(|note| note.ends_with("packed rows")), "{notes:?}");
    notes
}

fn holds(notes: &[String]) -> bool {
    !notes.iter().any(|note| note == "sort: guesses do not hold")
}

/// Setups whose chunks have more than a few rows: plans are made anew once for each wrong guess, not for each chunk.
fn setups() -> impl Iterator<Item = &'static Setup> {
    SETUPS.iter().filter(|setup| setup.chunk > 100)
}

/// Columns of each kind that is stored narrowly, all within what [`DOMAINS`] says; `late` begins the second half. The last is the row's number.
fn columns_within(rows: usize, late: impl Fn(usize, bool) -> Option<i64>) -> Vec<ArrayRef> {
    let r = &mut Random(21);
    let value = |row: usize| late(row, row > rows / 2).map(|late| late + 1);
    let short = Decimal128Array::from_iter((0..rows).map(|row| value(row).map(|v| i128::from(v % 40_000))));
    let mut words = |word: &str| -> ArrayRef {
        let many = format!("{word}, at some length");
        Arc::new(StringViewArray::from_iter((0..rows).map(|row| {
            value(row).map(|value| match r.next(4) {
                0 => String::new(),
                1 => format!("{many} {}", value % 30),
                _ => format!("{word}{}", value % 9),
            })
        })))
    };
    let strings = [words("code"), words("other")];
    vec![
        Arc::new(Int64Array::from_iter((0..rows).map(value))),
        Arc::new(Date32Array::from_iter((0..rows).map(|row| value(row).map(|value| 8000 + (value % 2000) as i32)))),
        Arc::new(short.with_precision_and_scale(15, 2).unwrap()),
        Arc::new(UInt64Array::from_iter((0..rows).map(|row| value(row).map(|value| value as u64)))),
        Arc::clone(&strings[0]),
        Arc::clone(&strings[1]),
        Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|row| format!("a comment that begins alike {}", row % 977)),
        )),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ]
}

fn domains(rows: usize) -> Vec<Domain> {
    vec![
        domain(false, 0, 100),
        domain(false, 8000, 10_000),
        domain(false, 0, 40_000),
        domain(false, 0, 100),
        STRINGS,
        STRINGS,
        STRINGS,
        domain(false, 0, rows as i64),
    ]
}

const ORDERS: [&[(usize, bool, bool)]; 5] = [
    // Numbers only, in either direction; they fit an entry.
    &[(1, true, false), (0, false, true), (7, true, true)],
    // More than an entry has room for.
    &[(2, false, false), (0, true, true), (3, true, false), (1, false, true), (7, false, false)],
    // A string after a number, before one, two of them.
    &[(0, true, true), (6, false, false), (7, false, false)],
    &[(6, true, false), (7, true, false)],
    &[(4, false, true), (6, true, true), (5, true, false), (7, false, true)],
];

#[test]
fn values_within_statistics() {
    let rows = 20_000;
    let r = std::cell::RefCell::new(Random(22));
    let columns = columns_within(rows, |_, _| Some(r.borrow_mut().next(100) as i64));
    for setup in setups() {
        for by in ORDERS {
            let notes = check_guessed(setup, &columns, by, domains(rows), 17);
            assert!(holds(&notes), "{by:?} {notes:?}");
        }
    }
}

#[test]
fn values_beyond_statistics() {
    let rows = 10_000;
    for wrong in 0..5 {
        let r = std::cell::RefCell::new(Random(23 + wrong));
        let columns = columns_within(rows, |row, late| {
            let value = r.borrow_mut().next(100) as i64;
            match wrong {
                // One NULL at the very end, some, values of other signs and sizes, all others.
                0 => (row < rows - 1).then_some(value),
                1 => (!late || value > 3).then_some(value),
                2 => Some(if late { value * 1_000_007 } else { value }),
                3 => Some(if late && row % 1000 == 7 { i64::from(i32::MAX) * value } else { value }),
                _ => Some(value + 1000),
            }
        });
        for setup in setups() {
            for by in &ORDERS[1..4] {
                let notes = check_guessed(setup, &columns, by, domains(rows), 0);
                assert!(!holds(&notes), "{wrong} {by:?} {notes:?}");
            }
        }
    }
}

#[test]
fn strings_that_seem_few_and_are_many() {
    let rows = 40_000;
    let strings = |many: fn(usize) -> usize| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(
            (0..rows).map(|row| (row % 11 > 0).then(|| format!("{} of this and that", many(row)))),
        ))
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row * 7919 % 1013)));
    let by = [(0, false, false), (3, true, true)];
    // 255 values, 257, all different from the middle on.
    for (many, few) in [
        (strings(|row| row % 5 + row / 8000 * 50), true),
        (strings(|row| if row < 20_000 { row % 10 } else { row % 247 + 10 }), false),
        (strings(|row| if row < 20_000 { row % 10 } else { row }), false),
    ] {
        let comments: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{row}"))));
        let columns = [Arc::clone(&key), comments, many, Arc::clone(&numbers)];
        for setup in setups() {
            let notes = check_guessed(setup, &columns, &by, Vec::new(), 1234);
            assert_eq!(holds(&notes), few, "{notes:?}");
        }
    }
}

#[test]
fn unsigned_numbers_beyond_63_bits_are_the_greatest() {
    let values: Vec<u64> = (0..5000).map(|row: u64| if row.is_multiple_of(3) { u64::MAX - row } else { row }).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(values)),
        Arc::new(StringViewArray::from_iter_values((0..5000).map(|row| format!("number {row}")))),
        Arc::new(Int64Array::from_iter_values(0..5000)),
    ];
    let hints = vec![domain(false, -5001, 5000), STRINGS, domain(false, 0, 5000)];
    for setup in setups() {
        for descending in [false, true] {
            let notes = check_guessed(setup, &columns, &[(0, descending, false), (2, false, false)], hints.clone(), 0);
            assert!(holds(&notes), "{notes:?}");
        }
    }
}
