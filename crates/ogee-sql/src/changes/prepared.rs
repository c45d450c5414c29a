//! Prepared statements that change rows: `PREPARE p AS UPDATE t SET v = $1`. What is run is the statement with values in the place of its parameters.
//!
//! Not here: prepared queries, whose parameters are DataFusion's.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{CastKind, DataType, Expr, Statement, Value, VisitorMut},
};
use ogee_functions::{Error, Result};

use super::is_change;
use crate::{syntax::in_type, visitors};

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
    let mut values: Vec<Expr> = parameters.clone();
    for (value, data_type) in values.iter_mut().zip(data_types) {
        let mut data_type: DataType = data_type.clone();
        in_type(&mut data_type);
        let expr = Box::new(Expr::Nested(Box::new(value.clone())));
        *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
    }
    let mut statement = statement.clone();
    let mut fill = Fill { values: &values, used: vec![false; values.len()] };
    if let ControlFlow::Break(parameter) = visitors::visit_mut(&mut statement, &mut fill) {
        let given = values.len();
        return Err(Error::Plan(format!("'{name}' has a parameter {parameter}, and EXECUTE gives {given} values")));
    }
    if let Some(unused) = fill.used.iter().position(|used| !used) {
        return Err(Error::Plan(format!("'{name}' has no parameter ${}, for which EXECUTE gives a value", unused + 1)));
    }
    Ok(Some(Parsed::Statement(statement)))
}

struct Fill<'a> {
    values: &'a [Expr],
    used: Vec<bool>,
}

impl VisitorMut for Fill<'_> {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        let Value::Placeholder(parameter) = &value.value else { return ControlFlow::Continue(()) };
        let number = parameter.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some((at, value)) = number.and_then(|number| Some((number - 1, self.values.get(number.checked_sub(1)?)?)))
        else {
            return ControlFlow::Break(parameter.clone());
        };
        self.used[at] = true;
        *expr = value.clone();
        ControlFlow::Continue(())
    }
}
