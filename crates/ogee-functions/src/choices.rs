//! Functions that give one of their arguments, or a list of them, of types that DataFusion has no common one for: text beside times, truth values beside numbers, structs with other fields.
//!
//! A text that is written out is read as what stands beside it, as in DuckDB: `coalesce(day, '2020-01-01')` is a date.
//!
//! Not here: `nullif`, which is a `CASE` (`ogee_sql`), and `CASE`, to which DataFusion's `coalesce` is simplified, and what of floats and decimals is given (`ogee_sql`, `mixed_types`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, FieldRef},
    common::{Result, plan_err},
    functions::core,
    functions_nested::make_array::make_array_udf,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::binary::type_union_resolution,
    },
};

use crate::{
    common::{common_type, is_known_here},
    lists::coerced,
    type_names::sql_name,
};

/// The functions to register in a session, instead of those of the same names.
pub fn functions() -> Vec<ScalarUDF> {
    let functions = [core::coalesce(), core::greatest(), core::least(), make_array_udf()];
    let signature = || Signature::user_defined(Volatility::Immutable);
    functions.map(|plain| ScalarUDF::new_from_impl(Choice { plain, signature: signature() })).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Choice {
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
    None
}

impl ScalarUDFImpl for Choice {
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
        let here = is_known_here(arg_types).then(|| common_type(arg_types)).flatten();
        let error = match (here, coerced(arg_types, &self.plain)) {
            // Those that are cast before (`mixed_types` of `ogee-sql`) are as they are until then.
            (Some(common), _) if common.is_nested() || common.is_decimal() => return Ok(arg_types.to_vec()),
            (Some(common), _) => return coerced(&vec![common; arg_types.len()], &self.plain),
            (None, Ok(coerced)) => return Ok(coerced),
            (None, Err(error)) => error,
        };
        if self.name() != core::coalesce().name() {
            return Err(error);
        }
        let Some(common) = common(arg_types) else {
            let types: Vec<String> = arg_types.iter().map(sql_name).collect();
            return plan_err!("coalesce of {}: no type has values of all of these; cast them", types.join(", "));
        };
        Ok(vec![common; arg_types.len()])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = || args.arg_fields.iter().map(|field| field.data_type());
        let Some(common) = is_known_here(types()).then(|| common_type(types())).flatten() else {
            return self.plain.return_field_from_args(args);
        };
        let typed = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(common.clone()));
        let arg_fields: Vec<FieldRef> = args.arg_fields.iter().map(typed).collect();
        self.plain.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, ..args })
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
