//! Window functions with an order among their arguments, `first_value(v ORDER BY k) OVER (ROWS 3 PRECEDING)`, and `lag` and `lead` by distances that are computed.
//!
//! A function with an order sees the rows of its frame in that order, not in the order of the window: `rank(ORDER BY k)` is the place of the current row among those of the frame. The rows of a partition are
//! ranked by their keys once. A Fenwick tree then counts which ranks are in the frame; frames of neighbouring rows differ by a few rows, which enter and leave it, each in logarithmic time.
//!
//! Where there is no frame, the order of the window is replaced instead (`ogee_sql::syntax`).
//!
//! Not here: functions that follow the order of the window.

use std::{ops::Range, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, UInt64Array},
        compute::{SortOptions, cast, take},
        datatypes::{DataType, Field, FieldRef, Int64Type},
        row::{RowConverter, SortField},
    },
    common::{Result, ScalarValue, exec_err, plan_err},
    logical_expr::{
        PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_expr::expressions::Literal,
};

/// What a function gives of the rows of a frame in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ordered {
    /// The place of the current row, from 1.
    RowNumber,
    /// That of the first row with its key.
    Rank,
    /// The number of keys up to its own.
    DenseRank,
    /// The rank as a share.
    PercentRank,
    /// The share of rows up to those with its key.
    CumeDist,
    /// The part of so many that the current row is in.
    Ntile,
    /// A value of the row so many before it.
    Lag,
    /// A value of the row so many behind it.
    Lead,
    /// A value of the first row.
    First,
    /// A value of the last row.
    Last,
    /// A value of the row with that number.
    Nth,
}

impl Ordered {
    /// All that there are.
    const ALL: [Self; 11] = [
        Self::RowNumber,
        Self::Rank,
        Self::DenseRank,
        Self::PercentRank,
        Self::CumeDist,
        Self::Ntile,
        Self::Lag,
        Self::Lead,
        Self::First,
        Self::Last,
        Self::Nth,
    ];

    /// The one that is `name` where it follows the order of the window.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "row_number" => Self::RowNumber,
            "rank" => Self::Rank,
            "dense_rank" | "rank_dense" => Self::DenseRank,
            "percent_rank" => Self::PercentRank,
            "cume_dist" => Self::CumeDist,
            "ntile" => Self::Ntile,
            "lag" => Self::Lag,
            "lead" => Self::Lead,
            "first_value" | "first" => Self::First,
            "last_value" | "last" => Self::Last,
            "nth_value" => Self::Nth,
            _ => return None,
        })
    }

    /// The name of the function that takes an order.
    pub fn function_name(self) -> &'static str {
        match self {
            Self::RowNumber => "ogee_ordered_row_number",
            Self::Rank => "ogee_ordered_rank",
            Self::DenseRank => "ogee_ordered_dense_rank",
            Self::PercentRank => "ogee_ordered_percent_rank",
            Self::CumeDist => "ogee_ordered_cume_dist",
            Self::Ntile => "ogee_ordered_ntile",
            Self::Lag => "ogee_ordered_lag",
            Self::Lead => "ogee_ordered_lead",
            Self::First => "ogee_ordered_first_value",
            Self::Last => "ogee_ordered_last_value",
            Self::Nth => "ogee_ordered_nth_value",
        }
    }

    /// How many arguments there are before those of the order: all that the function may have.
    pub fn arguments(self) -> usize {
        match self {
            Self::RowNumber | Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist => 0,
            Self::Ntile | Self::First | Self::Last => 1,
            Self::Nth => 2,
            Self::Lag | Self::Lead => 3,
        }
    }

    /// Whether it gives a value of a row, and not a number.
    fn is_value(self) -> bool {
        matches!(self, Self::Lag | Self::Lead | Self::First | Self::Last | Self::Nth)
    }
}

/// The functions to register in a session.
pub fn functions() -> impl Iterator<Item = WindowUDF> {
    let signature = || Signature::variadic_any(Volatility::Immutable);
    let ordered = Ordered::ALL.map(|of| WindowUDF::from(Function { of, is_ordered: true, signature: signature() }));
    let shifted = [Ordered::Lag, Ordered::Lead]
        .map(|of| WindowUDF::from(Function { of, is_ordered: false, signature: signature() }));
    ordered.into_iter().chain(shifted)
}

/// The name of `lag` or `lead` by distances and with defaults that are computed.
pub fn shifted_name(of: Ordered) -> Option<&'static str> {
    match of {
        Ordered::Lag => Some("ogee_lag"),
        Ordered::Lead => Some("ogee_lead"),
        _ => None,
    }
}

