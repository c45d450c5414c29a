//! Fields of structs by names in any case: of `{'Aa': 1}` the field `aa` is 1.
//!
//! Names in statements are in small letters, fields of structs as they were made. Where a struct has no field of a name, but one that differs in case alone, that is meant.
//!
//! Not here: maps, whose keys are values.

use datafusion::{
    arrow::datatypes::{DataType, Field},
    common::{Column, DFSchema, Result, TableReference},
    functions::core::get_field,
    logical_expr::{
        Expr, ExprSchemable, GetFieldAccess, lit,
        planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr},
    },
    scalar::ScalarValue,
};

/// The field of a struct of `data_type` that `name` means.
fn meant<'a>(data_type: &'a DataType, name: &str) -> Option<&'a Field> {
    let DataType::Struct(fields) = data_type else { return None };
    let same = fields.iter().find(|field| field.name() == name);
    same.or_else(|| fields.iter().find(|field| field.name().eq_ignore_ascii_case(name))).map(AsRef::as_ref)
}

/// Plans `s.field` and `s['field']`.
#[derive(Debug)]
pub(crate) struct FieldsOfAnyCase;

impl ExprPlanner for FieldsOfAnyCase {
    fn plan_field_access(
        &self,
        mut raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if let GetFieldAccess::NamedStructField { name } = &mut raw.field_access
            && let Some(Some(text)) = name.try_as_str()
            && let Ok(data_type) = raw.expr.get_type(schema)
            && let Some(field) = meant(&data_type, text)
            && field.name() != text
        {
            *name = ScalarValue::from(field.name().as_str());
        }
        Ok(PlannerResult::Original(raw))
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut data_type = field.data_type();
        let mut names = Vec::with_capacity(nested_names.len());
        for name in nested_names {
            let Some(within) = meant(data_type, name) else { return Ok(PlannerResult::Original(Vec::new())) };
            names.push(within.name());
            data_type = within.data_type();
        }
        let column = Expr::Column(Column::from((qualifier, field)));
        let access = |of: Expr, name: &String| get_field().call(vec![of, lit(name.as_str())]);
        Ok(PlannerResult::Planned(names.into_iter().fold(column, access)))
    }
}
