//! JSON as it is written in statements: which `->` is no lambda, functions in `FROM`, aggregates.
//!
//! * The parser takes `j -> 'a'` for a lambda. It is one only where it is a whole argument of a function that takes lambdas, and no first one unless the function is called as a
//!   method. In the tokens any other arrow is an operator of its own.
//! * `FROM json_each(j)` is the query of the elements of a list of rows.
//! * `json_group_array(x)` is `'[' || string_agg(.., ',') || ']'`, which DuckDB makes of it, too.
//!
//! Not here: how the operator binds (`dialect`), and casts (`marked_casts`).

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{
            BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
            ObjectName, Query, Select, SelectItem, TableAlias, TableFactor, Value, Values, Visitor, VisitorMut,
        },
        parser::Parser,
        tokenizer::{Token, TokenWithSpan},
    },
};
use ogee_functions::json::{ARROW, AS_JSON, EACH, KEY, TREE, VALUE};

use super::{outer_aggregates::has_call, text};
use crate::{
    dialect::OgeeDialect,
    names::{call, normal_name},
    visitors,
};

/// Functions that take lambdas.
const OF_LAMBDAS: &[&str] = &[
    "any_match",
    "apply",
    "array_any_match",
    "array_apply",
    "array_filter",
    "array_reduce",
    "array_transform",
    "filter",
    "list_any_match",
    "list_apply",
    "list_filter",
    "list_reduce",
    "list_transform",
    "reduce",
];

/// The arrow that takes a part of JSON.
pub(crate) fn arrow() -> Token {
    Token::CustomBinaryOperator("->".to_owned())
}

/// A bracket that is open.
struct Open {
    /// Whether lambdas may be its arguments, but for the first.
    of_lambdas: bool,
    /// Whether its first argument may be one, too.
    of_method: bool,
    is_first: bool,
    /// Where the argument begins, among tokens that are no blanks.
    begin: usize,
}

/// `tokens`, in which arrows that are no lambda's are operators.
pub(crate) fn in_tokens(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| token.token == Token::Arrow) {
        return tokens;
    }
    let significant = super::significant(&tokens);
    let mut open: Vec<Open> = Vec::new();
    for nth in 0..significant.len() {
        let before = |by: usize| nth.checked_sub(by).map(|nth| &tokens[significant[nth]].token);
        match &tokens[significant[nth]].token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let of_lambdas = match before(1) {
                    Some(Token::Word(word)) => OF_LAMBDAS.iter().any(|name| word.value.eq_ignore_ascii_case(name)),
                    _ => false,
                } && tokens[significant[nth]].token == Token::LParen;
                let of_method = before(2) == Some(&Token::Period);
                open.push(Open { of_lambdas, of_method, is_first: true, begin: nth + 1 });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                open.pop();
            }
            Token::Comma => {
                if let Some(open) = open.last_mut() {
                    (open.is_first, open.begin) = (false, nth + 1);
                }
            }
            Token::Arrow => {
                let is_lambda = open.last().is_some_and(|open| {
                    let may_be = open.of_lambdas && (!open.is_first || open.of_method);
                    // `x`, or `(x, y)`.
                    let parameters = &significant[open.begin..nth];
                    may_be
                        && match parameters {
                            [name] => matches!(tokens[*name].token, Token::Word(_)),
                            [first, names @ .., last] => {
                                tokens[*first].token == Token::LParen
                                    && tokens[*last].token == Token::RParen
                                    && names.iter().all(|at| matches!(tokens[*at].token, Token::Word(_) | Token::Comma))
                            }
                            [] => false,
                        }
                });
                if !is_lambda {
                    tokens[significant[nth]].token = arrow();
                }
            }
            _ => {}
        }
    }
    tokens
}

