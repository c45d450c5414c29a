//! Table functions that read files: `read_csv('x.txt', delim = '|')`.
//!
//! A call becomes the name of a table, which is resolved as that of a file is, so that views and prepared statements keep it ([`Read::name`]). `query('SELECT ..')`, `query_table('t')` and `query_table([t, u])` are what they say. Options are `name = value`, `name := value` or `name => value`.
//!
//! Not here: what options mean (`ogee_files`).

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{
            Array, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
            TableAlias, TableFactor, UnaryOperator, Value, VisitorMut,
        },
        parser::Parser,
        tokenizer::{Token, Tokenizer},
    },
};
use ogee_files::{Read, reads_files, reads_files_apart};
use ogee_functions::{Error, Result};

use crate::{dialect::OgeeDialect, names::normal_name};

/// Has `statement` read tables where it calls such functions.
///
/// # Errors
/// [`Error::Plan`] where the arguments are no paths and options.
pub(crate) fn write_out(statement: &mut Parsed) -> Result<()> {
    struct Readers;

    impl VisitorMut for Readers {
        type Break = Error;

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
            match read(factor) {
                Ok(Some(table)) => *factor = table,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        }
    }

    super::visit(statement, &mut Readers).break_value().map_or(Ok(()), Err)
}

/// The table that `factor` reads, if it is a call of such a function.
fn read(factor: &mut TableFactor) -> Result<Option<TableFactor>> {
    let TableFactor::Table { name, args: Some(args), alias, .. } = factor else { return Ok(None) };
    let [function] = name.0.as_slice() else { return Ok(None) };
    let Some(function) = function.as_ident().map(normal_name) else { return Ok(None) };
    let queried = match (&*function, &*args.args) {
        ("query", [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))]) => constant_text(of),
        ("query_table", [FunctionArg::Unnamed(FunctionArgExpr::Expr(of)), rest @ ..]) => all_of(of, rest),
        _ => None,
    };
    if let Some(queried) = queried {
        let alias = alias.take().or_else(|| Some(alias_of(&function)));
        let subquery = parsed(&queried)?;
        return Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }));
    }
    if !reads_files(&function) {
        return Ok(None);
    }
    let refused = || {
        Error::Plan(format!("{function} takes a path or a list of paths as text, and options such as header = true"))
    };
    let [files, given @ ..] = args.args.as_slice() else { return Err(refused()) };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(files)) = files else { return Err(refused()) };
    let paths: Vec<String> = match files {
        Expr::Array(Array { elem, .. }) => elem.iter().map(text_of).collect::<Option<_>>().ok_or_else(refused)?,
        path => vec![text_of(path).ok_or_else(refused)?],
    };
    let mut options = Vec::new();
    for arg in given {
        let (option, value) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (normal_name(name), value),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                (normal_name(name), value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
                let Expr::Identifier(name) = &**left else { return Err(refused()) };
                (normal_name(name), &**right)
            }
            _ => return Err(refused()),
        };
        let wrong = || Error::Plan(format!("the option {option} of {function} is a constant, not {value}"));
        match value {
            Expr::Array(Array { elem, .. }) => {
                for (at, value) in elem.iter().enumerate() {
                    let value = type_or(&option, scalar(value).ok_or_else(wrong)?);
                    options.push((format!("{option}.{at}"), value));
                }
            }
            Expr::Dictionary(fields) => {
                for field in fields {
                    let value = type_or(&option, scalar(&field.value).ok_or_else(wrong)?);
                    options.push((format!("{option}.{}", field.key.value), value));
                }
            }
            // No such mark.
            Expr::Value(null) if null.value == Value::Null && MARKS.contains(&option.as_str()) => {
                options.push((option.clone(), String::new()));
            }
            value => options.push((option.clone(), scalar(value).ok_or_else(wrong)?)),
        }
    }
    let alias = alias.take().or_else(|| Some(alias_of(&function)));
    if paths.is_empty() {
        return Err(Error::Plan(format!("{function} takes at least one path")));
    }
    let derived = |query: &str| {
        let subquery = parsed(query)?;
        Ok(Some(TableFactor::Derived { lateral: false, subquery, alias: alias.clone(), sample: None }))
    };
    if reads_files_apart(&function) && paths.len() > 1 {
        let of = |path: &String| Ident::with_quote('"', Read::name(&function, std::slice::from_ref(path), &options));
        let selects: Vec<String> = paths.iter().map(|path| format!("SELECT * FROM {}", of(path))).collect();
        return derived(&selects.join(" UNION ALL "));
    }
    let numbered = options.iter().position(|(option, value)| option == "file_row_number" && is_true(value));
    if let Some(numbered) = numbered {
        options.remove(numbered);
        let named = options.iter().any(|(option, value)| option == "filename" && !is_false(value));
        if !named {
            options.push(("filename".to_owned(), FILE.to_owned()));
        }
        let name = options.iter().find(|(option, _)| option == "filename").map(|(_, value)| value.as_str());
        let file = Ident::with_quote('"', name.filter(|name| !is_true(name)).unwrap_or("filename"));
        let table = Ident::with_quote('"', Read::name(&function, &paths, &options));
        let all = if named { "*".to_owned() } else { format!("* EXCLUDE ({file})") };
        return derived(&format!(
            "SELECT {all}, row_number() OVER (PARTITION BY {file}) - 1 AS file_row_number FROM {table}"
        ));
    }
    let TableFactor::Table { name: table, args, alias: of, .. } = factor else { return Ok(None) };
    *table = ObjectName::from(vec![Ident::with_quote('"', Read::name(&function, &paths, &options))]);
    (*args, *of) = (None, alias);
    Ok(None)
}

