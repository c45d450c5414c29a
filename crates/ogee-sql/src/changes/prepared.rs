//! What `EXECUTE` runs: the statement that was prepared, with values in the place of its parameters.
//!
//! So the parameters have the types of the values, as in DuckDB, and may stand where plans have no place for any: `LIMIT $1`, `range($1)`. They are numbered, or have names.
//!
//! Not here: which statements are prepared.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, Statement, Value, VisitorMut},
};
use ogee_functions::{Error, Result};

use super::is_change;
use crate::{names::normal_name, syntax::in_type, visitors};

/// Whether `statement` prepares one that changes rows.
pub fn prepares(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    match &**statement {
        Statement::Prepare { statement, .. } => is_change(&Parsed::Statement(statement.clone())),
        _ => false,
    }
}

/// The statement that `prepared` prepares, with the values that `execute` gives.
///
/// # Errors
/// There are other parameters than values.
pub fn filled(prepared: &Parsed, execute: &Parsed) -> Result<Option<Parsed>> {
    let (Parsed::Statement(prepared), Parsed::Statement(execute)) = (prepared, execute) else { return Ok(None) };
    let Statement::Prepare { name, data_types, statement } = &**prepared else { return Ok(None) };
    let Statement::Execute { parameters, using, .. } = &**execute else { return Ok(None) };
    if !using.is_empty() {
        return Err(Error::Unsupported("EXECUTE .. USING is not supported; use EXECUTE name(values)".to_owned()));
    }
    let mut values = Values::default();
    for (at, value) in parameters.iter().enumerate() {
        if let Expr::BinaryOp { left, op: BinaryOperator::Assignment, right } = value
            && let Expr::Identifier(name) = &**left
        {
            values.add(normal_name(name).to_lowercase(), (**right).clone());
            continue;
        }
        let mut value = value.clone();
        if let Some(data_type) = data_types.get(at) {
            let mut data_type: DataType = data_type.clone();
            in_type(&mut data_type);
            let expr = Box::new(Expr::Nested(Box::new(value)));
            value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
        }
        values.add((at + 1).to_string(), value);
    }
    let mut statement = statement.clone();
    if let ControlFlow::Break(parameter) = visitors::visit_mut(&mut statement, &mut values) {
        let given = values.by_name.len();
        return Err(Error::Plan(format!("'{name}' has a parameter {parameter}, and EXECUTE gives {given} values")));
    }
    if let Some((unused, _)) = values.by_name.iter().find(|(_, (_, used))| !used) {
        return Err(Error::Plan(format!("'{name}' has no parameter ${unused}, for which EXECUTE gives a value")));
    }
    Ok(Some(Parsed::Statement(statement)))
}

/// The statement that `prepared` prepares, with NULL for each parameter.
pub fn of_nulls(prepared: &Parsed) -> Option<Parsed> {
    struct Nulls;

    impl VisitorMut for Nulls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if parameter(expr).is_some() {
                *expr = Expr::value(Value::Null);
            }
            ControlFlow::Continue(())
        }
    }

    let Parsed::Statement(prepared) = prepared else { return None };
    let Statement::Prepare { statement, .. } = &**prepared else { return None };
    let mut statement = statement.clone();
    // It never stops.
    let _ = visitors::visit_mut(&mut statement, &mut Nulls);
    Some(Parsed::Statement(statement))
}

/// The parameter that `expr` is, as it is written.
fn parameter(expr: &Expr) -> Option<&str> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::Placeholder(parameter) => Some(parameter),
        _ => None,
    }
}

/// Values by the numbers and names of their parameters, and whether there is such a parameter.
#[derive(Default)]
struct Values {
    by_name: HashMap<String, (Expr, bool)>,
}

impl Values {
    fn add(&mut self, name: String, value: Expr) {
        self.by_name.insert(name, (value, false));
    }
}

impl VisitorMut for Values {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Some(parameter) = parameter(expr) else { return ControlFlow::Continue(()) };
        let name = parameter.trim_start_matches(['$', ':']).to_lowercase();
        let Some((value, used)) = self.by_name.get_mut(&name) else { return ControlFlow::Break(parameter.to_owned()) };
        *used = true;
        *expr = value.clone();
        ControlFlow::Continue(())
    }
}
