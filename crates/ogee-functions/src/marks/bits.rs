//! `BIT`: texts of zeros and ones, their casts and functions, and operators on them.
//!
//! Their order is that of the texts. A number has as many bits as its type.
//!
//! Not here: operators on the bits of numbers (`crate::bits`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BinaryViewBuilder, Int32Array, Int64Array, PrimitiveArray, StringViewArray,
            StringViewBuilder,
        },
        compute::cast,
        datatypes::{
            ArrowPrimitiveType, DataType, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
            Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
        },
    },
    common::{DFSchema, Result, exec_datafusion_err, exec_err},
    error::DataFusionError,
    logical_expr::{
        Expr, ExprSchemable, ReturnFieldArgs,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use ogee_memory::BufferManager;

use super::{Mark, field_of, is_text};
use crate::{
    arguments::{refused, texts, wholes},
    function::{Call, Function, Shown},
    math,
    type_names::sql_name,
};

const AND: &str = "ogee_bits_and";
const OR: &str = "ogee_bits_or";
const XOR: &str = "ogee_bits_xor";
const LEFT: &str = "ogee_bits_left";
const RIGHT: &str = "ogee_bits_right";

/// The functions that statements may name, and those that are operators.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    let bit = |_: &ReturnFieldArgs<'_>| Ok(Arc::new(Mark::Bit.field("")));
    let number = |_: &ReturnFieldArgs<'_>| Ok(Arc::new(Field::new("", DataType::Int32, true)));
    let of = |name, taken, gives, body| Function::of_fields(name, taken, gives, body, memory);
    let pair = |given: &[DataType]| match given {
        [left, right] if is_bits(left) && is_bits(right) => Ok(vec![DataType::Utf8View; 2]),
        _ => refused("a function of bits", given),
    };
    let mut functions = operators(memory);
    functions.extend([
        of(
            "bitstring",
            |given| with_numbers("bitstring", given, 1),
            bit,
            |call| {
                each(call, |bits, numbers| {
                    let length = usize::try_from(numbers[0]).unwrap_or(0);
                    match length.checked_sub(bits.len()) {
                        Some(more) => Ok("0".repeat(more) + bits),
                        None => exec_err!("'{bits}' has more than {} bits", numbers[0]),
                    }
                })
            },
        ),
        of(
            "set_bit",
            |given| with_numbers("set_bit", given, 2),
            bit,
            |call| {
                each(call, |bits, numbers| {
                    let at = place(bits, numbers[0])?;
                    let new = match numbers[1] {
                        0 => "0",
                        1 => "1",
                        other => return exec_err!("a bit is 0 or 1, not {other}"),
                    };
                    Ok([&bits[..at], new, &bits[at + 1..]].concat())
                })
            },
        ),
        of(
            "get_bit",
            |given| with_numbers("get_bit", given, 1),
            number,
            |call| {
                let (given, at) = (checked_bits(&call.args[0])?, wholes(&call.args[1])?);
                let found = given.iter().zip(&at).map(|pair| match pair {
                    (Some(bits), Some(at)) => place(bits, at).map(|at| Some(i32::from(bits.as_bytes()[at] == b'1'))),
                    _ => Ok(None),
                });
                Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
            },
        ),
        of(
            "bit_count",
            |given| if given.iter().all(is_text) { text_taken(given) } else { math::bits_taken(given) },
            |args| match bits_of(args, "bit_count")? {
                true => Ok(Arc::new(Field::new("", DataType::Int64, true))),
                false => Ok(Arc::new(Field::new("", math::bit_count_type(args.arg_fields[0].data_type()), true))),
            },
            |call| match is_text(call.args[0].data_type()) {
                true => {
                    let given = checked_bits(&call.args[0])?;
                    let ones = |bits: &str| bits.bytes().filter(|bit| *bit == b'1').count() as i64;
                    Ok(Arc::new(given.iter().map(|bits| bits.map(ones)).collect::<Int64Array>()))
                }
                false => math::bit_count(call.args),
            },
        ),
        of(
            math::BIT_NOT,
            |given| if given.iter().all(is_text) { text_taken(given) } else { math::whole_taken(given) },
            |args| match bits_of(args, "~")? {
                true => Ok(Arc::new(Mark::Bit.field(""))),
                false => Ok(Arc::new(Field::new("", args.arg_fields[0].data_type().clone(), true))),
            },
            |call| match is_text(call.args[0].data_type()) {
                true => {
                    let given = checked_bits(&call.args[0])?;
                    let flipped =
                        |bits: &str| bits.bytes().map(|bit| if bit == b'1' { '0' } else { '1' }).collect::<String>();
                    Ok(Arc::new(given.iter().map(|bits| bits.map(flipped)).collect::<StringViewArray>()))
                }
                false => math::not(call.args),
            },
        )
        .shown(Shown::Prefix("~")),
        of("bit_position", pair, number, |call| {
            let (part, whole) = (checked_bits(&call.args[0])?, checked_bits(&call.args[1])?);
            let found = part.iter().zip(&whole).map(|pair| match pair {
                (Some(part), Some(whole)) => Some(whole.find(part).map_or(0, |at| at as i32 + 1)),
                _ => None,
            });
            Ok(Arc::new(found.collect::<Int32Array>()))
        }),
    ]);
    functions
}

