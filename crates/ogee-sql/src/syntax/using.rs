//! Joins with `USING` whose columns are not just those of the left side.
//!
//! A column of `USING` is one column: of a `RIGHT JOIN` the right side's, of a `FULL JOIN` whichever side has a row. DataFusion takes the columns of both sides for
//! equal and shows the left one, or that of the first table by the alphabet, and finds some names ambiguous. An `ASOF` join has an inequality for the last of them. These become joins with `ON`, and the column, where its name
//! stands without a table's, the expression that it is.
//!
//! Not here: `NATURAL` joins, whose columns are known only to the planner (`stars`).

use std::collections::HashSet;

use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
        OrderBy, OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem,
        SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
        WildcardAdditionalOptions,
    },
    parser::Parser,
};

use super::{
    for_each_outside_queries,
    using_within::{self, Sources},
};
use crate::{
    dialect::OgeeDialect,
    names::{call, normal_name},
};

/// Writes out the joins of the `SELECT` that `query` is where an `ASOF` join has `USING`: columns of tables are not known yet, nor needed for most of them.
pub(super) fn in_query(query: &mut Query) {
    if let SetExpr::Select(select) = &mut *query.body
        && has_asof(select)
    {
        let order = query.order_by.as_mut();
        write_out(select, order, None, Sources::new());
    }
}

/// Whether `select` has an `ASOF` join with `USING`.
pub(super) fn has_asof(select: &Select) -> bool {
    let joins = select.from.iter().flat_map(|table| &table.joins);
    joins.filter(|join| join.global).any(|join| using(&mut join.clone()).is_some())
}

/// Whether `select` has joins with `USING`; and if so, whether DataFusion would take other rows for their columns.
pub(crate) fn has_using(select: &mut Select) -> Option<bool> {
    use JoinOperator as J;
    let mut found = None;
    for table in &mut select.from {
        flatten(table);
        for join in &mut table.joins {
            if using(join).is_some() {
                let takes_right = matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_));
                found = Some(found == Some(true) || takes_right);
            }
        }
    }
    found
}

/// Writes out the joins of `select`, and what its clauses and the order of its query say of their columns. `names` are those of the columns of its tables, if they are known.
/// `within` are the columns of what subqueries select from that use these. False if it stays as it is.
pub(crate) fn write_out(
    select: &mut Select,
    order: Option<&mut OrderBy>,
    names: Option<&[Vec<String>]>,
    within: Sources,
) -> bool {
    let Some(columns) = in_select_with_joins(select, names, within) else { return false };
    let shown = |name: &str| {
        select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => normal_name(alias) == name,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
            _ => false,
        })
    };
    if let Some(OrderByKind::Expressions(order)) = order.map(|order| &mut order.kind) {
        for by in order {
            // The name of an output goes first.
            if !matches!(&by.expr, Expr::Identifier(name) if shown(&normal_name(name))) {
                columns.write_out(&mut by.expr);
            }
        }
    }
    true
}

/// Writes out the joins of `select`, and its clauses; nothing if one of the tables or columns is not known.
fn in_select_with_joins(select: &mut Select, names: Option<&[Vec<String>]>, within: Sources) -> Option<Columns> {
    for (at, table) in select.from.iter_mut().enumerate() {
        flatten(table);
        name_tables(table, at);
    }
    let all = |table: &TableWithJoins| super::factors(table).all(|factor| name_of(factor).is_some());
    if !select.from.iter().all(all) {
        return None;
    }
    // First with a copy, as long as it is not known whether all columns are.
    let mut from = select.from.clone();
    let mut columns = Columns { merged: Vec::new(), within };
    let mut tables = Vec::new();
    let mut at = 0;
    for table in &mut from {
        let count = 1 + table.joins.len();
        let known = match names {
            Some(names) => Some(names.get(at..at + count)?),
            None => None,
        };
        in_joins(table, &mut columns, &mut tables, known)?;
        at += count;
    }
    select.from = from;
    in_select(select, &columns, &tables);
    Some(columns)
}

