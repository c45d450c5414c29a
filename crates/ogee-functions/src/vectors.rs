//! Lists of numbers as vectors: how far they are apart, the angle between them, their products.
//!
//! Both have one length, and no NULL in them. Of lists of FLOAT everything is a FLOAT, computed as such; of all others a DOUBLE.
//!
//! Not here: aggregates of lists (`list_aggregates`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, ListArray, PrimitiveArray,
            PrimitiveBuilder,
        },
        buffer::NullBuffer,
        compute::cast,
        datatypes::{DataType, Field, Float32Type, Float64Type},
    },
    common::{Result, exec_err, internal_err},
    logical_expr::ScalarUDF,
};

use crate::{arguments::refused, function::Function, times::Zone};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let functions = [
        Function::of(
            "list_distance",
            |given| vectors("list_distance", given),
            number,
            |args, _| each(args, "list_distance", &Vector32::distance, &Vector64::distance),
        )
        .also(&["array_distance"]),
        Function::of(
            "list_cosine_similarity",
            |given| vectors("list_cosine_similarity", given),
            number,
            |args, _| each(args, "list_cosine_similarity", &Vector32::cosine, &Vector64::cosine),
        )
        .also(&["array_cosine_similarity"]),
        Function::of(
            "list_cosine_distance",
            |given| vectors("list_cosine_distance", given),
            number,
            |args, _| {
                let far32 = |left: &[f32], right: &[f32]| Vector32::cosine(left, right).map(|near| 1.0 - near);
                let far64 = |left: &[f64], right: &[f64]| Vector64::cosine(left, right).map(|near| 1.0 - near);
                each(args, "list_cosine_distance", &far32, &far64)
            },
        )
        .also(&["array_cosine_distance"]),
        Function::of(
            "list_inner_product",
            |given| vectors("list_inner_product", given),
            number,
            |args, _| each(args, "list_inner_product", &Vector32::product, &Vector64::product),
        )
        .also(&["list_dot_product", "array_inner_product", "array_dot_product"]),
        Function::of(
            "list_negative_inner_product",
            |given| vectors("list_negative_inner_product", given),
            number,
            |args, _| {
                let less32 = |left: &[f32], right: &[f32]| Vector32::product(left, right).map(|product| -product);
                let less64 = |left: &[f64], right: &[f64]| Vector64::product(left, right).map(|product| -product);
                each(args, "list_negative_inner_product", &less32, &less64)
            },
        )
        .also(&["list_negative_dot_product", "array_negative_inner_product", "array_negative_dot_product"]),
        Function::of(CROSS, crossed, |args| Ok(args[0].clone()), cross),
    ];
    functions.into_iter().map(Function::registered).collect()
}

const CROSS: &str = "array_cross_product";

/// The type of the numbers in both lists.
fn numbers(name: &str, given: &[DataType]) -> Result<DataType> {
    let mut types = Vec::with_capacity(given.len());
    for list in given {
        types.push(match list {
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => of.data_type().clone(),
            DataType::Null => DataType::Null,
            _ => return refused(name, given),
        });
    }
    if types.len() != 2 || types.iter().any(|of| !of.is_numeric() && !of.is_null()) {
        return refused(name, given);
    }
    let is_float =
        types.iter().all(|of| *of == DataType::Float32 || of.is_null()) && types.contains(&DataType::Float32);
    Ok(if is_float { DataType::Float32 } else { DataType::Float64 })
}

fn vectors(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    let numbers = numbers(name, given)?;
    Ok(vec![DataType::List(Arc::new(Field::new_list_field(numbers, true))); 2])
}

fn number(args: &[DataType]) -> Result<DataType> {
    match &args[0] {
        DataType::List(of) => Ok(of.data_type().clone()),
        other => internal_err!("{other} is no list"),
    }
}

/// Dimensions of a space in which a vector is across two others.
const DIMENSIONS: i32 = 3;

fn crossed(given: &[DataType]) -> Result<Vec<DataType>> {
    let field = Arc::new(Field::new_list_field(numbers(CROSS, given)?, true));
    Ok(vec![DataType::FixedSizeList(field, DIMENSIONS); 2])
}

