//! The greatest or least few values: `max(x, 3)`, `arg_min(x, y, 3)`, as lists, and `arg_max_null(x, y)` and its kin, which give NULL.
//!
//! Of `arg_max` a row counts if neither value is NULL, of `arg_max_null` if the second is none, of `arg_max_nulls_last` in any case: rows whose second value is NULL come behind all others.
//! Of rows that are equal in that the first counts.
//!
//! A statement that asks for a constant number of values of a group is put in other words, which the engine sorts for (`ogee-sql`, `syntax::most`).

use std::{mem::size_of_val, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, new_empty_array},
        compute::interleave,
        datatypes::{DataType, Field, FieldRef, Int64Type},
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::{
    aggregates::state_list,
    arguments::refused,
    marks::{Mark, has_enum_within},
    places::places,
};

/// Which rows count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counts {
    /// Those without a NULL.
    Known,
    /// Those whose place is known.
    Placed,
    /// All.
    All,
}

/// The functions to register in a session.
pub(crate) fn functions() -> Vec<AggregateUDF> {
    let kinds = [
        ("arg_max_null", true, Some(Counts::Placed), false),
        ("arg_min_null", false, Some(Counts::Placed), false),
        ("arg_max_nulls_last", true, Some(Counts::All), false),
        ("arg_min_nulls_last", false, Some(Counts::All), false),
        ("ogee_max_n", true, None, true),
        ("ogee_min_n", false, None, true),
        ("ogee_arg_max_n", true, Some(Counts::Known), true),
        ("ogee_arg_min_n", false, Some(Counts::Known), true),
        ("ogee_arg_max_nulls_last_n", true, Some(Counts::All), true),
        ("ogee_arg_min_nulls_last_n", false, Some(Counts::All), true),
    ];
    let function = |(name, descends, pairs, several)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Top { name, descends, pairs, several, signature })
    };
    kinds.into_iter().map(function).collect()
}