/// `(a JOIN b ..) JOIN c ..` is `a JOIN b .. JOIN c ..`.
fn flatten(table: &mut TableWithJoins) {
    while let TableFactor::NestedJoin { table_with_joins, alias: None } = &mut table.relation {
        let inner = std::mem::replace(
            &mut **table_with_joins,
            TableWithJoins {
                relation: TableFactor::TableFunction { expr: Expr::value(Value::Null), alias: None },
                joins: Vec::new(),
            },
        );
        let joins = std::mem::replace(&mut table.joins, inner.joins);
        table.joins.extend(joins);
        table.relation = inner.relation;
    }
}

/// Gives names of one part to the tables of `table`, the one at `at`, that have none.
fn name_tables(table: &mut TableWithJoins, at: usize) {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for (nth, factor) in std::iter::once(&mut table.relation).chain(joined).enumerate() {
        let new = || Ident::new(format!("ogee_table_{at}_{nth}"));
        let (alias, name) = match factor {
            TableFactor::Table { alias: alias @ None, args: None, name, .. } if name.0.len() > 1 => {
                let last = name.0.last().and_then(|part| part.as_ident()).cloned();
                (alias, last.unwrap_or_else(new))
            }
            TableFactor::Derived { alias: alias @ None, .. }
            | TableFactor::Function { alias: alias @ None, .. }
            | TableFactor::UNNEST { alias: alias @ None, .. }
            | TableFactor::Table { alias: alias @ None, args: Some(_), .. } => (alias, new()),
            _ => continue,
        };
        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
}

/// What `join` is `ON` or `USING`.
pub(crate) fn constraint(join: &mut Join) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match &mut join.join_operator {
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::LeftSemi(on)
        | J::LeftAnti(on)
        | J::Semi(on)
        | J::Anti(on) => Some(on),
        _ => None,
    }
}

/// The columns of `USING`.
pub(super) fn using(join: &mut Join) -> Option<&[ObjectName]> {
    match constraint(join) {
        Some(JoinConstraint::Using(columns)) => Some(columns),
        _ => None,
    }
}

/// What the columns of a table are called by.
pub(crate) fn name_of(table: &TableFactor) -> Option<Ident> {
    let (alias, name) = match table {
        TableFactor::Table { name, alias, .. } => (alias, name.0.last().and_then(|part| part.as_ident())),
        TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => (alias, None),
        _ => return None,
    };
    alias.as_ref().map(|alias| alias.name.clone()).or_else(|| name.cloned())
}

/// A column of `USING`.
struct Merged {
    name: String,
    /// The table that shows it.
    home: Option<String>,
    /// The other tables that have it.
    away: Vec<String>,
    expr: Expr,
}

struct Columns {
    merged: Vec<Merged>,
    within: Sources,
}

impl Columns {
    fn write_out(&self, expr: &mut Expr) {
        using_within::write_out(expr, &self.within, |name| self.find(name).map(|column| column.expr.clone()));
        for_each_outside_queries(expr, |expr| {
            if let Expr::Identifier(name) = &*expr
                && let Some(column) = self.find(name)
            {
                *expr = column.expr.clone();
            }
        });
    }

    fn find(&self, name: &Ident) -> Option<&Merged> {
        let name = normal_name(name);
        self.merged.iter().find(|column| column.name == name)
    }
}

/// A table that a star shows, and its columns if they are known.
struct Table {
    name: Ident,
    columns: Option<Vec<String>>,
}

