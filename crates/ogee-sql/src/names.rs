//! Names for columns that are selected twice: `SELECT a, a` has columns `a` and `a_1`.
//!
//! DataFusion refuses to plan two outputs of one name. Aliases given in the text of the statement, before it is planned, make them two.
//! What has one name although its text is not the same (`count(*), COUNT(*)`, `*, a`, `a AS x, b AS x`, or `sum(a), sum(CAST(a AS DOUBLE))`, since names leave
//! casts out, and `sum((a + b) * c), sum(a + b * c)`, since they leave parentheses out) shows only when it is refused: then every output gets a name, every cast, every
//! parenthesis and every query counts in names (`casts`), and it is planned again.
//!
//! Not here: columns of one name from different tables, which DataFusion tells apart.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::{
    common::SchemaError,
    error::DataFusionError,
    sql::{
        parser::{CopyToSource, Statement as Parsed},
        sqlparser::ast::{
            CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
            GroupByExpr, Ident, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
            Value, Visitor, VisitorMut,
        },
    },
};

use ogee_files::spelling::folded;

use crate::{casts::NAMED_CAST, columns_of, syntax, visitors};

/// Gives aliases to the outputs of `statement` that would have the same name.
pub fn name_apart(statement: &mut Parsed) {
    match statement {
        Parsed::Statement(statement) => in_statement(statement),
        Parsed::Explain(explain) => name_apart(&mut explain.statement),
        Parsed::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_query(query);
            }
        }
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => {}
    }
}

fn in_statement(statement: &mut Statement) {
    match statement {
        Statement::Query(query) => in_query(query),
        Statement::Insert(insert) => insert.source.iter_mut().for_each(|query| in_query(query)),
        Statement::CreateTable(create) => create.query.iter_mut().for_each(|query| in_query(query)),
        Statement::CreateView(create) => in_query(&mut create.query),
        Statement::Explain { statement, .. } => in_statement(statement),
        Statement::Prepare { statement, .. } => in_statement(statement),
        _ => {}
    }
}

fn in_query(query: &mut Query) {
    if let Some(with) = &mut query.with {
        with.cte_tables.iter_mut().for_each(|cte| in_query(&mut cte.query));
    }
    order_by_aliases(query);
    in_set(&mut query.body);
    name_positions(query);
    keep_order(query);
}

/// Of outputs of one name `ORDER BY` means the last that was given it, as in DuckDB.
fn order_by_aliases(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let SetExpr::Select(select) = &*query.body else { return };
    for by in order {
        let Expr::Identifier(name) = &by.expr else { continue };
        let name = normal_name(name);
        let mut named = 0;
        let mut last = None;
        for (at, item) in select.projection.iter().enumerate() {
            match item {
                SelectItem::ExprWithAlias { alias, .. } if normal_name(alias) == name => {
                    named += 1;
                    last = Some(at + 1);
                }
                SelectItem::UnnamedExpr(expr) if is_column(expr) && base_name(expr) == name => named += 1,
                // What is behind a star has no known position.
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => return,
                _ => {}
            }
        }
        if let (Some(last), 2..) = (last, named) {
            by.expr = Expr::value(Value::Number(last.to_string(), false));
        }
    }
}

/// Names the outputs without a name that `ORDER BY` means by their positions: of those the planner loses track above groups.
fn name_positions(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else { return };
    let SetExpr::Select(select) = &mut *query.body else { return };
    for by in order {
        let Expr::Value(value) = &by.expr else { continue };
        let Value::Number(position, _) = &value.value else { continue };
        let item = position.parse::<usize>().ok().and_then(|at| select.projection.get_mut(at.checked_sub(1)?));
        let Some(item) = item else { continue };
        if let SelectItem::UnnamedExpr(expr) = item
            && !is_column(expr)
            && !matches!(expr, Expr::Value(_))
            && !columns_of::has_star(expr)
        {
            let alias = base_name(expr);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
        }
    }
}