/// What the text says of a key: its direction, and where NULL goes.
pub fn order_text(options: &[SortOptions]) -> String {
    let of_key = |options: &SortOptions| match (options.descending, options.nulls_first) {
        (false, false) => 'a',
        (false, true) => 'A',
        (true, false) => 'd',
        (true, true) => 'D',
    };
    options.iter().map(of_key).collect()
}

/// What `text` says of the keys.
pub fn order_of(text: &str) -> Vec<SortOptions> {
    let of_key =
        |key: char| SortOptions { descending: key.eq_ignore_ascii_case(&'d'), nulls_first: key.is_ascii_uppercase() };
    text.chars().map(of_key).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    of: Ordered,
    /// Behind its own arguments come what is said of the keys, and these.
    is_ordered: bool,
    signature: Signature,
}

impl WindowUDFImpl for Function {
    fn name(&self) -> &str {
        match shifted_name(self.of) {
            Some(name) if !self.is_ordered => name,
            _ => self.of.function_name(),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let value = || match args.get_input_field(0) {
            Some(field) => {
                Ok(Field::new(args.name(), field.data_type().clone(), true).with_metadata(field.metadata().clone()))
            }
            None => plan_err!("{} takes a value", args.name()),
        };
        Ok(Arc::new(match self.of {
            of if of.is_value() => value()?,
            Ordered::PercentRank | Ordered::CumeDist => Field::new(args.name(), DataType::Float64, true),
            _ => Field::new(args.name(), DataType::Int64, true),
        }))
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        if !self.is_ordered {
            return Ok(Box::new(Shifted { leads: self.of == Ordered::Lead, ignores_nulls: args.ignore_nulls() }));
        }
        let text = args.input_exprs().get(self.of.arguments()).and_then(|expr| expr.downcast_ref::<Literal>());
        let options = match text.map(Literal::value) {
            Some(ScalarValue::Utf8(Some(text))) => order_of(text),
            _ => return plan_err!("{} takes what is said of its order", self.name()),
        };
        Ok(Box::new(InOrder {
            of: self.of,
            options,
            ignores_nulls: args.ignore_nulls(),
            row: 0,
            rows: None,
            frame: 0..0,
        }))
    }
}

/// `lag` and `lead` in the order of the window.
#[derive(Debug)]
struct Shifted {
    leads: bool,
    ignores_nulls: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let [of, by, default] = values else { return exec_err!("lag and lead take a value, a distance and a default") };
        let by = cast(by, &DataType::Int64)?;
        let by = by.as_primitive::<Int64Type>();
        let default = cast(default, of.data_type())?;
        // Of rows that are not NULL: where they are, and how many are before each row.
        let valid: Vec<usize> = (0..num_rows).filter(|&row| of.is_valid(row)).collect();
        let place = |row: usize| -> Option<usize> {
            let by = if by.is_valid(row) { by.value(row) } else { return None };
            let by = if self.leads { by } else { by.checked_neg()? };
            if !self.ignores_nulls || by == 0 {
                return usize::try_from(i64::try_from(row).ok()?.checked_add(by)?).ok().filter(|&at| at < num_rows);
            }
            let before = valid.partition_point(|&at| at < row);
            let own = usize::from(of.is_valid(row));
            let at = match by > 0 {
                true => i64::try_from(before + own).ok()?.checked_add(by - 1)?,
                false => i64::try_from(before).ok()?.checked_add(by)?,
            };
            usize::try_from(at).ok().and_then(|at| valid.get(at).copied())
        };
        let both = datafusion::arrow::compute::concat(&[of.as_ref(), default.as_ref()])?;
        let from = (0..num_rows).map(|row| match by.is_null(row) {
            true => None,
            false => Some(place(row).unwrap_or(num_rows + row) as u64),
        });
        Ok(take(&both, &from.collect::<UInt64Array>(), None)?)
    }
}

/// How often each rank is among some rows.
#[derive(Debug)]
struct Fenwick(Vec<usize>);

impl Fenwick {
    fn new(ranks: usize) -> Self {
        Self(vec![0; ranks + 1])
    }

