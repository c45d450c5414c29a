//! `bitstring_agg(x, least, greatest)`: a bit for each whole number from the least to the greatest, that says whether it is among the values.
//!
//! Without bounds they are those of the values of the group.
//!
//! Not here: functions of bits (`marks::bits`).

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
    mem::size_of_val,
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Decimal128Array},
        compute::cast,
        datatypes::{DataType, Decimal128Type, Field, FieldRef},
    },
    common::{Result, ScalarValue, exec_err, internal_err, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use ogee_memory::BufferManager;

use crate::{
    aggregates::{elements, state_list},
    growing::promise,
    marks::Mark,
};

const NAME: &str = "bitstring_agg";

/// What numbers of all types are here.
const NUMBER: DataType = DataType::Decimal128(38, 0);

/// Bits at most.
const MOST: i128 = 1_000_000_000;

/// The function to register in a session; what it gives is promised memory of `memory`.
pub(crate) fn function(memory: &Arc<BufferManager>) -> AggregateUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    AggregateUDF::new_from_impl(Bitstring { memory: Arc::clone(memory), signature })
}

struct Bitstring {
    memory: Arc<BufferManager>,
    signature: Signature,
}

impl std::fmt::Debug for Bitstring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAME)
    }
}

impl PartialEq for Bitstring {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Bitstring {}

impl Hash for Bitstring {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NAME.hash(state);
    }
}

impl AggregateUDFImpl for Bitstring {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole =
            |given: &DataType| given.is_integer() || given.is_null() || matches!(given, DataType::Decimal128(_, 0));
        match arg_types.len() {
            1 | 3 if arg_types.iter().all(is_whole) => Ok(vec![NUMBER; arg_types.len()]),
            _ => plan_err!("{NAME} takes whole numbers, and the least and the greatest that there may be"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {NAME} is that of its field")
    }

    fn return_field(&self, _arg_fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Mark::Bit.field(NAME)))
    }

    fn state_fields(&self, _args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let number = |name| Arc::new(Field::new(name, NUMBER, true));
        Ok(vec![state_list("values", &NUMBER), number("least"), number("greatest")])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let memory = Arc::clone(&self.memory);
        Ok(Box::new(Bits { memory, is_bounded: args.exprs.len() > 1, bounds: None, values: BTreeSet::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The values of a group.
struct Bits {
    memory: Arc<BufferManager>,
    is_bounded: bool,
    bounds: Option<(i128, i128)>,
    values: BTreeSet<i128>,
}

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bits", self.values.len())
    }
}

fn check_width((least, greatest): (i128, i128)) -> Result<()> {
    if least > greatest {
        return exec_err!("{NAME} was given bounds from {least} to {greatest}; the first is the least");
    }
    match greatest - least < MOST {
        true => Ok(()),
        false => exec_err!("{NAME} from {least} to {greatest} would have more than {MOST} bits"),
    }
}

impl Bits {
    fn set_bounds(&mut self, least: &ArrayRef, greatest: &ArrayRef) -> Result<()> {
        let pairs = least.as_primitive::<Decimal128Type>().iter().zip(greatest.as_primitive::<Decimal128Type>());
        for bounds in pairs {
            let (Some(least), Some(greatest)) = bounds else { return exec_err!("{NAME} takes no NULL for a bound") };
            let bounds = (least, greatest);
            if self.bounds.is_none() {
                check_width(bounds)?;
            }
            if *self.bounds.get_or_insert(bounds) != bounds {
                return exec_err!("{NAME} takes the same bounds for all rows of a group");
            }
        }
        Ok(())
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            if let Some((least, greatest)) = self.bounds
                && !(least..=greatest).contains(&value)
            {
                return exec_err!("{value} is not from {least} to {greatest}, the bounds of {NAME}");
            }
            self.values.insert(value);
        }
        Ok(())
    }
}

impl Accumulator for Bits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let [_, least, greatest] = values {
            self.set_bounds(least, greatest)?;
        }
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (Some(&first), Some(&last)) = (self.values.first(), self.values.last()) else {
            return Ok(ScalarValue::Utf8View(None));
        };
        let (least, greatest) = self.bounds.unwrap_or((first, last));
        check_width((least, greatest))?;
        let width = (greatest - least + 1) as usize;
        let _promised = promise(&self.memory, NAME, width as u128, 1)?;
        let mut bits = vec![b'0'; width];
        self.values.iter().for_each(|value| bits[(value - least) as usize] = b'1');
        match String::from_utf8(bits) {
            Ok(bits) => Ok(ScalarValue::Utf8View(Some(bits))),
            Err(_) => internal_err!("zeros and ones are text"),
        }
    }

    /// A tree has nodes that are half full at least.
    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * 2 * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Decimal128Array::from_iter_values(self.values.iter().copied()).with_precision_and_scale(38, 0)?;
        let bound = |bound: Option<i128>| ScalarValue::Decimal128(bound, 38, 0);
        let values = SingleRowListArrayBuilder::new(Arc::new(values)).build_list_scalar();
        Ok(vec![values, bound(self.bounds.map(|bounds| bounds.0)), bound(self.bounds.map(|bounds| bounds.1))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[1].len() {
            if self.is_bounded && states[1].is_valid(row) {
                self.set_bounds(&states[1].slice(row, 1), &states[2].slice(row, 1))?;
            }
        }
        elements(&states[0]).iter().try_for_each(|values| self.add(&cast(values, &NUMBER)?))
    }
}