/// What statements call the function `name`.
fn shown(name: &'static str) -> &'static str {
    name.trim_start_matches("ogee_").trim_end_matches("_n")
}

/// Values that are asked for at most.
const MOST: i64 = 999_999;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Top {
    name: &'static str,
    descends: bool,
    /// Values by others, and which of them count.
    pairs: Option<Counts>,
    /// As many as the last argument says, in a list.
    several: bool,
    signature: Signature,
}

impl Top {
    /// How many arguments say which value is where.
    fn width(&self) -> usize {
        if self.pairs.is_some() { 2 } else { 1 }
    }
}

impl AggregateUDFImpl for Top {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let width = self.width();
        match arg_types.get(width..) {
            Some([]) if !self.several => Ok(arg_types.to_vec()),
            Some([count]) if self.several && (count.is_integer() || count.is_null()) => {
                Ok([&arg_types[..width], &[DataType::Int64]].concat())
            }
            _ => refused(shown(self.name), arg_types),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} follows from the fields of its arguments", self.name)
    }

    /// As the values are, which may be marked text.
    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let value = &arg_fields[0];
        if self.pairs.is_none() && (Mark::of(value) == Some(Mark::Enum) || has_enum_within(value)) {
            return plan_err!(
                "{} of so many values of an ENUM is not supported; cast them to VARCHAR",
                shown(self.name)
            );
        }
        let field = match self.several {
            true => {
                let item = value.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME).with_nullable(true);
                Field::new(self.name, DataType::List(Arc::new(item)), true)
            }
            false => value.as_ref().clone().with_name(self.name).with_nullable(true),
        };
        Ok(Arc::new(field))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let of = |(nth, field): (usize, &FieldRef)| state_list(["values", "by"][nth], field.data_type());
        let mut fields: Vec<FieldRef> = args.input_fields[..self.width()].iter().enumerate().map(of).collect();
        fields.extend(self.several.then(|| Arc::new(Field::new("n", DataType::Int64, true))));
        Ok(fields)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let columns = args.expr_fields[..self.width()].iter().map(|field| new_empty_array(field.data_type()));
        Ok(Box::new(Best {
            name: self.name,
            descends: self.descends,
            counts: self.pairs.unwrap_or(Counts::Known),
            several: self.several,
            most: (!self.several).then_some(1),
            columns: columns.collect(),
            places: Vec::new(),
            result: args.return_field.data_type().clone(),
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The best rows so far, the best first.
#[derive(Debug)]
struct Best {
    name: &'static str,
    descends: bool,
    counts: Counts,
    several: bool,
    /// So many.
    most: Option<usize>,
    /// The values, and by what they are chosen if that is something else.
    columns: Vec<ArrayRef>,
    places: Vec<Box<[u8]>>,
    result: DataType,
}

impl Best {
    fn set_most(&mut self, counts: &ArrayRef) -> Result<()> {
        let counts = counts.as_primitive::<Int64Type>();
        let name = shown(self.name);
        // That of the first row counts.
        match counts.iter().next() {
            None => Ok(()),
            Some(Some(count)) if (1..=MOST).contains(&count) => {
                self.most.get_or_insert(count as usize);
                Ok(())
            }
            Some(Some(count)) => exec_err!("{name} gives 1 to {MOST} values, not {count}"),
            Some(None) => exec_err!("{name} gives 1 to {MOST} values, not NULL"),
        }
    }

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(most) = self.most else { return Ok(()) };
        let by = &columns[columns.len() - 1];
        let places = places(by, self.descends)?;
        let counted = |row: &usize| match self.counts {
            Counts::Known => columns.iter().all(|column| column.is_valid(*row)),
            Counts::Placed => by.is_valid(*row),
            Counts::All => true,
        };
        let worst = self.places.get(most - 1);
        let is_better = |row: &usize| worst.is_none_or(|worst| places.row(*row).as_ref() < &**worst);
        let mut new: Vec<usize> = (0..by.len()).filter(counted).filter(is_better).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.sort_by(|a, b| places.row(*a).cmp(&places.row(*b)));
        new.truncate(most);
        let mut merged = Vec::with_capacity(most.min(self.places.len() + new.len()));
        let (mut kept, mut new) = (0, new.into_iter().peekable());
        while merged.len() < most {
            let old = self.places.get(kept);
            match (old, new.peek()) {
                (Some(old), Some(&row)) if **old <= *places.row(row).as_ref() => merged.push((0, kept)),
                (Some(_), None) => merged.push((0, kept)),
                (_, Some(&row)) => merged.push((1, row)),
                (None, None) => break,
            }
            if merged[merged.len() - 1].0 == 0 {
                kept += 1;
            } else {
                new.next();
            }
        }
        let of = |(kept, new): (&ArrayRef, &ArrayRef)| Ok(interleave(&[kept, new], &merged)?);
        let columns: Vec<ArrayRef> = self.columns.iter().zip(columns).map(of).collect::<Result<_>>()?;
        let mut old: Vec<_> = std::mem::take(&mut self.places).into_iter().map(Some).collect();
        let place = |&(of, row): &(usize, usize)| match of {
            0 => old[row].take().unwrap_or_default(),
            _ => places.row(row).as_ref().into(),
        };
        self.places = merged.iter().map(place).collect();
        self.columns = columns;
        Ok(())
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let width = self.columns.len();
        if self.several {
            self.set_most(&values[width])?;
        }
        self.add(&values[..width])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.places.is_empty() {
            return ScalarValue::try_from(&self.result);
        }
        match self.several {
            true => {
                let list = SingleRowListArrayBuilder::new(Arc::clone(&self.columns[0])).build_list_scalar();
                list.cast_to(&self.result)
            }
            false => ScalarValue::try_from_array(&self.columns[0], 0),
        }
    }

    fn size(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.get_array_memory_size()).sum();
        let places: usize = self.places.iter().map(|place| place.len() + size_of::<Box<[u8]>>()).sum();
        size_of_val(self) + columns + places
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |column: &ArrayRef| SingleRowListArrayBuilder::new(Arc::clone(column)).build_list_scalar();
        let mut state: Vec<ScalarValue> = self.columns.iter().map(list).collect();
        if self.several {
            state.push(ScalarValue::Int64(self.most.map(|most| most as i64)));
        }
        Ok(state)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let width = self.columns.len();
        for row in 0..states[0].len() {
            if self.several {
                let count = states[width].slice(row, 1);
                if count.is_null(0) {
                    continue;
                }
                self.set_most(&count)?;
            }
            let columns: Vec<ArrayRef> =
                states[..width].iter().map(|lists| lists.as_list::<i32>().value(row)).collect();
            self.add(&columns)?;
        }
        Ok(())
    }
}