/// Writes out the joins of `table`, all of whose tables have names, and adds them to `tables`. Nothing if it is not known which table a column is of.
fn in_joins(
    table: &mut TableWithJoins,
    columns: &mut Columns,
    tables: &mut Vec<Table>,
    names: Option<&[Vec<String>]>,
) -> Option<()> {
    use JoinOperator as J;
    let before = tables.len();
    let known = |at: usize| names.and_then(|names| names.get(at).cloned());
    let home_is_open = names.is_none();
    tables.push(Table { name: name_of(&table.relation)?, columns: known(0) });
    // Columns of `USING` are those of the joins of this table.
    let others = std::mem::take(&mut columns.merged);
    for (at, join) in table.joins.iter_mut().enumerate() {
        let right = name_of(&join.relation)?;
        let only_left = matches!(join.join_operator, J::LeftSemi(_) | J::LeftAnti(_) | J::Semi(_) | J::Anti(_));
        if let Some(JoinConstraint::On(condition)) = constraint(join) {
            columns.write_out(condition);
        }
        if let Some(names) = using(join).map(<[_]>::to_vec) {
            let last = names.len() - 1;
            let mut condition: Option<Expr> = None;
            for (at, name) in names.iter().enumerate() {
                let Some(name) = name.0.last().and_then(|part| part.as_ident()) else { continue };
                let (home, mut away, of_left) = match columns.find(name) {
                    Some(column) => (column.home.clone(), column.away.clone(), column.expr.clone()),
                    None => {
                        let has = |table: &&Table| match &table.columns {
                            Some(columns) => columns.contains(&normal_name(name)),
                            None => true,
                        };
                        // What is there twice, or not at all, is told by the planner.
                        let mut homes = tables[before..].iter().filter(has);
                        match (homes.next(), homes.next()) {
                            (Some(home), None) => {
                                let of_home = Expr::CompoundIdentifier(vec![home.name.clone(), name.clone()]);
                                (Some(home.name.value.clone()), Vec::new(), of_home)
                            }
                            _ if home_is_open => (None, Vec::new(), Expr::Identifier(name.clone())),
                            _ => return None,
                        }
                    }
                };
                away.push(right.value.clone());
                let of_right = Expr::CompoundIdentifier(vec![right.clone(), name.clone()]);
                let op = if join.global && at == last { BinaryOperator::GtEq } else { BinaryOperator::Eq };
                let pair = Expr::BinaryOp { left: Box::new(of_left.clone()), op, right: Box::new(of_right.clone()) };
                condition = Some(match condition {
                    Some(before) => {
                        Expr::BinaryOp { left: Box::new(before), op: BinaryOperator::And, right: Box::new(pair) }
                    }
                    None => pair,
                });
                let expr = match &join.join_operator {
                    J::Right(_) | J::RightOuter(_) => of_right,
                    J::FullOuter(_) => call("coalesce", vec![of_left, of_right]),
                    _ => of_left,
                };
                let name = normal_name(name);
                columns.merged.retain(|column| column.name != name);
                columns.merged.push(Merged { name, home, away, expr });
            }
            let condition = condition.expect("the parser wants a column at least");
            *constraint(join).expect("told by `using`") = JoinConstraint::On(condition);
        }
        if !only_left {
            tables.push(Table { name: right, columns: known(at + 1) });
        }
    }
    columns.merged.extend(others);
    Some(())
}

fn in_select(select: &mut Select, columns: &Columns, tables: &[Table]) {
    let exprs = [&mut select.selection, &mut select.having, &mut select.qualify].into_iter().flatten();
    exprs.for_each(|expr| columns.write_out(expr));
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        exprs.iter_mut().for_each(|expr| columns.write_out(expr));
    }
    if let Some(datafusion::sql::sqlparser::ast::Distinct::On(exprs)) = &mut select.distinct {
        exprs.iter_mut().for_each(|expr| columns.write_out(expr));
    }
    // A star shows the column too: the second one is `k_1`, as where DataFusion finds that out.
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let mut taken: Option<HashSet<String>> = select.projection.iter().any(is_star).then(|| {
        let merged = columns.merged.iter().map(|column| column.name.clone());
        merged
            .chain(select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normal_name(alias)),
                _ => None,
            }))
            .collect()
    });
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::UnnamedExpr(expr) => {
                let name = if let Expr::Identifier(name) = &*expr { Some(name.clone()) } else { None };
                let alias = name.filter(|name| columns.find(name).is_some()).map(|name| own_name(name, &mut taken));
                columns.write_out(expr);
                if let Some(alias) = alias {
                    item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => columns.write_out(expr),
            SelectItem::Wildcard(options) if are_known(options, tables) => {
                for item in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
                    columns.write_out(&mut item.expr);
                }
                items.extend(tables.iter().filter_map(|table| all_of(table, columns, options)));
                continue;
            }
            _ => {}
        }
        items.push(item);
    }
    select.projection = items;
}

/// `name`, or the first name with a number that nobody of `taken` has, if others are to be told apart from it.
fn own_name(name: Ident, taken: &mut Option<HashSet<String>>) -> Ident {
    let Some(taken) = taken else { return name };
    let base = normal_name(&name);
    let mut numbered = (1..).map(|n| format!("{base}_{n}"));
    let own = numbered.find(|own| taken.insert(own.clone())).unwrap_or(base);
    Ident::with_quote('"', own)
}

