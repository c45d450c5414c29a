//! `WITH RECURSIVE t(k, v) USING KEY (k, max(v)) AS (first UNION [ALL] term)`, and `recurring.t`, all rows of a recursive query so far.
//!
//! The parser knows neither. In the tokens the keys become a query `ogee_using_key` within that of `t`. In the parsed text the recursive query is then written as what its rows are after an iteration: the
//! rows of a key that were found so far, each with the place where it was, grouped by the key. Columns that no aggregate is given for keep the value that was found last.
//!
//! ```text
//! SELECT k, max(v) FROM (first) GROUP BY k
//! UNION [ALL]
//! SELECT k, max(v) FROM (first, marked UNION ALL term) GROUP BY k
//! ```
//!
//! The mark, and that of `recurring.t`, is a condition that a rule takes out of the plan (`recursions`). A query whose term does not read itself needs neither.
//!
//! Not here: how it is run.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{
            Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr,
            Ident, ObjectName, OrderByExpr, OrderByOptions, Query, SelectItem, SetExpr, SetOperator, SetQuantifier,
            TableAlias, TableFactor, Value, Visitor, VisitorMut,
        },
        tokenizer::{Token, TokenWithSpan},
    },
};
use ogee_functions::{Error, Result};

use super::{
    parts::{Parts, space},
    query_of,
};
use crate::{
    casts::NAMED_CAST,
    names::{base_name, call, normal_name},
    recursions::{FIRST, LAST, MARK, PLACE, RECURRING},
    visitors,
};

/// What the query is called that holds the keys.
const KEYS: &str = "ogee_using_key";

/// Aggregates whose value depends on the order of rows.
const ORDERED: &[&str] = &[
    "any_value",
    "arbitrary",
    "arg_max",
    "arg_min",
    "array_agg",
    "first",
    "group_concat",
    "last",
    "list",
    "listagg",
    "max_by",
    "min_by",
    "string_agg",
];

/// `tokens` with a query for the keys of each recursive query that has some.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("key"));
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let parts = Parts::new(&tokens);
    let mut replaced = Vec::new();
    for nth in 1..parts.len() {
        if !(parts.is_word(nth, &["USING"])
            && parts.is_word(nth + 1, &["KEY"])
            && parts.is(nth + 2, &Token::LParen)
            && matches!(parts.token(nth - 1), Some(Token::Word(_) | Token::RParen)))
        {
            continue;
        }
        let Some(close) = parts.closing(nth + 2).filter(|&close| parts.is_word(close + 1, &["AS"])) else { continue };
        let open = parts.find(close + 2, |nth| parts.is(nth, &Token::LParen));
        if !parts.is(open, &Token::LParen) {
            continue;
        }
        let word = |text: &str| Token::make_word(text, None);
        let mut keys = vec![word("WITH"), space()];
        let mut begin = open + 1;
        let has_queries = parts.is_word(begin, &["WITH"]);
        if has_queries && parts.is_word(begin + 1, &["RECURSIVE"]) {
            keys.extend([word("RECURSIVE"), space()]);
            begin += 1;
        }
        begin += usize::from(has_queries);
        keys.extend([word(KEYS), space(), word("AS"), space(), Token::LParen, word("SELECT"), space()]);
        keys.extend(parts.text(nth + 3..close));
        keys.push(Token::RParen);
        keys.extend(has_queries.then_some(Token::Comma));
        replaced.push((nth..close + 1, Vec::new()));
        replaced.push((open + 1..begin, keys));
    }
    // Those of a query within another's come between those of the other.
    replaced.sort_by_key(|(range, _)| (range.start, range.end));
    parts.replaced(replaced)
}

/// Writes out the recursive queries of `statement` that have keys, and all reads of what they found so far.
///
/// # Errors
/// [`Error::Plan`] where the keys are none, or a column is named twice.
pub(crate) fn write_out(statement: &mut Parsed) -> Result<()> {
    struct Keyed;

    impl VisitorMut for Keyed {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            let Some(with) = query.with.as_mut().filter(|with| with.recursive) else {
                return ControlFlow::Continue(());
            };
            for cte in &mut with.cte_tables {
                recurring(cte);
                if let Err(error) = take_keys(cte).map_or(Ok(()), |keys| keyed(cte, keys)) {
                    return ControlFlow::Break(error);
                }
            }
            ControlFlow::Continue(())
        }
    }

    super::visit(statement, &mut Keyed).break_value().map_or(Ok(()), Err)
}