/// The query of all rows of the table that `of` names, or of those of a list; by the names of columns, if that is what `rest` says.
fn all_of(of: &Expr, rest: &[FunctionArg]) -> Option<String> {
    let table = |of: &Expr| match of {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Some(of.to_string()),
        text => text_of(text).map(|name| Ident::with_quote('"', name).to_string()),
    };
    let tables: Vec<String> = match of {
        Expr::Array(Array { elem, .. }) => elem.iter().map(table).collect::<Option<_>>()?,
        one => vec![table(one)?],
    };
    let union = match rest {
        [] => " UNION ALL ",
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(by_name))] => match is_true(&scalar(by_name)?) {
            true => " UNION ALL BY NAME ",
            false => " UNION ALL ",
        },
        _ => return None,
    };
    let selects: Vec<String> = tables.iter().map(|table| format!("SELECT * FROM {table}")).collect();
    (!selects.is_empty()).then(|| selects.join(union))
}

/// The column of files' names where rows are numbered and nobody asks for it.
const FILE: &str = "ogee_file";

fn parsed(query: &str) -> Result<Box<Query>> {
    let parsed = Parser::new(&OgeeDialect).try_with_sql(query).and_then(|mut parser| {
        let query = parser.parse_query()?;
        while parser.consume_token(&Token::SemiColon) {}
        parser.expect_token(&Token::EOF)?;
        Ok(query)
    });
    parsed.map_err(|error| Error::Parse(error.to_string()))
}

fn alias_of(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::with_quote('"', name), columns: Vec::new(), at: None }
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Options of CSV that are marks, of which there may be none.
const MARKS: &[&str] = &["comment", "delim", "delimiter", "escape", "quote", "sep", "separator"];

/// Repetitions of a text are no longer than this.
const REPEATED_MAX: usize = 1 << 20;

/// The text that `expr` is, if that can be told: of texts and numbers that are put together.
fn constant_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            Some(constant_text(left)? + &constant_text(right)?)
        }
        Expr::Nested(inner) => constant_text(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("repeat") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let args = super::unnamed(&list.args)?;
            let [text, count] = &args[..] else { return None };
            let (text, count) = (constant_text(text)?, scalar(count)?.parse::<usize>().ok()?);
            (text.len().checked_mul(count)? <= REPEATED_MAX).then(|| text.repeat(count))
        }
        Expr::Value(_) | Expr::UnaryOp { .. } => scalar(expr),
        _ => None,
    }
}

/// A constant as text.
fn scalar(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number.clone()),
            Value::Boolean(of) => Some(of.to_string()),
            _ => text_of(expr),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => scalar(expr).map(|number| format!("-{number}")),
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    }
}

/// `value`, in DataFusion's words where `option` is of types.
fn type_or(option: &str, value: String) -> String {
    if !matches!(option, "columns" | "types" | "dtypes" | "column_types" | "hive_types") {
        return value;
    }
    let cast = format!("CAST(NULL AS {value})");
    let tokens = Tokenizer::new(&OgeeDialect, &cast).tokenize_with_location().map(super::struct_types::in_tokens);
    let parsed = tokens.ok().map(|tokens| Parser::new(&OgeeDialect).with_tokens_with_locations(tokens).parse_expr());
    match parsed {
        Some(Ok(Expr::Cast { mut data_type, .. })) => {
            super::in_type(&mut data_type);
            data_type.to_string()
        }
        // What is wrong is told where the type is looked up.
        _ => value,
    }
}

/// Whether `value` says no.
fn is_false(value: &str) -> bool {
    ["false", "f", "no", "off", "0"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

/// Whether `value` says yes.
fn is_true(value: &str) -> bool {
    ["true", "t", "yes", "on", "1"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}
