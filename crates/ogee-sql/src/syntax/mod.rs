//! What is written in DuckDB's or PostgreSQL's way, put in the words that DataFusion plans.
//!
//! All of it is done in the parsed text, before anything is known of tables and types: names of types and functions, windows that go on from others (`windows`),
//! joins with `USING` whose columns are not just the left side's (`using`), rows among the rows of a query (`rows`), groupings of all rows (`grouping`), aggregates whose
//! choice an order decides (`ordered`) or that are of an outer query (`outer_aggregates`), and, where a column was not found, outputs that are used by name (`aliases`).
//!
//! Not here: what a statement means that the parser or DataFusion have no form for (`asof`), and names of outputs (`names`).

mod aliases;
pub(crate) mod altered;
pub(crate) mod arrays;
pub(crate) mod bare_calls;
mod by_name;
pub(crate) mod collations;
pub(crate) mod columns;
pub(crate) mod conditions;
pub(crate) mod copies;
mod counted;
pub(crate) mod created;
mod distinct_on;
mod escapes;
mod excluded;
pub(crate) mod exclusions;
pub(crate) mod explained;
pub(crate) mod exported;
pub(crate) mod fields;
pub(crate) mod filters;
mod firsts;
mod framed_rows;
pub(crate) mod frames;
pub(crate) mod from_first;
pub(crate) mod grouping;
mod having;
mod histograms;
pub(crate) mod inserts;
pub(crate) mod json;
mod lambdas;
mod laterals;
pub(crate) mod limits;
mod literals;
pub(crate) mod macros;
pub(crate) mod merges;
pub(crate) mod methods;
mod most;
pub(crate) mod named;
mod neighbours;
mod order_names;
mod ordered;
pub(crate) mod ordered_windows;
mod ordinality;
mod outer_aggregates;
mod parts;
mod patterns;
pub(crate) mod pivots;
pub(crate) mod positional;
pub(crate) mod prefix_aliases;
pub(crate) mod readers;
pub(crate) mod refusals;
mod rewordings;
mod rows;
pub(crate) mod samples;
pub(crate) mod schemas;
mod series;
pub(crate) mod shown;
pub(crate) mod star_items;
mod struct_fields;
pub(crate) mod struct_types;
mod structs;
pub(crate) mod summaries;
mod time_parts;
mod tried;
pub(crate) mod upkeep;
mod using;
pub(crate) mod using_key;
mod using_within;
mod values;
pub(crate) mod variables;
mod windows;

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::{
        ast::{
            AccessExpr, ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment,
            ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
            GroupByExpr, GroupByWithModifier, Ident, JoinOperator, LimitClause, ObjectName, OrderBy, OrderByExpr,
            OrderByKind, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement, Subscript, TableAlias,
            TableAliasColumnDef, TableFactor, TableWithJoins, TimezoneInfo, UnaryOperator, Value, VisitMut, Visitor,
            VisitorMut, helpers::attached_token::AttachedToken,
        },
        keywords::Keyword,
        parser::Parser,
        tokenizer::{Token, TokenWithSpan, Whitespace},
    },
};
use ogee_functions::{
    Error, Result,
    math::BIT_NOT,
    times::{INTERVAL_UNITS, TIMEZONE},
};

pub(crate) use self::{
    aliases::{alias_sources, write_out_alias},
    lambdas::{Bound, keep_apart},
    laterals::{make_lateral, make_lateral_in_subqueries, name_queries},
    literals::in_tokens,
    neighbours::{Having, sources_beside, write_out_neighbours},
    order_names::{has_shared_names, tell_apart as tell_outputs_apart},
    outer_aggregates::{has_aggregate, has_call, is_aggregate},
    struct_fields::{take_fields_of, unnested, write_out_fields},
    using::{constraint, excluded, has_using, name_of, write_out as write_out_using},
    using_within::{Sources, UNKNOWN, names_alone, sources as sources_within},
};
use crate::{
    dialect::OgeeDialect,
    grouping_limit,
    names::{base_name, call, normal_name},
    quantified, times, visitors,
};

/// The places of those of `tokens` that are no blanks and comments.
pub(crate) fn significant(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len()).filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_))).collect()
}

/// The keyword that `token` is.
fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Calls `each` with the expressions of a clause, each after those within it; not with those of subqueries, where names and windows are their own, and not with parameters of lambdas,
/// which are no columns.
pub(crate) fn for_each_outside_queries(clause: &mut impl VisitMut, each: impl FnMut(&mut Expr)) {
    struct Outside<F> {
        each: F,
        /// How many subqueries deep the visitor is.
        queries: usize,
        bound: Bound,
    }

    impl<F: FnMut(&mut Expr)> VisitorMut for Outside<F> {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.bound.enter(expr);
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.bound.leave(expr);
            if self.queries == 0 && !self.bound.begins(expr) {
                (self.each)(expr);
            }
            ControlFlow::Continue(())
        }
    }

    let visited = visitors::visit_mut(clause, &mut Outside { each, queries: 0, bound: Bound::default() });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// `tokens` without what has no meaning here: `[NOT] MATERIALIZED` of a `WITH` query, `EXCLUDE NO OTHERS` of a frame.
