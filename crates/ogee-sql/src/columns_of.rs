//! `COLUMNS(..)`: an expression for each of some columns, written out.
//!
//! `SELECT min(COLUMNS('x.*'))` is `SELECT min(x1) AS x1, min(x2) AS x2`, of a condition all of them together. Columns are those of `FROM`, in its order; of these an expression on their names, a
//! pattern or a list leaves some. `f(*COLUMNS(..))` has all of them as arguments.
//!
//! Not here: the text (`syntax::columns`), and stars that are outputs by themselves (`stars`).

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator,
    FunctionArguments, GroupByExpr, Ident, OrderByKind, Query, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins, Value, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use ogee_functions::{Error, Result};

use crate::{
    asked::{self, Answers, Column},
    names::{call, normal_name},
    pivots::{free, to_text},
    syntax::{
        self,
        columns::{COLUMNS, NAME, UNPACK},
    },
    visitors,
};

/// Whether `function` stands for columns, or for several arguments.
pub(crate) fn is_star(function: &Function) -> bool {
    is_columns(function) || function.name.to_string() == UNPACK
}

fn is_columns(function: &Function) -> bool {
    let [name] = &function.name.0[..] else { return false };
    name.as_ident().is_some_and(|name| {
        name.value == COLUMNS || name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns")
    })
}

/// Whether `expr` has a star.
pub(crate) fn has_star(expr: &Expr) -> bool {
    syntax::has_call(expr, is_star)
}

/// Whether `item`, an output of `select`, is a star whose columns have other names, or one of several tables that leaves columns out: the planner would take a name that two of them have for
/// one of a column. Those of structs are written out by themselves.
pub(crate) fn is_written_out(select: &Select, item: &SelectItem) -> bool {
    let is_of_several = || select.from.len() > 1 || select.from.iter().any(|table| !table.joins.is_empty());
    let is_here = match item {
        SelectItem::Wildcard(options) => {
            options.opt_rename.is_some() || options.opt_exclude.is_some() && is_of_several()
        }
        SelectItem::QualifiedWildcard(_, options) => options.opt_rename.is_some(),
        _ => false,
    };
    is_here && syntax::unnested(select, item).is_none()
}

/// What is selected by itself; `None` for stars.
pub(crate) fn output(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether `select` has a star in an expression of its own.
pub(crate) fn is_in(select: &Select) -> bool {
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => &keys[..],
        GroupByExpr::All(_) => &[],
    };
    let others = [&select.selection, &select.having, &select.qualify].into_iter().flatten();
    let has_star_of_its_own =
        !select.from.is_empty() && select.projection.iter().any(|item| is_written_out(select, item));
    let distinct = match &select.distinct {
        Some(Distinct::On(keys)) => &keys[..],
        _ => &[],
    };
    has_star_of_its_own
        || select.projection.iter().filter_map(output).chain(others).chain(keys).chain(distinct).any(has_star)
}

/// Whether the order of `query` has a star.
pub(crate) fn in_order(query: &Query) -> bool {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else { return false };
    order.iter().any(|by| has_star(&by.expr))
}

/// How `column`, one of `columns`, is written: with its table where there are others of its name, or `always`.
pub(crate) fn reference(columns: &[Column], always: bool) -> impl Fn(&Column) -> Expr {
    let mut names: HashMap<String, usize> = HashMap::new();
    for column in columns {
        *names.entry(column.name.clone()).or_default() += 1;
    }
    move |column| {
        let name = Ident::with_quote('"', column.name.clone());
        match &column.table {
            Some(table) if always || names.get(&column.name).is_some_and(|&count| count > 1) => {
                let parts = [table.catalog(), table.schema(), Some(table.table())].into_iter().flatten();
                let parts = parts.map(|part| Ident::with_quote('"', part));
                Expr::CompoundIdentifier(parts.chain([name]).collect())
            }
            _ => Expr::Identifier(name),
        }
    }
}

/// A column that a star stands for.
struct Meant {
    expr: Expr,
    name: String,
    /// What the groups of the pattern have found in its name, if there is a pattern.
    groups: Vec<String>,
}

