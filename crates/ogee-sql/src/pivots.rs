//! Pivots, written out: values of a column become columns, and columns become rows.
//!
//! `PIVOT t ON a USING sum(x)` is `SELECT g, sum(x) FILTER (WHERE CAST(a AS VARCHAR) = 'v') AS "v", .. FROM t GROUP BY g` over the columns that are not named, with an output for each combination of
//! values; those that are not written are asked of the table, in the order of the column. `UNPIVOT t ON a, b` is `SELECT g, unnest(['a', 'b']), unnest([a, b]) FROM t`, without the rows that have a NULL.
//!
//! Not here: the text (`syntax::pivots`), and who answers (`asked`).

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    arrow::datatypes::DataType,
    sql::sqlparser::ast::{
        BinaryOperator, CastKind, CharacterLength, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
        GroupByExpr, Ident, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
        SetExpr, TableFactor, TableWithJoins, UnaryOperator, Value, Visitor, WildcardAdditionalOptions,
        helpers::attached_token::AttachedToken,
    },
};
use ogee_functions::{Error, Result};

use crate::{
    asked::{self, Answers, Column},
    columns_of,
    names::call,
    summaries,
    syntax::{
        self,
        pivots::{CALLS, GROUP, NAMED, NAMES, ON, TOGETHER, UNPIVOT, USING},
        summaries::{DESCRIPTION, SUMMARY},
    },
    visitors,
};

/// Columns that values of a table may become. DuckDB lets them be ten times as many; a plan of these takes seconds.
const COLUMNS_MAX: usize = crate::options::PIVOT_COLUMNS_MAX;

/// Up to so many columns each is an aggregate with a filter: each row is compared with so many values, which costs less than joining it with them.
const FILTERS_MAX: usize = 32;

/// Whether `function` is one that says what a pivot wants, or that a summary or description is wanted.
pub(crate) fn is_pivot(function: &Function) -> bool {
    match &function.name.0[..] {
        [name] => name.as_ident().is_some_and(|name| CALLS.contains(&name.value.as_str())),
        _ => false,
    }
}

/// Makes the query that `select` says it is.
///
/// # Errors
/// Those of planning and running what has to be known; pivots that make no sense.
pub(crate) async fn write_out(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    let Some(Expr::Function(function)) = syntax::pivots::marked(select).cloned() else { return Ok(()) };
    let args = arguments(&function);
    match function.name.to_string().as_str() {
        UNPIVOT => return unpivot(select, args, answers).await,
        SUMMARY => return summaries::summarize(select, answers).await,
        DESCRIPTION => return summaries::describe(select, answers).await,
        _ => {}
    }
    let pivot = Pivot::read(args)?;
    pivot.write_out(select, answers).await
}

fn arguments(function: &Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let value = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().filter_map(value).collect()
}

/// The arguments of `expr`, if it is a call of `name`.
fn called(expr: &Expr, name: &str) -> Option<Vec<Expr>> {
    match expr {
        Expr::Function(function) if function.name.to_string() == name => Some(arguments(function)),
        _ => None,
    }
}

