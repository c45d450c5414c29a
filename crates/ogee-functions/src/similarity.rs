//! How alike two texts are, byte by byte as in DuckDB: letters beyond ASCII count for as many bytes as they have in UTF-8.
//!
//! DataFusion's `levenshtein` counts letters.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, PrimitiveArray},
        datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type},
    },
    common::{Result, exec_err},
    logical_expr::ScalarUDF,
};

use crate::{
    arguments::{Argument, doubles, taken, texts},
    function::{Function, Taken},
    times::Zone,
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    fn two(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::Text, Argument::Text], 0, given)
    }
    fn two_and_least(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::Text, Argument::Text, Argument::Double], 1, given)
    }
    type Body = fn(&[ArrayRef], &Zone) -> Result<ArrayRef>;
    let count = |name: &'static str, taken: Taken, body: Body| Function::of(name, taken, |_| Ok(DataType::Int64), body);
    let share =
        |name: &'static str, taken: Taken, body: Body| Function::of(name, taken, |_| Ok(DataType::Float64), body);
    let functions = [
        count("hamming", |given| two("hamming", given), |args, _| each_pair::<Int64Type>(args, mismatches))
            .also(&["mismatches"]),
        count(
            "damerau_levenshtein",
            |given| two("damerau_levenshtein", given),
            |args, _| {
                each_pair::<Int64Type>(args, |left, right| Ok(strsim::generic_damerau_levenshtein(left, right) as i64))
            },
        ),
        count(
            "levenshtein",
            |given| two("levenshtein", given),
            |args, _| {
                each_pair::<Int64Type>(args, |left, right| {
                    Ok(strsim::generic_levenshtein(&Bytes(left), &Bytes(right)) as i64)
                })
            },
        )
        .also(&["editdist3"]),
        share("jaccard", |given| two("jaccard", given), |args, _| each_pair::<Float64Type>(args, jaccard)),
        share(
            "jaro_similarity",
            |given| two_and_least("jaro_similarity", given),
            |args, _| at_least(args, |left, right| strsim::generic_jaro(&Bytes(left), &Bytes(right))),
        ),
        share(
            "jaro_winkler_similarity",
            |given| two_and_least("jaro_winkler_similarity", given),
            |args, _| at_least(args, |left, right| strsim::generic_jaro_winkler(&Bytes(left), &Bytes(right))),
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

/// Bytes as a sequence that may be gone through again and again.
struct Bytes<'t>(&'t [u8]);

impl<'t> IntoIterator for &'t Bytes<'_> {
    type Item = &'t u8;
    type IntoIter = std::slice::Iter<'t, u8>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

fn each_pair<T: ArrowPrimitiveType>(args: &[ArrayRef], of: fn(&[u8], &[u8]) -> Result<T::Native>) -> Result<ArrayRef> {
    let (left, right) = (texts(&args[0])?, texts(&args[1])?);
    let pairs = left.iter().zip(&right).map(|(left, right)| left.zip(right));
    let values = pairs.map(|pair| pair.map(|(left, right)| of(left.as_bytes(), right.as_bytes())).transpose());
    Ok(Arc::new(values.collect::<Result<PrimitiveArray<T>>>()?))
}

/// Similarities, which are 0 if they are below the third argument.
fn at_least(args: &[ArrayRef], of: fn(&[u8], &[u8]) -> f64) -> Result<ArrayRef> {
    let (left, right) = (texts(&args[0])?, texts(&args[1])?);
    let least = args.get(2).map(doubles).transpose()?;
    let each = left.iter().zip(&right).enumerate().map(|(row, (left, right))| {
        let (left, right) = (left?.as_bytes(), right?.as_bytes());
        let least = match &least {
            Some(least) => least.is_valid(row).then(|| least.value(row))?,
            None => 0.0,
        };
        // Two texts without letters have none in common.
        let alike = if left.is_empty() || right.is_empty() { 0.0 } else { of(left, right) };
        Some(if alike < least { 0.0 } else { alike })
    });
    Ok(Arc::new(each.collect::<PrimitiveArray<Float64Type>>()))
}

/// At how many places two texts of one length differ.
fn mismatches(left: &[u8], right: &[u8]) -> Result<i64> {
    if left.len() != right.len() {
        return exec_err!("hamming takes two texts of one length, not of {} and {} bytes", left.len(), right.len());
    }
    if left.is_empty() {
        return exec_err!("hamming takes texts that are not empty");
    }
    Ok(left.iter().zip(right).filter(|(left, right)| left != right).count() as i64)
}

/// How many of the bytes that are in one of two texts are in both.
fn jaccard(left: &[u8], right: &[u8]) -> Result<f64> {
    if left.is_empty() || right.is_empty() {
        return exec_err!("jaccard takes texts that are not empty");
    }
    let set = |text: &[u8]| {
        let mut set = [0_u128; 2];
        text.iter().for_each(|byte| set[usize::from(byte >> 7)] |= 1 << (byte & 127));
        set
    };
    let (left, right) = (set(left), set(right));
    let count = |of: fn(u128, u128) -> u128| (0..2).map(|half| of(left[half], right[half]).count_ones()).sum::<u32>();
    Ok(f64::from(count(|left, right| left & right)) / f64::from(count(|left, right| left | right)))
}