/// Makes queries of joins that have one name together and columns of `USING`, which are one column of that name: `(a FULL JOIN b USING (i)) AS x` has one `x.i`. The planner would have that of
/// each side.
pub(super) fn as_queries(from: &mut [TableWithJoins]) {
    let is_merging = |join: &mut Join| {
        constraint(join).is_some_and(|on| matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    for table in from {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut table.relation).chain(joined) {
            let TableFactor::NestedJoin { table_with_joins, alias } = factor else { continue };
            as_queries(std::slice::from_mut(&mut **table_with_joins));
            if alias.is_none() || !table_with_joins.joins.iter_mut().any(is_merging) {
                continue;
            }
            let parsed =
                Parser::new(&OgeeDialect).try_with_sql("SELECT * FROM x").map(|mut parser| parser.parse_query());
            let Ok(Ok(mut subquery)) = parsed else { continue };
            if let SetExpr::Select(select) = &mut *subquery.body {
                std::mem::swap(&mut select.from[0], table_with_joins);
            }
            *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
        }
    }
}

/// The columns of an `EXCLUDE`.
pub(crate) fn excluded(options: &WildcardAdditionalOptions) -> Vec<String> {
    let names = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => &[],
    };
    names.iter().filter_map(|name| name.0.last().and_then(|part| part.as_ident()).map(normal_name)).collect()
}

/// Whether all columns that `options` name are there, and they are of no other kind than [`all_of`] knows.
fn are_known(options: &WildcardAdditionalOptions, tables: &[Table]) -> bool {
    let known =
        |name: &String| tables.iter().any(|table| table.columns.as_ref().is_some_and(|columns| columns.contains(name)));
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    options.opt_except.is_none()
        && options.opt_rename.is_none()
        && options.opt_ilike.is_none()
        && excluded(options).iter().all(known)
        && replaced.map(|item| normal_name(&item.column_name)).all(|name| known(&name))
}

/// The columns of `table` that a star with `options` shows, with those of `USING` where they are at home.
fn all_of(table: &Table, columns: &Columns, options: &WildcardAdditionalOptions) -> Option<SelectItem> {
    let name = &table.name.value;
    let is_home = |column: &&Merged| column.home.as_ref() == Some(name);
    let ident = |name: &String| Ident::with_quote('"', name.clone());
    let mut without: Vec<String> = columns
        .merged
        .iter()
        .filter(|column| !is_home(column) && column.away.contains(name))
        .map(|column| column.name.clone())
        .collect();
    let here = |name: &String| table.columns.as_ref().is_some_and(|columns| columns.contains(name));
    without.extend(excluded(options).into_iter().filter(here));
    without.sort_unstable();
    without.dedup();
    if table.columns.as_ref().is_some_and(|columns| columns.iter().all(|name| without.contains(name))) {
        return None;
    }
    let mut replaced: Vec<Box<ReplaceSelectElement>> = options
        .opt_replace
        .iter()
        .flat_map(|replace| &replace.items)
        .filter(|item| {
            let name = normal_name(&item.column_name);
            here(&name) && !without.contains(&name)
        })
        .cloned()
        .collect();
    for column in columns.merged.iter().filter(is_home).filter(|column| !without.contains(&column.name)) {
        let is_plain = matches!(&column.expr, Expr::CompoundIdentifier(names) if names[0].value == *name);
        if !is_plain && !replaced.iter().any(|item| normal_name(&item.column_name) == column.name) {
            let (expr, column_name) = (column.expr.clone(), ident(&column.name));
            replaced.push(Box::new(ReplaceSelectElement { expr, column_name, as_keyword: true }));
        }
    }
    let without: Vec<_> = without.iter().map(|name| ObjectName::from(vec![ident(name)])).collect();
    let options = WildcardAdditionalOptions {
        opt_exclude: (!without.is_empty()).then_some(ExcludeSelectItem::Multiple(without)),
        opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
        ..WildcardAdditionalOptions::default()
    };
    let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.name.clone()]));
    Some(SelectItem::QualifiedWildcard(name, options))
}