/// Marks reads of `recurring.t` in the term of `t`.
fn recurring(cte: &mut Cte) {
    struct Reads {
        name: String,
    }

    impl VisitorMut for Reads {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
            let [schema, table] = &name.0[..] else { return ControlFlow::Continue(()) };
            let (Some(schema), Some(table)) = (schema.as_ident(), table.as_ident()) else {
                return ControlFlow::Continue(());
            };
            if normal_name(schema) != RECURRING || normal_name(table) != self.name {
                return ControlFlow::Continue(());
            }
            let text = format!("SELECT * FROM {table} WHERE {MARK}('{RECURRING}')");
            let Some(rows) = query_of(&text) else { return ControlFlow::Continue(()) };
            let alias = alias.take().unwrap_or_else(|| TableAlias {
                explicit: true,
                name: table.clone(),
                columns: Vec::new(),
                at: None,
            });
            *factor =
                TableFactor::Derived { lateral: false, subquery: Box::new(rows), alias: Some(alias), sample: None };
            ControlFlow::Continue(())
        }
    }

    let mut reads = Reads { name: normal_name(&cte.alias.name) };
    if let SetExpr::SetOperation { op: SetOperator::Union, right, .. } = &mut *cte.query.body {
        // It never stops.
        let _ = visitors::visit_mut(&mut **right, &mut reads);
        keep_casts(right);
    }
}

/// Puts the casts that are outputs of `body` into a function, which tells them from casts to the types of the first rows.
fn keep_casts(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
                if let Expr::Cast { data_type, .. } = expr {
                    let name = Expr::value(Value::SingleQuotedString(data_type.to_string().to_uppercase()));
                    let cast = std::mem::replace(expr, Expr::value(Value::Null));
                    *expr = call(NAMED_CAST, vec![name, cast]);
                }
            }
        }
        SetExpr::Query(query) => keep_casts(&mut query.body),
        _ => {}
    }
}

/// The keys of `cte`, and aggregates.
fn take_keys(cte: &mut Cte) -> Option<Vec<SelectItem>> {
    let with = cte.query.with.as_mut()?;
    if normal_name(&with.cte_tables.first()?.alias.name) != KEYS {
        return None;
    }
    let keys = with.cte_tables.remove(0);
    if with.cte_tables.is_empty() {
        cte.query.with = None;
    }
    match *keys.query.body {
        SetExpr::Select(select) => Some(select.projection),
        _ => None,
    }
}