/// `SELECT CAST(a AS VARCHAR) ... ORDER BY a` is in the order of the column: the cast, of the same name to DataFusion, gets a name of its own.
fn keep_order(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else { return };
    let SetExpr::Select(select) = &mut *query.body else { return };
    if select.distinct.is_some() {
        return;
    }
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(cast @ Expr::Cast { expr, .. }) = &*item else { continue };
        if order.iter().any(|by| by.expr == **expr) && is_column(expr) {
            let alias = Ident::with_quote('"', cast.to_string());
            *item = SelectItem::ExprWithAlias { expr: cast.clone(), alias };
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn in_set(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => in_select(select),
        SetExpr::Query(query) => in_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            in_set(left);
            in_set(right);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    for table in &mut select.from {
        in_table(&mut table.relation);
        table.joins.iter_mut().for_each(|join| in_table(&mut join.relation));
    }
    let mut names: HashSet<String> = select.projection.iter().map(output_name).collect();
    if names.len() == select.projection.len() {
        return;
    }
    let mut seen = HashSet::new();
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = expr.to_string();
        // What stands for columns has their names.
        if seen.insert(name) || columns_of::has_star(expr) {
            continue;
        }
        let base = base_name(expr);
        let alias = (1..).map(|n| format!("{base}_{n}")).find(|alias| !names.contains(alias));
        let alias = alias.expect("a name among infinitely many");
        names.insert(alias.clone());
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
    }
}

fn in_table(table: &mut TableFactor) {
    match table {
        TableFactor::Derived { subquery, .. } => in_query(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            in_table(&mut table_with_joins.relation);
            table_with_joins.joins.iter_mut().for_each(|join| in_table(&mut join.relation));
        }
        _ => {}
    }
}

/// What tells an output from others.
fn output_name(item: &SelectItem) -> String {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => normal_name(alias),
        other => folded(&other.to_string()).into_owned(),
    }
}

/// What an output without a name is called by.
pub(crate) fn base_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => normal_name(name),
        Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, normal_name),
        other => folded(&other.to_string()).into_owned(),
    }
}

/// Whether a statement was refused since two things in it have one name.
pub(crate) fn is_clash(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        _ => false,
    }
}

/// Whether two things in a query of `statement` have one name to DataFusion only since casts do not count in it: keys (`GROUP BY a, CAST(a AS TEXT)`), calls, or an
/// output that is named like the column of a key (`SELECT CAST(a AS INT) AS n, max(b) AS a .. GROUP BY 1 ORDER BY a` was in the order of `n`).
pub(crate) fn hides_casts(statement: &mut Parsed) -> bool {
    struct Hidden;

    impl VisitorMut for Hidden {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if hides_casts_in(select) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    syntax::visit(statement, &mut Hidden).is_break()
}

fn hides_casts_in(select: &Select) -> bool {
    let mut casts = Casts::default();
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => {
            casts.in_keys = true;
            casts.gather(keys);
            casts.in_keys = false;
            !keys.is_empty()
        }
    };
    let outputs = || {
        select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((expr, Some(alias))),
            SelectItem::UnnamedExpr(expr) => Some((expr, None)),
            _ => None,
        })
    };
    let others = outputs().map(|(expr, _)| expr).chain(&select.having).chain(&select.qualify);
    casts.gather(others);
    if casts.of_columns.is_empty() && casts.others == 0 {
        return false;
    }
    let is_output = |name: &String, cast: &Expr| {
        outputs().any(|(expr, alias)| alias.is_some_and(|alias| normal_name(alias) == *name) && expr != cast)
    };
    if is_grouped && casts.of_columns.iter().any(|(name, cast)| is_output(name, cast)) {
        return true;
    }
    let mut named: HashMap<String, String> = HashMap::new();
    casts.named.into_iter().any(|expr| {
        let text = expr.to_string();
        let mut bare = expr;
        let visited = visitors::visit_mut(&mut bare, &mut WithoutCasts);
        debug_assert!(visited.is_continue(), "the visitor never stops");
        *named.entry(bare.to_string()).or_insert_with(|| text.clone()) != text
    })
}

/// The casts among expressions, and what DataFusion names.
#[derive(Default)]
struct Casts {
    /// Those of columns, by the columns' names.
    of_columns: Vec<(String, Expr)>,
    /// How many others there are.
    others: usize,
    /// Casts of columns, calls, and columns in keys.
    named: Vec<Expr>,
    in_keys: bool,
    depth: usize,
}