/// The columns that `star`, a call, stands for in a query of `from`.
async fn meant(star: &Function, from: &[TableWithJoins], answers: &Answers<'_>) -> Result<Vec<Meant>> {
    if from.is_empty() {
        return Err(Error::Plan(
            "COLUMNS(..) stands for columns of what is selected from, and there is no FROM".to_owned(),
        ));
    }
    let FunctionArguments::List(list) = &star.args else { return Err(unknown(star)) };
    let (mut of, mut wanted) = (None, None);
    for arg in &list.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Exists { subquery, .. })) => of = Some(subquery),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if wanted.is_none() => wanted = Some(expr),
            _ => return Err(unknown(star)),
        }
    }
    let (item, options) = match of.map(|query| &*query.body) {
        Some(SetExpr::Select(select)) => match &select.projection[..] {
            [SelectItem::Wildcard(options)] => (None, options.clone()),
            [SelectItem::QualifiedWildcard(name, options)] => (Some(name.clone()), options.clone()),
            _ => return Err(unknown(star)),
        },
        _ => (None, WildcardAdditionalOptions::default()),
    };
    let plain = WildcardAdditionalOptions { opt_replace: None, opt_rename: None, opt_exclude: None, ..options.clone() };
    let is_of_table = item.is_some();
    let columns = answers.columns(vec![wildcard(item, plain)], from).await?;
    let mut meant = with_options(columns, &options, is_of_table)?;
    match wanted {
        None => {}
        Some(Expr::Value(value)) if matches!(value.value, Value::SingleQuotedString(_)) => {
            meant = of_pattern(meant, wanted, answers).await?;
        }
        Some(Expr::Lambda(lambda)) if lambda.params.len() == 1 => {
            let Some(parameter) = lambda.params.first() else { return Err(unknown(star)) };
            meant = where_true(meant, &parameter.name, &lambda.body, answers).await?;
        }
        Some(Expr::Value(value)) if matches!(value.value, Value::Number(..)) => {
            let nth = value.value.to_string().parse::<usize>().ok().and_then(|nth| nth.checked_sub(1));
            let count = meant.len();
            let Some(column) = nth.filter(|&nth| nth < count).map(|nth| meant.swap_remove(nth)) else {
                return Err(Error::Plan(format!("there is no column #{}: of {count}", value.value)));
            };
            meant = vec![column];
        }
        Some(list) => meant = of_list(meant, list, star)?,
    }
    match meant.is_empty() {
        true => Err(Error::Plan(format!("there is no column that {} stands for", shown(star)))),
        false => Ok(meant),
    }
}

fn unknown(star: &Function) -> Error {
    Error::Plan(format!(
        "{} is not understood: COLUMNS takes a star, a pattern, a list of names, or a lambda of a name",
        shown(star)
    ))
}

/// `star` as it was written.
fn shown(star: &Function) -> String {
    let FunctionArguments::List(list) = &star.args else { return star.to_string() };
    let mut args = list.args.iter();
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Exists { subquery, .. }))) = args.next() else {
        return star.to_string();
    };
    let of = subquery.to_string().replacen("SELECT ", "", 1);
    match args.next() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda)))) => {
            format!("{of} {}", lambda.body.to_string().replace(&format!("{NAME} "), ""))
        }
        _ => format!("COLUMNS({of})"),
    }
}

fn wildcard(table: Option<SelectItemQualifiedWildcardKind>, options: WildcardAdditionalOptions) -> SelectItem {
    match table {
        Some(table) => SelectItem::QualifiedWildcard(table, options),
        None => SelectItem::Wildcard(options),
    }
}

