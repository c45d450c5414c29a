//! `list_transform(l, (x, i) -> ..)` and `list_filter(l, (x, i) -> ..)`, whose lambdas are told where in its list an element is, from 1 on.
//!
//! Not here: lambdas of elements alone, which are DataFusion's.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array},
        buffer::OffsetBuffer,
        compute::{cast, filter, take, take_arrays},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, plan_err},
    logical_expr::{
        ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
        HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
    },
};

use crate::list_reductions::{element, nullable, nullable_as};

/// The function that makes a list of what a lambda gives for an element and its place.
pub const TRANSFORM: &str = "ogee_list_transform_at";
/// The function that keeps the elements for which, with their places, a lambda is true.
pub const FILTER: &str = "ogee_list_filter_at";

/// Both functions.
pub(crate) fn functions() -> [Arc<HigherOrderUDF>; 2] {
    [TRANSFORM, FILTER].map(|name| {
        let takes = vec![ValueOrLambda::Value(()), ValueOrLambda::Lambda(())];
        let signature = HigherOrderSignature::exact(takes, Volatility::Immutable);
        Arc::new(HigherOrderUDF::new_from_impl(OfPlaces { name, signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPlaces {
    name: &'static str,
    signature: HigherOrderSignature,
}

impl OfPlaces {
    fn arguments<'a, V, L>(&self, args: &'a [ValueOrLambda<V, L>]) -> Result<(&'a V, &'a L)> {
        match args {
            [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((list, lambda)),
            _ => plan_err!("{} takes a list and a lambda such as (x, i) -> x + i", self.name),
        }
    }
}

impl HigherOrderUDFImpl for OfPlaces {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}({})", self.name, args.join(", ")))
    }

    fn coerce_value_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [list] => Ok(vec![DataType::List(element(list)?)]),
            _ => plan_err!("{} takes a list", self.name),
        }
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, _) = self.arguments(fields)?;
        let element = element(list.data_type())?;
        let parameters = vec![nullable_as(&element), nullable(&DataType::Int64)];
        Ok(LambdaParametersProgress::Complete(vec![parameters]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let (list, lambda) = self.arguments(args.arg_fields)?;
        let data_type = match self.name {
            TRANSFORM => DataType::List(Arc::new(Field::new_list_field(lambda.data_type().clone(), true))),
            _ => list.data_type().clone(),
        };
        Ok(nullable(&data_type))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda) = self.arguments(&args.args)?;
        let lists = list.to_array(args.number_rows)?;
        let lists = lists.as_list::<i32>();
        let DataType::List(field) = args.return_field.data_type() else {
            return plan_err!("{} makes a list, not {}", self.name, args.return_field.data_type());
        };
        // Of each element its row, its place among all, and its place in its list. What lies under a NULL is no element.
        let (mut rows, mut places, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = vec![0; lists.len()];
        for row in (0..lists.len()).filter(|&row| lists.is_valid(row)) {
            lengths[row] = lists.value_length(row) as usize;
            let begin = lists.value_offsets()[row] as u32;
            for at in 0..lengths[row] as u32 {
                rows.push(row as u32);
                places.push(begin + at);
                numbers.push(i64::from(at) + 1);
            }
        }
        let values = take(lists.values(), &UInt32Array::from(places), None)?;
        let (rows, numbers): (_, ArrayRef) = (UInt32Array::from(rows), Arc::new(Int64Array::from(numbers)));
        let result = lambda.evaluate(&[&|| Ok(Arc::clone(&values)), &|| Ok(Arc::clone(&numbers))], |captured| {
            Ok(take_arrays(captured, &rows, None)?)
        })?;
        let result = result.into_array(values.len())?;
        let values = match self.name {
            TRANSFORM => cast(&result, field.data_type())?,
            _ => {
                let result = cast(&result, &DataType::Boolean)?;
                let kept: BooleanArray = result.as_boolean().iter().map(|keeps| Some(keeps == Some(true))).collect();
                let mut begin = 0;
                for length in &mut lengths {
                    let end = begin + *length;
                    *length = kept.values().slice(begin, end - begin).count_set_bits();
                    begin = end;
                }
                filter(&values, &kept)?
            }
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(ColumnarValue::Array(Arc::new(ListArray::new(Arc::clone(field), offsets, values, lists.nulls().cloned()))))
    }
}
