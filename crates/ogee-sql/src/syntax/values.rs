//! `VALUES` with subqueries and columns, as a union of `SELECT`s, and what the columns of `VALUES` are called.
//!
//! DataFusion's lists of values take nothing but constants: it neither computes a subquery before them nor has columns of outer queries in them. It calls columns `column1`, where DuckDB says `col0`.
//!
//! Not here: the names of lists that rows are inserted from.

use std::{fmt::Write, ops::ControlFlow};

use datafusion::sql::sqlparser::{
    ast::{
        CastKind, Cte, DataType, Expr, FunctionArg, FunctionArguments, Ident, Query, SetExpr, TableAlias,
        TableAliasColumnDef, TableFactor, Value, Values, Visitor,
    },
    parser::Parser,
};

use super::json;
use crate::{dialect::OgeeDialect, visitors};

/// Puts the lists of `query` in other words; not those of its subqueries. `is_inserted`: its rows are.
pub(super) fn in_query(query: &mut Query, is_inserted: bool) {
    in_set(&mut query.body, is_inserted);
}

fn in_set(set: &mut SetExpr, is_inserted: bool) {
    match set {
        SetExpr::SetOperation { left, right, .. } => {
            in_set(left, false);
            in_set(right, false);
        }
        SetExpr::Values(values) => {
            json::in_values(values);
            // What is inserted gets the types of the table.
            if !is_inserted {
                cast_plain(values);
            }
            if (!is_constant(values) || differs_by_row(values, is_inserted))
                && let Some(selects) = selects(values)
            {
                *set = selects;
            }
        }
        _ => {}
    }
}

/// Whether nothing in `values` is a column or a subquery, or a CASE, which is of the type of its first branch where a list of values is planned.
fn is_constant(values: &Values) -> bool {
    struct Constant;

    impl Visitor for Constant {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) if !name.value.eq_ignore_ascii_case("default") => ControlFlow::Break(()),
                Expr::CompoundIdentifier(_) | Expr::Case { .. } => ControlFlow::Break(()),
                Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("if") => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    visitors::visit(values, &mut Constant).is_continue()
}

/// The type that is said of `value`.
fn said(value: &Expr) -> Option<DataType> {
    match value {
        Expr::TypedString(typed) => Some(typed.data_type.clone()),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, .. } => Some(data_type.clone()),
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(DataType::Boolean),
        _ => None,
    }
}

/// Whether it is a type of those that statements make, such as an ENUM.
fn is_made(data_type: &DataType) -> bool {
    /// Types that the parser does not know.
    const KNOWN: &[&str] =
        &["bignum", "hugeint", "int1", "json", "short", "timestamp_ms", "timestamp_ns", "timestamp_s", "timestamp_us"];
    matches!(data_type, DataType::Custom(name, _) if !KNOWN.contains(&name.to_string().to_lowercase().as_str()))
}

fn cast(value: &mut Expr, data_type: DataType) {
    let expr = Box::new(value.clone());
    *value = Expr::Cast { kind: CastKind::DoubleColon, expr, data_type, array: false, format: None };
}