/// The columns, without those that are excluded, as what they are replaced by, and as they are called.
fn with_options(columns: Vec<Column>, options: &WildcardAdditionalOptions, is_of_table: bool) -> Result<Vec<Meant>> {
    let lower = |name: &Ident| normal_name(name).to_lowercase();
    let excluded: HashSet<(Option<String>, String)> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => HashSet::from([parts(name)]),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(parts).collect(),
        None => HashSet::new(),
    };
    let replaced: HashMap<String, &Expr> = options
        .opt_replace
        .iter()
        .flat_map(|replace| &replace.items)
        .map(|item| (lower(&item.column_name), &item.expr))
        .collect();
    let renamed: HashMap<String, &Ident> = match &options.opt_rename {
        Some(RenameSelectItem::Single(rename)) => HashMap::from([(lower(&rename.ident), &rename.alias)]),
        Some(RenameSelectItem::Multiple(renames)) => {
            renames.iter().map(|rename| (lower(&rename.ident), &rename.alias)).collect()
        }
        None => HashMap::new(),
    };
    let known: HashSet<String> = columns.iter().map(|column| column.name.to_lowercase()).collect();
    let named = excluded.iter().map(|(_, name)| name).chain(replaced.keys());
    if let Some(name) = named.into_iter().find(|name| !known.contains(*name)) {
        return Err(Error::Plan(format!("there is no column '{name}' to EXCLUDE or REPLACE")));
    }
    let is_excluded = |column: &&Column| {
        let name = column.name.to_lowercase();
        let table = column.table.as_ref().map(|table| table.table().to_lowercase());
        excluded.contains(&(None, name.clone())) || excluded.contains(&(table, name))
    };
    let reference = reference(&columns, is_of_table);
    let meant = columns.iter().filter(|column| !is_excluded(column)).map(|column| {
        let name = column.name.to_lowercase();
        Meant {
            expr: replaced.get(&name).map_or_else(|| reference(column), |expr| Expr::Nested(Box::new((*expr).clone()))),
            name: renamed.get(&name).map_or_else(|| column.spelling.clone(), |alias| normal_name(alias)),
            groups: Vec::new(),
        }
    });
    Ok(meant.collect())
}

/// The table, if it is written, and the column.
fn parts(name: &datafusion::sql::sqlparser::ast::ObjectName) -> (Option<String>, String) {
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(|part| part.value.to_lowercase());
    let column = parts.next().unwrap_or_default();
    (parts.next(), column)
}

/// `SELECT .. FROM unnest([names]) AS ogee(name) WHERE ..`
fn of_names(meant: &[Meant], name: &Ident, outputs: Vec<Expr>, condition: Expr) -> Result<Box<Query>> {
    let mut query = asked::query("SELECT 0 FROM (SELECT 0) AS ogee(name) WHERE true")?;
    let SetExpr::Select(select) = &mut *query.body else { return Ok(query) };
    select.projection = outputs.into_iter().map(SelectItem::UnnamedExpr).collect();
    select.selection = Some(condition);
    if let datafusion::sql::sqlparser::ast::TableFactor::Derived { subquery, alias: Some(alias), .. } =
        &mut select.from[0].relation
        && let SetExpr::Select(names) = &mut *subquery.body
    {
        let texts = meant.iter().map(|column| text(&column.name)).collect();
        names.projection = vec![SelectItem::UnnamedExpr(call("unnest", vec![call("make_array", texts)]))];
        alias.columns[0].name = name.clone();
    }
    Ok(query)
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// The columns whose name has the pattern in it.
async fn of_pattern(meant: Vec<Meant>, pattern: Option<&Expr>, answers: &Answers<'_>) -> Result<Vec<Meant>> {
    let Some(pattern) = pattern else { return Ok(meant) };
    let name = Ident::new("name");
    let with_pattern = |function: &str, rest: Vec<Expr>| {
        call(function, [Expr::Identifier(name.clone()), pattern.clone()].into_iter().chain(rest).collect())
    };
    let group = |nth: usize| with_pattern("regexp_extract", vec![Expr::value(Value::Number(nth.to_string(), false))]);
    let groups = pattern.to_string().matches('(').count().min(9);
    let mut outputs = vec![Expr::Identifier(name.clone())];
    outputs.extend((0..=groups).map(group));
    let query = of_names(&meant, &name, outputs, with_pattern("regexp_matches", Vec::new()))?;
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for row in answers.rows(query).await? {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        if let Some(name) = row.next() {
            found.insert(name, row.collect());
        }
    }
    let with_groups = |column: Meant| found.get(&column.name).map(|groups| Meant { groups: groups.clone(), ..column });
    Ok(meant.into_iter().filter_map(with_groups).collect())
}

/// The columns of whose name `condition` is true.
async fn where_true(meant: Vec<Meant>, name: &Ident, condition: &Expr, answers: &Answers<'_>) -> Result<Vec<Meant>> {
    let outputs = vec![to_text(Expr::Identifier(name.clone()))];
    let query = of_names(&meant, name, outputs, condition.clone())?;
    let found: HashSet<String> = answers.rows(query).await?.into_iter().flatten().flatten().collect();
    Ok(meant.into_iter().filter(|column| found.contains(&column.name)).collect())
}

/// The columns that `list` names, in their own order.
fn of_list(meant: Vec<Meant>, list: &Expr, star: &Function) -> Result<Vec<Meant>> {
    let elements: Vec<&Expr> = match list {
        Expr::Array(array) => array.elem.iter().collect(),
        Expr::Function(function) if function.name.to_string() == "make_array" => match &function.args {
            FunctionArguments::List(list) => list
                .args
                .iter()
                .filter_map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        },
        _ => return Err(unknown(star)),
    };
    let mut wanted = HashSet::new();
    for element in elements {
        let Expr::Value(value) = element else { return Err(unknown(star)) };
        let Value::SingleQuotedString(name) = &value.value else { return Err(unknown(star)) };
        if !meant.iter().any(|column| column.name.eq_ignore_ascii_case(name)) {
            return Err(Error::Plan(format!("there is no column '{name}' that COLUMNS(..) names")));
        }
        wanted.insert(name.to_ascii_lowercase());
    }
    Ok(meant.into_iter().filter(|column| wanted.contains(&column.name.to_ascii_lowercase())).collect())
}

/// The one star of `expr`, and whether it is unpacked.
fn star_of(expr: &Expr) -> Result<Option<(Function, bool)>> {
    struct Found {
        depth: usize,
        unpacked: usize,
        first: Option<(Function, bool)>,
        mixed: bool,
    }

    impl Visitor for Found {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            self.unpacked += usize::from(function.name.to_string() == UNPACK);
            if self.depth == 0 && is_columns(function) {
                let found = (function.clone(), self.unpacked > 0);
                self.mixed |= self.first.as_ref().is_some_and(|first| *first != found);
                self.first.get_or_insert(found);
            }
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr {
                self.unpacked -= usize::from(function.name.to_string() == UNPACK);
            }
            ControlFlow::Continue(())
        }
    }

    let mut found = Found { depth: 0, unpacked: 0, first: None, mixed: false };
    // It never stops.
    let _ = visitors::visit(expr, &mut found);
    if found.mixed {
        let message =
            "several COLUMNS(..) that are not the same in one expression are not supported; write the columns";
        return Err(Error::Plan(message.to_owned()));
    }
    Ok(found.first)
}