fn operators(memory: &Arc<BufferManager>) -> Vec<Function> {
    let bit = |_: &ReturnFieldArgs<'_>| Ok(Arc::new(Mark::Bit.field("")));
    let of = |name, taken, body, shown: &'static str| {
        Function::of_fields(name, taken, bit, body, memory).shown(Shown::Operator(shown))
    };
    let and = |given: &[DataType]| match given {
        [left, right] if is_bits(left) && is_bits(right) => Ok(vec![DataType::Utf8View; 2]),
        _ => refused("an operator on bits", given),
    };
    vec![
        of(AND, and, |call| both(call, |left, right| left && right), "&"),
        of(OR, and, |call| both(call, |left, right| left || right), "|"),
        of(XOR, and, |call| both(call, |left, right| left != right), "xor"),
        of(
            LEFT,
            |given| with_numbers("<<", given, 1),
            |call| {
                each(call, |bits, by| match usize::try_from(by[0]) {
                    Ok(by) => {
                        let by = by.min(bits.len());
                        Ok(bits[by..].to_owned() + &"0".repeat(by))
                    }
                    Err(_) => exec_err!("<< takes no negative distance, such as {}", by[0]),
                })
            },
            "<<",
        ),
        of(
            RIGHT,
            |given| with_numbers(">>", given, 1),
            |call| {
                each(call, |bits, by| match usize::try_from(by[0]) {
                    Ok(by) => {
                        let by = by.min(bits.len());
                        Ok("0".repeat(by) + &bits[..bits.len() - by])
                    }
                    Err(_) => exec_err!(">> takes no negative distance, such as {}", by[0]),
                })
            },
            ">>",
        ),
    ]
}

fn text_taken(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [_] => Ok(vec![DataType::Utf8View]),
        _ => refused("a function of bits", given),
    }
}

/// Whether the one argument of function `name` is bits, and no number.
///
/// # Errors
/// It is a text that is no bits.
fn bits_of(args: &ReturnFieldArgs<'_>, name: &str) -> Result<bool> {
    let field = &args.arg_fields[0];
    if is_text(field.data_type()) && Mark::of(field) != Some(Mark::Bit) {
        return refused(name, &[field.data_type().clone()]);
    }
    Ok(is_text(field.data_type()))
}

fn is_bits(given: &DataType) -> bool {
    is_text(given) || given.is_null()
}

fn with_numbers(name: &str, given: &[DataType], numbers: usize) -> Result<Vec<DataType>> {
    let is_whole = |given: &DataType| given.is_integer() || given.is_null();
    match given {
        [bits, rest @ ..] if is_bits(bits) && rest.len() == numbers && rest.iter().all(is_whole) => {
            Ok(std::iter::once(DataType::Utf8View).chain(rest.iter().map(|_| DataType::Int64)).collect())
        }
        _ => refused(name, given),
    }
}

fn place(bits: &str, at: i64) -> Result<usize> {
    match usize::try_from(at).ok().filter(|at| *at < bits.len()) {
        Some(at) => Ok(at),
        None => exec_err!("'{bits}' has no bit {at}; the first is 0, the last {}", bits.len() - 1),
    }
}

