//! Parameters: the places of a statement that a program gives values for, written `?`, `$1` or `$name`.
//!
//! A value never becomes text. Before a statement is planned its parameters are marked, as `EXTRACT(mark FROM 1)`, which nothing that rewrites statements looks into, and a planner of
//! expressions puts the value in the place of the mark: a literal of the value's own type. So a statement with parameters is planned as the same one with constants would be.
//!
//! Not here: `PREPARE` and `EXECUTE`, whose parameters are of the statement that is prepared (`prepared`).

use std::ops::ControlFlow;

use datafusion::{
    common::{ScalarValue, plan_err},
    error::Result as PlanResult,
    logical_expr::{
        Expr as PlannedExpr,
        planner::{ExprPlanner, PlannerResult},
    },
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            DateTimeField, Expr, ExtractSyntax, Ident, Select, SelectItem, Statement as SqlStatement, Value,
            ValueWithSpan, Visitor, VisitorMut, WindowFrameBound, WindowType,
        },
    },
};
use ogee_functions::{Error, Result};

use crate::{checkpoint, statement::Statement, syntax};

/// What a marked parameter is extracted by. Nobody can write it.
const MARK: &str = "\u{1}parameter";

/// Parameters of one statement: what PostgreSQL lets one have.
const PARAMETERS_MAX: usize = 65_535;

/// The parameters of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// So many, from `$1` on; none perhaps.
    Numbered(usize),
    /// With these names, in the order in which they are first written.
    Named(Vec<String>),
}

impl Parameters {
    /// Those of `statement`.
    ///
    /// # Errors
    /// [`Error::Plan`] for numbers that are none, and numbers beside names; [`Error::Unsupported`] if it is a statement that takes none, or one stands where no expression may.
    pub fn of(statement: &Statement) -> Result<Self> {
        let mut found = Found::default();
        if matches!(&statement.0, Parsed::Statement(statement) if matches!(**statement, SqlStatement::Prepare { .. })) {
            return Ok(Self::Numbered(0));
        }
        if let ControlFlow::Break(error) = syntax::look(&statement.0, &mut found) {
            return Err(error);
        }
        if found.values == 0 {
            return Ok(Self::Numbered(0));
        }
        takes_parameters(&statement.0)?;
        if found.values > found.expressions {
            return Err(Error::Unsupported(
                "a parameter stands where only a value may be written; write the value there".to_owned(),
            ));
        }
        match (found.most, found.names) {
            (most, names) if names.is_empty() => Ok(Self::Numbered(most)),
            (0, names) => Ok(Self::Named(names)),
            (_, names) => Err(Error::Plan(format!(
                "the statement has parameters with numbers (? or $1) and with names (${}); use one of both",
                names[0]
            ))),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbered(count) => *count,
            Self::Named(names) => names.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which one `name` is, without the `$`: a number, or a name in any case.
    pub fn position(&self, name: &str) -> Option<usize> {
        match self {
            Self::Numbered(count) => name.parse::<usize>().ok()?.checked_sub(1).filter(|position| position < count),
            Self::Named(names) => names.iter().position(|known| known.eq_ignore_ascii_case(name)),
        }
    }

    /// Marks the parameters in `statement`, of which these are.
    pub fn mark(&self, statement: &mut Statement) {
        let visited = syntax::visit(&mut statement.0, &mut Marks(self));
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }
}

/// What a parameter is called without the `$`.
fn name_of(value: &Value) -> Option<&str> {
    match value {
        Value::Placeholder(name) => Some(name.strip_prefix('$').unwrap_or(name)),
        _ => None,
    }
}

/// # Errors
/// `statement` is one whose text is kept, or that has no expressions.
fn takes_parameters(statement: &Parsed) -> Result<()> {
    let takes = match statement {
        Parsed::Statement(statement) => match &**statement {
            SqlStatement::Query(_)
            | SqlStatement::Insert(_)
            | SqlStatement::Update(_)
            | SqlStatement::Delete(_)
            | SqlStatement::Merge(_) => true,
            SqlStatement::CreateTable(create) => create.query.is_some() && create.columns.is_empty(),
            _ => false,
        },
        Parsed::Explain(explain) => return takes_parameters(&explain.statement),
        Parsed::CopyTo(_) => true,
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => false,
    };
    if takes {
        return Ok(());
    }
    let text = statement.to_string();
    let words: Vec<&str> = text.split([' ', '(']).take(2).collect();
    Err(Error::Unsupported(format!(
        "parameters of {} are not supported; SELECT, INSERT, UPDATE, DELETE, MERGE, COPY and CREATE TABLE .. AS take them",
        words.join(" ")
    )))
}

/// Whether `expr` is a call over a window whose frame has a parameter as its bound: DataFusion takes numbers that are written.
fn bounds_frame(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let Some(WindowType::WindowSpec(window)) = &function.over else { return false };
    let Some(frame) = &window.window_frame else { return false };
    let is_parameter = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(Some(expr)) | WindowFrameBound::Following(Some(expr)) => {
            matches!(&**expr, Expr::Value(value) if name_of(&value.value).is_some())
        }
        _ => false,
    };
    is_parameter(&frame.start_bound) || frame.end_bound.as_ref().is_some_and(is_parameter)
}

/// Looks for parameters.
#[derive(Default)]
struct Found {
    /// The greatest number.
    most: usize,
    names: Vec<String>,
    /// How many places there are, and how many of them are expressions.
    values: usize,
    expressions: usize,
}

impl Visitor for Found {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        if bounds_frame(expr) {
            return ControlFlow::Break(Error::Unsupported(
                "a parameter as the bound of a window frame is not supported; write the number there".to_owned(),
            ));
        }
        let Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = name_of(&value.value) else { return ControlFlow::Continue(()) };
        self.expressions += 1;
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            if !self.names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                self.names.push(name.to_owned());
            }
            return ControlFlow::Continue(());
        }
        match name.parse() {
            Ok(number @ 1..=PARAMETERS_MAX) => self.most = self.most.max(number),
            _ => {
                return ControlFlow::Break(Error::Plan(format!(
                    "'${name}' is no parameter; they are numbered from $1 to ${PARAMETERS_MAX}"
                )));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<Error> {
        self.values += usize::from(name_of(&value.value).is_some());
        ControlFlow::Continue(())
    }
}

/// Marks parameters.
struct Marks<'a>(&'a Parameters);