impl Casts {
    fn gather<'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr>) {
        for expr in exprs {
            let visited = visitors::visit(expr, self);
            debug_assert!(visited.is_continue(), "the visitor never stops");
        }
    }
}

impl Visitor for Casts {
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
        // Queries within are looked at for themselves.
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Cast { expr: of, .. } if is_column(of) => {
                self.of_columns.push((base_name(of), expr.clone()));
                self.named.push(expr.clone());
            }
            Expr::Cast { .. } => self.others += 1,
            Expr::Function(_) => self.named.push(expr.clone()),
            column if self.in_keys && is_column(column) => self.named.push(column.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: of, .. } = expr {
            *expr = std::mem::replace(of, Expr::value(Value::Null));
        }
        ControlFlow::Continue(())
    }
}

/// Gives every output of `statement` a name of its own, and what names leave out functions that count in them.
pub(crate) fn name_all(statement: &mut Parsed) {
    let visited = match statement {
        Parsed::Statement(statement) => visitors::visit_mut(statement, &mut Names),
        Parsed::Explain(explain) => return name_all(&mut explain.statement),
        Parsed::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visitors::visit_mut(query, &mut Names),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    };
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let any_column = select.projection.iter().any(all);
        let mut names: HashSet<String> = HashSet::new();
        for item in &mut select.projection {
            let (expr, base, free) = match item {
                SelectItem::UnnamedExpr(expr) => {
                    let (base, free) = (base_name(expr), is_column(expr) && !any_column);
                    (expr.clone(), base, free)
                }
                SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), normal_name(alias), true),
                _ => continue,
            };
            let first = names.insert(base.clone());
            if first && free {
                continue;
            }
            let mut alias = base.clone();
            // A column may be among those that a star stands for.
            if !first || is_column(&expr) {
                let mut numbered = (1..).map(|n| format!("{base}_{n}"));
                alias = numbered.find(|alias| !names.contains(alias)).expect("a name among infinitely many");
                names.insert(alias.clone());
            }
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) };
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Cast { kind, data_type, .. } => {
                let tried = if matches!(kind, CastKind::TryCast | CastKind::SafeCast) { "TRY " } else { "" };
                format!("{tried}{}", data_type.to_string().to_uppercase())
            }
            Expr::AtTimeZone { .. } => "AT TIME ZONE".to_owned(),
            Expr::Nested(inner) if has_parts(inner) => "()".to_owned(),
            // Of a query there is the name of its column, at most.
            Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => expr.to_string(),
            // What is compared with all rows of a query is compared with the query itself.
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                bare(right);
                expr.to_string()
            }
            _ => return ControlFlow::Continue(()),
        };
        let name = Expr::value(Value::SingleQuotedString(name));
        let named = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = call(NAMED_CAST, vec![name, named]);
        ControlFlow::Continue(())
    }
}

/// Whether `expr` is made of others by words or signs between them, so that parentheses around it count.
fn has_parts(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp { .. }
            | Expr::UnaryOp { .. }
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::IsDistinctFrom(..)
            | Expr::IsFalse(_)
            | Expr::IsNotDistinctFrom(..)
            | Expr::IsNotFalse(_)
            | Expr::IsNotNull(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::SimilarTo { .. }
    )
}

/// Takes the function that [`Names`] put around `expr` away.
fn bare(expr: &mut Expr) {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return };
    if name.to_string() == NAMED_CAST
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))) = list.args.pop()
    {
        *expr = inner;
    }
}

/// `name(*)`.
pub(crate) fn call_star(name: &str) -> Expr {
    call_of(name, vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
}

/// `name(args)`.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    call_of(name, args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect())
}