/// What `make` makes of the bits and numbers of each row.
fn each(call: &mut Call<'_, '_>, make: impl Fn(&str, &[i64]) -> Result<String>) -> Result<ArrayRef> {
    let given = checked_bits(&call.args[0])?;
    let numbers = call.args[1..].iter().map(wholes).collect::<Result<Vec<Int64Array>>>()?;
    let mut made = StringViewBuilder::with_capacity(given.len());
    for row in 0..given.len() {
        if given.is_null(row) || numbers.iter().any(|numbers| numbers.is_null(row)) {
            made.append_null();
            continue;
        }
        let numbers: Vec<i64> = numbers.iter().map(|numbers| numbers.value(row)).collect();
        // Bits that are added are as many as the first number says, at most.
        let most = given.value(row).len() as u128 + u128::try_from(numbers[0]).unwrap_or_default();
        call.promises.add(row, if call.returns.data_type().is_string() { most } else { 0 })?;
        made.try_append_value(make(given.value(row), &numbers)?)?;
    }
    Ok(Arc::new(made.finish()))
}

fn both(call: &mut Call<'_, '_>, of: impl Fn(bool, bool) -> bool) -> Result<ArrayRef> {
    let (left, right) = (checked_bits(&call.args[0])?, checked_bits(&call.args[1])?);
    let mut made = StringViewBuilder::with_capacity(left.len());
    for pair in left.iter().zip(&right) {
        let (Some(left), Some(right)) = pair else {
            made.append_null();
            continue;
        };
        if left.len() != right.len() {
            return exec_err!("'{left}' and '{right}' have not the same number of bits");
        }
        let bits = left.bytes().zip(right.bytes());
        let bits: String = bits.map(|(left, right)| if of(left == b'1', right == b'1') { '1' } else { '0' }).collect();
        made.append_value(bits);
    }
    Ok(Arc::new(made.finish()))
}

fn none(text: &str) -> DataFusionError {
    exec_datafusion_err!("'{text}' is no BIT, which has zeros and ones; TRY_CAST gives NULL in its place")
}

fn is_bit_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0' | b'1'))
}

fn checked_bits(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(of_other(array, false, false)?.as_string_view().clone())
}

/// Whether values of the type, which are no texts, have bits.
pub(super) fn takes(given: &DataType) -> bool {
    given.is_integer()
        || matches!(
            given,
            DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(38, 0)
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        )
}

/// The values of `array` as bits; `is_known`: texts are. `tries`: those that are none are NULL.
pub(super) fn of_other(array: &ArrayRef, is_known: bool, tries: bool) -> Result<ArrayRef> {
    macro_rules! of_number {
        ($t:ty) => {{
            let bits =
                array.as_primitive::<$t>().iter().map(|number| number.map(|number| of_bytes(&number.to_be_bytes())));
            Ok(Arc::new(bits.collect::<StringViewArray>()))
        }};
    }
    match array.data_type() {
        given if is_text(given) => {
            let values = texts(array)?;
            if is_known || values.iter().flatten().all(is_bit_text) {
                return Ok(Arc::new(values));
            }
            let mut made = StringViewBuilder::with_capacity(values.len());
            for value in &values {
                match value {
                    Some("") => made.append_value("0"),
                    Some(text) if is_bit_text(text) => made.append_value(text),
                    Some(text) if !tries => return Err(none(text)),
                    _ => made.append_null(),
                }
            }
            Ok(Arc::new(made.finish()))
        }
        DataType::Boolean => {
            let bits = array.as_boolean().iter().map(|bit| bit.map(|bit| if bit { "00000001" } else { "00000000" }));
            Ok(Arc::new(bits.collect::<StringViewArray>()))
        }
        DataType::Int8 => of_number!(Int8Type),
        DataType::Int16 => of_number!(Int16Type),
        DataType::Int32 => of_number!(Int32Type),
        DataType::Int64 => of_number!(Int64Type),
        DataType::UInt8 => of_number!(UInt8Type),
        DataType::UInt16 => of_number!(UInt16Type),
        DataType::UInt32 => of_number!(UInt32Type),
        DataType::UInt64 => of_number!(UInt64Type),
        DataType::Float32 => of_number!(Float32Type),
        DataType::Float64 => of_number!(Float64Type),
        DataType::Decimal128(..) => of_number!(Decimal128Type),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::BinaryView)?;
            let bits = bytes.as_binary_view().iter().map(|bytes| bytes.map(of_bytes));
            Ok(Arc::new(bits.collect::<StringViewArray>()))
        }
        other => exec_err!("{} cannot be cast to BIT", sql_name(other)),
    }
}

fn of_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:08b}")).collect()
}

