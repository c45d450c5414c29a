//! Parts of JSON by dots and brackets, `j.a[0]`, and JSON in comparisons, where a statement becomes a plan.
//!
//! Names without quotes come in small letters here, while keys may have others: a key that only differs in these is found, if there is no other. Beside a number JSON is
//! a number, and a text that is written beside it is JSON.
//!
//! Not here: casts (`casting`), and `->`, which is a function.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field},
    common::{Column, DFSchema, Result, ScalarValue, TableReference},
    functions::core::get_field,
    logical_expr::{
        Expr, ExprSchemable, GetFieldAccess, ScalarUDF,
        expr::ScalarFunction,
        lit,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use ogee_memory::BufferManager;

use super::{
    extracting::{FIELD, MEMBER, functions},
    field, is_json,
};
use crate::marks::{Casts, field_of};

/// See the module.
#[derive(Debug)]
pub struct JsonAccess {
    /// Of a place, or a key that is no constant.
    field: Arc<ScalarUDF>,
    /// Of a name.
    member: Arc<ScalarUDF>,
    casts: Casts,
}

impl JsonAccess {
    /// What is found is promised memory of `memory`.
    ///
    /// # Panics
    /// Never: both functions are of this crate.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        let named = |name: &str| {
            let function = functions(memory).into_iter().find(|function| function.name == name);
            Arc::new(function.expect("a function of this crate").registered())
        };
        Self { field: named(FIELD), member: named(MEMBER), casts: Casts::new(memory) }
    }

    fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
    }
}

/// The field of `expr`, if it may be JSON. Cheaper than the field of anything, which operators need not be asked for at each of thousands.
fn json_field(expr: &Expr, schema: &DFSchema) -> Option<Arc<Field>> {
    let may_be = match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) | Expr::LambdaVariable(_) => true,
        Expr::Cast(cast) => is_json(&cast.field),
        Expr::TryCast(cast) => is_json(&cast.field),
        Expr::ScalarFunction(_) | Expr::AggregateFunction(_) | Expr::Case(_) => true,
        Expr::Alias(alias) => return json_field(&alias.expr, schema),
        _ => false,
    };
    may_be.then(|| field_of(expr, schema)).flatten().filter(|field| is_json(field))
}

impl ExprPlanner for JsonAccess {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if json_field(&access.expr, schema).is_none() {
            return Ok(PlannerResult::Original(access));
        }
        let (function, key) = match &access.field_access {
            GetFieldAccess::NamedStructField { name } => (&self.member, Expr::Literal(name.clone(), None)),
            GetFieldAccess::ListIndex { key } => (&self.field, key.as_ref().clone()),
            // Of its text.
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(access)),
        };
        Ok(PlannerResult::Planned(Self::call(function, vec![access.expr, key])))
    }

    fn plan_compound_identifier(
        &self,
        of: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut expr = Expr::Column(Column::from((qualifier, of)));
        let mut here = of.clone();
        let mut met = false;
        for name in nested_names {
            if is_json(&here) {
                met = true;
                expr = Self::call(&self.member, vec![expr, lit(ScalarValue::from(name.as_str()))]);
                continue;
            }
            let DataType::Struct(fields) = here.data_type() else { return Ok(PlannerResult::Original(Vec::new())) };
            let Some((_, inner)) = fields.find(name) else { return Ok(PlannerResult::Original(Vec::new())) };
            expr = get_field().call(vec![expr, lit(name.as_str())]);
            here = inner.as_ref().clone();
        }
        Ok(if met { PlannerResult::Planned(expr) } else { PlannerResult::Original(Vec::new()) })
    }

    fn plan_binary_op(&self, mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            let (left, right) = (json_field(&raw.left, schema), json_field(&raw.right, schema));
            match (left, right) {
                (Some(json), None) => self.beside(&mut raw.left, &json, &mut raw.right, schema)?,
                (None, Some(json)) => self.beside(&mut raw.right, &json, &mut raw.left, schema)?,
                _ => {}
            }
        }
        Ok(PlannerResult::Original(raw))
    }
}

impl JsonAccess {
    /// Casts `json`, or what stands beside it, to what both are compared as.
    fn beside(&self, json: &mut Expr, of: &Field, other: &mut Expr, schema: &DFSchema) -> Result<()> {
        let Ok(data_type) = other.get_type(schema) else { return Ok(()) };
        if data_type.is_numeric() || data_type == DataType::Boolean {
            let to = Field::new("", data_type, true);
            if let Some(number) = self.casts.cast(json, of, &to, false)? {
                *json = number;
            }
        } else if let Expr::Literal(value, None) = other
            && matches!(value.try_as_str(), Some(Some(_)))
        {
            let from = Field::new("", data_type, true);
            if let Some(cast) = self.casts.cast(other, &from, &field(""), false)? {
                *other = cast;
            }
        }
        Ok(())
    }
}
