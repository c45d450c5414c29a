//! `ENUM` in the order of its type: comparisons of two values of one, also with `ANY` and `ALL` of a query, orders, `min`, `max` and `mode`, `greatest` and `least` are of their places, as the keys of `histogram` are.
//!
//! Values of an `ENUM` are texts, of which DataFusion knows the order of texts. That is right where one stands beside a text, or beside values of another `ENUM`.
//!
//! Not here: equality, groups and joins, for which texts do.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Field, FieldRef},
    common::{
        Column, DFSchema, Result, not_impl_err,
        tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    },
    config::ConfigOptions,
    logical_expr::{
        Aggregate, Between, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection, SortExpr,
        Window,
    },
    optimizer::AnalyzerRule,
};
use ogee_functions::{
    lists::is_list,
    marks::{Casts, Mark, has_enum_within, is_same},
    ordered_mode::ORDERED_MODE,
};

use crate::{
    kept_names,
    quantified::QUANTIFIED,
    times::zone_rule::input_schema,
    trees::{Nodes, Tree},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct EnumOrder(pub(crate) Casts);

impl AnalyzerRule for EnumOrder {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_enum(&plan)? {
            return Ok(plan);
        }
        // What an aggregate below gives is a value of an `ENUM` only since it was rewritten.
        plan.nodes_up(|plan| self.rewrite_plan(with_marks_below(plan)?)).data()
    }

    fn name(&self) -> &str {
        "enum_order"
    }
}

/// `plan` with columns of the types of those below, which for a union are those that all of its inputs have but for NULL.
pub(crate) fn with_marks_below(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(mut union) = plan else { return plan.recompute_schema() };
    let mut fields = Vec::with_capacity(union.schema.fields().len());
    for (column, (qualifier, field)) in union.schema.iter().enumerate() {
        let typed = union.inputs.iter().filter(|input| !is_null_at(input, column));
        let mut below = typed.map(|input| input.schema().field(column));
        let first = below.next();
        // Without a mark it has become a text, whatever the others are.
        let is_kept = |first: &&FieldRef| match Mark::of(first) {
            Some(_) => below.all(|other| is_same(first, other)),
            None => Mark::of(field).is_some(),
        };
        let field = match first.filter(is_kept) {
            Some(first) => Arc::new(field.as_ref().clone().with_metadata(first.metadata().clone())),
            None => Arc::clone(field),
        };
        fields.push((qualifier.cloned(), field));
    }
    union.schema = Arc::new(DFSchema::new_with_metadata(fields, union.schema.as_arrow().metadata().clone())?);
    Ok(LogicalPlan::Union(union))
}

/// Whether all values of this column of `plan` are NULL as it is written.
fn is_null_at(plan: &LogicalPlan, column: usize) -> bool {
    fn is_null(expr: &Expr) -> bool {
        match expr {
            Expr::Literal(value, _) => value.is_null(),
            Expr::Alias(alias) => is_null(&alias.expr),
            Expr::Cast(cast) => is_null(&cast.expr),
            _ => false,
        }
    }
    match plan {
        LogicalPlan::Projection(projection) => is_null(&projection.expr[column]),
        LogicalPlan::SubqueryAlias(alias) => is_null_at(&alias.input, column),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_null_at(input, column)),
        _ => false,
    }
}

fn is_any(field: &Field) -> bool {
    Mark::of(field) == Some(Mark::Enum) || has_enum_within(field)
}

/// Refuses to order what has values of an `ENUM` within: it would be ordered by their texts.
fn refuse_nested(field: &Field) -> Result<()> {
    if has_enum_within(field) {
        return not_impl_err!(
            "lists, structs and maps with values of an ENUM have no order here; cast them to VARCHAR within"
        );
    }
    Ok(())
}