pub(crate) fn without_hints(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &Token, name: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name));
    let is_hint = |token: &Token| is_word(token, "materialized") || is_word(token, "others");
    if !tokens.iter().any(|token| is_hint(&token.token)) {
        return tokens;
    }
    let significant = significant(&tokens);
    let mut dropped = Vec::new();
    for nth in 0..significant.len() {
        let is = |n: usize, name: &str| significant.get(nth + n).is_some_and(|&at| is_word(&tokens[at].token, name));
        if is(0, "as") && is(1, "materialized") {
            dropped.push(significant[nth + 1]);
        } else if is(0, "as") && is(1, "not") && is(2, "materialized") {
            dropped.extend(&significant[nth + 1..nth + 3]);
        } else if is(0, "exclude") && is(1, "no") && is(2, "others") {
            dropped.extend(&significant[nth..nth + 3]);
        }
    }
    without(tokens, &dropped)
}

/// `tokens` without those at the places `dropped`, which are in order.
fn without(mut tokens: Vec<TokenWithSpan>, dropped: &[usize]) -> Vec<TokenWithSpan> {
    let (mut at, mut dropped) = (0, dropped.iter().peekable());
    tokens.retain(|_| {
        let is_dropped = dropped.next_if_eq(&&at).is_some();
        at += 1;
        !is_dropped
    });
    tokens
}

/// `tokens` in which texts with nothing but a line break between them are one, as the standard has it.
pub(crate) fn with_whole_texts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let breaks = |token: &Token| match token {
        Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }) => true,
        Token::Whitespace(Whitespace::MultiLineComment(text)) => text.contains('\n'),
        _ => false,
    };
    // The first of the texts that go on, if it is followed by nothing else, and whether a line has ended since the last.
    let mut first: Option<usize> = None;
    let (mut is_broken, mut dropped) = (false, Vec::new());
    for at in 0..tokens.len() {
        match (&tokens[at].token, first) {
            (Token::SingleQuotedString(more), Some(first)) if is_broken => {
                let more = more.clone();
                if let Token::SingleQuotedString(text) = &mut tokens[first].token {
                    text.push_str(&more);
                }
                dropped.push(at);
            }
            (Token::SingleQuotedString(_), _) => first = Some(at),
            (Token::Whitespace(_), _) => {
                is_broken |= breaks(&tokens[at].token);
                continue;
            }
            _ => first = None,
        }
        is_broken = false;
    }
    without(tokens, &dropped)
}

/// `tokens` without commas behind the last of several items.
pub(crate) fn without_last_commas(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // The two before, which are no blanks.
    let (mut last, mut dropped): ([Option<usize>; 2], Vec<usize>) = ([None; 2], Vec::new());
    for at in 0..tokens.len() {
        if matches!(tokens[at].token, Token::Whitespace(_)) {
            continue;
        }
        if let [Some(before), Some(comma)] = last
            && tokens[comma].token == Token::Comma
            && may_end_items(&tokens[before].token)
            && ends_items(&tokens[at..])
        {
            dropped.push(comma);
        }
        last = [last[1], Some(at)];
    }
    if let [Some(before), Some(comma)] = last
        && tokens[comma].token == Token::Comma
        && may_end_items(&tokens[before].token)
    {
        dropped.push(comma);
    }
    without(tokens, &dropped)
}

/// Whether an item may end in `token`.
fn may_end_items(token: &Token) -> bool {
    !matches!(token, Token::LParen | Token::LBracket | Token::LBrace | Token::Comma | Token::SemiColon)
}

/// Whether no item begins with `tokens`.
fn ends_items(tokens: &[TokenWithSpan]) -> bool {
    match &tokens[0].token {
        Token::RParen | Token::RBracket | Token::RBrace | Token::SemiColon | Token::EOF => true,
        word => {
            let next = || {
                let next = tokens[1..].iter().find(|next| !matches!(next.token, Token::Whitespace(_)));
                next.map_or(Keyword::NoKeyword, |next| keyword(&next.token))
            };
            match keyword(word) {
                Keyword::WHERE | Keyword::HAVING | Keyword::UNION | Keyword::INTERSECT | Keyword::RETURNING => true,
                Keyword::GROUP | Keyword::ORDER => next() == Keyword::BY,
                Keyword::ON => next() == Keyword::CONFLICT,
                _ => false,
            }
        }
    }
}

/// Numbers the parameters of each statement that are written `?`, by which DataFusion tells them apart.
pub(crate) fn number_placeholders(tokens: &mut [TokenWithSpan]) {
    let mut number = 0;
    for token in tokens {
        match &mut token.token {
            Token::SemiColon => number = 0,
            Token::Placeholder(name) if name == "?" => {
                number += 1;
                *name = format!("${number}");
            }
            _ => {}
        }
    }
}