/// The expressions that `expr` puts together.
fn together(expr: Expr) -> Vec<Expr> {
    called(&expr, TOGETHER).unwrap_or_else(|| vec![expr])
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// What `expr` is, and the name that it was given.
fn named(expr: Expr) -> (Expr, Option<String>) {
    match called(&expr, NAMED) {
        Some(args) => {
            let mut args = args.into_iter();
            let value = args.next().unwrap_or(expr);
            let name = args.next().as_ref().and_then(text_of);
            (value, name)
        }
        None => (expr, None),
    }
}

/// What rows are told apart by.
struct On {
    exprs: Vec<Expr>,
    values: Values,
}

enum Values {
    /// All that there are.
    All,
    /// Those of a query.
    Of(Box<Query>),
    Written(Vec<(Expr, Option<String>)>),
}

/// A column that is made: what its rows have in each of the expressions, and its name.
#[derive(Clone)]
struct Wanted {
    values: Vec<Option<String>>,
    name: String,
}

struct Pivot {
    ons: Vec<On>,
    /// Aggregates, and what they were called.
    usings: Vec<(Expr, Option<String>)>,
    groups: Vec<Expr>,
}

impl Pivot {
    fn read(args: Vec<Expr>) -> Result<Self> {
        let mut pivot = Self { ons: Vec::new(), usings: Vec::new(), groups: Vec::new() };
        for arg in args {
            if let Some(args) = called(&arg, ON) {
                let mut args = args.into_iter();
                let Some(first) = args.next() else { continue };
                let values: Vec<Expr> = args.collect();
                let values = match &values[..] {
                    [] => Values::All,
                    [Expr::Subquery(query)] => Values::Of(query.clone()),
                    _ => Values::Written(values.into_iter().map(named).collect()),
                };
                pivot.ons.push(On { exprs: together(first), values });
            } else if let Some(args) = called(&arg, USING) {
                let name = args.get(1).and_then(text_of);
                pivot.usings.extend(args.into_iter().next().map(|aggregate| (aggregate, name)));
            } else if let Some(args) = called(&arg, GROUP) {
                pivot.groups.extend(args);
            }
        }
        for (aggregate, _) in &pivot.usings {
            if !syntax::has_aggregate(aggregate) {
                return Err(Error::Plan(format!(
                    "PIVOT .. USING takes aggregates, such as sum(x), and {aggregate} is none"
                )));
            }
        }
        if pivot.usings.is_empty() {
            pivot.usings.push((crate::names::call_star("count"), None));
        }
        Ok(pivot)
    }

    async fn write_out(self, select: &mut Select, answers: &Answers<'_>) -> Result<()> {
        let Self { ons, usings, groups } = self;
        let groups = if groups.is_empty() && !ons.is_empty() {
            let of_pivot = ons.iter().flat_map(|on| &on.exprs).chain(usings.iter().map(|(aggregate, _)| aggregate));
            let used = used(of_pivot);
            let columns = answers.columns(all(), &select.from).await?;
            columns
                .iter()
                .filter(|column| !used.contains(&column.name.to_lowercase()))
                .map(columns_of::reference(&columns, false))
                .collect()
        } else {
            groups
        };
        let mut combinations = vec![Vec::<Wanted>::new()];
        for on in &ons {
            let wanted = on.wanted(&select.from, answers).await?;
            let most = answers.pivot_columns();
            if combinations.len().saturating_mul(wanted.len()).saturating_mul(usings.len()) > most {
                return Err(Error::Unsupported(format!(
                    "PIVOT would make more than {most} columns of the values in {}; name those that are wanted with IN (..), or GROUP BY it instead",
                    shown(&on.exprs)
                )));
            }
            let with = |before: &Vec<Wanted>| {
                let before = before.clone();
                wanted.iter().map(move |wanted| before.iter().cloned().chain([wanted.clone()]).collect::<Vec<_>>())
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        if combinations.len() * usings.len() > FILTERS_MAX && !ons.is_empty() {
            *select = spread(&ons, &usings, &groups, &combinations, &select.from)?;
            return Ok(());
        }
        let mut outputs: Vec<SelectItem> = groups.iter().cloned().map(SelectItem::UnnamedExpr).collect();
        let mut taken: HashSet<String> = groups.iter().map(crate::names::base_name).collect();
        for combination in &combinations {
            let condition = ons.iter().zip(combination).map(|(on, wanted)| on.is(wanted)).reduce(and);
            for (aggregate, name) in &usings {
                let alias = called_as(combination, aggregate, name.as_deref(), usings.len(), &mut taken);
                let expr = match &condition {
                    Some(condition) => filtered(aggregate, condition)?,
                    None => aggregate.clone(),
                };
                outputs.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        if outputs.is_empty() {
            return Err(Error::Plan("PIVOT finds no value to make a column of, and no column to group by".to_owned()));
        }
        (select.projection, select.group_by) = (outputs, GroupByExpr::Expressions(groups, Vec::new()));
        Ok(())
    }
}

/// What the column of `aggregate`, which was given `name`, for some values is called.
fn called_as(
    combination: &[Wanted],
    aggregate: &Expr,
    name: Option<&str>,
    aggregates: usize,
    taken: &mut HashSet<String>,
) -> Ident {
    let mut parts: Vec<&str> = combination.iter().map(|wanted| wanted.name.as_str()).collect();
    let written = aggregate.to_string().replace("count(*)", "count_star()");
    match name {
        Some(name) => parts.push(name),
        None if aggregates > 1 || combination.is_empty() => parts.push(&written),
        None => {}
    }
    free(&parts.join("_"), taken)
}

/// The `SELECT` of a pivot with many columns. Each as an aggregate with a filter of its own would be compared with all rows, and by the planner with all others. So rows are grouped by groups and values;
/// where a group has no row of a value, it gets what the aggregate is of none; all that a group has becomes a list in the order of the columns, which are its elements.
fn spread(
    ons: &[On],
    usings: &[(Expr, Option<String>)],
    groups: &[Expr],
    combinations: &[Vec<Wanted>],
    from: &[TableWithJoins],
) -> Result<Select> {
    let list = |items: Vec<String>| items.join(", ");
    let numbered = |name: &str, count: usize| (1..=count).map(|nth| format!("ogee_{name}{nth}")).collect::<Vec<_>>();
    // Behind the names of groups, if there are any.
    let behind = |items: Vec<String>| items.into_iter().map(|item| format!("{item}, ")).collect::<String>();
    let keys = numbered("g", groups.len());
    let exprs: Vec<&Expr> = ons.iter().flat_map(|on| &on.exprs).collect();
    let (values, cells) = (numbered("p", exprs.len()), numbered("a", usings.len()));
    let from = list(from.iter().map(ToString::to_string).collect());

    let texts: Vec<String> = exprs.iter().map(|expr| to_text((*expr).clone()).to_string()).collect();
    let named = |exprs: Vec<String>, names: &[String]| {
        exprs.into_iter().zip(names).map(|(expr, name)| format!("{expr} AS {name}")).collect::<Vec<_>>()
    };
    let of_groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let aggregates: Vec<String> = usings.iter().map(|(aggregate, _)| aggregate.to_string()).collect();
    let grouped = format!(
        "SELECT {}{}, {} FROM {from} GROUP BY {}{}",
        behind(named(of_groups.clone(), &keys)),
        list(named(texts.clone(), &values)),
        list(named(aggregates.clone(), &cells)),
        behind(of_groups),
        list(texts),
    );
    let empty = format!("SELECT {} FROM {from} WHERE false", list(named(aggregates, &cells)));
    let columns = (0..exprs.len()).map(|nth| {
        let value = |combination: &Vec<Wanted>| {
            let value = combination.iter().flat_map(|wanted| &wanted.values).nth(nth).cloned().flatten();
            value.map_or_else(null, |value| text(&value).to_string())
        };
        format!("unnest([{}])", list(combinations.iter().map(value).collect()))
    });
    let wanted = format!(
        "SELECT unnest(range(1, {})) AS ogee_k, {}",
        combinations.len() + 1,
        list(named(columns.collect(), &values))
    );
    let any_null = combinations.iter().flatten().flat_map(|wanted| &wanted.values).any(Option::is_none);
    let equals = if any_null { "IS NOT DISTINCT FROM" } else { "=" };
    let same: Vec<String> = values.iter().map(|value| format!("i.{value} {equals} w.{value}")).collect();
    let of = |table: &str, names: &[String]| names.iter().map(|name| format!("{table}.{name}")).collect::<Vec<_>>();
    let found = format!(
        "SELECT {}w.ogee_k AS ogee_k, {}, true AS ogee_there FROM ({grouped}) AS i JOIN ({wanted}) AS w ON {}",
        behind(of("i", &keys)),
        list(of("i", &cells)),
        same.join(" AND "),
    );
    let rows = match keys.is_empty() {
        true => "SELECT 1".to_owned(),
        false => format!("SELECT DISTINCT {} FROM ({grouped})", list(keys.clone())),
    };
    let missing = format!(
        "SELECT {}w.ogee_k AS ogee_k, {}, false AS ogee_there FROM ({rows}) AS r CROSS JOIN ({wanted}) AS w CROSS JOIN ({empty}) AS e",
        behind(of("r", &keys)),
        list(of("e", &cells)),
    );
    let first = |cell: &String| format!("(array_agg({cell} ORDER BY ogee_there DESC))[1] AS {cell}");
    let all = format!(
        "SELECT {}ogee_k, {} FROM ({found} UNION ALL {missing}) AS u GROUP BY {}ogee_k",
        behind(keys.clone()),
        list(cells.iter().map(first).collect()),
        behind(keys.clone()),
    );
    let in_order = |cell: &String| format!("array_agg({cell} ORDER BY ogee_k) AS {cell}");
    let by = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", list(keys.clone())) };
    let lists =
        format!("SELECT {}{} FROM ({all}) AS c{by}", behind(keys.clone()), list(cells.iter().map(in_order).collect()));

    let mut taken: HashSet<String> = groups.iter().map(crate::names::base_name).collect();
    let as_written = groups.iter().map(|group| Ident::with_quote('"', crate::names::base_name(group)).to_string());
    let mut outputs = named(keys.clone(), &as_written.collect::<Vec<_>>());
    for (nth, combination) in combinations.iter().enumerate() {
        for ((aggregate, name), cell) in usings.iter().zip(&cells) {
            let alias = called_as(combination, aggregate, name.as_deref(), usings.len(), &mut taken);
            outputs.push(format!("{cell}[{}] AS {alias}", nth + 1));
        }
    }
    asked::select_of(&format!("SELECT {} FROM ({lists}) AS l", list(outputs)))
}

fn shown(exprs: &[Expr]) -> String {
    exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `*`
fn all() -> Vec<SelectItem> {
    vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())]
}

/// `name`, or `name_1` and so on where it is taken.
pub(crate) fn free(name: &str, taken: &mut HashSet<String>) -> Ident {
    let mut numbered = std::iter::once(name.to_owned()).chain((1..).map(|n| format!("{name}_{n}")));
    let name = numbered.find(|name| taken.insert(name.clone())).unwrap_or_default();
    Ident::with_quote('"', name)
}

/// The names of columns that `exprs` use, in lower case.
fn used<'a>(exprs: impl Iterator<Item = &'a Expr>) -> HashSet<String> {
    struct Used(HashSet<String>);

    impl Visitor for Used {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) => drop(self.0.insert(name.value.to_lowercase())),
                Expr::CompoundIdentifier(names) => self.0.extend(names.last().map(|name| name.value.to_lowercase())),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }

    let mut found = Used(HashSet::new());
    for expr in exprs {
        // It never stops.
        let _ = visitors::visit(expr, &mut found);
    }
    found.0
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

/// `CAST(expr AS VARCHAR)`
pub(crate) fn to_text(expr: Expr) -> Expr {
    let data_type = datafusion::sql::sqlparser::ast::DataType::Varchar(None::<CharacterLength>);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Nested(Box::new(expr))),
        data_type,
        array: false,
        format: None,
    }
}

/// `text` as it is written in a statement.
pub(crate) fn quoted(value: &str) -> String {
    text(value).to_string()
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// `aggregate`, of the rows only of which `condition` is true.
fn filtered(aggregate: &Expr, condition: &Expr) -> Result<Expr> {
    let mut filtered = aggregate.clone();
    let mut windows = false;
    syntax::for_each_outside_queries(&mut filtered, |expr| {
        if let Expr::Function(function) = expr
            && syntax::is_aggregate(function)
        {
            windows |= function.over.is_some();
            function.filter = Some(Box::new(match function.filter.take() {
                Some(filter) => and(Expr::Nested(filter), condition.clone()),
                None => condition.clone(),
            }));
        }
    });
    if windows {
        return Err(Error::Plan(format!("PIVOT .. USING takes aggregates, and {aggregate} is a window function")));
    }
    Ok(filtered)
}

impl On {
    /// The condition on rows of the column `wanted`.
    fn is(&self, wanted: &Wanted) -> Expr {
        let equal = |(expr, value): (&Expr, &Option<String>)| match value {
            Some(value) => Expr::BinaryOp {
                left: Box::new(to_text(expr.clone())),
                op: BinaryOperator::Eq,
                right: Box::new(text(value)),
            },
            None => Expr::IsNull(Box::new(Expr::Nested(Box::new(expr.clone())))),
        };
        let always = Expr::value(Value::Boolean(true));
        self.exprs.iter().zip(&wanted.values).map(equal).reduce(and).unwrap_or(always)
    }

    async fn wanted(&self, from: &[TableWithJoins], answers: &Answers<'_>) -> Result<Vec<Wanted>> {
        let rows = match &self.values {
            Values::All => answers.rows(self.all_values(from)?).await?,
            Values::Of(query) => {
                let mut texts = asked::query("SELECT CAST(v AS VARCHAR) FROM (SELECT 0) AS t(v)")?;
                if let SetExpr::Select(select) = &mut *texts.body
                    && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
                {
                    *subquery = query.clone();
                }
                answers.rows(texts).await?
            }
            Values::Written(values) => return self.written(values, answers).await,
        };
        let mut seen = HashSet::new();
        let rows = rows.into_iter().filter(|row| seen.insert(row.clone()));
        let name = |values: &[Option<String>]| match values {
            [value] => value.clone().unwrap_or_else(null),
            values => {
                let values: Vec<String> = values.iter().map(|value| value.clone().unwrap_or_else(null)).collect();
                format!("({})", values.join(", "))
            }
        };
        Ok(rows.map(|values| Wanted { name: name(&values), values }).collect())
    }

    /// `SELECT CAST(a AS VARCHAR) FROM from WHERE a IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT one more than are let in`: values are equal if their texts are, and are in their order.
    fn all_values(&self, from: &[TableWithJoins]) -> Result<Box<Query>> {
        let texts = || self.exprs.iter().cloned().map(to_text);
        let mut query = asked::query("SELECT 0 FROM ogee")?;
        if let SetExpr::Select(select) = &mut *query.body {
            select.projection = texts().map(SelectItem::UnnamedExpr).collect();
            select.from = from.to_vec();
            if let [expr] = &self.exprs[..] {
                select.selection = Some(Expr::IsNotNull(Box::new(Expr::Nested(Box::new(expr.clone())))));
            }
            select.group_by = GroupByExpr::Expressions(texts().collect(), Vec::new());
        }
        let options = || OrderByOptions { asc: None, nulls_first: None };
        let by = texts().map(|expr| OrderByExpr { expr, options: options(), with_fill: None });
        query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(by.collect()), interpolate: None });
        let limit = Expr::value(Value::Number((COLUMNS_MAX + 1).to_string(), false));
        query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() });
        Ok(query)
    }

    async fn written(&self, values: &[(Expr, Option<String>)], answers: &Answers<'_>) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = Vec::with_capacity(values.len());
        let mut seen = HashSet::new();
        for (value, name) in values {
            let mut texts = Vec::new();
            for value in together(value.clone()) {
                texts.push(match constant(&value) {
                    Some(text) => text,
                    None => {
                        let mut query = asked::query("SELECT 0")?;
                        if let SetExpr::Select(select) = &mut *query.body {
                            select.projection = vec![SelectItem::UnnamedExpr(to_text(value))];
                        }
                        answers.rows(query).await?.pop().and_then(|mut row| row.pop()).flatten()
                    }
                });
            }
            if texts.len() != self.exprs.len() {
                return Err(Error::Plan(format!(
                    "PIVOT has {} for {}, which are as many as the columns in brackets before IN",
                    shown(&together(value.clone())),
                    shown(&self.exprs)
                )));
            }
            if !seen.insert(texts.clone()) {
                return Err(Error::Plan(format!("PIVOT has the value {} twice", shown(&together(value.clone())))));
            }
            let of_values = || texts.iter().map(|text| text.clone().unwrap_or_else(null)).collect::<Vec<_>>().join("_");
            wanted.push(Wanted { name: name.clone().unwrap_or_else(of_values), values: texts });
        }
        Ok(wanted)
    }
}

