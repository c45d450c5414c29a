//! Aggregates whose result an `ORDER BY` among their arguments decides.
//!
//! `any_value(x ORDER BY y)` is the first value in the order that is not NULL, `mode(x ORDER BY y)` of the most frequent values the one met first, and
//! `arg_max(x, y ORDER BY z)` the first of those where `y` is greatest. DataFusion drops the order of a function that says it has none.
//!
//! Quantiles are of their first argument whatever they are ordered by: as DuckDB's, they count from the greatest value if that is one key that descends. DataFusion takes the
//! key of `quantile_cont(x, 0.5 ORDER BY y)` for its values.
//!
//! Not here: functions that know an order, such as `array_agg` and `first_value`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    NullTreatment, ObjectName, OrderByExpr, OrderByOptions,
};

/// Puts `percentile_cont(f) WITHIN GROUP (ORDER BY x)` and its kin in the words of aggregates with arguments, and gives the name of what it is then.
pub(super) fn within_group(name: String, function: &mut Function) -> String {
    let [by] = function.within_group.as_slice() else { return name };
    let FunctionArguments::List(list) = &mut function.args else { return name };
    let (known, arguments) = match name.as_str() {
        "percentile_cont" => ("quantile_cont", 1),
        "percentile_disc" => ("quantile_disc", 1),
        "mode" => ("mode", 0),
        _ => return name,
    };
    if list.args.len() != arguments || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return name;
    }
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(by.expr.clone())));
    list.clauses.push(FunctionArgumentClause::OrderBy(vec![by.clone()]));
    function.within_group.clear();
    function.name = named(known);
    known.to_owned()
}

/// Puts the call of the aggregate `name` in words that keep its order, if it has one.
pub(super) fn in_function(name: &str, function: &mut Function) {
    let Function { args: FunctionArguments::List(list), over: None, .. } = function else { return };
    let order = list.clauses.iter_mut().find_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(order) if !order.is_empty() => Some(order),
        _ => None,
    });
    let Some(order) = order else { return };
    match name {
        "any_value" => {
            function.name = named("first_value");
            function.null_treatment = Some(NullTreatment::IgnoreNulls);
        }
        "mode" => function.name = named(ogee_functions::ordered_mode::ORDERED_MODE),
        "arg_min" | "argmin" | "min_by" | "arg_max" | "argmax" | "max_by" if list.args.len() == 2 => {
            let most = matches!(name, "arg_max" | "argmax" | "max_by");
            let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(by))) = list.args.pop() else { return };
            let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.first() else { return };
            let known = |expr: &Expr| Expr::IsNotNull(Box::new(expr.clone()));
            let both = and(known(value), known(&by));
            let options = OrderByOptions { asc: Some(!most), nulls_first: Some(false) };
            order.insert(0, OrderByExpr { expr: by, options, with_fill: None });
            function.filter = Some(Box::new(match function.filter.take() {
                Some(filter) => and(Expr::Nested(filter), both),
                None => both,
            }));
            function.name = named("first_value");
        }
        "quantile_cont" | "percentile_cont" | "quantile_disc" | "quantile" | "approx_quantile" => {
            let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.first() else { return };
            match order.as_mut_slice() {
                [only] => only.expr = value.clone(),
                _ => list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_))),
            }
        }
        _ => {}
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}
