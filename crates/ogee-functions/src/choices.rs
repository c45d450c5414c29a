//! `coalesce` of values whose types DataFusion has no common one for: text beside times, and truth values beside numbers.
//!
//! A text that is written out is read as what stands beside it, as in DuckDB: `coalesce(day, '2020-01-01')` is a date. Truth values beside whole numbers are 0
//! and 1.
//!
//! Not here: `CASE`, to which DataFusion's `coalesce` is simplified, and what of floats and decimals it gives (`ogee_sql`, `mixed_types`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    common::{Result, plan_err},
    functions::core::coalesce as plain,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::binary::type_union_resolution,
    },
};

/// To register in a session, instead of DataFusion's.
pub fn coalesce() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { plain: plain(), signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    plain: Arc<ScalarUDF>,
    signature: Signature,
}

/// The type of values of `types`, where DataFusion has none.
fn common(types: &[DataType]) -> Option<DataType> {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let known = |is_other: &dyn Fn(&DataType) -> bool| -> Vec<DataType> {
        types.iter().filter(|data_type| !data_type.is_null() && !is_other(data_type)).cloned().collect()
    };
    let others = known(&is_text);
    // Bytes that are written out, and those that are stored.
    if !others.is_empty() && others.iter().all(DataType::is_binary) && others.len() == known(&|_| false).len() {
        return Some(DataType::BinaryView);
    }
    if others.len() < known(&|_| false).len() {
        // What is written out is `Utf8`, what is stored are views.
        let is_written = !types.contains(&DataType::Utf8View);
        return type_union_resolution(&others)
            .filter(|common| (common.is_temporal() || common.is_binary()) && is_written);
    }
    let numbers = known(&|data_type| *data_type == DataType::Boolean);
    type_union_resolution(&numbers).filter(DataType::is_integer)
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn aliases(&self) -> &[String] {
        self.plain.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if let Ok(coerced) = self.plain.coerce_types(arg_types) {
            return Ok(coerced);
        }
        let Some(common) = common(arg_types) else {
            let types: Vec<String> = arg_types.iter().map(ToString::to_string).collect();
            return plan_err!("coalesce of {}: no type has values of all of these; cast them", types.join(", "));
        };
        Ok(vec![common; arg_types.len()])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.plain.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.plain.simplify(args, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.plain.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.plain.short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.plain.invoke_with_args(args)
    }
}