/// `expr`, with `column` in the place of its star.
fn with_column(expr: &Expr, column: &Expr) -> Expr {
    let mut written = expr.clone();
    syntax::for_each_outside_queries(&mut written, |expr| {
        if let Expr::Function(function) = expr
            && is_columns(function)
        {
            *expr = column.clone();
        }
    });
    written
}

/// `expr`, with all of `meant` in the place of its star, which is unpacked.
fn unpacked(expr: &Expr, meant: &[Meant]) -> Result<Expr> {
    struct Unpacking<'a> {
        meant: &'a [Meant],
        depth: usize,
    }

    impl Unpacking<'_> {
        fn is_unpack(expr: &Expr) -> bool {
            matches!(expr, Expr::Function(function) if function.name.to_string() == UNPACK)
        }

        fn in_list(&self, list: &mut Vec<Expr>) {
            let columns = || self.meant.iter().map(|column| column.expr.clone());
            *list = std::mem::take(list)
                .into_iter()
                .flat_map(|expr| if Self::is_unpack(&expr) { columns().collect() } else { vec![expr] })
                .collect();
        }

        fn in_arguments(&self, function: &mut Function) {
            let is_struct = function.name.to_string().eq_ignore_ascii_case("struct_pack");
            let FunctionArguments::List(list) = &mut function.args else { return };
            let arg = |column: &Meant| {
                let arg = FunctionArgExpr::Expr(column.expr.clone());
                match is_struct {
                    true => FunctionArg::Named {
                        name: Ident::with_quote('"', column.name.clone()),
                        arg,
                        operator: FunctionArgOperator::Assignment,
                    },
                    false => FunctionArg::Unnamed(arg),
                }
            };
            list.args = std::mem::take(&mut list.args)
                .into_iter()
                .flat_map(|given| match &given {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if Self::is_unpack(expr) => {
                        self.meant.iter().map(arg).collect()
                    }
                    _ => vec![given],
                })
                .collect();
        }
    }

    impl VisitorMut for Unpacking<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.depth == 0 {
                match expr {
                    Expr::Function(function) => self.in_arguments(function),
                    Expr::InList { list, .. } | Expr::Tuple(list) => self.in_list(list),
                    Expr::Array(array) => self.in_list(&mut array.elem),
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        }
    }

    let mut written = expr.clone();
    // It never stops.
    let _ = visitors::visit_mut(&mut written, &mut Unpacking { meant, depth: 0 });
    if has_star(&written) {
        let message = "*COLUMNS(..) stands among the arguments of a function, or in a list, and nowhere else";
        return Err(Error::Plan(message.to_owned()));
    }
    syntax::translate_part(&mut written);
    Ok(written)
}

