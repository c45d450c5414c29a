//! `setseed`, after which `random` gives the same numbers again, as far as one thread asks for them in one order; and places of rows in a sample that is the same each time
//! ([`place`]).
//!
//! Not here: random numbers of which nobody asked for the same again, which DataFusion makes.

use std::{
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use datafusion::{
    arrow::{array::Float64Array, datatypes::DataType},
    common::{Result, ScalarValue, cast::as_uint64_array, exec_err},
    functions::math::random as plain,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use crate::arguments::{Argument, doubles, taken};

/// The functions to register in one session.
pub(crate) fn functions() -> [ScalarUDF; 3] {
    let state = State::default();
    let seed = SetSeed { state: Arc::clone(&state), signature: Signature::user_defined(Volatility::Volatile) };
    let random = Random { state, plain: plain(), signature: Signature::nullary(Volatility::Volatile) };
    [ScalarUDF::new_from_impl(random), ScalarUDF::new_from_impl(seed), place()]
}

/// The function that gives a place from 0 up to, but not, 1 for the number of a row and a seed.
pub fn place() -> ScalarUDF {
    let takes = Signature::exact(vec![DataType::UInt64, DataType::UInt64], Volatility::Immutable);
    ScalarUDF::new_from_impl(Place { signature: takes })
}

const PLACE: &str = "ogee_sample_place";

/// See [`place`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    signature: Signature,
}

impl ScalarUDFImpl for Place {
    fn name(&self) -> &str {
        PLACE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [numbers, seeds] = &args.args[..] else { return exec_err!("{PLACE} takes a number and a seed") };
        let (numbers, seeds) = (numbers.to_array(args.number_rows)?, seeds.to_array(args.number_rows)?);
        let (numbers, seeds) = (as_uint64_array(&numbers)?, as_uint64_array(&seeds)?);
        let place = |(number, seed): (Option<u64>, Option<u64>)| Some(Sequence(number? ^ seed?.rotate_left(32)).next());
        let places: Float64Array = numbers.iter().zip(seeds).map(place).collect();
        Ok(ColumnarValue::Array(Arc::new(places)))
    }
}

/// Where the sequence of a session is, if it has one.
type State = Arc<Mutex<Option<Sequence>>>;

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Copy, Debug)]
struct Sequence(u64);

impl Sequence {
    /// A number from 0 up to, but not, 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ mixed >> 31;
        (mixed >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 / (1_u64 << f64::MANTISSA_DIGITS) as f64
    }
}

#[derive(Debug)]
struct Random {
    state: State,
    plain: Arc<ScalarUDF>,
    signature: Signature,
}

impl PartialEq for Random {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Random {}

impl Hash for Random {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Nothing fails between a change of it and another.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.as_mut() {
            Some(sequence) => {
                let numbers: Float64Array = (0..args.number_rows).map(|_| Some(sequence.next())).collect();
                Ok(ColumnarValue::Array(Arc::new(numbers)))
            }
            None => {
                drop(state);
                self.plain.invoke_with_args(args)
            }
        }
    }
}

/// `setseed(x)`, of a number from -1 to 1, which gives NULL.
#[derive(Debug)]
struct SetSeed {
    state: State,
    signature: Signature,
}

impl PartialEq for SetSeed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for SetSeed {}

impl Hash for SetSeed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for SetSeed {
    fn name(&self) -> &str {
        "setseed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        taken(self.name(), &[Argument::Double], 0, arg_types)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seeds = doubles(&args.args[0].to_array(args.number_rows)?)?;
        if let Some(seed) = seeds.iter().flatten().next() {
            if !(-1.0..=1.0).contains(&seed) {
                return exec_err!("setseed takes a number from -1 to 1, not {seed}");
            }
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(Sequence(seed.to_bits()));
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Null))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_within_its_range_and_the_same_again() {
        let of = |seed| {
            let mut sequence = Sequence(seed);
            (0..1000).map(|_| sequence.next()).collect::<Vec<f64>>()
        };
        assert!(of(42).iter().all(|number| (0.0..1.0).contains(number)));
        assert_eq!(of(42), of(42));
        assert_ne!(of(42), of(43));
        let mean = of(7).iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
        // Places of rows that follow one another, and of seeds that do.
        for seed in [0, 1, 42] {
            let places: Vec<f64> =
                (0..1000).map(|number| Sequence(number ^ u64::rotate_left(seed, 32)).next()).collect();
            let mean = places.iter().sum::<f64>() / 1000.0;
            assert!((mean - 0.5).abs() < 0.05, "{mean}");
        }
    }
}
