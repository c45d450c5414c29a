//! `a POSITIONAL JOIN b`: the first row of one side beside the first of the other, and so on; the rows that one side has more come with NULL.
//!
//! The rows of each side are numbered as they lie there, by a window over a query of all its columns, and joined by their numbers; stars leave the numbers out. To the parser it
//! is a `CROSS JOIN` with ClickHouse's `GLOBAL`, which is refused otherwise. Rows come in the order of the numbers where they are not grouped or sorted in another.
//!
//! Not here: which order rows lie in.

use std::{mem, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::{
        ast::{
            BinaryOperator, Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator,
            ObjectName, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
            SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
        },
        keywords::Keyword,
        tokenizer::{Token, TokenWithSpan},
    },
};
use ogee_functions::{Error, Result};

use super::query_of;
use crate::names::call;

/// What the columns of the numbers are called, before the number of the side.
const POSITION: &str = "ogee_position";

/// `tokens` with the words of the parser for `POSITIONAL`.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("positional"));
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let mut kept = Vec::with_capacity(tokens.len() + 2);
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens[at + 1..].iter().find(|next| !matches!(next.token, Token::Whitespace(_)));
        if is_word(token) && next.is_some_and(|next| super::keyword(&next.token) == Keyword::JOIN) {
            let word = |word| TokenWithSpan { token: Token::make_keyword(word), span: token.span };
            kept.extend([word("GLOBAL"), word("CROSS")]);
        } else {
            kept.push(token.clone());
        }
    }
    kept
}

/// Writes out the joins of `statement`.
///
/// # Errors
/// [`Error::Unsupported`] where one stands among other joins.
pub(crate) fn write_out(statement: &mut Parsed) -> Result<()> {
    match super::visit(statement, &mut Joins) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn is_positional(join: &Join) -> bool {
    join.global && matches!(join.join_operator, JoinOperator::CrossJoin(_))
}

struct Joins;

impl VisitorMut for Joins {
    type Break = Error;

    /// Before what is within, so that queries which are made here are not looked at twice.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let SetExpr::Select(select) = &mut *query.body else { return ControlFlow::Continue(()) };
        if !select.from.iter().any(|from| from.joins.iter().any(is_positional)) {
            return ControlFlow::Continue(());
        }
        if query.order_by.is_none()
            && let [from] = &select.from[..]
            && keeps_rows(select)
        {
            query.order_by = Some(by_position(from.joins.len() + 1));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let mut sides = Vec::new();
        for from in &mut select.from {
            if let Err(error) = numbered(from, &mut sides) {
                return ControlFlow::Break(error);
            }
        }
        if !sides.is_empty() {
            select.projection.iter_mut().for_each(|item| without_positions(item, &sides));
        }
        ControlFlow::Continue(())
    }
}

/// Whether each row of what `select` joins is a row that it gives, as far as names tell: functions may be aggregates.
fn keeps_rows(select: &Select) -> bool {
    let is_plain = |expr: &Expr| !matches!(expr, Expr::Function(_)) && !has_call(expr);
    let is_row = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_plain(expr),
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        SelectItem::ExprWithAliases { .. } => false,
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
    };
    !is_grouped
        && select.having.is_none()
        && !matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)))
        && select.projection.iter().all(is_row)
}

/// Whether `expr` calls a function.
fn has_call(expr: &Expr) -> bool {
    struct Calls;
    impl datafusion::sql::sqlparser::ast::Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Function(_)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    crate::visitors::visit(expr, &mut Calls).is_break()
}

fn name(side: usize) -> Ident {
    Ident::new(format!("{POSITION}_{side}"))
}

/// The number of a row of what sides `sides` make together.
fn position(mut sides: std::ops::Range<usize>) -> Expr {
    match sides.len() {
        1 => Expr::Identifier(name(sides.start)),
        _ => call("coalesce", sides.by_ref().map(|side| Expr::Identifier(name(side))).collect()),
    }
}

fn by_position(sides: usize) -> OrderBy {
    let options = OrderByOptions { asc: None, nulls_first: None };
    let by = OrderByExpr { expr: position(0..sides), options, with_fill: None };
    OrderBy { kind: OrderByKind::Expressions(vec![by]), interpolate: None }
}

/// Has the sides of the joins of `from` numbered and joined by their numbers, if they are by position. Their names are added to those of the `sides` before them.
fn numbered(from: &mut TableWithJoins, sides: &mut Vec<Option<Ident>>) -> Result<()> {
    let joins = from.joins.iter().filter(|join| is_positional(join)).count();
    if joins == 0 {
        return Ok(());
    }
    if joins < from.joins.len() {
        let instead = "put the others into a query of their own in FROM";
        return Err(Error::Unsupported(format!("POSITIONAL JOIN beside other joins is not supported; {instead}")));
    }
    let first = sides.len();
    sides.push(number(&mut from.relation, first)?);
    for join in &mut from.joins {
        join.global = false;
        let side = sides.len();
        sides.push(number(&mut join.relation, side)?);
        let equal = Expr::BinaryOp {
            left: Box::new(position(first..side)),
            op: BinaryOperator::Eq,
            right: Box::new(position(side..side + 1)),
        };
        join.join_operator = JoinOperator::FullOuter(JoinConstraint::On(equal));
    }
    Ok(())
}

/// Puts `factor` into a query that numbers its rows, by the name that it has, which is given.
fn number(factor: &mut TableFactor, side: usize) -> Result<Option<Ident>> {
    let made = query_of(&format!("SELECT *, row_number() OVER () AS {} FROM r", name(side)));
    let Some(mut made) = made else {
        return Err(Error::Unsupported("POSITIONAL JOIN is not supported here".to_owned()));
    };
    let known = match &*factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    };
    if let SetExpr::Select(select) = &mut *made.body
        && let [from] = &mut select.from[..]
    {
        mem::swap(&mut from.relation, factor);
    }
    let alias = known.clone().map(|name| TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(made), alias, sample: None };
    Ok(known)
}

/// Has a star leave the numbers of `sides` out, of which it may stand for one.
fn without_positions(item: &mut SelectItem, sides: &[Option<Ident>]) {
    let (options, of) = match item {
        SelectItem::Wildcard(options) => (options, None),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), options) => {
            (options, of.0.last().and_then(|part| part.as_ident()))
        }
        _ => return,
    };
    let is_meant = |side: &Option<Ident>| {
        let named = |of: &Ident| side.as_ref().is_some_and(|side| side.value.eq_ignore_ascii_case(&of.value));
        of.is_none_or(named)
    };
    let mut names: Vec<ObjectName> = match options.opt_exclude.take() {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => Vec::new(),
    };
    let meant = sides.iter().enumerate().filter(|(_, side)| is_meant(side));
    names.extend(meant.map(|(side, _)| ObjectName::from(vec![name(side)])));
    options.opt_exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
}
