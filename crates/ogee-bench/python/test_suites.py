#!/usr/bin/env python3
"""Tests of `suites.py`: which results agree, and which do not. Needs nothing but Python."""

import unittest

import suites


class Cursor:
    """What `answer` asks of DuckDB: a result of (name, type) columns, whatever is executed."""

    def __init__(self, columns, rows):
        self.description, self.rows = columns, iter(rows)

    def execute(self, _):
        return self

    def fetchone(self):
        return next(self.rows, None)


def kept(rows, items=(), limit=None, types=("INTEGER", "DOUBLE")):
    columns = list(zip("ab", types))
    return suites.answer(Cursor(columns, rows), "SELECT a, b FROM t", list(items), limit)


class Suites(unittest.TestCase):
    def test_the_tail_of_a_query(self):
        sql = "SELECT a, sum(b) OVER (ORDER BY c) FROM t WHERE d = 'order by x' ORDER BY a DESC, f(b, 2) NULLS FIRST\nLIMIT 100"
        body, items, limit = suites.split_tail(sql)
        self.assertTrue(body.endswith("'order by x' "))
        self.assertEqual(items, ["a DESC", "f(b, 2) NULLS FIRST"])
        self.assertEqual(limit, 100)
        self.assertEqual(suites.split_tail("SELECT 1"), ("SELECT 1", [], None))
        self.assertEqual(suites.columns_of(items + ["2", "t.b", "dup"], ["a", "b", "dup", "dup"]), [0, None, 1, 1, None])
        self.assertEqual([suites.bare(item) for item in items], ["a", "f(b, 2)"])

    def test_rows_are_a_multiset_unless_ordered(self):
        answer = kept([(1, 0.5), (2, None), (2, None)])
        rows = [["2", None], ["1", "0.5000000000001"], ["2", None]]
        self.assertIsNone(suites.difference(answer, rows, {}))
        self.assertIn("should not be there", suites.difference(answer, rows[:2] + rows[1:2], {}))
        self.assertIn("2 rows instead of 3", suites.difference(answer, rows[:2], {}))
        self.assertIn("should not be there", suites.difference(answer, [["1", "0.5001"]] + rows[:1] + rows[2:], {}))
        ordered = kept([(1, 0.5), (2, None), (2, None)], ["a"])
        self.assertIn("out of order", suites.difference(ordered, rows, {}))

    def test_decimals_agree_to_their_last_place(self):
        answer = kept([(1, 2 / 3)])
        self.assertIsNone(suites.difference(answer, [["1", "0.6666"]], {1: 1e-4}))
        self.assertIsNotNone(suites.difference(answer, [["1", "0.6664"]], {1: 1e-4}))

    def test_any_choice_among_rows_tied_at_the_limit_is_right(self):
        answer = kept([(1, 1.0), (2, 1.0), (2, 2.0), (2, 3.0), (3, 9.0)], ["a"], 3)
        self.assertEqual(answer["count"], 4)
        self.assertIsNone(suites.difference(answer, [["1", "1"], ["2", "3"], ["2", "1"]], {}))
        self.assertIsNotNone(suites.difference(answer, [["2", "2"], ["2", "3"], ["2", "1"]], {}))
        self.assertIsNotNone(suites.difference(answer, [["1", "1"], ["2", "3"], ["3", "9"]], {}))

    def test_large_results_are_told_apart(self):
        rows = [(number, number / 7) for number in range(suites.ROWS_KEPT + 1)]
        answer = kept(rows)
        self.assertNotIn("rows", answer)
        ours = [[str(a), repr(b)] for a, b in reversed(rows)]
        self.assertIsNone(suites.difference(answer, ours, {}))
        ours[5][0] = "0"
        self.assertIn("other values", suites.difference(answer, ours, {}))
        ours[5][0], ours[6][1] = str(rows[-6][0]), "0.5"
        self.assertIn("a sum of", suites.difference(answer, ours, {}))

    def test_what_the_shell_says(self):
        out = (
            '{"column_name":"a","column_type":"BIGINT","null":"YES","key":null,"default":null,"extra":null}\n'
            '{"column_name":"b","column_type":"DECIMAL(15,4)","null":"YES","key":null,"default":null,"extra":null}\n'
            '{"a":10,"b":1.5000}\n{"a":null,"b":-0.0}\n'
        )
        self.assertEqual(suites.parse(out), ([["10", "1.5"], [None, "0"]], {1: 1e-4}))

    def test_a_rewrite_that_does_not_fit_is_an_error(self):
        with self.assertRaises(ValueError):
            suites.text_for("datafusion", "tpcds", {"name": "q61", "sql": "SELECT 1"})


if __name__ == "__main__":
    unittest.main()