/// The bytes that `bits` are, with zeros before them.
fn bytes_of(bits: &str) -> Vec<u8> {
    let digits = bits.as_bytes();
    digits.rchunks(8).rev().map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit == b'1'))).collect()
}

/// Bits as numbers or bytes; `None` where they are cast as texts.
pub(super) fn to_other(values: &StringViewArray, to: &DataType, tries: bool) -> Result<Option<ArrayRef>> {
    fn numbers<T: ArrowPrimitiveType, const N: usize>(
        values: &StringViewArray,
        to: &DataType,
        tries: bool,
        number: impl Fn([u8; N]) -> T::Native,
    ) -> Result<Option<ArrayRef>> {
        let mut made: Vec<Option<T::Native>> = Vec::with_capacity(values.len());
        for value in values {
            made.push(match value {
                Some(bits) if bits.len() <= 8 * N => {
                    let bytes = bytes_of(bits);
                    let mut all = [0; N];
                    all[N - bytes.len()..].copy_from_slice(&bytes);
                    Some(number(all))
                }
                Some(bits) if !tries => return exec_err!("'{bits}' has more bits than {}", sql_name(to)),
                _ => None,
            });
        }
        let made = PrimitiveArray::<T>::from_iter(made).with_data_type(to.clone());
        Ok(Some(Arc::new(made)))
    }
    match to {
        to if is_text(to) => Ok(None),
        DataType::Boolean => {
            let bits = values.iter().map(|bits| bits.map(|bits| bits.contains('1')));
            Ok(Some(Arc::new(bits.collect::<datafusion::arrow::array::BooleanArray>())))
        }
        DataType::Int8 => numbers::<Int8Type, 1>(values, to, tries, i8::from_be_bytes),
        DataType::Int16 => numbers::<Int16Type, 2>(values, to, tries, i16::from_be_bytes),
        DataType::Int32 => numbers::<Int32Type, 4>(values, to, tries, i32::from_be_bytes),
        DataType::Int64 => numbers::<Int64Type, 8>(values, to, tries, i64::from_be_bytes),
        DataType::UInt8 => numbers::<UInt8Type, 1>(values, to, tries, u8::from_be_bytes),
        DataType::UInt16 => numbers::<UInt16Type, 2>(values, to, tries, u16::from_be_bytes),
        DataType::UInt32 => numbers::<UInt32Type, 4>(values, to, tries, u32::from_be_bytes),
        DataType::UInt64 => numbers::<UInt64Type, 8>(values, to, tries, u64::from_be_bytes),
        DataType::Float32 => numbers::<Float32Type, 4>(values, to, tries, f32::from_be_bytes),
        DataType::Float64 => numbers::<Float64Type, 8>(values, to, tries, f64::from_be_bytes),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let mut bytes = BinaryViewBuilder::with_capacity(values.len());
            values.iter().for_each(|bits| bytes.append_option(bits.map(bytes_of)));
            Ok(Some(cast(&bytes.finish(), to)?))
        }
        other => exec_err!("BIT cannot be cast to {}", sql_name(other)),
    }
}

/// Plans operators of which a side is bits.
#[derive(Debug)]
pub struct BitStrings {
    operators: Vec<Function>,
}

impl BitStrings {
    /// What is made is promised memory of `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        Self { operators: operators(memory) }
    }
}

impl ExprPlanner for BitStrings {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as Op;
        let name = match raw.op {
            Op::PGBitwiseShiftLeft => LEFT,
            Op::PGBitwiseShiftRight => RIGHT,
            Op::BitwiseAnd => AND,
            Op::BitwiseOr => OR,
            Op::BitwiseXor => XOR,
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let is_bit = |expr: &Expr| field_of(expr, schema).is_some_and(|field| Mark::of(&field) == Some(Mark::Bit));
        let is_pair = matches!(name, AND | OR | XOR);
        if !(is_bit(&raw.left) || is_pair && is_bit(&raw.right)) {
            return Ok(PlannerResult::Original(raw));
        }
        let types: Vec<DataType> =
            [&raw.left, &raw.right].map(|side| side.get_type(schema)).into_iter().collect::<Result<_>>()?;
        let function = self.operators.iter().find(|function| function.name == name);
        Ok(match function.filter(|_| !is_pair || types.iter().all(is_bits)) {
            Some(function) => PlannerResult::Planned(function.clone().call(vec![raw.left, raw.right])),
            None => PlannerResult::Original(raw),
        })
    }
}