    fn add(&mut self, rank: usize) {
        let mut at = rank + 1;
        while at < self.0.len() {
            self.0[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn remove(&mut self, rank: usize) {
        let mut at = rank + 1;
        while at < self.0.len() {
            self.0[at] -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many are below `rank`.
    fn below(&self, rank: usize) -> usize {
        let (mut at, mut sum) = (rank, 0);
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }

    /// The rank of the one with `nth` below it, which there is.
    fn nth(&self, nth: usize) -> usize {
        let (mut at, mut left) = (0, nth);
        let mut step = self.0.len().next_power_of_two();
        while step > 0 {
            if at + step < self.0.len() && self.0[at + step] <= left {
                at += step;
                left -= self.0[at];
            }
            step /= 2;
        }
        at
    }
}

/// The rows of a partition in an order.
#[derive(Debug)]
struct Rows {
    /// The place of each row, of its own.
    ranks: Vec<usize>,
    /// Which row is at a place.
    by_rank: Vec<usize>,
    /// The place of the first row with the same key, and the number of its key.
    firsts: Vec<usize>,
    keys: Vec<usize>,
    /// The place behind the last row of each key.
    ends: Vec<usize>,
    /// Places in the frame, and rows of each key.
    within: Fenwick,
    of_key: Vec<usize>,
    keys_within: Fenwick,
}

/// A function over the rows of its frame in an order of its own.
#[derive(Debug)]
struct InOrder {
    of: Ordered,
    options: Vec<SortOptions>,
    ignores_nulls: bool,
    /// The current row: each is asked for once, in turn.
    row: usize,
    rows: Option<Rows>,
    /// Whose rows are counted.
    frame: Range<usize>,
}

impl InOrder {
    /// Ranks the rows by their keys, those of one key by where they are.
    fn ranked(&self, values: &[ArrayRef]) -> Result<Rows> {
        // Behind them may come the keys of the window itself.
        let first = self.of.arguments() + 1;
        let Some(keys) = values.get(first..first + self.options.len()) else {
            return exec_err!("{} takes the keys of its order", self.of.function_name());
        };
        let fields = keys.iter().zip(&self.options);
        let fields = fields.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let rows = RowConverter::new(fields.collect())?.convert_columns(keys)?;
        let count = rows.num_rows();
        let mut by_rank: Vec<usize> = (0..count).collect();
        by_rank.sort_by(|&a, &b| rows.row(a).cmp(&rows.row(b)));
        let (mut ranks, mut firsts, mut of_keys) = (vec![0; count], vec![0; count], vec![0; count]);
        let (mut first, mut key, mut ends) = (0, 0, Vec::new());
        for (rank, &row) in by_rank.iter().enumerate() {
            if rank > 0 && rows.row(by_rank[rank - 1]) != rows.row(row) {
                (first, key) = (rank, key + 1);
                ends.push(rank);
            }
            (ranks[row], firsts[row], of_keys[row]) = (rank, first, key);
        }
        ends.push(count);
        Ok(Rows {
            ends,
            ranks,
            by_rank,
            firsts,
            keys: of_keys,
            within: Fenwick::new(count),
            of_key: vec![0; key + 1],
            keys_within: Fenwick::new(key + 1),
        })
    }

    /// Whether `row` counts: where NULL is ignored only rows with a value do.
    fn counts(&self, values: &[ArrayRef], row: usize) -> bool {
        !self.ignores_nulls || !self.of.is_value() || values[0].is_valid(row)
    }

    /// Has the rows of `frame` counted and no others.
    fn move_to(&mut self, values: &[ArrayRef], frame: &Range<usize>) {
        let new = if frame.start < frame.end { frame.clone() } else { self.frame.end..self.frame.end };
        let old = self.frame.clone();
        let Some(mut rows) = self.rows.take() else { return };
        for row in without(&old, &new).into_iter().flatten() {
            if self.counts(values, row) {
                rows.leave(row);
            }
        }
        for row in without(&new, &old).into_iter().flatten() {
            if self.counts(values, row) {
                rows.enter(row);
            }
        }
        (self.frame, self.rows) = (new, Some(rows));
    }
}

/// What of `rows` is not in `others`.
fn without(rows: &Range<usize>, others: &Range<usize>) -> [Range<usize>; 2] {
    [rows.start..rows.end.min(others.start), rows.start.max(others.end)..rows.end]
}

impl Rows {
    fn enter(&mut self, row: usize) {
        let key = self.keys[row];
        self.within.add(self.ranks[row]);
        self.of_key[key] += 1;
        if self.of_key[key] == 1 {
            self.keys_within.add(key);
        }
    }

    fn leave(&mut self, row: usize) {
        let key = self.keys[row];
        self.within.remove(self.ranks[row]);
        self.of_key[key] -= 1;
        if self.of_key[key] == 0 {
            self.keys_within.remove(key);
        }
    }

    /// How many rows are in the frame.
    fn count(&self) -> usize {
        self.within.below(self.ranks.len())
    }
}

/// `number` as BIGINT.
fn bigint(number: usize) -> ScalarValue {
    ScalarValue::Int64(i64::try_from(number).ok())
}

/// The number that argument `nth` has for `row`; `None` if it is NULL.
fn number(values: &[ArrayRef], nth: usize, row: usize) -> Result<Option<i64>> {
    let number = cast(&values[nth].slice(row, 1), &DataType::Int64)?;
    Ok(number.is_valid(0).then(|| number.as_primitive::<Int64Type>().value(0)))
}

impl PartitionEvaluator for InOrder {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        if self.rows.is_none() {
            self.rows = Some(self.ranked(values)?);
        }
        self.move_to(values, range);
        let row = self.row;
        self.row += 1;
        let Some(rows) = &self.rows else { return exec_err!("the rows of a window are ranked") };
        let count = rows.count();
        let before = rows.within.below(rows.ranks[row]);
        let rank = rows.within.below(rows.firsts[row]);
        let value = |place: Option<usize>| match place.filter(|&place| place < count) {
            Some(place) => ScalarValue::try_from_array(&values[0], rows.by_rank[rows.within.nth(place)]),
            None => ScalarValue::try_new_null(values[0].data_type()),
        };
        match self.of {
            Ordered::RowNumber => Ok(bigint(before + 1)),
            Ordered::Rank => Ok(bigint(rank + 1)),
            Ordered::DenseRank => Ok(bigint(rows.keys_within.below(rows.keys[row]) + 1)),
            Ordered::PercentRank => {
                let share = if count > 1 { rank as f64 / (count - 1) as f64 } else { 0.0 };
                Ok(ScalarValue::Float64(Some(share)))
            }
            Ordered::CumeDist => {
                let end = rows.ends[rows.keys[row]];
                let share = if count > 0 { rows.within.below(end) as f64 / count as f64 } else { 0.0 };
                Ok(ScalarValue::Float64(Some(share)))
            }
            Ordered::Ntile => {
                let Some(parts) = number(values, 0, row)? else { return Ok(ScalarValue::Int64(None)) };
                let Some(parts) = usize::try_from(parts).ok().filter(|&parts| parts > 0) else {
                    return exec_err!("ntile takes how many parts there are to be, which is more than 0");
                };
                // A row outside of the frame counts as its last.
                let Some(last) = count.checked_sub(1) else { return Ok(ScalarValue::Int64(None)) };
                let before = before.min(last);
                let (parts, larger) = (count / parts, count % parts);
                // The first parts have a row more where the rows do not divide.
                let part = match before < (parts + 1) * larger {
                    true => before / (parts + 1),
                    false => larger + (before - (parts + 1) * larger) / parts.max(1),
                };
                Ok(bigint(part + 1))
            }
            Ordered::First => value(Some(0)),
            Ordered::Last => value(count.checked_sub(1)),
            Ordered::Nth => value(number(values, 1, row)?.and_then(|nth| usize::try_from(nth - 1).ok())),
            Ordered::Lag | Ordered::Lead => {
                let Some(by) = number(values, 1, row)? else { return ScalarValue::try_new_null(values[0].data_type()) };
                let by = if self.of == Ordered::Lead { by } else { -by };
                // Where the current row does not count, the one behind it is the first that does.
                let own = usize::from(self.counts(values, row) && self.frame.contains(&row));
                let place = match by > 0 {
                    true => i64::try_from(before + own).ok().and_then(|at| at.checked_add(by - 1)),
                    false => i64::try_from(before).ok().and_then(|at| at.checked_add(by)),
                };
                match place.and_then(|place| usize::try_from(place).ok()).filter(|&place| place < count) {
                    Some(place) => value(Some(place)),
                    None => {
                        let default = cast(&values[2].slice(row, 1), values[0].data_type())?;
                        ScalarValue::try_from_array(&default, 0)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted() {
        let mut tree = Fenwick::new(7);
        [5, 1, 3].into_iter().for_each(|rank| tree.add(rank));
        assert_eq!((0..8).map(|rank| tree.below(rank)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!((0..3).map(|nth| tree.nth(nth)).collect::<Vec<_>>(), [1, 3, 5]);
        tree.remove(3);
        assert_eq!((0..2).map(|nth| tree.nth(nth)).collect::<Vec<_>>(), [1, 5]);
    }

    #[test]
    fn orders_are_told() {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let options = all.map(|(descending, nulls_first)| SortOptions { descending, nulls_first });
        assert_eq!(order_of(&order_text(&options)), options);
    }
}