/// Whether `plan` has values of an `ENUM` anywhere. Most statements have none.
fn has_enum(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_node(|node| {
        found |= node.schema().fields().iter().any(|field| is_any(field));
        if let LogicalPlan::TableScan(scan) = node {
            found |= scan.source.schema().fields().iter().any(|field| is_any(field));
        }
        node.each_expression(|expr| {
            expr.each(|expr| {
                found |= match expr {
                    Expr::Literal(_, Some(metadata)) => {
                        is_any(&metadata.add_to_field(Mark::Enum.field("").with_metadata(Default::default())))
                    }
                    _ => false,
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Functions whose answer depends on the order of a list's elements.
fn orders_elements(name: &str) -> bool {
    matches!(
        name,
        "array_sort"
            | "list_sort"
            | "list_reverse_sort"
            | "array_max"
            | "list_max"
            | "array_min"
            | "list_min"
            | "list_histogram"
            | "list_median"
            | "list_mode"
    )
}

/// Whether an aggregate looks at which of two values is the greater one.
fn compares_elements(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "max" | "min" | "median" | "mode" | ORDERED_MODE)
        || name.contains("quantile")
        || name.contains("percentile")
}

/// Whether an aggregate's value is one of those that it compares.
fn chooses_value(name: &str) -> bool {
    matches!(name, "max" | "min" | "mode" | ORDERED_MODE | "quantile_disc")
}

/// Whether an aggregate's value is a map that has the values in their order.
fn has_ordered_keys(name: &str) -> bool {
    name == "histogram"
}

/// By which of `args` the aggregate `name` chooses among its first, if it does.
fn chooses_by<'a>(name: &str, args: &'a mut [Expr]) -> Option<&'a mut Expr> {
    let name = name.trim_start_matches("ogee_");
    let chooses = name.starts_with("arg_max") || name.starts_with("arg_min");
    args.get_mut(1).filter(|_| chooses)
}

impl EnumOrder {
    fn rewrite_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = input_schema(&plan)?;
        let plan = match plan {
            LogicalPlan::Sort(mut sort) => {
                let any = self.order(&mut sort.expr, &schema)?;
                done(LogicalPlan::Sort(sort), any)
            }
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let keys = on.sort_expr.iter().flatten();
                let mut ordered = keys.filter_map(|key| key.expr.to_field(&schema).ok());
                if ordered.any(|(_, field)| is_any(&field)) {
                    for key in on.on_expr.iter_mut() {
                        self.in_place(key, &schema)?;
                    }
                    if let Some(order) = &mut on.sort_expr {
                        self.order(order, &schema)?;
                    }
                    Transformed::yes(LogicalPlan::Distinct(Distinct::On(on)))
                } else {
                    Transformed::no(LogicalPlan::Distinct(Distinct::On(on)))
                }
            }
            plan => Transformed::no(plan),
        };
        plan.transform_data(|plan| {
            kept_names::map_expressions(plan, |expr| expr.up(|expr| self.rewrite(expr, &schema)))
        })?
        .transform_data(|plan| self.extremes(plan, &schema))
    }

    /// Makes `expr` its place, if it is a value of an `ENUM`; whether it is.
    fn in_place(&self, expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
        let Ok((_, field)) = expr.to_field(schema) else { return Ok(false) };
        refuse_nested(&field)?;
        if Mark::of(&field) != Some(Mark::Enum) {
            return Ok(false);
        }
        *expr = self.0.place(std::mem::take(expr), &field)?;
        Ok(true)
    }

    fn order(&self, keys: &mut [SortExpr], schema: &DFSchema) -> Result<bool> {
        let mut any = false;
        for key in keys {
            any |= self.in_place(&mut key.expr, schema)?;
        }
        Ok(any)
    }

    /// Makes the places of all of `sides`, if they are of one `ENUM`; whether they are.
    fn all_in_place(&self, sides: &mut [&mut Expr], schema: &DFSchema) -> Result<Option<FieldRef>> {
        let fields: Vec<FieldRef> =
            sides.iter().filter_map(|side| side.to_field(schema).ok().map(|(_, field)| field)).collect();
        if fields.len() == sides.len() {
            fields.iter().try_for_each(|field| refuse_nested(field))?;
        }
        let Some(first) = fields.iter().find(|field| Mark::of(field) == Some(Mark::Enum)).cloned() else {
            return Ok(None);
        };
        let are_same = fields.iter().all(|field| field.data_type().is_null() || is_same(field, &first));
        if fields.len() != sides.len() || !are_same {
            return Ok(None);
        }
        for side in sides {
            **side = self.0.place(std::mem::take(*side), &first)?;
        }
        Ok(Some(first))
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let is_order = |op: Operator| matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_order(op) => {
                let any = self.all_in_place(&mut [&mut *left, &mut *right], schema)?.is_some();
                done(Expr::BinaryExpr(BinaryExpr { left, op, right }), any)
            }
            Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
                let any = self.all_in_place(&mut [&mut *expr, &mut *low, &mut *high], schema)?.is_some();
                done(Expr::Between(Between { expr, negated, low, high }), any)
            }
            Expr::ScalarFunction(mut call) if matches!(call.func.name(), "greatest" | "least") => {
                let mut sides: Vec<&mut Expr> = call.args.iter_mut().collect();
                match self.all_in_place(&mut sides, schema)? {
                    Some(field) => Transformed::yes(self.0.value_at(Expr::ScalarFunction(call), &field)?),
                    None => Transformed::no(Expr::ScalarFunction(call)),
                }
            }
            Expr::ScalarFunction(call) if orders_elements(call.func.name()) => {
                let of = call.args.first().and_then(|list| list.to_field(schema).ok());
                if of.is_some_and(|(_, field)| has_enum_within(&field)) {
                    return not_impl_err!(
                        "{} of values of an ENUM is not supported; cast them to VARCHAR[]",
                        call.func.name()
                    );
                }
                Transformed::no(Expr::ScalarFunction(call))
            }
            Expr::ScalarFunction(call) if call.func.name() == "list_aggregate" => {
                let of = call.args.first().and_then(|list| list.to_field(schema).ok());
                let compares = |name: &str| compares_elements(name) || has_ordered_keys(name);
                let is_ordered = matches!(call.args.get(1), Some(Expr::Literal(value, _))
                    if value.try_as_str().flatten().is_some_and(compares));
                if is_ordered && of.is_some_and(|(_, field)| has_enum_within(&field)) {
                    return not_impl_err!(
                        "an aggregate that compares values of an ENUM in lists is not supported; cast them to VARCHAR[]"
                    );
                }
                Transformed::no(Expr::ScalarFunction(call))
            }
            Expr::ScalarFunction(call) if call.func.name() == QUANTIFIED => {
                let of_order = |sign: &str| matches!(sign.chars().next(), Some('<' | '>')) && !sign.starts_with("<>");
                let is_ordered = matches!(call.args.first(), Some(Expr::Literal(sign, _))
                    if sign.try_as_str().flatten().is_some_and(of_order));
                let list = call.args.get(2).filter(|_| is_ordered).and_then(|list| list.to_field(schema).ok());
                if list.is_some_and(|(_, field)| has_enum_within(&field)) {
                    return not_impl_err!(
                        "whether values of an ENUM are greater or less than those of a list is not supported; cast them to VARCHAR, or compare with a subquery"
                    );
                }
                Transformed::no(Expr::ScalarFunction(call))
            }
            Expr::SetComparison(mut comparison) if is_order(comparison.op) => {
                let rows = &comparison.subquery.subquery;
                let column = Expr::Column(rows.schema().columns().swap_remove(0));
                let (_, of) = column.to_field(rows.schema())?;
                let Ok((_, field)) = comparison.expr.to_field(schema) else {
                    return Ok(Transformed::no(Expr::SetComparison(comparison)));
                };
                refuse_nested(&of)?;
                let is_one = Mark::of(&of) == Some(Mark::Enum) && is_same(&of, &field);
                if is_one {
                    let place = self.0.place(column, &of)?.alias(of.name());
                    let rows = Projection::try_new(vec![place], Arc::clone(rows))?;
                    comparison.subquery.subquery = Arc::new(LogicalPlan::Projection(rows));
                    *comparison.expr = self.0.place(std::mem::take(&mut *comparison.expr), &of)?;
                }
                done(Expr::SetComparison(comparison), is_one)
            }
            Expr::AggregateFunction(mut call) => {
                let mut any = self.order(&mut call.params.order_by, schema)?;
                if let Some(by) = chooses_by(call.func.name(), &mut call.params.args) {
                    any |= self.in_place(by, schema)?;
                }
                done(Expr::AggregateFunction(call), any)
            }
            Expr::WindowFunction(mut call) => {
                let mut any = self.order(&mut call.params.order_by, schema)?;
                if let Some(by) = chooses_by(call.fun.name(), &mut call.params.args) {
                    any |= self.in_place(by, schema)?;
                }
                done(Expr::WindowFunction(call), any)
            }
            other => Transformed::no(other),
        })
    }

    /// `plan` with `min`, `max`, `mode` and `quantile_disc` of places, of which the values are made above it, as the keys of `histogram` are brought into order there.
    fn extremes(&self, plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
        let exprs = match &plan {
            LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
            LogicalPlan::Window(window) => &window.window_expr,
            _ => return Ok(Transformed::no(plan)),
        };
        let first = plan.schema().fields().len() - exprs.len();
        let (mut extremes, mut ordered) = (Vec::new(), Vec::new());
        let mut rewritten = exprs.clone();
        for (at, expr) in rewritten.iter_mut().enumerate() {
            let (qualifier, field) = plan.schema().qualified_field(first + at);
            let (qualifier, name) = (qualifier.cloned(), field.name().clone());
            let mut bare = expr.clone().unalias();
            let (name_of_call, args) = match &mut bare {
                Expr::AggregateFunction(call) => (call.func.name().to_owned(), &mut call.params.args),
                Expr::WindowFunction(call) => (call.fun.name().to_owned(), &mut call.params.args),
                _ => continue,
            };
            if let [arg] = &args[..]
                && has_ordered_keys(&name_of_call)
                && let Ok((_, of)) = arg.to_field(schema)
                && is_any(&of)
            {
                refuse_nested(&of)?;
                ordered.push((first + at, of));
                continue;
            }
            let Some(arg) = args.first_mut().filter(|_| compares_elements(&name_of_call)) else { continue };
            let (_, of) = arg.to_field(schema)?;
            if !self.in_place(arg, schema)? {
                continue;
            }
            if !chooses_value(&name_of_call) || is_list(field.data_type()) {
                return not_impl_err!(
                    "{name_of_call} of values of an ENUM is not supported; use quantile_disc with one fraction, or cast them to VARCHAR"
                );
            }
            *expr = bare.alias_qualified(qualifier, name);
            extremes.push((first + at, of));
        }
        if extremes.is_empty() && ordered.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let plan = match plan {
            plan if extremes.is_empty() => plan,
            LogicalPlan::Aggregate(aggregate) => {
                LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, aggregate.group_expr, rewritten)?)
            }
            LogicalPlan::Window(window) => LogicalPlan::Window(Window::try_new(rewritten, window.input)?),
            plan => plan,
        };
        let mut columns = Vec::with_capacity(plan.schema().fields().len());
        for (at, (qualifier, field)) in plan.schema().iter().enumerate() {
            let column = Expr::Column(Column::from((qualifier, field)));
            let at_place = |(place, _): &&(usize, FieldRef)| *place == at;
            let made = match (extremes.iter().find(at_place), ordered.iter().find(at_place)) {
                (Some((_, of)), _) => self.0.value_at(column, of)?,
                (None, Some((_, of))) => self.0.by_place(column, of)?,
                (None, None) => {
                    columns.push(column);
                    continue;
                }
            };
            columns.push(made.alias_qualified(qualifier.cloned(), field.name()));
        }
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
    }
}

fn done<T>(data: T, any: bool) -> Transformed<T> {
    if any { Transformed::yes(data) } else { Transformed::no(data) }
}
