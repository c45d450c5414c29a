//! `hash` of values of any type, and checksums as numbers.
//!
//! A hash is the same for equal values, whatever the width of a number, and for as long as the version of the program is. It is not DuckDB's.
//!
//! Not here: checksums as texts (`codes`), hashes of groups and joins (`ogee_vector`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, UInt64Array},
        compute::cast,
        datatypes::DataType,
    },
    common::{
        Result,
        hash_utils::{QualityRandomState, create_hashes},
    },
    logical_expr::ScalarUDF,
};
use md5::{Digest, Md5};
use ogee_vector::canonical_floats;

use crate::{
    arguments::{Argument, refused, taken},
    function::Function,
    times::Zone,
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    fn half(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        taken(name, &[Argument::TextOrBytes], 0, given)
    }
    let functions = [
        Function::of("hash", hash_taken, |_| Ok(DataType::UInt64), hashes),
        Function::of(
            "md5_number_upper",
            |given| half("md5_number_upper", given),
            |_| Ok(DataType::UInt64),
            |args, _| halves(&args[0], 0),
        ),
        Function::of(
            "md5_number_lower",
            |given| half("md5_number_lower", given),
            |_| Ok(DataType::UInt64),
            |args, _| halves(&args[0], size_of::<u64>()),
        ),
    ];
    functions.into_iter().map(Function::registered).collect()
}

/// The types in which equal values have one form.
fn hash_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    if given.is_empty() {
        return refused("hash", given);
    }
    let taken = |given: &DataType| match given {
        DataType::UInt64 => DataType::UInt64,
        given if given.is_integer() => DataType::Int64,
        given if given.is_floating() => DataType::Float64,
        given if given.is_string() => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::BinaryView,
        DataType::Dictionary(_, of) => of.as_ref().clone(),
        given => given.clone(),
    };
    Ok(given.iter().map(taken).collect())
}

/// Changing it changes all hashes.
const STATE: QualityRandomState = QualityRandomState::with_seed(0x6f67_6565);
const NULL: u64 = 0xa076_1d64_78bd_642f;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn hashes(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let rows = args.first().map_or(0, |arg| arg.len());
    let mut hashes = vec![0_u64; rows];
    let mut of_column = vec![0_u64; rows];
    for column in args {
        of_column.fill(0);
        create_hashes([&canonical_floats(column)], &STATE, &mut of_column)?;
        let nulls = column.logical_nulls();
        for (row, (hash, own)) in hashes.iter_mut().zip(&of_column).enumerate() {
            let own = if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) { NULL } else { *own };
            let mixed = (hash.rotate_left(29) ^ own).wrapping_mul(FACTOR);
            *hash = mixed ^ mixed >> 32;
        }
    }
    Ok(Arc::new(UInt64Array::from(hashes)))
}

/// The eight bytes from `from` on of a checksum, as DuckDB has them: the least first.
fn halves(array: &ArrayRef, from: usize) -> Result<ArrayRef> {
    let blobs = cast(array, &DataType::BinaryView)?;
    let half = |blob: &[u8]| {
        let mut bytes = [0; size_of::<u64>()];
        bytes.copy_from_slice(&Md5::digest(blob)[from..from + size_of::<u64>()]);
        u64::from_le_bytes(bytes)
    };
    Ok(Arc::new(blobs.as_binary_view().iter().map(|blob| blob.map(half)).collect::<UInt64Array>()))
}
