//! `count(t.*)`: how many rows of the table `t` there are, among which those are none that an outer join made up.
//!
//! Where no join makes up rows of `t` these are all rows. Elsewhere `t` gets a column that is true in its rows, and NULL in those that are made up; stars leave it out.
//!
//! Not here: rows of structs, and tables that refer to those before them.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor,
    TableWithJoins, VisitMut, WildcardAdditionalOptions,
};

use super::{factors, factors_mut, for_each_outside_queries, name_of, query_of};
use crate::names::normal_name;

/// What the names of the columns begin with that say which rows are there.
const ROW: &str = "ogee_row_of_";

/// Rewrites such calls of `query`, also in its order.
pub(super) fn in_query(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let known = Tables::of(select);
    if known.0.is_empty() {
        return;
    }
    let mut marked = Vec::new();
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        keys.iter_mut().for_each(|key| known.count(&mut key.expr, &mut marked));
    }
    in_clauses(select, &known, &mut marked);
}

/// The same in a `SELECT` without an order of its own.
pub(super) fn in_select(select: &mut Select) {
    let known = Tables::of(select);
    if !known.0.is_empty() {
        in_clauses(select, &known, &mut Vec::new());
    }
}

fn in_clauses(select: &mut Select, known: &Tables, marked: &mut Vec<String>) {
    known.count(&mut select.projection, marked);
    known.count(&mut select.having, marked);
    known.count(&mut select.qualify, marked);
    for name in &*marked {
        let mut all = select.from.iter_mut().flat_map(factors_mut);
        if let Some(factor) = all.find(|factor| name_of(factor).is_some_and(|of| normal_name(&of) == *name)) {
            mark(factor, name);
        }
    }
    let rows = |name: &String| ObjectName::from(vec![row_of(name)]);
    for item in &mut select.projection {
        match item {
            SelectItem::Wildcard(options) => exclude(options, marked.iter().map(rows)),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), options) => {
                let of = of.0.last().and_then(|part| part.as_ident()).map(normal_name);
                exclude(options, marked.iter().filter(|name| Some(*name) == of.as_ref()).map(rows));
            }
            _ => {}
        }
    }
}

fn exclude(options: &mut WildcardAdditionalOptions, names: impl Iterator<Item = ObjectName>) {
    let mut excluded = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    excluded.extend(names);
    options.opt_exclude = (!excluded.is_empty()).then_some(ExcludeSelectItem::Multiple(excluded));
}

fn row_of(name: &str) -> Ident {
    Ident::with_quote('"', format!("{ROW}{name}"))
}

/// Has `factor` be a query of its rows, in each of which the column is true.
fn mark(factor: &mut TableFactor, name: &str) {
    let text = format!("SELECT *, true AS {} FROM {factor}", row_of(name));
    if let Some(subquery) = query_of(&text) {
        let name = Ident::with_quote('"', name);
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        *factor =
            TableFactor::Derived { lateral: false, subquery: Box::new(subquery), alias: Some(alias), sample: None };
    }
}

/// The tables that a `SELECT` reads, each with whether a join makes up rows of it.
struct Tables(Vec<(String, bool)>);

impl Tables {
    fn of(select: &Select) -> Self {
        Self(select.from.iter().flat_map(Self::in_joins).collect())
    }

    fn in_joins(from: &TableWithJoins) -> Vec<(String, bool)> {
        let mut all: Vec<(Option<String>, bool)> = Vec::new();
        for (nth, factor) in factors(from).enumerate() {
            let is_plain = !matches!(factor, TableFactor::Derived { lateral: true, .. } | TableFactor::Function { .. });
            let name = name_of(factor).filter(|_| is_plain).map(|name| normal_name(&name));
            let operator = nth.checked_sub(1).map(|nth| &from.joins[nth].join_operator);
            use JoinOperator as J;
            let (left, right) = match operator {
                Some(J::Left(_) | J::LeftOuter(_)) => (false, true),
                Some(J::Right(_) | J::RightOuter(_)) => (true, false),
                Some(J::FullOuter(_)) => (true, true),
                _ => (false, false),
            };
            all.iter_mut().for_each(|(_, made_up)| *made_up |= left);
            all.push((name, right));
        }
        all.into_iter().filter_map(|(name, made_up)| Some((name?, made_up))).collect()
    }

    /// Writes out the calls in `clause`, and adds the tables to `marked` that get a column.
    fn count(&self, clause: &mut impl VisitMut, marked: &mut Vec<String>) {
        for_each_outside_queries(clause, |expr| {
            let Expr::Function(function) = expr else { return };
            if !function.name.to_string().eq_ignore_ascii_case("count") {
                return;
            }
            let FunctionArguments::List(list) = &mut function.args else { return };
            let [FunctionArg::Unnamed(arg)] = list.args.as_mut_slice() else { return };
            let FunctionArgExpr::QualifiedWildcard(of) = &*arg else { return };
            let Some(of) = of.0.last().and_then(|part| part.as_ident()).map(normal_name) else { return };
            let Some((name, made_up)) = self.0.iter().find(|(name, _)| *name == of) else { return };
            if list.duplicate_treatment.is_some() {
                return;
            }
            *arg = match made_up {
                false => FunctionArgExpr::Wildcard,
                true => {
                    if !marked.contains(name) {
                        marked.push(name.clone());
                    }
                    FunctionArgExpr::Expr(Expr::CompoundIdentifier(vec![Ident::with_quote('"', name), row_of(name)]))
                }
            };
        });
    }
}
