//! Rows of a function in `FROM` whose arguments are columns of tables before it: `FROM t, range(t.i) r` is `FROM t, LATERAL (SELECT unnest(range(t.i)) AS r) r`.
//!
//! DataFusion has tables of `range` and `generate_series` for constants only. What such a function, or `unnest`, gives is called as it is, or as its table where that has a name.
//!
//! Not here: functions of constants, which are tables to DataFusion.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TimezoneInfo, Visitor, VisitorMut,
};

use crate::{
    names::{call, normal_name},
    visitors,
};

const FUNCTIONS: &[&str] = &["range", "generate_series", "unnest"];

/// Puts queries in the place of such functions in the `SELECT` that `query` is, whose order may name their columns.
pub(super) fn in_query(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let renamed = in_select(select);
    if !renamed.is_empty() {
        // It never stops.
        let _ = visitors::visit_mut(&mut query.order_by, &mut Names(&renamed));
    }
}

/// Puts queries in the place of such functions in `select`, and gives the columns that have other names now.
pub(super) fn in_select(select: &mut Select) -> Vec<Renamed> {
    use JoinOperator as J;
    let mut renamed = Vec::new();
    for (at, table) in select.from.iter_mut().enumerate() {
        renamed.extend(in_factor(&mut table.relation, at > 0));
        for join in &mut table.joins {
            let sees_left =
                matches!(join.join_operator, J::Join(_) | J::Inner(_) | J::Left(_) | J::LeftOuter(_) | J::CrossJoin(_));
            renamed.extend(in_factor(&mut join.relation, sees_left));
        }
    }
    if !renamed.is_empty() {
        rename(select, &renamed);
    }
    renamed
}

/// A table's column that has another name now.
pub(super) struct Renamed {
    table: String,
    function: String,
    column: Ident,
}

impl Renamed {
    /// Whether `table.column` is it: `r.range`, or `r.value`, as it was called once.
    fn is_called(&self, table: &Ident, column: &Ident) -> bool {
        let column = normal_name(column);
        self.table == normal_name(table) && (self.function == column || column == "value" && self.function != "unnest")
    }
}

fn in_factor(factor: &mut TableFactor, lateral: bool) -> Option<Renamed> {
    let (name, args, alias, is_lateral) = match factor {
        TableFactor::Table { name, args: Some(TableFunctionArgs { args, settings: None }), alias, .. } => {
            (&*name, &*args, alias, false)
        }
        TableFactor::Function { name, args, alias, lateral, .. } => (&*name, &*args, alias, *lateral),
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. }
            if array_exprs.len() == 1 =>
        {
            return name_column(alias, "unnest");
        }
        TableFactor::NestedJoin { table_with_joins, .. } => {
            let first = in_factor(&mut table_with_joins.relation, lateral);
            let others = table_with_joins.joins.iter_mut().map(|join| in_factor(&mut join.relation, true));
            return first.into_iter().chain(others.flatten()).next();
        }
        _ => return None,
    };
    let function = function(name)?;
    if !is_lateral && !args.iter().any(|arg| has_column(arg) || is_instant(arg)) {
        return name_column(alias, &function);
    }
    let mut value = call(&function, super::unnamed(args)?);
    if function != "unnest" {
        value = call("unnest", vec![value]);
    }
    let mut query = super::query_of("SELECT 0")?;
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = vec![SelectItem::ExprWithAlias { expr: value, alias: Ident::new(function.clone()) }];
    }
    let mut alias = alias.take();
    let renamed = name_column(&mut alias, &function);
    *factor = TableFactor::Derived { lateral: lateral || is_lateral, subquery: Box::new(query), alias, sample: None };
    renamed
}

/// Whether `arg` is an instant, which depends on the zone of the session where it is written without one: the planner's tables know none.
fn is_instant(arg: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else { return false };
    let data_type = match arg {
        Expr::TypedString(typed) => &typed.data_type,
        Expr::Cast { data_type, .. } => data_type,
        _ => return false,
    };
    matches!(data_type, DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
}

/// Which of the functions `name` is.
fn function(name: &ObjectName) -> Option<String> {
    let [part] = &name.0[..] else { return None };
    let name = normal_name(part.as_ident()?);
    FUNCTIONS.contains(&name.as_str()).then_some(name)
}

/// Names the one column of a table as the table is called, or else as the function.
fn name_column(alias: &mut Option<TableAlias>, function: &str) -> Option<Renamed> {
    let column = |name: Ident| vec![TableAliasColumnDef { name, data_type: None }];
    match alias {
        Some(alias) if alias.columns.is_empty() => {
            alias.columns = column(alias.name.clone());
            let table = normal_name(&alias.name);
            Some(Renamed { table, function: function.to_owned(), column: alias.name.clone() })
        }
        Some(_) => None,
        None => {
            let name = Ident::new(function);
            *alias = Some(TableAlias { explicit: true, name: name.clone(), columns: column(name), at: None });
            None
        }
    }
}

pub(super) fn has_column(arg: &FunctionArg) -> bool {
    struct Columns;

    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            // It may be of an outer column; the value is known where the query is run.
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. } => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => visitors::visit(expr, &mut Columns).is_break(),
        _ => false,
    }
}

/// Puts the names that columns have now for those that they had.
struct Names<'a>(&'a [Renamed]);

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundIdentifier(names) = expr else { return ControlFlow::Continue(()) };
        let [table, column] = &mut names[..] else { return ControlFlow::Continue(()) };
        if let Some(renamed) = self.0.iter().find(|renamed| renamed.is_called(table, column)) {
            *column = renamed.column.clone();
        }
        ControlFlow::Continue(())
    }
}

/// `r.range` of `range(..) AS r` is its column, however that is called.
fn rename(select: &mut Select, renamed: &[Renamed]) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item
            && let Expr::CompoundIdentifier(names) = expr
            && let [table, column] = &names[..]
            && renamed.iter().any(|of| of.is_called(table, column))
        {
            let alias = column.clone();
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    // It never stops.
    let _ = visitors::visit_mut(select, &mut Names(renamed));
}