/// The columns of `json_each` and `json_tree`.
const COLUMNS: &[&str] = &["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

/// Has `statement` select from lists of rows where it calls `json_each` and `json_tree`.
pub(crate) fn write_out(statement: &mut Parsed) {
    struct Functions;

    impl VisitorMut for Functions {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            for (nth, table) in select.from.iter_mut().enumerate() {
                in_factor(&mut table.relation, nth > 0);
                table.joins.iter_mut().for_each(|join| in_factor(&mut join.relation, true));
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                in_factor(&mut table_with_joins.relation, false);
                table_with_joins.joins.iter_mut().for_each(|join| in_factor(&mut join.relation, true));
            }
            ControlFlow::Continue(())
        }
    }

    let visited = super::visit(statement, &mut Functions);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// `is_behind`: whether there are tables before it, whose columns it may use.
fn in_factor(factor: &mut TableFactor, is_behind: bool) {
    let TableFactor::Table { name, args: Some(args), alias, .. } = factor else { return };
    let [function] = name.0.as_slice() else { return };
    let Some(function) = function.as_ident().map(normal_name) else { return };
    let rows = match function.as_str() {
        "json_each" => EACH,
        "json_tree" => TREE,
        _ => return,
    };
    let Some(args) = super::unnamed(&args.args) else { return };
    let rows = call(rows, args);
    let is_lateral = is_behind && has_names(&rows);
    let columns: Vec<String> = COLUMNS.iter().map(|name| format!("r['{name}'] AS \"{name}\"")).collect();
    let text = format!("SELECT {} FROM (SELECT unnest({rows}) AS r) AS ogee_json_rows", columns.join(", "));
    let Some(subquery) = query(&text) else { return };
    let name = Ident::with_quote('"', function);
    let alias = alias.take().or(Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }));
    *factor = TableFactor::Derived { lateral: is_lateral, subquery, alias, sample: None };
}

fn query(text: &str) -> Option<Box<Query>> {
    Parser::new(&OgeeDialect).try_with_sql(text).ok()?.parse_query().ok()
}

/// Whether `expr` has a name of a column in it, or may have.
fn has_names(expr: &Expr) -> bool {
    struct Names;

    impl Visitor for Names {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    visitors::visit(expr, &mut Names).is_break()
}

/// Functions that give JSON, as far as that can be told without the types of their arguments.
const GIVE_JSON: &[&str] = &[
    ARROW,
    "array_to_json",
    "json",
    "json_array",
    "json_extract",
    "json_merge_patch",
    "json_object",
    "json_quote",
    "json_structure",
    "row_to_json",
    "to_json",
];

fn gives_json(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => gives_json(inner),
        Expr::Cast { data_type: DataType::JSON, .. } => true,
        Expr::TypedString(typed) => typed.data_type == DataType::JSON,
        Expr::Function(function) => match function.name.0.as_slice() {
            [name] => name.as_ident().is_some_and(|name| GIVE_JSON.contains(&normal_name(name).as_str())),
            _ => false,
        },
        _ => false,
    }
}

