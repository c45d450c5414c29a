//! Strings whose beginnings do not tell them apart: long common ones, zero bytes, equal strings, NULLs, what comes after them.

use ogee_vector::Domain;

use super::*;

/// Strings of few words, so that most share a beginning with many others, at every length.
fn texts(r: &mut Random, rows: usize, nulls: bool) -> ArrayRef {
    let words = ["a", "ab", "abc\0", "\0", "furiously ", "furious", "regular deposits ", "x".repeat(70).leak()];
    let mut text = || {
        let count = r.next(6);
        (0..count).map(|_| words[r.next(words.len() as u64) as usize]).collect::<String>()
    };
    let texts: Vec<String> = (0..rows).map(|_| text()).collect();
    let is_null = |row: usize| nulls && row % 17 == 5;
    Arc::new(StringViewArray::from_iter(
        texts.into_iter().enumerate().map(|(row, text)| (!is_null(row)).then_some(text)),
    ))
}

#[test]
fn what_strings_share_is_passed_over() {
    let rows = 30_000;
    for nulls in [false, true] {
        let r = &mut Random(31);
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let few: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(|row| (row % 3) as i32)));
        let columns = [texts(r, rows, nulls), few, texts(r, rows, nulls), number];
        let domain = |integers| Domain { nulls, integers };
        let domains = vec![domain(None), domain(Some((0, 2))), domain(None), domain(Some((0, rows as i64)))];
        for setup in SETUPS.iter().filter(|setup| setup.chunk > 100) {
            for by in [
                vec![(0, false, true), (3, true, false)],
                vec![(0, true, false), (1, true, true), (2, false, true), (3, false, false)],
                vec![(1, false, false), (2, true, true), (0, true, true), (3, true, true)],
            ] {
                let spec = SortSpec { keys: keys(&columns, &by), fetch: None, schema: schema(&columns) };
                for domains in [Vec::new(), domains.clone()] {
                    let (chunks, ctx) = setup.run(&columns, |query, mut input| {
                        input.source = Arc::new(Hinted { chunks: input.source, domains });
                        sort(query, input, spec.clone())
                    });
                    let expected = expected(&columns, &by);
                    let got = numbers(&chunks);
                    let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
                    assert!(wrong.is_none() && got.len() == rows, "{setup:?} by {by:?}: row {wrong:?}");
                    came_along(setup, &columns, &chunks, &expected);
                    all_is_given_back(setup, &ctx);
                }
            }
        }
    }
}

#[test]
fn equal_strings_keep_the_order_of_their_rows() {
    let rows = 20_000;
    let text = |row: usize| format!("{}{}", "the same for all of them, ".repeat(row % 3), "z".repeat(row % 2));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values((0..rows).map(text))),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ];
    let setup = Setup { limit: 1 << 30, threads: 1, spill_always: false, chunk: 2048 };
    for descending in [false, true] {
        let spec = SortSpec { keys: keys(&columns, &[(0, descending, false)]), fetch: None, schema: schema(&columns) };
        let (chunks, _) = setup.run(&columns, |query, input| sort(query, input, spec));
        assert!(numbers(&chunks) == expected(&columns, &[(0, descending, false), (1, false, false)]));
    }
}