fn call_of(name: &str, args: Vec<FunctionArg>) -> Expr {
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The name as DataFusion has it.
pub(crate) fn normal_name(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::statement::parse;

    #[test]
    fn repeated_outputs_get_names_of_their_own() {
        for (sql, named) in [
            ("SELECT a, b FROM t", "SELECT a, b FROM t"),
            ("SELECT a, t.a, a AS c, a FROM t", "SELECT a, t.a, a AS c, a AS \"a_1\" FROM t"),
            ("SELECT NULL, NULL, NULL_1 FROM t", "SELECT NULL, NULL AS \"null_2\", NULL_1 FROM t"),
            ("SELECT * FROM (SELECT 1, 1) WHERE true", "SELECT * FROM (SELECT 1 AS \"1\", 1 AS \"1_1\") WHERE true"),
            ("INSERT INTO t SELECT 1, 1", "INSERT INTO t SELECT 1, 1 AS \"1_1\""),
            ("EXPLAIN SELECT 1, 1", "EXPLAIN SELECT 1, 1 AS \"1_1\""),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            name_apart(&mut statement);
            assert_eq!(statement.to_string(), named, "{sql}");
        }
    }

    #[test]
    fn outputs_that_clash_have_names_and_casts_count() {
        for (sql, named) in [
            ("SELECT count(*), COUNT(*) FROM t", "SELECT count(*) AS \"count(*)\", COUNT(*) AS \"count(*)_1\" FROM t"),
            ("SELECT a AS x, B, b, a AS X FROM t", "SELECT a AS x, B, b AS \"b_1\", a AS \"x_1\" FROM t"),
            ("SELECT *, a, a AS b FROM t", "SELECT *, a AS \"a_1\", a AS b FROM t"),
            (
                "SELECT a, a::INT AS a FROM t GROUP BY ALL",
                "SELECT a, ogee_cast('INT', a::INT) AS \"a_1\" FROM t GROUP BY ALL",
            ),
            (
                "SELECT sum(TRY_CAST(a AS double)) FROM (SELECT 1, 1) ORDER BY CAST(a AS TEXT)",
                "SELECT sum(ogee_cast('TRY DOUBLE', TRY_CAST(a AS DOUBLE))) AS \"sum(try_cast(a as double))\" \
                 FROM (SELECT 1 AS \"1\", 1 AS \"1_1\") ORDER BY ogee_cast('TEXT', CAST(a AS TEXT))",
            ),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            name_all(&mut statement);
            assert_eq!(statement.to_string(), named, "{sql}");
        }
    }

    #[test]
    fn casts_are_hidden_where_two_things_share_a_name() {
        for (sql, hidden) in [
            ("SELECT CAST(a AS INT) AS d, max(b) AS a FROM t GROUP BY 1 ORDER BY a", true),
            ("SELECT CAST(a AS INT) AS a, max(b) AS c FROM t GROUP BY 1 ORDER BY a", false),
            ("SELECT CAST(a AS INT) AS d, b AS a FROM t ORDER BY a", false),
            ("SELECT count(*) FROM t GROUP BY ROLLUP (a, CAST(a AS TEXT))", true),
            ("SELECT max(a), max(CAST(a AS INT)) FROM t", true),
            ("SELECT max(a), max(CAST(b AS INT)) FROM t", false),
            ("SELECT a FROM t GROUP BY a HAVING max(b) > max(b::INT)", true),
            ("SELECT max(a), (SELECT max(a::INT) FROM t) FROM t", false),
            ("SELECT 1 FROM (SELECT a AS b, a::INT, max(c::INT), max(c) FROM t GROUP BY ALL) WHERE true", true),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            assert_eq!(hides_casts(&mut statement), hidden, "{sql}");
        }
    }

    #[test]
    fn a_cast_does_not_hide_what_rows_are_ordered_by() {
        for (sql, named) in [
            (
                "SELECT CAST(a AS TEXT) FROM t ORDER BY a",
                "SELECT CAST(a AS TEXT) AS \"CAST(a AS TEXT)\" FROM t ORDER BY a",
            ),
            ("SELECT CAST(a AS TEXT) FROM t ORDER BY b", "SELECT CAST(a AS TEXT) FROM t ORDER BY b"),
            ("SELECT CAST(a AS TEXT) AS a FROM t ORDER BY a", "SELECT CAST(a AS TEXT) AS a FROM t ORDER BY a"),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap().0;
            name_apart(&mut statement);
            assert_eq!(statement.to_string(), named, "{sql}");
        }
    }
}
