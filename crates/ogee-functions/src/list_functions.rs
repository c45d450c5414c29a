//! DataFusion's functions of lists with DuckDB's meaning: where they count, and where lists are NULL.
//!
//! * How many elements there are, and which one it is, is a BIGINT. DataFusion counts without sign, and has no list of such counts and of others: the
//!   rank of a row could not be appended to a list of integers, nor looked up in it.
//! * A list of decimals or of unsigned integers and an element that is an integer are brought to the type in which they would be compared; DataFusion
//!   refuses them, and decimals of different scales.
//! * `list_contains` knows that a NULL among the elements is none of the values that are looked for.
//! * `list_concat` takes a list that is NULL for an empty one: of NULL alone it is empty. DataFusion makes NULL of it.
//! * `list_distinct` and `list_intersect` leave NULL out. DataFusion keeps one. A list that is NULL has nothing in common with another, which leaves an empty one.
//! * `list_has_all` and `list_has_any` look for no NULL, and are NULL where one of the lists is.
//! * `list_resize` to NULL elements leaves none; a negative length is an error, which DataFusion takes for one of its own.
//! * `flatten` of a list of NULL alone is empty. DataFusion leaves it as it is.
//! * `array_to_string` of a list whose elements are all NULL is NULL, as `string_agg` of them is. DataFusion makes it empty.
//!
//! Not here: `length`, `concat` and `||`, which take text too (`lists`), and comparisons with `ANY` and `ALL` of a list (`ogee_sql`, `quantified`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array, new_null_array},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, filter, nullif, take},
        datatypes::{DataType, Field, FieldRef, Int64Type},
    },
    common::{Result, ScalarValue, exec_err},
    functions_nested::{
        array_has::{array_has_all_udf, array_has_any_udf, array_has_udf},
        cardinality::cardinality_udf,
        concat::{array_append_udf, array_concat_udf, array_prepend_udf},
        dimension::array_ndims_udf,
        flatten::flatten_udf,
        length::array_length_udf,
        make_array::make_array_udf,
        position::{array_position_udf, array_positions_udf},
        remove::{array_remove_all_udf, array_remove_udf},
        resize::array_resize_udf,
        set_ops::{array_distinct_udf, array_intersect_udf},
        string::array_to_string_udf,
    },
    logical_expr::{
        ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::binary::comparison_coercion,
    },
};

use crate::{
    common::{common_type, is_known_here},
    lists::{coerced, element, is_list},
    nested_text,
    times::Zone,
};

/// The functions to register in a session, instead of those of the same names.
pub fn functions() -> Vec<ScalarUDF> {
    let counted = [
        array_append_udf(),
        array_prepend_udf(),
        array_has_udf(),
        array_position_udf(),
        array_positions_udf(),
        array_remove_udf(),
        array_remove_all_udf(),
        array_length_udf(),
        array_ndims_udf(),
        cardinality_udf(),
    ];
    let mended = counted.into_iter().map(|function| (function, Mend::Counts));
    let others = [
        (array_concat_udf(), Mend::NullIsEmpty),
        (array_to_string_udf(), Mend::NothingIsNull),
        (array_distinct_udf(), Mend::WithoutNull),
        (array_has_all_udf(), Mend::NullsAside),
        (array_has_any_udf(), Mend::NullsAside),
        (array_intersect_udf(), Mend::InCommon),
        (array_resize_udf(), Mend::Lengths),
        (flatten_udf(), Mend::NullsAreLists),
    ];
    mended.chain(others).map(|(function, mend)| ScalarUDF::new_from_impl(Mended::new(function, mend))).collect()
}