/// The type of marked text that `expr` is of, as far as its words tell.
fn marked_type(expr: &Expr) -> Option<DataType> {
    match expr {
        expr if gives_json(expr) => Some(DataType::JSON),
        Expr::Nested(inner) => marked_type(inner),
        Expr::Cast { data_type: data_type @ (DataType::Uuid | DataType::Bit(_) | DataType::Enum(..)), .. } => {
            Some(data_type.clone())
        }
        Expr::TypedString(typed) => matches!(typed.data_type, DataType::Uuid).then_some(DataType::Uuid),
        Expr::Function(function) => match function.name.0.as_slice() {
            [name] => {
                let name = name.as_ident().map(normal_name)?;
                matches!(name.as_str(), "uuid" | "gen_random_uuid" | "uuidv4" | "uuidv7").then_some(DataType::Uuid)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Casts all values of a column to JSON, UUID, BIT or an ENUM of which one is: the planner takes no others beside it.
pub(super) fn in_values(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..width {
        let mut rows = values.rows.iter();
        if values.rows.len() < 2 {
            continue;
        }
        let Some(data_type) = rows.find_map(|row| row.content.get(column).and_then(marked_type)) else { continue };
        for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
            if marked_type(value).as_ref() != Some(&data_type) {
                let expr = Box::new(std::mem::replace(value, *super::null()));
                let data_type = data_type.clone();
                *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            }
        }
    }
}

/// Aggregates that make JSON.
const AGGREGATES: &[&str] = &["json_group_array", "json_group_object", "json_group_structure"];

/// Names the outputs of `select` that have such aggregates within as they are written.
pub(super) fn name_outputs(select: &mut Select) {
    let is_one = |function: &Function| match function.name.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| AGGREGATES.contains(&normal_name(name).as_str())),
        _ => false,
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_call(expr, is_one)
        {
            let alias = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// What the call of the aggregate `name` is in other words.
pub(super) fn in_function(name: &str, function: &Function) -> Option<Expr> {
    if !AGGREGATES.contains(&name) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = super::unnamed(&list.args)?;
    let (open, each, close) = match (name, args.as_slice()) {
        ("json_group_array" | "json_group_structure", [value]) => ("[", call(VALUE, vec![value.clone()]), "]"),
        ("json_group_object", [key, value]) => {
            let (key, value) = (call(KEY, vec![key.clone()]), call(VALUE, vec![value.clone()]));
            ("{", joined(key, value), "}")
        }
        _ => return None,
    };
    // Its order, condition and window are those of the texts.
    let mut texts = function.clone();
    texts.name = ObjectName::from(vec![Ident::new("string_agg")]);
    let mut list = list.clone();
    list.args = [each, text(",")].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).to_vec();
    texts.args = FunctionArguments::List(list);
    let all = joined(joined(text(open), Expr::Function(texts)), text(close));
    let json = call(AS_JSON, vec![all]);
    Some(match name {
        "json_group_structure" => {
            let structure = call("json_structure", vec![json]);
            call(ARROW, vec![structure, Expr::value(Value::Number("0".to_owned(), false))])
        }
        _ => json,
    })
}

fn joined(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::StringConcat, right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    fn written(sql: &str) -> String {
        parse(sql).unwrap().pop().unwrap().to_string()
    }

    #[test]
    fn arrows_are_lambdas_only_as_arguments_of_functions_that_take_them() {
        assert_eq!(
            written("SELECT j -> 'a' ->> 'b' = 'c'"),
            "SELECT ogee_json_long_arrow(ogee_json_arrow(j, 'a'), 'b') = 'c'"
        );
        assert_eq!(
            written("SELECT upper(j ->> 'a'), f(j -> 'a')"),
            "SELECT upper(ogee_json_long_arrow(j, 'a')), f(ogee_json_arrow(j, 'a'))"
        );
        assert_eq!(written("SELECT j -> 'a' || 'b'"), "SELECT ogee_json_arrow(j, 'a' || 'b')");
        assert_eq!(
            written("SELECT list_filter(j -> 'a', x -> x -> 'b' = 1)"),
            "SELECT list_filter(ogee_json_arrow(j, 'a'), x -> ogee_json_arrow(x, 'b') = 1)"
        );
        assert_eq!(written("SELECT l.list_filter(x -> x > 1)"), "SELECT list_filter(l, x -> x > 1)");
        assert_eq!(written("SELECT list_reduce(l, (a, b) -> a + b)"), "SELECT list_reduce(l, (a, b) -> a + b)");
        assert_eq!(
            written("SELECT (j) -> 'a', (a + b) -> 0"),
            "SELECT ogee_json_arrow((j), 'a'), ogee_json_arrow((a + b), 0)"
        );
    }

    #[test]
    fn functions_in_from_may_use_tables_before_them() {
        assert!(written("SELECT * FROM t, json_each(t.j)").contains("LATERAL (SELECT"));
        assert!(!written("SELECT * FROM t, json_each('[1]')").contains("LATERAL"));
        assert!(!written("SELECT * FROM json_tree(j)").contains("LATERAL"));
    }
}