/// Writes out `cte`, whose rows have these `keys`.
fn keyed(cte: &mut Cte, keys: Vec<SelectItem>) -> Result<()> {
    let name = normal_name(&cte.alias.name);
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = &*cte.query.body else {
        return Err(Error::Plan(format!("the recursive query {name} with USING KEY is to be a UNION of two queries")));
    };
    let columns = match &cte.alias.columns[..] {
        [] => outputs(left).ok_or_else(|| {
            Error::Plan(format!("name the columns of the recursive query {name} with USING KEY, such as {name}(a, b)"))
        })?,
        columns => columns.iter().map(|column| normal_name(&column.name)).collect(),
    };
    let (keys, aggregates) = divided(keys, &columns)?;
    let select = columns.iter().map(|column| {
        let alias = quoted(column);
        if keys.contains(column) {
            return Ok(SelectItem::ExprWithAlias { expr: Expr::Identifier(alias.clone()), alias });
        }
        let given = aggregates.iter().find(|(of, _)| of == column).map(|(_, function)| function.clone());
        let expr = given.map_or_else(|| last(column), |function| Ok(Expr::Function(in_order(function))))?;
        Ok(SelectItem::ExprWithAlias { expr, alias })
    });
    let select = select.collect::<Result<Vec<_>>>()?;
    let group = GroupByExpr::Expressions(keys.iter().map(|key| Expr::Identifier(quoted(key))).collect(), Vec::new());
    let grouped = |text: &str, parts: &[&SetExpr]| -> Result<SetExpr> {
        let wrong = || Error::Internal(format!("'{text}' is no query"));
        let mut query = query_of(text).ok_or_else(wrong)?;
        let SetExpr::Select(outer) = &mut *query.body else { return Err(wrong()) };
        (outer.projection, outer.group_by) = (select.clone(), group.clone());
        // Each part stands where there is a query of nothing but a zero.
        let mut fill = Fill { parts: parts.iter() };
        let _ = visitors::visit_mut(&mut outer.from, &mut fill);
        Ok(*query.body)
    };
    let rows = |place: &str, marked: &str| {
        let names: Vec<String> = columns.iter().map(|column| quoted(column).to_string()).collect();
        let names = names.join(", ");
        format!("SELECT *, {place} AS {PLACE} FROM (SELECT 0) AS {}({names}){marked}", quoted(&name))
    };
    let from = |rows: String| format!("SELECT 0 FROM ({rows}) AS {}", quoted(&name));
    if !reads(right, &name) {
        // Nothing runs that numbers rows as they are found.
        let [before, behind] =
            [i64::MIN.to_string(), "0".to_owned()].map(|begin| format!("row_number() OVER () + ({begin})"));
        let both = from(format!("{} UNION ALL {}", rows(&before, ""), rows(&behind, "")));
        *cte.query.body = grouped(&both, &[left, right])?;
        return Ok(());
    }
    let rows = |marked: &str| rows("0", marked);
    let first = grouped(&from(rows("")), &[left])?;
    let position = |key: &String| columns.iter().position(|column| column == key).unwrap_or_default().to_string();
    let positions: Vec<String> = keys.iter().map(position).collect();
    let mark = format!(
        " WHERE {MARK}('{FIRST}', '{}', '{}', '{}')",
        positions.join(","),
        columns.len(),
        if aggregates.is_empty() { LAST } else { "" }
    );
    let both = from(format!("{} UNION ALL {}", rows(&mark), rows("")));
    let term = grouped(&both, &[left, right])?;
    let set_quantifier = match set_quantifier {
        SetQuantifier::All => SetQuantifier::All,
        _ => SetQuantifier::Distinct,
    };
    *cte.query.body =
        SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left: Box::new(first), right: Box::new(term) };
    Ok(())
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// The names of the outputs of `body`, where the text tells them.
fn outputs(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normal_name(alias)),
                SelectItem::UnnamedExpr(expr) => Some(base_name(expr)),
                _ => None,
            })
            .collect(),
        SetExpr::Query(query) => outputs(&query.body),
        SetExpr::SetOperation { left, .. } => outputs(left),
        _ => None,
    }
}

/// Keys, and columns with their aggregates.
type Divided = (Vec<String>, Vec<(String, Function)>);

/// The keys among `items`, and which column has the value of which aggregate.
fn divided(items: Vec<SelectItem>, columns: &[String]) -> Result<Divided> {
    let (mut keys, mut aggregates): Divided = (Vec::new(), Vec::new());
    let known = |name: String| {
        if columns.contains(&name) {
            return Ok(name);
        }
        Err(Error::Plan(format!("column '{name}' of USING KEY is not one of {}", columns.join(", "))))
    };
    for item in items {
        let shown = item.to_string();
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return Err(Error::Plan(format!("{shown} is neither a key nor an aggregate of USING KEY"))),
        };
        match (expr, alias) {
            (Expr::Identifier(key), None) => keys.push(known(normal_name(&key))?),
            (Expr::Function(function), alias) if function.over.is_none() => {
                let of = match &alias {
                    Some(alias) => normal_name(alias),
                    None => argument(&function).ok_or_else(|| {
                        Error::Plan(format!("name the column that {shown} is of: {shown} AS {}", columns.join(" or ")))
                    })?,
                };
                let of = known(of)?;
                if aggregates.iter().any(|(other, _)| *other == of) {
                    return Err(Error::Plan(format!("column '{of}' has two aggregates in USING KEY")));
                }
                aggregates.push((of, function));
            }
            _ => {
                return Err(Error::Plan(format!(
                    "{shown} is neither a key nor an aggregate of USING KEY; write columns and calls of aggregates"
                )));
            }
        }
    }
    if keys.is_empty() {
        return Err(Error::Plan("USING KEY needs a column that is the key".to_owned()));
    }
    match aggregates.iter().find(|(of, _)| keys.contains(of)) {
        Some((of, _)) => Err(Error::Plan(format!("column '{of}' is a key of USING KEY, and has an aggregate"))),
        None => Ok((keys, aggregates)),
    }
}

