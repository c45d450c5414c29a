//! `list_reduce(l, (a, x) -> ..)`: one value of the elements of a list, by a lambda of what there is so far and the next element.
//!
//! What there is at first is the first element, or a third argument; a lambda with three parameters is told the number of the element, too, from 1. What the lambda gives for two
//! elements is the type of the result. The lambda is evaluated for the elements of one number of all lists that have so many.
//!
//! Not here: how lambdas are written (`ogee-sql`), and functions that look at each element by itself, which are DataFusion's.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array, new_empty_array, new_null_array},
        compute::{cast, interleave, take, take_arrays},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, exec_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
        HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
        type_coercion::binary::type_union_coercion,
    },
};

use crate::{
    lists,
    marks::{Mark, is_alike},
};

/// What the function is called.
pub const NAME: &str = "list_reduce";

/// The function to register in a session.
pub(crate) fn function() -> Arc<HigherOrderUDF> {
    let aliases = ["array_reduce", "reduce"].map(str::to_owned).to_vec();
    let signature = HigherOrderSignature::variadic_any(Volatility::Immutable);
    Arc::new(HigherOrderUDF::new_from_impl(ListReduce { signature, aliases }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListReduce {
    signature: HigherOrderSignature,
    aliases: Vec<String>,
}

/// The list, the lambda, and what there is at first.
fn arguments<V, L>(args: &[ValueOrLambda<V, L>]) -> Result<(&V, &L, Option<&V>)> {
    match args {
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((list, lambda, None)),
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda), ValueOrLambda::Value(first)] => {
            Ok((list, lambda, Some(first)))
        }
        _ => plan_err!("{NAME} takes a list, a lambda such as (a, x) -> a + x, and perhaps what to begin with"),
    }
}

/// The element of lists of a type.
pub(crate) fn element(list: &DataType) -> Result<FieldRef> {
    match (lists::element(list), list) {
        (Some(element), _) => Ok(Arc::clone(element)),
        (None, DataType::Null) => Ok(Arc::new(Field::new_list_field(DataType::Null, true))),
        (None, other) => plan_err!("{NAME} takes a list, not a value of type {other}"),
    }
}

/// Values of a type that may be NULL.
pub(crate) fn nullable(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new("", data_type.clone(), true))
}

/// Values as those of `field`, with what marks them, that may be NULL.
pub(crate) fn nullable_as(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_name("").with_nullable(true))
}

impl HigherOrderUDFImpl for ListReduce {
    fn name(&self) -> &str {
        NAME
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{NAME}({})", args.join(", ")))
    }

    fn coerce_value_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let Some((list, others)) = arg_types.split_first() else { return plan_err!("{NAME} takes a list") };
        let list = DataType::List(element(list)?);
        Ok(std::iter::once(list).chain(others.iter().cloned()).collect())
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, lambda, first) = arguments(fields)?;
        let element = element(list.data_type())?;
        let parameters = |so_far: FieldRef| vec![so_far, nullable_as(&element), nullable(&DataType::Int64)];
        Ok(match lambda {
            // What it gives for a first and a next element is what there is from then on.
            Some(result) => LambdaParametersProgress::Complete(vec![parameters(nullable_as(result))]),
            None => {
                let begins = match first {
                    Some(first) if Mark::of(first).is_some() && !element.data_type().is_string() => nullable_as(first),
                    Some(first) if first.data_type() != element.data_type() || !is_alike(first, &element) => nullable(
                        &type_union_coercion(first.data_type(), element.data_type())
                            .unwrap_or_else(|| first.data_type().clone()),
                    ),
                    _ => nullable_as(&element),
                };
                LambdaParametersProgress::Partial(vec![Some(parameters(begins))])
            }
        })
    }

    fn coerce_values_for_lambdas(&self, fields: &[ValueOrLambda<DataType, DataType>]) -> Result<Option<Vec<DataType>>> {
        let (list, result, first) = arguments(fields)?;
        Ok(first.map(|_| vec![list.clone(), result.clone()]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let (_, lambda, _) = arguments(args.arg_fields)?;
        Ok(nullable(lambda.data_type()))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda, first) = arguments(&args.args)?;
        let data_type = args.return_field.data_type();
        let lists = list.to_array(args.number_rows)?;
        // NULL is a list of no type.
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return Ok(ColumnarValue::Array(new_null_array(data_type, args.number_rows)));
        };
        let offsets = lists.value_offsets();
        // Results of rows whose lists have ended, and where the one of each row is.
        let mut ended: Vec<ArrayRef> = vec![new_null_array(data_type, 1)];
        let mut places = vec![(0, 0); lists.len()];
        let mut rows: Vec<u32> = (0..lists.len() as u32).filter(|&row| lists.is_valid(row as usize)).collect();
        let elements = |rows: &[u32], number: usize| {
            let places = rows.iter().map(|&row| offsets[row as usize] as u32 + number as u32);
            take(lists.values(), &UInt32Array::from_iter_values(places), None)
        };
        let length = |row: u32| lists.value_length(row as usize) as usize;
        let (mut so_far, mut number) = match first {
            Some(first) => {
                let first = first.to_array(args.number_rows)?;
                (take(&first, &UInt32Array::from(rows.clone()), None)?, 0)
            }
            None if rows.iter().any(|&row| length(row) == 0) => {
                return exec_err!("{NAME} of a list without elements takes what to begin with as its third argument");
            }
            None => (elements(&rows, 0)?, 1),
        };
        so_far = cast(&so_far, data_type)?;
        while !rows.is_empty() {
            let (stay, end): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(|&at| length(rows[at]) > number);
            if !end.is_empty() {
                for &at in &end {
                    places[rows[at] as usize] = (ended.len(), at);
                }
                ended.push(Arc::clone(&so_far));
                rows = stay.iter().map(|&at| rows[at]).collect();
                so_far = take(&so_far, &UInt32Array::from_iter_values(stay.iter().map(|&at| at as u32)), None)?;
                if rows.is_empty() {
                    break;
                }
            }
            let next = elements(&rows, number)?;
            let numbers: ArrayRef = Arc::new(Int64Array::from_value(number as i64 + 1, rows.len()));
            let before = Arc::clone(&so_far);
            let result = lambda.evaluate(
                &[&|| Ok(Arc::clone(&before)), &|| Ok(Arc::clone(&next)), &|| Ok(Arc::clone(&numbers))],
                |captured| Ok(take_arrays(captured, &UInt32Array::from(rows.clone()), None)?),
            )?;
            so_far = cast(&result.into_array(rows.len())?, data_type)?;
            number += 1;
        }
        let ended: Vec<&dyn Array> = ended.iter().map(|values| values.as_ref()).collect();
        let values = match places.is_empty() {
            true => new_empty_array(data_type),
            false => interleave(&ended, &places)?,
        };
        Ok(ColumnarValue::Array(values))
    }
}