/// What is other than in DataFusion's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mend {
    /// Counts have a sign.
    Counts,
    /// A list that is NULL has no elements.
    NullIsEmpty,
    /// No element is NULL.
    WithoutNull,
    /// Of elements that are all NULL comes NULL.
    NothingIsNull,
    /// Elements that are NULL are not there; a list that is NULL makes NULL.
    NullsAside,
    /// No element is NULL; the second list may be, and has then none.
    InCommon,
    /// Lengths are not negative, and 0 where they are NULL.
    Lengths,
    /// Elements of no type are lists that are NULL.
    NullsAreLists,
}

/// A function of DataFusion but for one thing.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Mended {
    function: Arc<ScalarUDF>,
    mend: Mend,
    signature: Signature,
}

impl Mended {
    fn new(function: Arc<ScalarUDF>, mend: Mend) -> Self {
        Self { function, mend, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// `list_concat` alone, for those who join lists under another name.
    pub fn list_concat() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self::new(array_concat_udf(), Mend::NullIsEmpty)))
    }

    /// `list_contains` alone, for a function that takes texts, too.
    pub fn list_contains() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self::new(array_has_udf(), Mend::Counts)))
    }

    /// `list_has_all` alone, for operators.
    pub fn list_has_all() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self::new(array_has_all_udf(), Mend::NullsAside)))
    }

    /// `list_has_any` alone, for operators.
    pub fn list_has_any() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self::new(array_has_any_udf(), Mend::NullsAside)))
    }
}

/// The type of a count.
fn signed(data_type: &DataType) -> DataType {
    if *data_type == DataType::UInt64 { DataType::Int64 } else { data_type.clone() }
}

/// A list and a value with the type that elements of both have.
fn with_common_elements(arg_types: &[DataType]) -> Option<Vec<DataType>> {
    let list = arg_types.iter().find_map(element)?.data_type();
    let value = arg_types.iter().find(|arg| !is_list(arg) && !arg.is_null())?;
    let common = common_type([list, value])?;
    let to_common = |arg: &DataType| match arg {
        list if is_list(list) => DataType::new_list(common.clone(), true),
        null if null.is_null() => DataType::Null,
        _ => common.clone(),
    };
    Some(arg_types.iter().map(to_common).collect())
}

/// The types with those of the list's elements and of the element made one, where DataFusion does not do so.
fn compared(arg_types: &[DataType]) -> Option<Vec<DataType>> {
    let mut types = arg_types.to_vec();
    let (list, element) = match types.as_mut_slice() {
        [DataType::List(list), element, ..] | [element, DataType::List(list), ..] => (list, element),
        _ => return None,
    };
    let of_list = list.data_type().clone();
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..));
    let mixed = is_decimal(&of_list)
        || is_decimal(element)
        || of_list == DataType::UInt64 && element.is_signed_integer()
        || *element == DataType::UInt64 && of_list.is_signed_integer();
    if of_list == *element || !mixed || !of_list.is_numeric() || !element.is_numeric() {
        return None;
    }
    let common = comparison_coercion(&of_list, element)?;
    *list = Arc::new(Field::new(list.name(), common.clone(), true));
    *element = common;
    Some(types)
}

/// Whether an element of `list`, of which all are written out, may be NULL, or there is none: to DataFusion nothing is in an empty list, and NULL is unknown to be.
fn may_have_nulls(list: &Expr) -> bool {
    match list {
        Expr::Literal(ScalarValue::List(list), _) => list.values().is_empty() || list.values().logical_null_count() > 0,
        Expr::Literal(ScalarValue::LargeList(list), _) => list.values().logical_null_count() > 0,
        Expr::ScalarFunction(call) if call.name() == make_array_udf().name() => {
            let is_known = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if !value.is_null());
            call.args.is_empty() || !call.args.iter().all(is_known)
        }
        _ => false,
    }
}

fn counts_without_sign(data_type: &DataType) -> bool {
    element(data_type).is_some_and(|of| *of.data_type() == DataType::UInt64)
}