/// # Errors
/// Where `statement` has more of something than is planned.
pub(crate) fn check_limits(statement: &Parsed) -> Result<()> {
    match statement {
        Parsed::Statement(statement) => grouping_limit::check(statement),
        Parsed::Explain(explain) => check_limits(&explain.statement),
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => grouping_limit::check(query),
            CopyToSource::Relation(_) => Ok(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => Ok(()),
    }
}

/// Puts what is another way to write something in the usual one; `names_aliases`: outputs are perhaps named as `alias.x`.
///
/// # Errors
/// A sample that is not supported, or a position that there is not.
pub(crate) fn tidy(statement: &mut Parsed, names_aliases: bool) -> Result<()> {
    struct Tidy {
        names_aliases: bool,
    }

    impl VisitorMut for Tidy {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            series::in_query(query);
            counted::in_query(query);
            ControlFlow::Continue(())
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
            from_first::in_select(select);
            if self.names_aliases {
                aliases::qualified(select);
            }
            counted::in_select(select);
            pivots::as_queries(&mut select.from);
            ordinality::in_select(select);
            series::in_select(select);
            using::as_queries(&mut select.from);
            with_rollup(select);
            grouping::tidy(select);
            let tidied = samples::in_select(select).and_then(|()| excluded::in_select(select));
            let tidied = tidied.and_then(|()| histograms::in_select(select));
            match tidied.and_then(|()| Ok(distinct_on::in_select(select)?)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }

    visit(statement, &mut Tidy { names_aliases }).break_value().map_or(Ok(()), Err)
}

/// Puts `statement` in DataFusion's words.
pub(crate) fn translate(statement: &mut Parsed) {
    let visited = visit(statement, &mut Words::default());
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// Puts a part of a statement that took the place of another in DataFusion's words, also calls that might have been those of macros.
pub(crate) fn translate_part(part: &mut impl VisitMut) {
    let visited = visitors::visit_mut(part, &mut Words { all: true, ..Words::default() });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// What a call is in DataFusion's words, where it is not just another function.
pub(crate) fn function_in_other_words(function: &mut Function) -> Option<Expr> {
    firsts::in_other_words(function).or_else(|| in_function(function))
}

/// Shows `visitor` all of `statement`.
pub(crate) fn visit<V: VisitorMut>(statement: &mut Parsed, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Parsed::Statement(statement) => visitors::visit_mut(statement, visitor),
        Parsed::Explain(explain) => visit(&mut explain.statement, visitor),
        Parsed::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visitors::visit_mut(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Shows `visitor` all of `statement`, which stays as it is.
pub(crate) fn look<V: Visitor>(statement: &Parsed, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Parsed::Statement(statement) => visitors::visit(statement, visitor),
        Parsed::Explain(explain) => look(&explain.statement, visitor),
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => visitors::visit(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    }
}

#[derive(Default)]
struct Words {
    /// Also calls that may be those of macros.
    all: bool,
    /// Of each query around, whether it reads tables.
    reading: Vec<bool>,
    /// The statement changes rows of a table, which its expressions may be of.
    changes_rows: bool,
    /// The rows of the next query are inserted.
    is_inserted: bool,
}

impl VisitorMut for Words {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        if let Statement::CreateTable(create) = statement {
            create.columns.iter_mut().for_each(|column| in_type(&mut column.data_type));
        }
        match statement {
            Statement::Query(query) => values::name_outputs(query),
            Statement::CreateTable(create) => create.query.iter_mut().for_each(|query| values::name_outputs(query)),
            Statement::CreateView(create) => values::name_outputs(&mut create.query),
            _ => {}
        }
        if let Statement::Insert(insert) = statement
            && let Some(source) = &mut insert.source
        {
            values::of_structs(source);
            self.is_inserted = true;
        }
        if let Statement::Set(set) = statement {
            times::in_set(set);
        }
        self.changes_rows = matches!(statement, Statement::Update(_) | Statement::Delete(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // Another way to say LIMIT.
        if query.limit_clause.is_none()
            && let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent)
        {
            let limit = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false)));
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() });
        } else if let Some(LimitClause::LimitOffset { limit: limit @ None, .. }) = &mut query.limit_clause
            && let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent)
        {
            *limit = fetch.quantity.or_else(|| Some(Expr::value(Value::Number("1".to_owned(), false))));
        }
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                values::name_columns_of_cte(cte);
                name_others(&cte.query, &mut cte.alias);
            }
        }
        values::in_query(query, std::mem::take(&mut self.is_inserted));
        by_name::in_query(query);
        bare_calls::in_order(query);
        order_by_all(query);
        order_names::in_set_operation(query);
        order_names::in_distinct(query);
        distinct_on::in_other_order(query);
        windows::in_query(query);
        using::in_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.reading.push(bare_calls::reads_tables(select));
        firsts::name_outputs(select);
        json::name_outputs(select);
        select.from.iter_mut().for_each(in_joins);
        grouping::in_select(select);
        frames::in_select(select);
        windows::keep_apart(select);
        windows::beside_condition(select);
        having::in_select(select);
        [&mut select.selection, &mut select.having].into_iter().flatten().for_each(rows::in_condition);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.reading.pop();
        if !self.reading.is_empty() {
            outer_aggregates::apart(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => in_joins(table_with_joins),
            TableFactor::Derived { subquery, alias, .. } => {
                values::name_columns(subquery, alias);
                if let Some(alias) = alias {
                    name_others(subquery, alias);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(value) = rows::value_of(expr) {
            *expr = value;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } => in_type(data_type),
            Expr::TypedString(typed) => in_type(&mut typed.data_type),
            Expr::BinaryOp { left, op: BinaryOperator::DuckIntegerDivide, right } => {
                let args = vec![std::mem::replace(left, null()), std::mem::replace(right, null())];
                let args = args.into_iter().map(|arg| *arg).collect();
                *expr = call(ogee_functions::numbers::INTEGER_DIVIDE, args);
            }
            Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if has_exponent(number)) => {
                let Value::Number(number, _) = &value.value else { unreachable!("matched above") };
                *expr = to_double(Box::new(text(number)));
            }
            Expr::Like { .. } | Expr::ILike { .. } => escapes::in_expr(expr),
            Expr::BinaryOp { op, .. } if escapes::is_operator(op) => escapes::in_expr(expr),
            Expr::Substring { expr: of, substring_from: Some(from), substring_for, .. }
                if !is_place(from) || !substring_for.as_deref().is_none_or(is_place) =>
            {
                let args = [of, from].map(|arg| *std::mem::replace(arg, null())).into_iter();
                let args = args.chain(substring_for.take().map(|length| *length)).collect();
                *expr = call(ogee_functions::substrings::SUBSTRING, args);
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
                let args = [left, right].map(|side| *std::mem::replace(side, null()));
                *expr = call("starts_with", args.into());
            }
            // The distance of two lists, where others have an equality.
            Expr::BinaryOp { left, op: BinaryOperator::Spaceship, right } => {
                let args = [left, right].map(|side| *std::mem::replace(side, null()));
                *expr = call("list_cosine_distance", args.into());
            }
            Expr::SimilarTo { negated, expr: text, pattern, escape_char: None } => {
                let [text, pattern] = [text, pattern].map(|side| std::mem::replace(side, null()));
                *expr = patterns::similar(*text, *pattern, *negated);
            }
            Expr::BinaryOp { op: BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexNotMatch, .. } => {
                patterns::found(expr);
            }
            Expr::Collate { expr: inner, .. } => *expr = std::mem::replace(inner, *null()),
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: value } => {
                let value = std::mem::replace(value, null());
                *expr = call(BIT_NOT, vec![*value]);
            }
            // A power, where others have the exclusive or.
            Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
                let [base, exponent] = [left, right].map(|side| to_double(std::mem::replace(side, null())));
                *expr = call("power", vec![base, exponent]);
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                let rows = rows::quantified(left, compare_op, right, false);
                if let Some(other) = rows.or_else(|| quantified::in_other_words(left, compare_op, right, false)) {
                    *expr = other;
                }
            }
            Expr::AllOp { left, compare_op, right } => {
                let rows = rows::quantified(left, compare_op, right, true);
                if let Some(other) = rows.or_else(|| quantified::in_other_words(left, compare_op, right, true)) {
                    *expr = other;
                }
            }
            // DataFusion plans the elements of the literal as if there were no query around this one.
            Expr::Array(array) if array.elem.iter().any(|element| !matches!(element, Expr::Value(_))) => {
                *expr = call("make_array", std::mem::take(&mut array.elem));
            }
            // Of values that are of other types, as elements of lists may be.
            Expr::Map(map) => {
                let (keys, values) =
                    std::mem::take(&mut map.entries).into_iter().map(|entry| (*entry.key, *entry.value)).unzip();
                *expr = call("map", vec![call("make_array", keys), call("make_array", values)]);
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let is_name = matches!(**root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                in_accesses(access_chain, is_name);
            }
            Expr::Identifier(name) if name.quote_style.is_none() => {
                if let Some(time) = time_parts::of_name(&name.value) {
                    *expr = time;
                }
            }
            Expr::Lambda(lambda) => lambdas::in_lambda(lambda),
            Expr::Interval(_) => times::in_interval(expr),
            Expr::UnaryOp { .. } => times::in_minus(expr),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let args = [time_zone, timestamp].map(|arg| *std::mem::replace(arg, null()));
                *expr = call(TIMEZONE, args.into());
            }
            Expr::Nested(_) | Expr::Tuple(_) => {
                if let Some(query) = values::subquery(expr) {
                    *expr = query;
                }
            }
            Expr::Subquery(query) => {
                if let Some(value) = outer_aggregates::value_of(query) {
                    *expr = value;
                }
            }
            Expr::Function(function)
                if self.reading.last().copied().unwrap_or(self.changes_rows)
                    && matches!(function.args, FunctionArguments::None)
                    && let Some(name) = bare_calls::name_of(function) =>
            {
                *expr = name;
            }
            Expr::Function(function) if function.over.is_some() => {
                function.over.iter_mut().for_each(frames::in_window);
                framed_rows::in_function(function);
                ordered_windows::in_function(function);
                if (self.all || !crate::macros::may_call(function))
                    && let Some(other) = function_in_other_words(function)
                {
                    *expr = other;
                }
            }
            Expr::Function(function) if arrays::is_of_query(function) => {
                if let Some(other) = arrays::of_query(function) {
                    *expr = other;
                }
            }
            Expr::Function(function) if self.all || !crate::macros::may_call(function) => {
                if let Some(other) = function_in_other_words(function) {
                    *expr = other;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `(x).field` is `x['field']`, and a slice without an end goes to the last element, one without a start from the first; `is_name`: of a name, which has its first fields written with dots.
fn in_accesses(accesses: &mut [AccessExpr], is_name: bool) {
    let mut is_name = is_name;
    for access in accesses {
        match access {
            AccessExpr::Dot(_) if is_name => {}
            AccessExpr::Dot(Expr::Identifier(field)) => {
                *access = AccessExpr::Subscript(Subscript::Index { index: text(&normal_name(field)) });
            }
            AccessExpr::Dot(_) => {}
            AccessExpr::Subscript(subscript) => {
                is_name = false;
                if let Subscript::Slice { lower_bound, upper_bound, stride } = subscript {
                    let bound = |number: &str| Expr::value(Value::Number(number.to_owned(), false));
                    // One that goes back begins with the last element, and ends with the first.
                    let goes_back = matches!(stride, Some(Expr::UnaryOp { op: UnaryOperator::Minus, .. }));
                    let (first, last) = if goes_back { ("2147483647", "1") } else { ("1", "-1") };
                    lower_bound.get_or_insert_with(|| bound(first));
                    upper_bound.get_or_insert_with(|| bound(last));
                }
            }
        }
    }
}

/// Names the columns of a query in `FROM` that has fewer names than columns: the others keep theirs.
fn name_others(subquery: &Query, alias: &mut TableAlias) {
    let named = alias.columns.len();
    let Some(width) = width(&subquery.body).filter(|&width| named > 0 && named < width) else { return };
    let mut first = &*subquery.body;
    let names: Vec<Ident> = loop {
        match first {
            SetExpr::Select(select) => {
                let name = |item: &SelectItem| match item {
                    SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                    SelectItem::UnnamedExpr(expr) => Ident::with_quote('"', base_name(expr)),
                    _ => Ident::new("_"),
                };
                break select.projection.iter().map(name).collect();
            }
            SetExpr::Query(query) => first = &query.body,
            SetExpr::SetOperation { left, .. } => first = left,
            _ => break values::names(width),
        }
    };
    let others = names.into_iter().skip(named);
    alias.columns.extend(others.map(|name| TableAliasColumnDef { name, data_type: None }));
}

/// `GROUP BY a, b WITH ROLLUP` is `GROUP BY ROLLUP (a, b)`.
fn with_rollup(select: &mut Select) {
    if let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by
        && let [modifier @ (GroupByWithModifier::Rollup | GroupByWithModifier::Cube)] = modifiers.as_slice()
        && !exprs.is_empty()
    {
        let sets = std::mem::take(exprs).into_iter().map(|expr| vec![expr]).collect();
        exprs.push(if *modifier == GroupByWithModifier::Rollup { Expr::Rollup(sets) } else { Expr::Cube(sets) });
        modifiers.clear();
    }
}

/// How many outputs `body` has, where that is known from the text.
fn width(body: &SetExpr) -> Option<usize> {
    let one = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    match body {
        SetExpr::Select(select) => {
            let known = pivots::marked(select).is_none()
                && select.projection.iter().all(|item| one(item) && unnested(select, item).is_none())
                && !crate::columns_of::is_in(select);
            known.then_some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, right, set_quantifier, .. } => match set_quantifier {
            SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName => None,
            _ => width(left).or_else(|| width(right)),
        },
        _ => None,
    }
}

/// Whether `query` is ordered by all of its outputs, whose number was not in the text.
pub(crate) fn is_by_all(query: &Query) -> bool {
    matches!(&query.order_by, Some(OrderBy { kind: OrderByKind::All(_), .. }))
}

/// `ORDER BY ALL` of `width` outputs by their positions.
pub(crate) fn order_by_positions(query: &mut Query, width: usize) {
    let Some(OrderBy { kind, .. }) = &mut query.order_by else { return };
    let OrderByKind::All(options) = *kind else { return };
    let by = |position: usize| OrderByExpr {
        expr: Expr::value(Value::Number(position.to_string(), false)),
        options,
        with_fill: None,
    };
    *kind = OrderByKind::Expressions((1..=width).map(by).collect());
}

/// `ORDER BY ALL` is by all outputs, where they are known from the text. The planner of a `SELECT` can ask for the others (`stars`); of other queries it would leave the
/// order out, so that these are selected from.
fn order_by_all(query: &mut Query) {
    if let Some(width) = width(&query.body) {
        order_by_positions(query, width);
    } else if is_by_all(query) && !matches!(&*query.body, SetExpr::Select(_)) {
        // `SELECT * FROM (body)`
        let text = format!("SELECT * FROM ({})", query.body);
        if let Ok(Ok(all)) = Parser::new(&OgeeDialect).try_with_sql(&text).map(|mut parser| parser.parse_query()) {
            query.body = all.body;
        }
    }
}

/// The query that `text` is.
pub(crate) fn query_of(text: &str) -> Option<Query> {
    Parser::new(&OgeeDialect).try_with_sql(text).ok()?.parse_query().ok().map(|query| *query)
}

/// `args`, if none has a name.
fn unnamed(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let unnamed = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    args.iter().map(unnamed).collect()
}

/// What `from` reads, one after the other.
pub(crate) fn factors(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> + Clone {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

/// The same, to be changed.
pub(crate) fn factors_mut(from: &mut TableWithJoins) -> impl Iterator<Item = &mut TableFactor> {
    std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
}

/// `substr(s, n)`, where the place is not just a number.
fn elsewhere(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = unnamed(&list.args).filter(|args| (2..=3).contains(&args.len()) && !args[1..].iter().all(is_place))?;
    Some(call(ogee_functions::substrings::SUBSTRING, args))
}

/// Whether `expr` is a number that is written, and above 0.
fn is_place(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _)
        if number.parse::<i64>().is_ok_and(|number| number > 0)))
}

fn null() -> Box<Expr> {
    Box::new(Expr::value(Value::Null))
}

/// Whether `number` has an exponent: it is a float then, not a decimal, whose scale might be negative.
fn has_exponent(number: &str) -> bool {
    number.contains(['e', 'E'])
}

fn to_double(expr: Box<Expr>) -> Expr {
    let data_type = DataType::Double(ExactNumberInfo::None);
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// `SEMI JOIN` and `ANTI JOIN` keep rows of the left side.
fn in_joins(table: &mut TableWithJoins) {
    for join in &mut table.joins {
        match &join.join_operator {
            JoinOperator::Semi(on) => join.join_operator = JoinOperator::LeftSemi(on.clone()),
            JoinOperator::Anti(on) => join.join_operator = JoinOperator::LeftAnti(on.clone()),
            _ => {}
        }
    }
}

pub(crate) fn in_type(data_type: &mut DataType) {
    match data_type {
        DataType::UTinyInt => *data_type = DataType::TinyIntUnsigned(None),
        DataType::USmallInt => *data_type = DataType::SmallIntUnsigned(None),
        DataType::UBigInt => *data_type = DataType::BigIntUnsigned(None),
        DataType::Signed => *data_type = DataType::Int(None),
        DataType::HugeInt => *data_type = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
        DataType::Blob(_) | DataType::Varbinary(_) | DataType::Binary(_) => *data_type = DataType::Bytea,
        // Microseconds, from the year 1 to 9999 and further.
        DataType::Timestamp(precision @ None, _) => *precision = Some(6),
        DataType::Datetime(None) => {
            *data_type = DataType::Timestamp(Some(6), TimezoneInfo::None);
        }
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => in_type(inner),
        DataType::Struct(fields, _) | DataType::Tuple(fields) => {
            fields.iter_mut().for_each(|field| in_type(&mut field.field_type));
        }
        DataType::Map(key, value) => {
            in_type(key);
            in_type(value);
        }
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            match name.to_string().to_ascii_uppercase().as_str() {
                "UINTEGER" => *data_type = DataType::IntUnsigned(None),
                "LONG" => *data_type = DataType::BigInt(None),
                "LOGICAL" => *data_type = DataType::Boolean,
                "SIGNED" => *data_type = DataType::Int(None),
                "TIMESTAMP_S" => *data_type = DataType::Timestamp(Some(0), TimezoneInfo::None),
                "TIMESTAMP_MS" => *data_type = DataType::Timestamp(Some(3), TimezoneInfo::None),
                "TIMESTAMP_US" => *data_type = DataType::Timestamp(Some(6), TimezoneInfo::None),
                "TIMESTAMP_NS" => *data_type = DataType::Timestamp(Some(9), TimezoneInfo::None),
                "SHORT" => *data_type = DataType::SmallInt(None),
                "INT1" => *data_type = DataType::TinyInt(None),
                "BPCHAR" => *data_type = DataType::Text,
                _ => {}
            }
        }
        _ => {}
    }
}

/// Functions that DataFusion has by another name, with the same arguments.
const RENAMED: &[(&str, &str)] = &[
    ("apply", "array_transform"),
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "quantile_disc"),
    ("arbitrary", "first_value"),
    ("array_apply", "array_transform"),
    ("array_value", "make_array"),
    ("favg", "avg"),
    ("filter", "list_filter"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("get_current_timestamp", "now"),
    ("greatest_common_divisor", "gcd"),
    ("group_concat", "string_agg"),
    ("ifnull", "coalesce"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("least_common_multiple", "lcm"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("list_transform", "array_transform"),
    ("list_apply", "array_transform"),
    ("nvl", "coalesce"),
    ("prefix", "starts_with"),
    ("quantile", "quantile_disc"),
    ("rank_dense", "dense_rank"),
    ("suffix", "ends_with"),
    ("sum_no_overflow", "sum"),
    ("transaction_timestamp", "now"),
    ("ucase", "upper"),
    ("unpivot_list", "make_array"),
    ("uuidv4", "uuid"),
    ("variance", "var_samp"),
];

/// Functions of two arguments that stand for an operator between them.
const OPERATORS: &[(&str, BinaryOperator)] = &[
    ("add", BinaryOperator::Plus),
    ("date_add", BinaryOperator::Plus),
    ("mod", BinaryOperator::Modulo),
    ("multiply", BinaryOperator::Multiply),
    ("subtract", BinaryOperator::Minus),
    ("xor", BinaryOperator::BitwiseXor),
];

/// Functions that make an interval of a number, and what they count.
const INTERVALS: &[(&str, &str)] = &[
    ("to_microseconds", "1 microsecond"),
    ("to_milliseconds", "1 millisecond"),
    ("to_seconds", "1 second"),
    ("to_minutes", "1 minute"),
    ("to_hours", "1 hour"),
    ("to_days", "1 day"),
    ("to_weeks", "7 days"),
    ("to_months", "1 month"),
    ("to_quarters", "3 months"),
    ("to_years", "1 year"),
    ("to_decades", "10 years"),
    ("to_centuries", "100 years"),
    ("to_millennia", "1000 years"),
];

/// Functions that name a part of a date.
const DATE_PARTS: &[&str] = &[
    "millennium",
    "century",
    "decade",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "epoch",
    "era",
    "isodow",
    "isoyear",
    "yearweek",
    "julian",
    "timezone_hour",
    "timezone_minute",
];

/// Functions of numbers, which may be written as texts, and which of their arguments are: whole ones, or others.
const OF_NUMBERS: &[(&str, &[usize], bool)] = &[
    ("abs", &[0], false),
    ("acos", &[0], false),
    ("asin", &[0], false),
    ("atan", &[0], false),
    ("atan2", &[0, 1], false),
    ("cbrt", &[0], false),
    ("ceil", &[0], false),
    ("ceiling", &[0], false),
    ("chr", &[0], true),
    ("cos", &[0], false),
    ("cot", &[0], false),
    ("degrees", &[0], false),
    ("exp", &[0], false),
    ("factorial", &[0], true),
    ("floor", &[0], false),
    ("generate_series", &[0, 1, 2], true),
    ("left", &[1], true),
    ("list_extract", &[1], true),
    ("list_resize", &[1], true),
    ("ln", &[0], false),
    ("log", &[0], false),
    ("log10", &[0], false),
    ("log2", &[0], false),
    ("lpad", &[1], true),
    ("make_date", &[0, 1, 2], true),
    ("pow", &[0, 1], false),
    ("power", &[0, 1], false),
    ("radians", &[0], false),
    ("range", &[0, 1, 2], true),
    ("repeat", &[1], true),
    ("right", &[1], true),
    ("round", &[1], true),
    ("rpad", &[1], true),
    ("sin", &[0], false),
    ("split_part", &[2], true),
    ("sqrt", &[0], false),
    ("substr", &[1, 2], true),
    ("substring", &[1, 2], true),
    ("tan", &[0], false),
    ("trunc", &[0], false),
];

/// Casts texts that are written where a function called `name` takes numbers.
fn numbers_in_texts(name: &str, function: &mut Function) {
    let Some((_, places, is_whole)) = OF_NUMBERS.iter().find(|(known, ..)| *known == name) else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    for place in *places {
        let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))) = list.args.get_mut(*place) else { continue };
        let number = |text: &str| text.trim().parse::<f64>().is_ok();
        if !matches!(&*arg, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if number(text)))
        {
            continue;
        }
        let expr = Box::new(std::mem::replace(arg, *null()));
        *arg = match is_whole {
            true => {
                let data_type = DataType::BigInt(None);
                Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
            }
            false => to_double(expr),
        };
    }
}