/// The computations of floats of one width.
macro_rules! vectors_of {
    ($name:ident, $float:ty) => {
        struct $name;

        impl $name {
            fn distance(left: &[$float], right: &[$float]) -> Option<$float> {
                let squares = left.iter().zip(right).map(|(left, right)| (left - right) * (left - right));
                Some(squares.fold(0.0, |sum: $float, square| sum + square).sqrt())
            }

            fn product(left: &[$float], right: &[$float]) -> Option<$float> {
                Some(left.iter().zip(right).fold(0.0, |sum, (left, right)| sum + left * right))
            }

            /// Nothing of vectors without dimensions.
            fn cosine(left: &[$float], right: &[$float]) -> Option<$float> {
                let lengths = Self::product(left, left)? * Self::product(right, right)?;
                let near = Self::product(left, right)? / lengths.sqrt();
                (!left.is_empty()).then(|| near.clamp(-1.0, 1.0))
            }
        }
    };
}

vectors_of!(Vector32, f32);
vectors_of!(Vector64, f64);

type Of<N> = dyn Fn(&[N], &[N]) -> Option<N>;

fn each(args: &[ArrayRef], name: &str, of32: &Of<f32>, of64: &Of<f64>) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_list::<i32>(), args[1].as_list::<i32>());
    match left.value_type() {
        DataType::Float32 => each_of::<Float32Type>(left, right, name, of32),
        _ => each_of::<Float64Type>(left, right, name, of64),
    }
}

fn each_of<T: ArrowPrimitiveType>(
    left: &ListArray,
    right: &ListArray,
    name: &str,
    of: &Of<T::Native>,
) -> Result<ArrayRef> {
    let mut values = PrimitiveBuilder::<T>::with_capacity(left.len());
    let sides =
        [(left, left.values().as_primitive::<T>(), "left"), (right, right.values().as_primitive::<T>(), "right")];
    for row in 0..left.len() {
        if left.is_null(row) || right.is_null(row) {
            values.append_null();
            continue;
        }
        let (length, other) = (left.value_length(row), right.value_length(row));
        if length != other {
            return exec_err!(
                "{name}: list dimensions must be equal, got left length '{length}' and right length '{other}'"
            );
        }
        let mut slices: [&[T::Native]; 2] = [&[]; 2];
        for (slice, (lists, elements, side)) in slices.iter_mut().zip(&sides) {
            let (from, length) = (lists.value_offsets()[row] as usize, length as usize);
            let has_null = |nulls: &NullBuffer| nulls.slice(from, length).null_count() > 0;
            if elements.nulls().is_some_and(has_null) {
                return exec_err!("{name}: {side} argument can not contain NULL values");
            }
            *slice = &elements.values()[from..from + length];
        }
        values.append_option(of(slices[0], slices[1]));
    }
    Ok(Arc::new(values.finish()))
}

fn cross(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_fixed_size_list(), args[1].as_fixed_size_list());
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    let DataType::FixedSizeList(field, _) = left.data_type() else { return internal_err!("vectors are arrays") };
    for (lists, side) in [(left, "left"), (right, "right")] {
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if (0..lists.len()).any(|row| is_valid(row) && lists.value(row).null_count() > 0) {
            return exec_err!("{CROSS}: {side} argument can not contain NULL values");
        }
    }
    macro_rules! crossed {
        ($type:ty) => {{
            let [left, right] = [left, right].map(|side| side.values().as_primitive::<$type>().values());
            let pairs = left.chunks_exact(DIMENSIONS as usize).zip(right.chunks_exact(DIMENSIONS as usize));
            let across = pairs
                .flat_map(|(l, r)| [l[1] * r[2] - l[2] * r[1], l[2] * r[0] - l[0] * r[2], l[0] * r[1] - l[1] * r[0]]);
            Arc::new(across.collect::<Vec<_>>().into_iter().map(Some).collect::<PrimitiveArray<$type>>()) as ArrayRef
        }};
    }
    let values = if *field.data_type() == DataType::Float32 { crossed!(Float32Type) } else { crossed!(Float64Type) };
    let values = cast(&values, field.data_type())?;
    Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), DIMENSIONS, values, nulls)?))
}