impl ScalarUDFImpl for Mended {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let typed;
        let arg_types = match self.mend {
            Mend::NullsAside | Mend::InCommon => {
                typed = with_typed_nulls(arg_types);
                &typed
            }
            _ => arg_types,
        };
        match self.mend {
            Mend::Counts | Mend::NullsAside if !arg_types.iter().any(counts_without_sign) => {
                let signed: Vec<DataType> = arg_types.iter().map(signed).collect();
                if let Some(common) = compared(&signed) {
                    return coerced(&common, &self.function);
                }
                coerced(&signed, &self.function).or_else(|error| match with_common_elements(&signed) {
                    Some(common) => coerced(&common, &self.function),
                    None => Err(error),
                })
            }
            Mend::NullIsEmpty => {
                let Some(list) = arg_types.iter().find(|arg| is_list(arg)) else {
                    return coerced(arg_types, &self.function);
                };
                // DataFusion's takes no bare NULL beside lists.
                let typed: Vec<DataType> =
                    arg_types.iter().map(|arg| if arg.is_null() { list.clone() } else { arg.clone() }).collect();
                if is_known_here(&typed)
                    && let Some(common) = common_type(&typed)
                {
                    // They are cast before (`mixed_types` of `ogee-sql`).
                    if element(&common).is_some_and(|of| of.data_type().is_nested()) {
                        return Ok(typed);
                    }
                    return coerced(&vec![common; typed.len()], &self.function);
                }
                coerced(&typed, &self.function)
            }
            Mend::Counts | Mend::NullsAside => {
                let common = compared(arg_types).or_else(|| with_common_elements(arg_types));
                coerced(&common.unwrap_or_else(|| arg_types.to_vec()), &self.function)
            }
            Mend::NothingIsNull | Mend::WithoutNull | Mend::InCommon | Mend::Lengths | Mend::NullsAreLists => {
                coerced(arg_types, &self.function)
            }
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let common = (self.mend == Mend::NullIsEmpty && is_known_here(arg_types)).then(|| common_type(arg_types));
        let common = common.flatten();
        let field = |data_type: &DataType| Field::new("", common.as_ref().unwrap_or(data_type).clone(), true);
        let fields: Vec<FieldRef> = arg_types.iter().map(|data_type| Arc::new(field(data_type))).collect();
        let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &vec![None; fields.len()] };
        Ok(signed(self.function.return_field_from_args(args)?.data_type()))
    }

    /// DataFusion makes `x IN (..)` of a search in elements that are written out, which is NULL where an element is NULL and none is found.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.name() == array_has_udf().name() && args.first().is_some_and(may_have_nulls) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.function.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.clone();
        let returned = args.return_field.data_type().clone();
        // DataFusion's function is told its own type.
        let fields: Vec<FieldRef> = args.arg_fields.clone();
        let own = self.function.return_field_from_args(ReturnFieldArgs {
            arg_fields: &fields,
            scalar_arguments: &vec![None; fields.len()],
        })?;
        let values = args.args.into_iter().map(|arg| match arg {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(without_hidden(array)?)),
            scalar => Ok(scalar),
        });
        let mut values = values.collect::<Result<Vec<_>>>()?;
        match self.mend {
            Mend::NullsAside => {
                values = values.into_iter().map(|list| each(list, without_null_elements)).collect::<Result<_>>()?;
            }
            // Of lists of one length, the order of elements is that of the first; DuckDB's is the second's.
            Mend::InCommon => {
                values = values.into_iter().rev().collect();
                values[0] = each(values[0].clone(), |lists| Ok(without_nulls(lists)))?;
            }
            Mend::NothingIsNull => values[0] = each(values[0].clone(), as_texts)?,
            Mend::Lengths => {
                values[1] = lengths(&values[1], self.name(), args.number_rows)?;
            }
            _ => {}
        }
        let result = self.function.invoke_with_args(ScalarFunctionArgs { args: values, return_field: own, ..args })?;
        match self.mend {
            Mend::Counts if result.data_type() == returned => Ok(result),
            Mend::Counts => each(result, |counts| Ok(cast(counts, &returned)?)),
            Mend::NullIsEmpty => each(result, |lists| Ok(without_nulls(lists))),
            Mend::WithoutNull => each(result, without_null_elements),
            Mend::InCommon => each(result, |lists| Ok(cast(&without_null_elements(lists)?, &returned)?)),
            Mend::NullsAside => null_where_given(result, &given),
            Mend::NullsAreLists if matches!(given[0].data_type(), DataType::List(of) if of.data_type().is_null()) => {
                each(result, without_null_elements)
            }
            Mend::Lengths | Mend::NullsAreLists => Ok(result),
            Mend::NothingIsNull if given.len() > 2 => Ok(result),
            Mend::NothingIsNull => {
                let ColumnarValue::Array(texts) = &result else {
                    let lists = given[0].to_array(1)?;
                    return each(result, |text| nullify(text, &lists));
                };
                Ok(ColumnarValue::Array(nullify(texts, &given[0].to_array(texts.len())?)?))
            }
        }
    }
}

