//! Lists, structs and maps as bytes of the same order, which accumulators that sort by themselves can compare.
//!
//! DataFusion's compare values one by one, and know no order of lists of lists, of structs with lists in them, and of maps: rows stayed as they came. Where an aggregate is ordered by such a
//! value, it is ordered by its key.
//!
//! Not here: how NULLs within are to be ordered (`nested_order`).

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{ArrayRef, BinaryArray},
        compute::SortOptions,
        datatypes::DataType,
        row::{RowConverter, SortField},
    },
    common::{Result, ScalarValue, internal_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, lit},
};
use ogee_vector::canonical_floats;

static ORDER_KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(OrderKey { signature: Signature::any(3, Volatility::Immutable) }))
});

/// `by` as an order of bytes.
pub(crate) fn of(by: SortExpr) -> SortExpr {
    let key = ORDER_KEY.call(vec![by.expr, lit(!by.asc), lit(by.nulls_first)]);
    SortExpr::new(key, true, false)
}

/// `ogee_order_key(x, is_descending, nulls_first)`
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderKey {
    signature: Signature,
}

impl ScalarUDFImpl for OrderKey {
    fn name(&self) -> &str {
        "ogee_order_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let said = |at: usize| match &args.args[at] {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(said))) => Ok(*said),
            _ => internal_err!("an order for each row"),
        };
        let options = SortOptions { descending: said(1)?, nulls_first: said(2)? };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = match &args.args[0] {
            ColumnarValue::Array(values) => Arc::clone(values),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        let field = SortField::new_with_options(values.data_type().clone(), options);
        let rows = RowConverter::new(vec![field])?.convert_columns(&[canonical_floats(&values)])?;
        let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(rows.iter()));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?),
            false => ColumnarValue::Array(keys),
        })
    }
}