impl Marks<'_> {
    /// What `expr` is called, and the mark that takes its place, if it is a parameter.
    fn marked(&self, expr: &Expr) -> Option<(String, Expr)> {
        let Expr::Value(value) = expr else { return None };
        let name = name_of(&value.value)?;
        let position = self.0.position(name)?;
        let number = Expr::value(Value::Number((position + 1).to_string(), false));
        let mark = Expr::Extract {
            field: DateTimeField::Custom(Ident::new(MARK)),
            syntax: ExtractSyntax::From,
            expr: Box::new(number),
        };
        Some((format!("${name}"), mark))
    }
}

impl VisitorMut for Marks<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // The column is called as its parameter whatever the value is.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some((name, expr)) = self.marked(expr)
            {
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some((_, mark)) = self.marked(expr) {
            *expr = mark;
        }
        ControlFlow::Continue(())
    }
}

/// Puts values in the place of marks.
#[derive(Debug)]
pub(crate) struct ParameterPlanner;

impl ExprPlanner for ParameterPlanner {
    fn plan_extract(&self, args: Vec<PlannedExpr>) -> PlanResult<PlannerResult<Vec<PlannedExpr>>> {
        let [
            PlannedExpr::Literal(ScalarValue::Utf8(Some(field)), _),
            PlannedExpr::Literal(ScalarValue::Int64(Some(number)), _),
        ] = args.as_slice()
        else {
            return Ok(PlannerResult::Original(args));
        };
        if field != MARK {
            return Ok(PlannerResult::Original(args));
        }
        match checkpoint::current().and_then(|statement| statement.parameter(*number as usize)) {
            Some(value) => Ok(PlannerResult::Planned(PlannedExpr::Literal(value, None))),
            None => plan_err!("parameter ${number} has no value"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::statement::parse;

    fn of(sql: &str) -> Result<Parameters> {
        Parameters::of(&parse(sql).unwrap()[0])
    }

    #[test]
    fn parameters_are_counted_or_named() {
        let named = |names: &[&str]| Parameters::Named(names.iter().map(|name| (*name).to_owned()).collect());
        for (sql, expected) in [
            ("SELECT 1", Parameters::Numbered(0)),
            ("SELECT ?, a FROM t WHERE b = ? LIMIT ?", Parameters::Numbered(3)),
            ("INSERT INTO t VALUES ($2, $1, $2)", Parameters::Numbered(2)),
            ("SELECT $a FROM t WHERE x IN (SELECT $b) AND y = $A", named(&["a", "b"])),
            ("COPY (SELECT * FROM t WHERE a = $1) TO 'x.csv'", Parameters::Numbered(1)),
            ("EXPLAIN SELECT $1", Parameters::Numbered(1)),
            ("CREATE TABLE t AS SELECT $1 AS a", Parameters::Numbered(1)),
            ("PREPARE p AS SELECT $1", Parameters::Numbered(0)),
            ("SELECT '$1 and ?'", Parameters::Numbered(0)),
        ] {
            assert_eq!(of(sql).unwrap(), expected, "{sql}");
        }
        for (sql, code) in [
            ("SELECT $1, $a", "OGEE_Q002"),
            ("SELECT $0", "OGEE_Q002"),
            ("SELECT $99999999999999999999", "OGEE_Q002"),
            ("CREATE VIEW v AS SELECT $1", "OGEE_Q003"),
            ("CREATE TABLE t (a INT DEFAULT $1)", "OGEE_Q003"),
        ] {
            assert_eq!(of(sql).unwrap_err().code(), code, "{sql}");
        }
    }
}
