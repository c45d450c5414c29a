//! Joins with `USING` whose columns are not just those of the left side.
//!
//! A column of `USING` is one column: of a `RIGHT JOIN` the right side's, of a `FULL JOIN` whichever side has a row. DataFusion takes the columns of both sides for
//! equal and shows the left one. An `ASOF` join has an inequality for the last of them. These become joins with `ON`, and the column, where its name
//! stands without a table's, the expression that it is.
//!
//! Not here: `NATURAL` joins, whose columns are known only to the planner (`stars`).

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableAlias, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};

use super::for_each_outside_queries;
use crate::names::{call, normal_name};

/// Writes out the joins of the `SELECT`s that `query` is made of, and what its clauses say of their columns.
pub(super) fn in_query(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else {
        return in_set(&mut query.body);
    };
    let Some(columns) = in_select_with_joins(select) else { return };
    let shown = |name: &str| {
        select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => normal_name(alias) == name,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
            _ => false,
        })
    };
    if let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        for by in order {
            // The name of an output goes first.
            if !matches!(&by.expr, Expr::Identifier(name) if shown(&normal_name(name))) {
                columns.write_out(&mut by.expr);
            }
        }
    }
}

/// The same in the parts of a set operation, which see no order.
fn in_set(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => {
            in_select_with_joins(select);
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_set(left);
            in_set(right);
        }
        // Queries in brackets are visited by themselves.
        _ => {}
    }
}

/// Writes out the joins of `select`, if there is one that DataFusion would show another column of.
fn in_select_with_joins(select: &mut Select) -> Option<Columns> {
    for (at, table) in select.from.iter_mut().enumerate() {
        flatten(table);
        if table.joins.iter_mut().any(is_affected) {
            name_tables(table, at);
        }
    }
    if !select.from.iter_mut().any(are_affected) {
        return None;
    }
    let mut columns = Columns::default();
    let mut tables = Vec::new();
    for table in &mut select.from {
        if are_affected(table) {
            in_joins(table, &mut columns, &mut tables);
        } else {
            tables.extend(
                std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)).map(name_of),
            );
        }
    }
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

/// Gives names to the tables of `table`, the one at `at`, that have none.
pub(crate) fn name_tables(table: &mut TableWithJoins, at: usize) {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for (nth, factor) in std::iter::once(&mut table.relation).chain(joined).enumerate() {
        let (TableFactor::Derived { alias: alias @ None, .. }
        | TableFactor::Function { alias: alias @ None, .. }
        | TableFactor::UNNEST { alias: alias @ None, .. }
        | TableFactor::Table { alias: alias @ None, args: Some(_), .. }) = factor
        else {
            continue;
        };
        let name = Ident::new(format!("ogee_table_{at}_{nth}"));
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
fn using(join: &mut Join) -> Option<&[ObjectName]> {
    match constraint(join) {
        Some(JoinConstraint::Using(columns)) => Some(columns),
        _ => None,
    }
}

/// Whether DataFusion would show another column of `join`.
fn is_affected(join: &mut Join) -> bool {
    use JoinOperator as J;
    let takes_right = matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_));
    (takes_right || join.global) && using(join).is_some()
}

/// Whether there is such a join among tables with names.
fn are_affected(table: &mut TableWithJoins) -> bool {
    table.joins.iter_mut().any(is_affected)
        && table.joins.iter().all(|join| name_of(&join.relation).is_some())
        && name_of(&table.relation).is_some()
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

#[derive(Default)]
struct Columns {
    merged: Vec<Merged>,
}

impl Columns {
    fn write_out(&self, expr: &mut Expr) {
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

/// Writes out the joins of `table`, all of whose tables have names.
fn in_joins(table: &mut TableWithJoins, columns: &mut Columns, tables: &mut Vec<Option<Ident>>) {
    use JoinOperator as J;
    let first = name_of(&table.relation);
    let before = tables.len();
    tables.push(first.clone());
    for join in &mut table.joins {
        let right = name_of(&join.relation);
        let only_left = matches!(join.join_operator, J::LeftSemi(_) | J::LeftAnti(_) | J::Semi(_) | J::Anti(_));
        if let (Some(names), Some(right)) = (using(join).map(<[_]>::to_vec), &right) {
            let last = names.len() - 1;
            let mut condition: Option<Expr> = None;
            for (at, name) in names.iter().enumerate() {
                let Some(name) = name.0.last().and_then(|part| part.as_ident()) else { continue };
                let (home, mut away, of_left) = match columns.find(name) {
                    Some(column) => (column.home.clone(), column.away.clone(), column.expr.clone()),
                    None => match (&first, tables.len() - before) {
                        (Some(first), 1) => {
                            let of_first = Expr::CompoundIdentifier(vec![first.clone(), name.clone()]);
                            (Some(first.value.clone()), Vec::new(), of_first)
                        }
                        _ => (None, Vec::new(), Expr::Identifier(name.clone())),
                    },
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
            tables.push(right);
        }
    }
}

fn in_select(select: &mut Select, columns: &Columns, tables: &[Option<Ident>]) {
    let exprs = [&mut select.selection, &mut select.having, &mut select.qualify].into_iter().flatten();
    exprs.for_each(|expr| columns.write_out(expr));
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        exprs.iter_mut().for_each(|expr| columns.write_out(expr));
    }
    if let Some(datafusion::sql::sqlparser::ast::Distinct::On(exprs)) = &mut select.distinct {
        exprs.iter_mut().for_each(|expr| columns.write_out(expr));
    }
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::UnnamedExpr(expr) => {
                let name = if let Expr::Identifier(name) = &*expr { Some(name.clone()) } else { None };
                let alias = name.filter(|name| columns.find(name).is_some());
                columns.write_out(expr);
                if let Some(alias) = alias {
                    item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => columns.write_out(expr),
            SelectItem::Wildcard(options)
                if options.opt_exclude.is_none()
                    && options.opt_except.is_none()
                    && options.opt_replace.is_none()
                    && options.opt_rename.is_none()
                    && options.opt_ilike.is_none()
                    && tables.iter().all(Option::is_some) =>
            {
                items.extend(tables.iter().flatten().map(|table| all_of(table, columns)));
                continue;
            }
            _ => {}
        }
        items.push(item);
    }
    select.projection = items;
}

/// The columns of `table`, with those of `USING` where they are at home.
fn all_of(table: &Ident, columns: &Columns) -> SelectItem {
    let of = |column: &&Merged| column.home.as_ref() == Some(&table.value);
    let ident = |column: &Merged| Ident::with_quote('"', column.name.clone());
    let replaced: Vec<_> = columns
        .merged
        .iter()
        .filter(of)
        .map(|column| {
            let (expr, column_name) = (column.expr.clone(), ident(column));
            Box::new(ReplaceSelectElement { expr, column_name, as_keyword: true })
        })
        .collect();
    // A column without a home is shown wherever it is.
    let away = columns.merged.iter().filter(|column| column.home.is_some() && column.away.contains(&table.value));
    let excluded: Vec<_> = away.map(|column| ObjectName::from(vec![ident(column)])).collect();
    let options = WildcardAdditionalOptions {
        opt_exclude: (!excluded.is_empty()).then_some(ExcludeSelectItem::Multiple(excluded)),
        opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
        ..WildcardAdditionalOptions::default()
    };
    let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()]));
    SelectItem::QualifiedWildcard(name, options)
}