/// Texts are put together with a comma between them if nothing else is asked for; with NULL between them they are NULL. DataFusion takes that for nothing.
fn between_texts(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let is_null = |expr: &Expr| matches!(expr, Expr::Value(value) if value.value == Value::Null);
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(_))] => list.args.push(unnamed(text(","))),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), FunctionArg::Unnamed(FunctionArgExpr::Expr(between))]
            if is_null(between) =>
        {
            *between = text(",");
            *value = Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen {
                    condition: Expr::value(Value::Boolean(false)),
                    result: std::mem::replace(value, *null()),
                }],
                else_result: None,
            };
        }
        _ => {}
    }
}

/// `string_agg(DISTINCT x, s ORDER BY x)` as the text of a list: its values are told apart and ordered before they are texts.
fn of_distinct_texts(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let is_order = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct)
        || !list.clauses.iter().any(is_order)
        || function.over.is_some()
    {
        return None;
    }
    let between = match &list.args[..] {
        [FunctionArg::Unnamed(_)] => text(","),
        [FunctionArg::Unnamed(_), FunctionArg::Unnamed(FunctionArgExpr::Expr(between @ Expr::Value(_)))] => {
            between.clone()
        }
        _ => return None,
    };
    list.args.truncate(1);
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    Some(call("array_to_string", vec![Expr::Function(function.clone()), between]))
}