/// The expressions that `expr` stands for, and their names.
async fn expressions(
    expr: &Expr,
    from: &[TableWithJoins],
    answers: &Answers<'_>,
) -> Result<Vec<(Expr, Option<Meant>)>> {
    let Some((star, is_unpacked)) = star_of(expr)? else { return Ok(vec![(expr.clone(), None)]) };
    let meant = meant(&star, from, answers).await?;
    if is_unpacked {
        return Ok(vec![(unpacked(expr, &meant)?, None)]);
    }
    Ok(meant.into_iter().map(|column| (with_column(expr, &column.expr), Some(column))).collect())
}

/// The expressions that `expr` stands for.
///
/// # Errors
/// Those of planning what is selected from; stars that stand for nothing.
pub(crate) async fn each(expr: &Expr, from: &[TableWithJoins], answers: &Answers<'_>) -> Result<Vec<Expr>> {
    Ok(expressions(expr, from, answers).await?.into_iter().map(|(expr, _)| expr).collect())
}

/// Writes out the stars of `select`.
///
/// # Errors
/// Those of planning what is selected from; stars that stand for nothing, or where they have no meaning.
pub(crate) async fn in_select(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    in_filters(select, answers).await?;
    if let Some(Distinct::On(keys)) = &mut select.distinct
        && keys.iter().any(has_star)
    {
        let mut written = Vec::with_capacity(keys.len());
        for key in std::mem::take(keys) {
            written.extend(each(&key, &select.from, answers).await?);
        }
        *keys = written;
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by
        && keys.iter().any(has_star)
    {
        let mut written = Vec::with_capacity(keys.len());
        for key in std::mem::take(keys) {
            written.extend(each(&key, &select.from, answers).await?);
        }
        *keys = written;
    }
    let is_without_outputs = select.projection.is_empty();
    let mut outputs = Vec::with_capacity(select.projection.len());
    let mut taken: HashSet<String> = HashSet::new();
    for item in std::mem::take(&mut select.projection) {
        if is_written_out(select, &item) {
            outputs.extend(renamed(item, &select.from, answers).await?);
            continue;
        }
        let Some(expr) = output(&item).filter(|expr| has_star(expr)) else {
            taken.extend(output(&item).map(|expr| match &item {
                SelectItem::ExprWithAlias { alias, .. } => normal_name(alias),
                _ => crate::names::base_name(expr),
            }));
            outputs.push(item);
            continue;
        };
        let alias = match &item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
            _ => None,
        };
        let is_alone = matches!(expr, Expr::Function(function) if is_columns(function));
        for (expr, column) in expressions(expr, &select.from, answers).await? {
            let name = match (&alias, &column) {
                (Some(alias), Some(column)) => written_name(alias, column),
                (Some(alias), None) => normal_name(alias),
                (None, Some(column)) => column.name.clone(),
                (None, None) => {
                    outputs.push(SelectItem::UnnamedExpr(expr));
                    continue;
                }
            };
            let is_column = matches!(&expr, Expr::Identifier(column) if column.value == name);
            if is_alone && is_column && taken.insert(name.clone()) {
                outputs.push(SelectItem::UnnamedExpr(expr));
                continue;
            }
            outputs.push(SelectItem::ExprWithAlias { expr, alias: free(&name, &mut taken) });
        }
    }
    if outputs.is_empty() && !is_without_outputs {
        return Err(Error::Plan("EXCLUDE leaves no column to select".to_owned()));
    }
    select.projection = outputs;
    for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
        if let Some(each) = condition.take_if(|condition| has_star(condition)) {
            *condition = together(&each, &select.from, answers).await?;
        }
    }
    Ok(())
}