/// The first argument of `function` if that is a column.
fn argument(function: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => Some(normal_name(name)),
        _ => None,
    }
}

/// The value of `column` that was found last.
fn last(column: &str) -> Result<Expr> {
    let text = format!("SELECT last({} ORDER BY {PLACE})", quoted(column));
    let query = query_of(&text).map(|query| *query.body);
    if let Some(SetExpr::Select(select)) = query
        && let Some(SelectItem::UnnamedExpr(expr)) = select.projection.into_iter().next()
    {
        return Ok(expr);
    }
    Err(Error::Internal(format!("'{text}' is no query")))
}

/// `function` over rows in the order in which they were found, where that counts and no other is given.
fn in_order(mut function: Function) -> Function {
    let is_ordered = function.name.0.last().and_then(|name| name.as_ident()).is_some_and(|name| {
        let name = normal_name(name);
        ORDERED.contains(&name.as_str())
    });
    if is_ordered
        && let FunctionArguments::List(list) = &mut function.args
        && !list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
    {
        let expr = Expr::Identifier(Ident::new(PLACE));
        let by = OrderByExpr { expr, options: OrderByOptions { asc: None, nulls_first: None }, with_fill: None };
        list.clauses.push(FunctionArgumentClause::OrderBy(vec![by]));
    }
    function
}

/// Puts queries in the places that are kept for them.
struct Fill<'a> {
    parts: std::slice::Iter<'a, &'a SetExpr>,
}

impl VisitorMut for Fill<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor
            && subquery.body.to_string() == "SELECT 0"
            && let Some(part) = self.parts.next()
        {
            *subquery.body = SetExpr::clone(part);
        }
        ControlFlow::Continue(())
    }
}

/// Whether `body` reads table `name`.
fn reads(body: &SetExpr, name: &str) -> bool {
    struct Reads<'a> {
        name: &'a str,
    }

    impl Visitor for Reads<'_> {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let is_it =
                matches!(&relation.0[..], [part] if part.as_ident().is_some_and(|of| normal_name(of) == self.name));
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    visitors::visit(body, &mut Reads { name }).is_break()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::dialect::OgeeDialect;

    #[test]
    fn keys_are_a_query_within() {
        for (given, wanted) in [
            (
                "WITH RECURSIVE t(k, v) USING KEY (k, max(v)) AS (SELECT 1, 2 UNION SELECT k, v FROM t) TABLE t",
                "WITH RECURSIVE t(k, v) AS (WITH ogee_using_key AS (SELECT k, max(v)) SELECT 1, 2 UNION SELECT k, v FROM t) TABLE t",
            ),
            (
                "WITH RECURSIVE t USING KEY (k) AS (WITH u AS (SELECT 1 k) FROM u UNION FROM t) TABLE t",
                "WITH RECURSIVE t AS (WITH ogee_using_key AS (SELECT k), u AS (SELECT 1 k) FROM u UNION FROM t) TABLE t",
            ),
            ("SELECT key FROM a JOIN b USING (key)", "SELECT key FROM a JOIN b USING (key)"),
        ] {
            let tokens = Tokenizer::new(&OgeeDialect, given).tokenize_with_location().expect("these are tokens");
            let words = |text: &str| {
                text.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace("( ", "(")
                    .replace(" )", ")")
                    .replace(" ,", ",")
            };
            let text: String = in_tokens(tokens).iter().map(|token| token.token.to_string()).collect();
            assert_eq!(words(&text), words(wanted), "{given}");
        }
    }
}