/// `lists` of the texts of their elements, as casts give them: those of Arrow have a `T` in timestamps, and none of lists within.
fn as_texts(lists: &ArrayRef) -> Result<ArrayRef> {
    let Some(list) = lists.as_list_opt::<i32>() else { return Ok(Arc::clone(lists)) };
    let items = list.value_type();
    if items.is_string() || items.is_integer() || items.is_null() {
        return Ok(Arc::clone(lists));
    }
    let texts: ArrayRef =
        cast(&(Arc::new(nested_text::texts(list.values(), &Zone::UTC)?) as ArrayRef), &DataType::Utf8)?;
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    Ok(Arc::new(ListArray::try_new(field, list.offsets().clone(), texts, list.nulls().cloned())?))
}

/// The types of two lists with that of the other for a NULL.
fn with_typed_nulls(arg_types: &[DataType]) -> Vec<DataType> {
    let list = arg_types.iter().find(|arg| is_list(arg)).cloned();
    let list = list.unwrap_or_else(|| DataType::new_list(DataType::Int64, true));
    arg_types.iter().map(|arg| if arg.is_null() { list.clone() } else { arg.clone() }).collect()
}

/// The `lengths` that lists of `rows` rows are to have, without NULL.
///
/// # Errors
/// If one is negative, or there would be too many elements.
fn lengths(lengths: &ColumnarValue, function: &str, rows: usize) -> Result<ColumnarValue> {
    let rows_of_each = if matches!(lengths, ColumnarValue::Scalar(_)) { rows } else { 1 };
    each(lengths.clone(), |lengths| {
        let lengths = cast(lengths, &DataType::Int64)?;
        let lengths: Int64Array = lengths.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect();
        if let Some(negative) = lengths.values().iter().find(|length| **length < 0) {
            return exec_err!("{function} makes lists of a length that is not negative, not of {negative}");
        }
        let total = lengths.values().iter().fold(0i64, |total, length| total.saturating_add(*length));
        if total.saturating_mul(rows_of_each as i64) > i64::from(i32::MAX) {
            return exec_err!("{function} would make lists of too many elements, more than {}", i32::MAX);
        }
        Ok(Arc::new(lengths))
    })
}

/// `result` with NULL where one of the lists that were `given` is.
fn null_where_given(result: ColumnarValue, given: &[ColumnarValue]) -> Result<ColumnarValue> {
    let rows = if let ColumnarValue::Array(result) = &result { result.len() } else { 1 };
    let mut nulls: Option<NullBuffer> = None;
    for list in given {
        nulls = NullBuffer::union(nulls.as_ref(), list.to_array(rows)?.nulls());
    }
    each(result, |found| Ok(Arc::new(BooleanArray::new(found.as_boolean().values().clone(), nulls))))
}