fn null() -> String {
    "NULL".to_owned()
}

/// The text of a constant as it is written; `None` if that has to be asked.
fn constant(expr: &Expr) -> Option<Option<String>> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(Some(number.replace('_', ""))),
            Value::SingleQuotedString(text) => Some(Some(text.clone())),
            Value::Boolean(value) => Some(Some(value.to_string())),
            Value::Null => Some(None),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => Some(Some(format!("-{}", number.replace('_', "")))),
                _ => None,
            },
            _ => None,
        },
        // A name without quotes is the text that it is.
        Expr::Identifier(name) => Some(Some(name.value.clone())),
        _ => None,
    }
}

/// What becomes a row: its name, and its values.
struct Entry {
    name: String,
    values: Vec<Expr>,
}

async fn unpivot(select: &mut Select, args: Vec<Expr>, answers: &Answers<'_>) -> Result<()> {
    let mut args = args.into_iter();
    let names = args.next().and_then(|names| called(&names, NAMES)).unwrap_or_default();
    let with_nulls = matches!(names.first(), Some(Expr::Value(value)) if value.value == Value::Boolean(true));
    let names: Vec<String> = names.iter().filter_map(text_of).collect();
    let [name, values @ ..] = &names[..] else {
        return Err(Error::Internal("an UNPIVOT without names".to_owned()));
    };
    let columns = answers.columns(all(), &select.from).await?;
    let (mut entries, mut in_use) = (Vec::new(), HashSet::new());
    for arg in args {
        let (value, alias) = named(arg);
        let exprs = together(value);
        let written = exprs.len() == 1 && columns_of::has_star(&exprs[0]);
        let rows: Vec<Vec<Expr>> = match written {
            true => {
                columns_of::each(&exprs[0], &select.from, answers).await?.into_iter().map(|expr| vec![expr]).collect()
            }
            false => vec![exprs],
        };
        for values in rows {
            let mut columns_used: Vec<String> = Vec::new();
            for value in &values {
                let of_value = used(std::iter::once(value));
                let mut of_value: Vec<_> =
                    columns.iter().filter(|column| of_value.contains(&column.name.to_lowercase())).collect();
                of_value.dedup_by_key(|column| &column.name);
                columns_used.extend(of_value.into_iter().map(|column| column.spelling.clone()));
            }
            in_use.extend(columns_used.iter().map(|name| name.to_lowercase()));
            let name = match &alias {
                Some(alias) => alias.clone(),
                None if columns_used.is_empty() => shown(&values),
                None => columns_used.join("_"),
            };
            entries.push(Entry { name, values });
        }
    }
    check(&entries, values, &columns)?;
    let others: Vec<&Column> = columns.iter().filter(|column| !in_use.contains(&column.name.to_lowercase())).collect();
    let mut taken: HashSet<String> = others.iter().map(|column| column.name.clone()).collect();
    let reference = columns_of::reference(&columns, false);
    let mut outputs: Vec<SelectItem> =
        others.into_iter().map(|column| SelectItem::UnnamedExpr(reference(column))).collect();
    let rows = |values: Vec<Expr>| call("unnest", vec![call("make_array", values)]);
    let names = entries.iter().map(|entry| text(&entry.name)).collect();
    outputs.push(SelectItem::ExprWithAlias { expr: rows(names), alias: free(name, &mut taken) });
    let mut condition = None;
    for (nth, value) in values.iter().enumerate() {
        let alias = free(value, &mut taken);
        let exprs = entries.iter().map(|entry| entry.values[nth].clone()).collect();
        outputs.push(SelectItem::ExprWithAlias { expr: rows(exprs), alias: alias.clone() });
        let there = Expr::IsNotNull(Box::new(Expr::Identifier(alias)));
        condition = Some(match condition {
            Some(condition) => and(condition, there),
            None => there,
        });
    }
    select.projection = outputs;
    if !with_nulls {
        let mut outer = asked::query("SELECT * FROM (SELECT 0)")?;
        if let SetExpr::Select(outer) = &mut *outer.body
            && let TableFactor::Derived { subquery, .. } = &mut outer.from[0].relation
        {
            *subquery.body = SetExpr::Select(Box::new(select.clone()));
            outer.selection = condition;
            *select = Select { select_token: AttachedToken::empty(), ..Select::clone(outer) };
        }
    }
    Ok(())
}