/// Puts the call in DataFusion's words, or gives what stands for it.
fn in_function(function: &mut Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none())?.value.to_ascii_lowercase();
    if let Some(aggregate) = exported::aggregate(&name) {
        return exported::in_function(aggregate, function);
    }
    numbers_in_texts(&name, function);
    if let Some(tried) = tried::in_function(function) {
        return Some(tried);
    }
    let name = ordered::within_group(name, function);
    ordered::in_function(&name, function);
    if matches!(name.as_str(), "string_agg" | "listagg" | "group_concat") {
        if let Some(texts) = of_distinct_texts(function) {
            return Some(texts);
        }
        between_texts(function);
    }
    // These may be written without parentheses.
    if matches!(name.as_str(), "current_catalog" | "current_role" | "current_schema" | "current_user" | "session_user")
        && matches!(function.args, FunctionArguments::None)
    {
        return Some(call(&name, Vec::new()));
    }
    if let Some(other) = rewordings::in_function(&name, function) {
        return Some(other);
    }
    if matches!(name.as_str(), "substr" | "substring") {
        return elsewhere(function);
    }
    let renamed = lambdas::of_places(&name, function);
    let renamed = renamed.or_else(|| RENAMED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new));
    if let Some(new) = renamed {
        function.name = ObjectName::from(vec![Ident::new(new)]);
        return None;
    }
    let other = structs::in_function(&name, function).or_else(|| most::in_function(&name, function));
    let other = other.or_else(|| json::in_function(&name, function));
    if let Some(other) = other.or_else(|| time_parts::in_function(&name, function)) {
        return Some(other);
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let mut args = list.args.iter_mut().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let case = |condition: &mut Expr, result: Expr, other: Option<Expr>| Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: std::mem::replace(condition, *null()), result }],
        else_result: other.map(Box::new),
    };
    match (name.as_str(), args.len()) {
        (part, 1) if DATE_PARTS.contains(&part) => {
            let arg = args.next()??.clone();
            Some(call("date_part", vec![text(part), arg]))
        }
        ("dayofweek" | "weekday", 1) => Some(call("date_part", vec![text("dow"), args.next()??.clone()])),
        ("dayofmonth", 1) => Some(call("date_part", vec![text("day"), args.next()??.clone()])),
        ("dayofyear", 1) => Some(call("date_part", vec![text("doy"), args.next()??.clone()])),
        ("weekofyear", 1) => Some(call("date_part", vec![text("week"), args.next()??.clone()])),
        ("dayname", 1) => Some(call("to_char", vec![args.next()??.clone(), text("%A")])),
        ("monthname", 1) => Some(call("to_char", vec![args.next()??.clone(), text("%B")])),
        // Without a list of keys or of values there is no map.
        ("map", 2) => {
            let is_null = |arg: Option<Option<&mut Expr>>| matches!(arg, Some(Some(Expr::Value(value))) if matches!(value.value, Value::Null));
            (is_null(args.next()) || is_null(args.next())).then(|| *null())
        }
        // NULL goes last where it does so in ORDER BY.
        ("array_sort" | "list_sort", 1) => {
            Some(call("array_sort", vec![args.next()??.clone(), text("ASC"), text("NULLS LAST")]))
        }
        ("array_sort" | "list_sort", 2) => {
            let (list, order) = (args.next()??, args.next()??);
            let is_ascending =
                |value: &Value| matches!(value, Value::SingleQuotedString(order) if order.eq_ignore_ascii_case("asc"));
            let ascending = matches!(&*order, Expr::Value(value) if is_ascending(&value.value));
            ascending.then(|| call("array_sort", vec![list.clone(), text("ASC"), text("NULLS LAST")]))
        }
        ("struct_extract", 2) => {
            let (of, index) = (args.next()??.clone(), args.next()??.clone());
            let access_chain = vec![AccessExpr::Subscript(Subscript::Index { index })];
            Some(Expr::CompoundFieldAccess { root: Box::new(Expr::Nested(Box::new(of))), access_chain })
        }
        ("age", 1) => Some(call("age", vec![call("current_date", Vec::new()), args.next()??.clone()])),
        ("fsum" | "kahan_sum" | "sumkahan", 1) => {
            let arg = args.next()??;
            *arg = to_double(Box::new(arg.clone()));
            function.name = ObjectName::from(vec![Ident::new("sum")]);
            None
        }
        ("geomean" | "geometric_mean", 1) => {
            let arg = args.next()??;
            *arg = call("ln", vec![arg.clone()]);
            function.name = ObjectName::from(vec![Ident::new("avg")]);
            Some(call("exp", vec![Expr::Function(function.clone())]))
        }
        ("count_star", 0) => {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
            function.name = ObjectName::from(vec![Ident::new("count")]);
            None
        }
        ("histogram", 2) => {
            function.name = ObjectName::from(vec![Ident::new(histograms::OF_BINS)]);
            None
        }
        ("list_unique" | "array_unique", 1) => {
            Some(call("length", vec![call("list_distinct", vec![args.next()??.clone()])]))
        }
        ("map_contains", 2) => {
            let (map, key) = (args.next()??.clone(), args.next()??.clone());
            Some(call("list_contains", vec![call("map_keys", vec![map]), key]))
        }
        ("map_contains_value", 2) => {
            let (map, value) = (args.next()??.clone(), args.next()??.clone());
            Some(call("list_contains", vec![call("map_values", vec![map]), value]))
        }
        ("decode", 1) => Some(call(ogee_functions::codes::DECODE, vec![args.next()??.clone()])),
        ("encode", 1) => Some(call(ogee_functions::codes::ENCODE, vec![args.next()??.clone()])),
        ("divide", 2) => {
            let [left, right] = [args.next()??, args.next()??].map(|arg| arg.clone());
            Some(call(ogee_functions::numbers::INTEGER_DIVIDE, vec![left, right]))
        }
        (operator, 2) if let Some((_, op)) = OPERATORS.iter().find(|(name, _)| *name == operator) => {
            let operand = |arg: &Expr| Box::new(Expr::Nested(Box::new(arg.clone())));
            let [left, right] = [args.next()??, args.next()??].map(|arg| operand(arg));
            Some(Expr::BinaryOp { left, op: op.clone(), right })
        }
        (name, 1) if let Some((_, unit)) = INTERVALS.iter().find(|(known, _)| *known == name) => {
            let one = Parser::new(&OgeeDialect).try_with_sql(&format!("INTERVAL '{unit}'")).ok()?.parse_expr().ok()?;
            Some(call(INTERVAL_UNITS, vec![one, args.next()??.clone()]))
        }
        ("if" | "iff", 3) => {
            let (condition, yes, no) = (args.next()??, args.next()??.clone(), args.next()??.clone());
            Some(case(condition, yes, Some(no)))
        }
        ("count_if" | "countif", 1) => {
            let arg = args.next()??;
            let counted = case(arg, Expr::value(Value::Number("1".to_owned(), false)), None);
            *arg = counted;
            function.name = ObjectName::from(vec![Ident::new("count")]);
            None
        }
        _ => None,
    }
}