/// The conditions that `condition` stands for, all of which are to hold.
async fn together(condition: &Expr, from: &[TableWithJoins], answers: &Answers<'_>) -> Result<Option<Expr>> {
    let both = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    let each = each(condition, from, answers).await?;
    Ok(all_of(each.into_iter().map(|expr| Expr::Nested(Box::new(expr))).collect(), &both))
}

/// Writes out the stars in the filters of aggregates, which are conditions that all are to hold.
async fn in_filters(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    fn first(select: &mut Select, mut put: Option<Expr>) -> Option<Expr> {
        let mut found = None;
        let mut look = |expr: &mut Expr| {
            if let Expr::Function(Function { filter: Some(filter), .. }) = expr
                && found.is_none()
                && has_star(filter)
            {
                found = Some((**filter).clone());
                if let Some(written) = put.take() {
                    **filter = written;
                }
            }
        };
        syntax::for_each_outside_queries(&mut select.projection, &mut look);
        syntax::for_each_outside_queries(&mut select.having, &mut look);
        syntax::for_each_outside_queries(&mut select.qualify, &mut look);
        found
    }

    while let Some(filter) = first(select, None) {
        let Some(written) = together(&filter, &select.from, answers).await? else { break };
        first(select, Some(written));
    }
    Ok(())
}

/// The columns that `item`, a star, stands for, as it calls them.
async fn renamed(item: SelectItem, from: &[TableWithJoins], answers: &Answers<'_>) -> Result<Vec<SelectItem>> {
    let (table, options) = match item {
        SelectItem::QualifiedWildcard(table, options) => (Some(table), options),
        SelectItem::Wildcard(options) => (None, options),
        item => return Ok(vec![item]),
    };
    let is_of_table = table.is_some();
    let columns = answers.columns(vec![wildcard(table, WildcardAdditionalOptions::default())], from).await?;
    let meant = with_options(columns, &options, is_of_table)?;
    let output = |Meant { expr, name, .. }: Meant| match &expr {
        Expr::Identifier(column) if column.value == name => SelectItem::UnnamedExpr(expr),
        Expr::CompoundIdentifier(names) if names.last().is_some_and(|column| column.value == name) => {
            SelectItem::UnnamedExpr(expr)
        }
        _ => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) },
    };
    Ok(meant.into_iter().map(output).collect())
}

/// All of `conditions` as one that is no deeper than it has to be.
fn all_of(mut conditions: Vec<Expr>, both: &impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => both(left, right),
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

/// `alias`, in which `\1` is what the first group of the pattern has found, and `\0` all of it.
fn written_name(alias: &Ident, column: &Meant) -> String {
    let template = if alias.quote_style.is_some() { alias.value.clone() } else { normal_name(alias) };
    if !template.contains('\\') || column.groups.is_empty() && !template.contains("\\0") {
        return template;
    }
    let mut name = String::new();
    let mut chars = template.chars().peekable();
    while let Some(char) = chars.next() {
        match chars.peek().and_then(|next| next.to_digit(10)).filter(|_| char == '\\') {
            Some(0) if column.groups.is_empty() => name.push_str(&column.name),
            Some(group) => name.push_str(column.groups.get(group as usize).map_or("", String::as_str)),
            None => {
                name.push(char);
                continue;
            }
        }
        chars.next();
    }
    if name.is_empty() { column.name.clone() } else { name }
}

/// Writes out the stars in the order of `query`.
///
/// # Errors
/// Those of planning what is selected from; stars that stand for nothing.
pub(crate) async fn write_out_order(query: &mut Query, answers: &Answers<'_>) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else {
        return Err(Error::Unsupported(
            "COLUMNS(..) in the order of a UNION is not supported; use ORDER BY ALL".to_owned(),
        ));
    };
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    let mut written = Vec::with_capacity(order.len());
    for by in std::mem::take(order) {
        match has_star(&by.expr) {
            true => {
                for expr in each(&by.expr, &select.from, answers).await? {
                    written.push(datafusion::sql::sqlparser::ast::OrderByExpr { expr, ..by.clone() });
                }
            }
            false => written.push(by),
        }
    }
    *order = written;
    Ok(())
}