/// # Errors
/// [`Error::Plan`] where values do not fit to names, or to each other.
fn check(entries: &[Entry], values: &[String], columns: &[Column]) -> Result<()> {
    if entries.is_empty() {
        return Err(Error::Plan("UNPIVOT has no column to make rows of".to_owned()));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.values.len() != values.len()) {
        return Err(Error::Plan(format!(
            "UNPIVOT has {} for the {} of VALUE; write as many in brackets",
            shown(&entry.values),
            values.join(", ")
        )));
    }
    let type_of = |expr: &Expr| match expr {
        Expr::Identifier(name) => columns.iter().find(|column| column.name.eq_ignore_ascii_case(&name.value)),
        _ => None,
    };
    let is_text =
        |column: &Column| matches!(column.data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    for nth in 0..values.len() {
        let known: Vec<&Column> = entries
            .iter()
            .filter_map(|entry| type_of(&entry.values[nth]))
            .filter(|column| column.data_type != DataType::Null)
            .collect();
        let (texts, others): (Vec<&Column>, Vec<&Column>) = known.into_iter().partition(|column| is_text(column));
        if let (Some(text), Some(other)) = (texts.first(), others.first()) {
            return Err(Error::Plan(format!(
                "UNPIVOT makes one column of '{}', which is a text, and '{}', which is none; cast one: {}::VARCHAR",
                text.name, other.name, other.name
            )));
        }
    }
    Ok(())
}
