//! Floats in one form of those that are equal: NaN, whatever its bits, and zero, whatever its sign (`ogee_vector::canonical_floats`).
//!
//! Arrow's kernels compare bits, and `inf - inf` is a negative NaN on most processors. What is compared is brought into one form first. Values that come out
//! are as they were.
//!
//! Not here: keys of groups, joins, sorts and windows, and comparisons of columns with constants, which the engine does in this order.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Schema},
    common::{
        Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    logical_expr::{
        ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions},
};
use ogee_vector::{canonical_floats, has_floats};

use crate::{arithmetic::as_nullable_as_args, ordered_mode::ORDERED_MODE};

/// Whether `aggregate` counts how often each value is there.
pub fn counts_values(aggregate: &str) -> bool {
    matches!(aggregate, "mode" | ORDERED_MODE | "histogram" | "entropy")
}

/// Whether `op` compares two values.
pub fn is_comparison(op: Operator) -> bool {
    use Operator as Op;
    matches!(
        op,
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::IsDistinctFrom | Op::IsNotDistinctFrom
    )
}

static CANONICAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Canonical { signature: Signature::any(1, Volatility::Immutable) }))
});

/// `expr` with its floats in the one form of those that are equal.
pub fn canonical(expr: Expr) -> Expr {
    CANONICAL.call(vec![expr])
}

/// `ogee_canonical(x)`: floats in the one form of those that are equal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    signature: Signature,
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        "ogee_canonical"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        as_nullable_as_args(self, &args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(canonical_floats(array)),
            ColumnarValue::Scalar(scalar) => {
                let canonical = canonical_floats(&scalar.to_array_of_size(1)?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&canonical, 0)?)
            }
        })
    }
}

/// `expr`, over rows of `input`, with floats that it compares in one form.
pub fn in_one_form(expr: Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|node| {
        let compared = if let Some(binary) = node.downcast_ref::<expressions::BinaryExpr>() {
            if is_comparison(*binary.op()) { 2 } else { 0 }
        } else if node.is::<expressions::InListExpr>() {
            1
        } else {
            0
        };
        let mut children: Vec<_> = node.children().into_iter().cloned().collect();
        let mut changed = false;
        for child in children.iter_mut().take(compared) {
            if child.is::<expressions::Literal>() || !has_floats(&child.data_type(input)?) {
                continue;
            }
            let field = Arc::new(Field::new("canonical", child.data_type(input)?, child.nullable(input)?));
            let (function, args) = (Arc::clone(&CANONICAL), vec![Arc::clone(child)]);
            let config = Arc::new(ConfigOptions::default());
            *child = Arc::new(ScalarFunctionExpr::new("ogee_canonical", function, args, field, config));
            changed = true;
        }
        Ok(if changed { Transformed::yes(node.with_new_children(children)?) } else { Transformed::no(node) })
    })
    .data()
}