/// `of` of a value or of an array of values.
fn each(value: ColumnarValue, of: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(of(&array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&of(&scalar.to_array()?)?, 0)?)
        }
    })
}

/// `array` without elements behind lists that are NULL, as conditions leave them there: functions that append go on from them.
fn without_hidden(array: ArrayRef) -> Result<ArrayRef> {
    let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(array) };
    let DataType::List(_) = array.data_type() else { return Ok(array) };
    let lists = array.as_list::<i32>();
    if (0..lists.len()).all(|row| nulls.is_valid(row) || lists.value_length(row) == 0) {
        return Ok(array);
    }
    let rows: UInt32Array = (0..lists.len()).map(|row| nulls.is_valid(row).then_some(row as u32)).collect();
    Ok(take(&array, &rows, None)?)
}

/// `lists` with empty ones instead of NULL.
fn without_nulls(lists: &ArrayRef) -> ArrayRef {
    let Some(nulls) = lists.nulls().filter(|nulls| nulls.null_count() > 0) else { return Arc::clone(lists) };
    let DataType::List(field) = lists.data_type() else { return Arc::clone(lists) };
    let list = lists.as_list::<i32>();
    // What is behind a NULL may be any number of elements.
    let lengths = (0..list.len()).map(|row| if nulls.is_null(row) { 0 } else { list.value_length(row) as usize });
    let is_plain = (0..list.len()).all(|row| nulls.is_valid(row) || list.value_length(row) == 0);
    if is_plain {
        let parts = (Arc::clone(field), list.offsets().clone(), Arc::clone(list.values()));
        return Arc::new(ListArray::new(parts.0, parts.1, parts.2, None));
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let kept: Vec<ArrayRef> = (0..list.len()).filter(|&row| nulls.is_valid(row)).map(|row| list.value(row)).collect();
    let kept: Vec<&dyn Array> = kept.iter().map(AsRef::as_ref).collect();
    let values = match kept.is_empty() {
        true => new_null_array(field.data_type(), 0),
        false => datafusion::arrow::compute::concat(&kept).expect("elements of one list are of one type"),
    };
    Arc::new(ListArray::new(Arc::clone(field), offsets, values, None))
}

/// `lists` without the elements that are NULL.
fn without_null_elements(lists: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(field) = lists.data_type() else { return Ok(Arc::clone(lists)) };
    let list = lists.as_list::<i32>();
    let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
    let values = list.values().slice(first as usize, (last - first) as usize);
    let Some(nulls) = values.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::clone(lists));
    };
    let lengths = list.value_offsets().windows(2).map(|ends| {
        let (from, to) = ((ends[0] - first) as usize, (ends[1] - first) as usize);
        to - from - nulls.slice(from, to - from).null_count()
    });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let values = filter(&values, &BooleanArray::new(nulls.into_inner(), None))?;
    Ok(Arc::new(ListArray::new(Arc::clone(field), offsets, values, list.nulls().cloned())))
}

/// `texts` with NULL for those of `lists` that have elements, but only NULL.
fn nullify(texts: &ArrayRef, lists: &ArrayRef) -> Result<ArrayRef> {
    let only_nulls: BooleanArray = match lists.data_type() {
        DataType::List(_) => lists.as_list::<i32>().iter().map(|list| Some(has_only_nulls(list))).collect(),
        DataType::LargeList(_) => lists.as_list::<i64>().iter().map(|list| Some(has_only_nulls(list))).collect(),
        DataType::FixedSizeList(..) => {
            lists.as_fixed_size_list().iter().map(|list| Some(has_only_nulls(list))).collect()
        }
        _ => return Ok(Arc::clone(texts)),
    };
    Ok(nullif(texts, &only_nulls)?)
}

fn has_only_nulls(list: Option<ArrayRef>) -> bool {
    list.is_some_and(|list| !list.is_empty() && list.logical_null_count() == list.len())
}