fn is_text(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_number(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// The values of column `nth`.
fn column(values: &mut Values, nth: usize) -> impl Iterator<Item = &mut Expr> {
    values.rows.iter_mut().filter_map(move |row| row.content.get_mut(nth))
}

/// Casts texts in columns of `values` that have values of a type that is said, as in `VALUES (DATE '2024-01-01'), ('2024-01-02')`, to that type, and numbers beside a DOUBLE to that. Beside a text
/// a value of an ENUM is a text.
fn cast_plain(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for nth in 0..width {
        let mut types = values.rows.iter().filter_map(|row| said(row.content.get(nth)?));
        let Some(first) = types.next().filter(|first| types.all(|other| other == *first)) else { continue };
        let takes_numbers = matches!(first, DataType::Double(_) | DataType::DoublePrecision | DataType::Float64);
        match is_made(&first) {
            true if column(values, nth).any(|value| is_text(value)) => {
                column(values, nth)
                    .filter(|value| said(value).is_some())
                    .for_each(|value| cast(value, DataType::Varchar(None)));
            }
            true => {}
            false => column(values, nth)
                .filter(|value| is_text(value) || takes_numbers && is_number(value))
                .for_each(|value| cast(value, first.clone())),
        }
    }
}

/// So many rows are at most made queries because of the types of their values.
const ROWS_MAX: usize = 1000;

/// Whether rows of a column of `values` are of types that only a union finds one for: truth values beside numbers, values of two types that are said, structs with other fields.
fn differs_by_row(values: &Values, is_inserted: bool) -> bool {
    let [first, rest @ ..] = &values.rows[..] else { return false };
    if rest.len() >= ROWS_MAX {
        return false;
    }
    let of_column = |nth: usize| values.rows.iter().filter_map(move |row| row.content.get(nth));
    (0..first.content.len()).any(|nth| {
        let is_truth = |value: &Expr| matches!(value, Expr::Value(value) if matches!(value.value, Value::Boolean(_)));
        let mut fields = of_column(nth).filter_map(field_names);
        let first_fields = fields.next();
        let mut types = of_column(nth).filter(|value| !is_truth(value)).filter_map(said);
        let first_type = types.next();
        first_fields.is_some_and(|first| fields.any(|fields| fields != first))
            || !is_inserted && types.any(|other| Some(&other) != first_type.as_ref())
            || of_column(nth).any(is_truth) && of_column(nth).any(is_number)
    })
}

/// The names of the fields of a struct that is written, or of one within a list.
fn field_names(value: &Expr) -> Option<Vec<String>> {
    match value {
        Expr::Dictionary(fields) => {
            let names = fields.iter().flat_map(|field| {
                let within = field_names(&field.value).unwrap_or_default();
                std::iter::once(field.key.value.to_ascii_lowercase()).chain(within)
            });
            Some(names.collect())
        }
        Expr::Array(array) => array.elem.iter().find_map(field_names),
        _ => None,
    }
}

fn selects(values: &Values) -> Option<SetExpr> {
    let mut text = String::new();
    for (nth, row) in values.rows.iter().enumerate() {
        text.push_str(if nth == 0 { "SELECT " } else { " UNION ALL SELECT " });
        for (column, value) in row.content.iter().enumerate() {
            let comma = if column == 0 { "" } else { ", " };
            write!(text, "{comma}{value} AS column{}", column + 1).expect("strings take all");
        }
    }
    Some(*Parser::new(&OgeeDialect).try_with_sql(&text).ok()?.parse_query().ok()?.body)
}

/// The names of `width` columns.
pub(super) fn names(width: usize) -> Vec<Ident> {
    (0..width).map(|column| Ident::new(format!("col{column}"))).collect()
}

/// How many columns `query` has, if it is a list of values.
fn width(query: &Query) -> Option<usize> {
    match &*query.body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Query(query) => width(query),
        _ => None,
    }
}

fn alias(name: Ident, columns: Vec<Ident>) -> TableAlias {
    let columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    TableAlias { explicit: true, name, columns, at: None }
}

/// Names the columns of `query`, in `FROM` by the name `known`, if it is a list of values and they have no names.
pub(super) fn name_columns(query: &Query, known: &mut Option<TableAlias>) {
    let Some(width) = width(query) else { return };
    match known {
        None => *known = Some(alias(Ident::new("valueslist"), names(width))),
        Some(known) if known.columns.is_empty() => *known = alias(known.name.clone(), names(width)),
        Some(_) => {}
    }
}

/// Names the columns of `cte`, if it is a list of values and they have no names.
pub(super) fn name_columns_of_cte(cte: &mut Cte) {
    if let Some(width) = width(&cte.query).filter(|_| cte.alias.columns.is_empty()) {
        cte.alias = alias(cte.alias.name.clone(), names(width));
    }
}

/// Names the outputs of `query`, whose answer they are, if it is a list of values.
pub(super) fn name_outputs(query: &mut Query) {
    let Some(width) = width(query) else { return };
    let Some(mut made) = super::query_of("SELECT * FROM (SELECT 0) AS valueslist") else { return };
    if let SetExpr::Select(select) = &mut *made.body
        && let [from] = &mut select.from[..]
        && let TableFactor::Derived { subquery, alias: known, .. } = &mut from.relation
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        *known = Some(alias(Ident::new("valueslist"), names(width)));
    }
    query.body = made.body;
}

/// `(VALUES (1), (2))` as a value, which is a call of a function to the parser.
pub(super) fn subquery(expr: &Expr) -> Option<Expr> {
    let (first, others) = match expr {
        Expr::Nested(first) => (&**first, &[][..]),
        Expr::Tuple(all) => all.split_first()?,
        _ => return None,
    };
    let Expr::Function(function) = first else { return None };
    let is_values = matches!(&function.name.0[..], [name] if name.to_string().eq_ignore_ascii_case("values"));
    let FunctionArguments::List(list) = &function.args else { return None };
    if !is_values || function.over.is_some() {
        return None;
    }
    let row: Vec<String> = list.args.iter().map(FunctionArg::to_string).collect();
    let mut text = format!("VALUES ({})", row.join(", "));
    for other in others {
        write!(text, ", {}", if matches!(other, Expr::Tuple(_)) { other.to_string() } else { format!("({other})") })
            .ok()?;
    }
    let mut query = super::query_of(&text)?;
    in_query(&mut query, false);
    Some(Expr::Subquery(Box::new(query)))
}

/// Has rows of `VALUES` that are inserted, and have structs in them, be those of a query: the planner casts values to the types of the table's columns at once, and structs to none with more fields.
pub(super) fn of_structs(source: &mut Query) {
    let SetExpr::Values(values) = &*source.body else { return };
    fn is_struct(value: &Expr) -> bool {
        match value {
            Expr::Dictionary(_) | Expr::Struct { .. } => true,
            Expr::Array(array) => array.elem.iter().any(is_struct),
            _ => false,
        }
    }
    let is_default =
        |value: &Expr| matches!(value, Expr::Identifier(name) if name.value.eq_ignore_ascii_case("default"));
    if values.rows.len() > ROWS_MAX {
        return;
    }
    let all = || values.rows.iter().flat_map(|row| &row.content);
    if !all().any(is_struct) || all().any(is_default) {
        return;
    }
    if values.rows.len() > 1 {
        if let Some(selects) = selects(values) {
            *source.body = selects;
        }
    } else if let Some(query) = super::query_of(&format!("SELECT * FROM ({source})")) {
        *source = query;
    }
}
