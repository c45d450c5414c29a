//! What the parser reads and nobody behind it looks at: refused by name.
//!
//! The parser knows the words of many systems, and the planner takes of its trees what it has a meaning for. The rest it leaves out in silence: rows that a
//! `PREWHERE` should have dropped would come. Here every such part of a tree is looked for, and the error says what to write instead.
//!
//! Not here: what the planner refuses by itself; functions, whose kind is known to the session only (`calls`).

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::sql::{
    parser::{CopyToSource, Statement as Parsed},
    sqlparser::ast::{
        CheckConstraint, ColumnDef, ColumnOption, ConstraintCharacteristics, ContextModifier, CreateIndex, CreateTable,
        CreateView, Cte, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
        GroupByExpr, GroupByWithModifier, IndexColumn, IndexType, Insert, Join, JoinConstraint, JoinOperator,
        LimitClause, NullsDistinctOption, ObjectName, OnInsert, PipeOperator, Query, Select, SelectFlavor, SelectItem,
        Set, SetExpr, SetOperator, SqliteOnConflict, Statement, TableAlias, TableConstraint, TableFactor,
        TransactionMode, UnaryOperator, UniqueConstraint, Value, Visitor, WildcardAdditionalOptions,
    },
};
use ogee_functions::{Error, Result};

use crate::{columns_of, statements, visitors};

/// Says what of `statement` is not supported, if anything is.
///
/// # Errors
/// [`Error::Unsupported`] that names it.
pub(crate) fn check(statement: &Parsed) -> Result<()> {
    let refused = match statement {
        Parsed::Statement(statement) => {
            let mut refusals = Refusals::default();
            if let Statement::Query(query) = &**statement
                && let SetExpr::Select(select) = &*query.body
            {
                refusals.into = Some(std::ptr::from_ref(select.as_ref()));
            }
            visitors::visit(statement, &mut refusals)
        }
        Parsed::Explain(explain) => match &*explain.statement {
            // The planner would show it.
            Parsed::Statement(statement) if is_of_secret(statement) => of_secret(),
            statement => return check(statement),
        },
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => visitors::visit(query, &mut Refusals::default()),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => ControlFlow::Continue(()),
    };
    match refused {
        ControlFlow::Break(message) => Err(Error::Unsupported(message)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn is_of_secret(statement: &Statement) -> bool {
    matches!(statement, Statement::CreateSecret { .. } | Statement::DropSecret { .. })
}

fn of_secret() -> Flow {
    refuse("EXPLAIN or PREPARE of a secret", "write CREATE SECRET by itself")
}

#[derive(Default)]
struct Refusals {
    /// The `SELECT` that is the whole statement, which may be `INTO` a table.
    into: Option<*const Select>,
    /// Queries around the place, of those that are values in expressions.
    subqueries: usize,
    /// Lambdas that a function is given.
    lambdas: HashSet<*const Expr>,
}

/// Queries within the expressions of queries, one in another. DataFusion looks at each twice as often as at the one around it: twenty take it seconds.
const SUBQUERIES_MAX: usize = 18;

/// Whether `expr` has a query of its own.
fn has_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. })
}

type Flow = ControlFlow<String>;

fn refuse(what: &str, instead: &str) -> Flow {
    ControlFlow::Break(format!("{what} is not supported; {instead}"))
}

/// Refuses `what` where it is there.
fn unless(there: bool, what: &str, instead: &str) -> Flow {
    if there { refuse(what, instead) } else { ControlFlow::Continue(()) }
}

impl Visitor for Refusals {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Flow {
        match statement {
            Statement::CreateTable(create) => in_create_table(create),
            Statement::CreateView(create) => in_create_view(create),
            Statement::Insert(insert) => in_insert(insert),
            Statement::Set(set) => in_set(set),
            Statement::CreateSchema { with, options, default_collate_spec, clone, .. } => {
                let any = with.is_some() || options.is_some() || default_collate_spec.is_some() || clone.is_some();
                unless(any, "an option of CREATE SCHEMA", "use CREATE SCHEMA name")
            }
            Statement::StartTransaction { modes, modifier, statements, exception, .. } => {
                let isolates = modes.iter().any(|mode| !matches!(mode, TransactionMode::AccessMode(_)));
                unless(isolates, "an isolation level of a transaction", "use BEGIN")?;
                let any = modifier.is_some() || !statements.is_empty() || exception.is_some();
                unless(any, "such a BEGIN", "use BEGIN, and the statements behind it")
            }
            Statement::Commit { chain, modifier, .. } => {
                unless(*chain || modifier.is_some(), "COMMIT AND CHAIN", "use COMMIT and BEGIN")
            }
            Statement::Rollback { chain, savepoint } => {
                unless(savepoint.is_some(), "ROLLBACK TO SAVEPOINT", "use ROLLBACK, which puts all of it back")?;
                unless(*chain, "ROLLBACK AND CHAIN", "use ROLLBACK and BEGIN")
            }
            Statement::Savepoint { .. } | Statement::ReleaseSavepoint { .. } => {
                refuse("SAVEPOINT", "use BEGIN and COMMIT around what belongs together")
            }
            Statement::CreateSequence { data_type, owned_by, .. } => {
                unless(data_type.is_some(), "AS of a sequence", "leave it out: its values are BIGINT")?;
                unless(owned_by.is_some(), "OWNED BY", "leave it out")
            }
            Statement::CreateDomain(domain) => {
                let collates = domain.collation.as_ref().is_some_and(|said| !statements::is_said(said));
                let any = domain.default.is_some() || collates || !domain.constraints.is_empty();
                unless(any, "a DEFAULT or CHECK of a type", "write it with the column")
            }
            Statement::CreateType { .. } => refuse(
                "CREATE TYPE of an ENUM or of fields",
                "use CREATE TYPE name AS a type that there is, such as STRUCT(..)",
            ),
            Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } if is_of_secret(statement) => {
                of_secret()
            }
            Statement::CreateIndex(index) => in_index(index),
            Statement::Drop { purge, temporary, .. } => {
                unless(*purge, "PURGE", "leave it out: a dropped table is gone")?;
                unless(*temporary, "DROP TEMPORARY", "use DROP TABLE")
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        unless(!query.locks.is_empty(), "FOR UPDATE or FOR SHARE", "leave it out: statements take no locks on rows")?;
        unless(query.for_clause.is_some(), "FOR XML, FOR JSON or FOR BROWSE", "use .mode json in the shell")?;
        unless(query.settings.is_some(), "SETTINGS", "use SET name = value in a statement before this one")?;
        unless(query.format_clause.is_some(), "FORMAT", "use .mode in the shell, or COPY .. TO a file")?;
        if let Some(fetch) = &query.fetch {
            unless(fetch.with_ties, "FETCH .. WITH TIES", "use QUALIFY rank() OVER (ORDER BY ..) <= n")?;
            unless(fetch.percent, "FETCH .. PERCENT", "use QUALIFY with row_number() and count(*) OVER ()")?;
        }
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause {
            let instead = "use QUALIFY row_number() OVER (PARTITION BY ..) <= n";
            unless(!limit_by.is_empty(), "LIMIT .. BY", instead)?;
        }
        if let Some(name) = super::by_name::repeated(query) {
            return ControlFlow::Break(format!(
                "UNION BY NAME of a query with two outputs '{name}' is not supported; name them apart"
            ));
        }
        if let Some(with) = &query.with {
            with.cte_tables.iter().try_for_each(in_cte)?;
            with.cte_tables.iter().filter(|_| with.recursive).try_for_each(in_recursive)?;
        }
        if let Some(order) = &query.order_by {
            unless(order.interpolate.is_some(), "INTERPOLATE", "use a window function")?;
            if let datafusion::sql::sqlparser::ast::OrderByKind::Expressions(by) = &order.kind {
                by.iter().try_for_each(|by| in_order(&by.expr))?;
                let filled = by.iter().any(|by| by.with_fill.is_some());
                unless(filled, "ORDER BY .. WITH FILL", "use a LEFT JOIN of generate_series()")?;
            }
        }
        query.pipe_operators.iter().try_for_each(in_pipe)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let modified = select.select_modifiers.as_ref().is_some_and(|modifiers| modifiers.is_any_set());
        unless(modified, "a modifier such as SQL_CALC_FOUND_ROWS or STRAIGHT_JOIN", "leave it out")?;
        unless(select.top.is_some(), "TOP", "use LIMIT")?;
        let is_empty = select.projection.is_empty() && select.flavor == SelectFlavor::Standard;
        unless(is_empty, "SELECT of nothing", "name what to select, or *")?;
        if let Some(what) = super::windows::refused(select) {
            return ControlFlow::Break(format!("WINDOW clause with {what}"));
        }
        unless(select.exclude.is_some(), "EXCLUDE behind the last column", "use * EXCLUDE (..)")?;
        if let Some(into) = &select.into {
            let whole = self.into.is_some_and(|whole| std::ptr::eq(whole, select));
            let instead = "use CREATE TABLE name AS SELECT ..";
            unless(!whole || into.temporary || into.unlogged, "SELECT .. INTO like this", instead)?;
        }
        unless(!select.lateral_views.is_empty(), "LATERAL VIEW", "use CROSS JOIN LATERAL (SELECT unnest(..))")?;
        unless(select.prewhere.is_some(), "PREWHERE", "use WHERE")?;
        unless(!select.connect_by.is_empty(), "CONNECT BY", "use WITH RECURSIVE")?;
        unless(!select.cluster_by.is_empty(), "CLUSTER BY", "use ORDER BY")?;
        unless(
            !select.distribute_by.is_empty(),
            "DISTRIBUTE BY",
            "leave it out: the engine shares rows out by itself",
        )?;
        unless(!select.sort_by.is_empty(), "SORT BY", "use ORDER BY")?;
        unless(
            select.value_table_mode.is_some(),
            "SELECT AS STRUCT or AS VALUE",
            "use a function that makes a struct",
        )?;
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        modifiers.iter().try_for_each(|modifier| match modifier {
            GroupByWithModifier::Rollup => refuse("GROUP BY ALL WITH ROLLUP", "use GROUP BY ROLLUP (..)"),
            GroupByWithModifier::Cube => refuse("GROUP BY ALL WITH CUBE", "use GROUP BY CUBE (..)"),
            GroupByWithModifier::Totals => refuse("WITH TOTALS", "use GROUP BY GROUPING SETS ((..), ())"),
            GroupByWithModifier::GroupingSets(_) => {
                refuse("GROUPING SETS behind the columns of GROUP BY", "use GROUP BY GROUPING SETS (..)")
            }
        })?;
        select.from.iter().try_for_each(|table| table.joins.iter().try_for_each(in_join))?;
        // Such a join is written out before the columns of tables are known.
        let stars = super::using::has_asof(select) && (has_changed_star(select) || columns_of::is_in(select));
        let what = "* with EXCLUDE and its like, or COLUMNS, over an ASOF JOIN with USING";
        unless(stars, what, "write its condition with ON, such as ON a.k = b.k AND a.t >= b.t")
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        in_table_factor(factor)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.subqueries -= usize::from(has_query(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.subqueries += usize::from(has_query(expr));
        if self.subqueries > SUBQUERIES_MAX {
            return ControlFlow::Break(format!(
                "more than {SUBQUERIES_MAX} subqueries, each within an expression of the one around it; give the inner ones a name by WITH, or \
                 write them in FROM"
            ));
        }
        match expr {
            Expr::Function(function) => {
                self.lambdas.extend(lambdas(function));
                super::tried::check(function)?;
                in_function(function)
            }
            Expr::Lambda(_) if !self.lambdas.contains(&std::ptr::from_ref(expr)) => refuse(
                "a lambda that is no argument of a function",
                "give it to one, as in list_transform(l, lambda x: x + 1)",
            ),
            Expr::Interval(interval) if interval.leading_field.is_none() && is_number(&interval.value) => {
                let value = &interval.value;
                refuse(
                    &format!("INTERVAL {value} without a unit that there is"),
                    &format!("write INTERVAL {value} SECONDS"),
                )
            }
            Expr::Collate { collation, .. } => in_collation(collation),
            Expr::Cast { format: Some(_), .. } => refuse("CAST .. FORMAT", "use strptime() or strftime()"),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether `select` has a star that shows a part of the columns, or others in their place.
fn has_changed_star(select: &Select) -> bool {
    let plain = WildcardAdditionalOptions::default();
    select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(options) if *options != plain))
}

/// Whether `value` is a number that is written.
fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_number(expr),
        _ => false,
    }
}

/// Where the lambdas are that `function` is given.
fn lambdas(function: &Function) -> Vec<*const Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let lambda = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr @ Expr::Lambda(_))) => Some(std::ptr::from_ref(expr)),
        _ => None,
    };
    list.args.iter().filter_map(lambda).collect()
}

/// Orders by constants, which would be no orders.
fn in_order(by: &Expr) -> Flow {
    match by {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null) => {
            unless(
                true,
                &format!("ORDER BY the constant {by}"),
                "name a column, in double quotes where it has to be quoted",
            )
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::Number(..))) => {
            unless(true, &format!("ORDER BY {by}, which is no column's position,"), "use ORDER BY n DESC")
        }
        _ => ControlFlow::Continue(()),
    }
}

/// The planner takes the two sides of a recursive query, and nothing behind them.
fn in_recursive(cte: &Cte) -> Flow {
    let query = &cte.query;
    if !matches!(&*query.body, SetExpr::SetOperation { op: SetOperator::Union, .. }) {
        return ControlFlow::Continue(());
    }
    let instead = "put it behind the query that reads this one, or this part of it in brackets";
    unless(query.order_by.is_some(), "ORDER BY of a recursive query", instead)?;
    unless(query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT or OFFSET of a recursive query", instead)
}

fn in_cte(cte: &Cte) -> Flow {
    unless(cte.from.is_some(), "FROM behind a WITH query", "put SELECT before it")?;
    in_alias(&cte.alias)
}

fn in_pipe(pipe: &PipeOperator) -> Flow {
    if let PipeOperator::Aggregate { full_table_exprs, group_by_expr } = pipe {
        let ordered = full_table_exprs.iter().chain(group_by_expr).any(|expr| {
            let options = &expr.order_by;
            options.asc.is_some() || options.nulls_first.is_some()
        });
        return unless(ordered, "an order within AGGREGATE", "use |> ORDER BY behind it");
    }
    ControlFlow::Continue(())
}

/// Whether `join` has columns that are those of both sides.
fn merges(join: &Join) -> bool {
    use JoinOperator as J;
    let (J::Right(on) | J::RightOuter(on) | J::FullOuter(on)) = &join.join_operator else { return false };
    matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

fn in_join(join: &Join) -> Flow {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &join.relation {
        let merges = table_with_joins.joins.iter().any(merges);
        let what = "a RIGHT or FULL JOIN with USING in brackets behind JOIN";
        unless(merges, what, "use a subquery: JOIN (SELECT * FROM .. JOIN .. USING (..))")?;
    }
    match &join.join_operator {
        JoinOperator::CrossApply | JoinOperator::OuterApply => {
            refuse("APPLY", "use CROSS JOIN LATERAL or LEFT JOIN LATERAL .. ON true")
        }
        JoinOperator::AsOf { .. } => refuse("ASOF JOIN with MATCH_CONDITION", "use ASOF JOIN .. ON"),
        JoinOperator::StraightJoin(_) => refuse("STRAIGHT_JOIN", "use JOIN"),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse("ARRAY JOIN", "use CROSS JOIN unnest(..)")
        }
        _ => ControlFlow::Continue(()),
    }
}

fn in_alias(alias: &TableAlias) -> Flow {
    unless(alias.at.is_some(), "AT behind the alias of a table", "use row_number() OVER ()")?;
    let typed = alias.columns.iter().any(|column| column.data_type.is_some());
    unless(typed, "a type in the column list of an alias", "use CAST in the list of outputs")
}

fn in_table_factor(factor: &TableFactor) -> Flow {
    let alias = match factor {
        TableFactor::Table {
            args,
            alias,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            index_hints,
            ..
        } => {
            unless(!with_hints.is_empty(), "a table hint such as WITH (NOLOCK)", "leave it out")?;
            unless(version.is_some(), "a version of a table, such as FOR SYSTEM_TIME,", "tables keep no old versions")?;
            unless(*with_ordinality, "WITH ORDINALITY of a table", "use row_number() OVER ()")?;
            unless(!partitions.is_empty(), "PARTITION (..) of a table", "use WHERE")?;
            unless(json_path.is_some(), "a path behind the name of a table", "use unnest() or get_field()")?;
            unless(!index_hints.is_empty(), "an index hint", "leave it out: there are no indexes")?;
            let set = args.as_ref().is_some_and(|args| args.settings.is_some());
            unless(set, "SETTINGS of a table function", "use its arguments")?;
            alias
        }
        TableFactor::Function { with_ordinality, alias, .. } => {
            unless(*with_ordinality, "WITH ORDINALITY", "use row_number() OVER ()")?;
            alias
        }
        TableFactor::UNNEST { with_ordinality, with_offset, alias, .. } => {
            unless(*with_ordinality, "WITH ORDINALITY of several lists", "unnest them in SELECT")?;
            unless(*with_offset, "unnest() WITH OFFSET", "use WITH ORDINALITY, which counts from 1")?;
            alias
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            table_with_joins.joins.iter().try_for_each(in_join)?;
            alias
        }
        TableFactor::Derived { alias, .. } | TableFactor::TableFunction { alias, .. } => alias,
        _ => return ControlFlow::Continue(()),
    };
    alias.iter().try_for_each(in_alias)
}

fn in_function(function: &Function) -> Flow {
    let parameters = !matches!(function.parameters, FunctionArguments::None);
    unless(parameters, "a second pair of brackets behind a function", "put all arguments into one")?;
    let FunctionArguments::List(list) = &function.args else { return ControlFlow::Continue(()) };
    let of_table = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)));
    let hint = "count a column of the table that is not NULL in its rows";
    unless(list.args.iter().any(of_table), &format!("{}(t.*)", function.name), hint)?;
    let of_all = matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let hint = "count the rows of a SELECT DISTINCT";
    unless(of_all && distinct, &format!("{}(DISTINCT *)", function.name), hint)
}

/// Collations that compare bytes, as everything does here.
fn in_collation(collation: &ObjectName) -> Flow {
    let name = collation.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_ascii_lowercase());
    let binary = matches!(name.as_deref(), Some("c" | "posix" | "binary" | "ucs_basic"));
    unless(
        !binary,
        &format!("COLLATE {collation} here"),
        "NOCASE, NOACCENT and NFC are for comparisons and ORDER BY; elsewhere write lower(..) or strip_accents(..)",
    )
}

fn in_create_table(create: &CreateTable) -> Flow {
    create.columns.iter().try_for_each(in_column)?;
    create.constraints.iter().try_for_each(in_constraint)
}

fn in_column(column: &ColumnDef) -> Flow {
    use ColumnOption as O;
    let name = &column.name;
    column.options.iter().try_for_each(|option| match &option.option {
        O::Null | O::NotNull | O::Default(_) => ControlFlow::Continue(()),
        O::PrimaryKey(key) => in_characteristics(key.characteristics.as_ref()),
        O::Unique(unique) => in_unique(unique),
        O::Check(check) => in_check(check),
        // What of it has no meaning is refused where it is taken out.
        O::ForeignKey(_) => ControlFlow::Continue(()),
        O::Collation(collation) => in_collation(collation),
        O::Generated { generation_expr: Some(_), sequence_options: None, .. } => ControlFlow::Continue(()),
        O::Generated { .. } => {
            refuse(&format!("an identity for generated column {name}"), "use DEFAULT nextval('a sequence')")
        }
        O::Materialized(_) | O::Alias(_) | O::Ephemeral(_) => {
            refuse(&format!("'{option}' of column {name}"), "use GENERATED ALWAYS AS (..)")
        }
        O::Identity(_) | O::DialectSpecific(_) => {
            refuse(&format!("'{option}' of column {name}"), "insert row_number() OVER () for it")
        }
        other => refuse(&format!("'{other}' of column {name}"), "leave it out"),
    })
}

fn in_constraint(constraint: &TableConstraint) -> Flow {
    match constraint {
        TableConstraint::Unique(unique) => in_unique(unique),
        TableConstraint::PrimaryKey(key) => in_characteristics(key.characteristics.as_ref()),
        TableConstraint::Check(check) => in_check(check),
        TableConstraint::ForeignKey(_) => ControlFlow::Continue(()),
        other => refuse(&format!("'{other}' of a table"), "use CREATE INDEX"),
    }
}

fn in_index(index: &CreateIndex) -> Flow {
    let CreateIndex { using, concurrently, include, nulls_distinct, with, predicate, index_options, columns, .. } =
        index;
    unless(*concurrently, "CREATE INDEX CONCURRENTLY", "leave it out")?;
    unless(!include.is_empty(), "INCLUDE of an index", "leave it out")?;
    unless(nulls_distinct.is_some(), "NULLS DISTINCT of an index", "leave it out: several rows may have NULL")?;
    unless(!with.is_empty() || !index_options.is_empty(), "an option of an index", "leave it out")?;
    unless(predicate.is_some(), "an index of some rows", "leave WHERE out")?;
    let is_art = |using: &IndexType| using.to_string().eq_ignore_ascii_case("art");
    unless(using.as_ref().is_some_and(|using| !is_art(using)), "an index of such a type", "leave USING out")?;
    let says = |column: &IndexColumn| {
        let options = &column.column.options;
        column.operator_class.is_some() || options.asc.is_some() || options.nulls_first.is_some()
    };
    unless(columns.iter().any(says), "an order or operators of an index", "leave them out")
}

fn in_check(check: &CheckConstraint) -> Flow {
    unless(check.enforced == Some(false), "a CHECK that is not enforced", "leave it out")
}

fn in_unique(unique: &UniqueConstraint) -> Flow {
    let distinct = unique.nulls_distinct == NullsDistinctOption::NotDistinct;
    unless(distinct, "NULLS NOT DISTINCT", "use PRIMARY KEY, or NOT NULL beside UNIQUE")?;
    in_characteristics(unique.characteristics.as_ref())
}

fn in_characteristics(characteristics: Option<&ConstraintCharacteristics>) -> Flow {
    let any = characteristics
        .is_some_and(|of| of.deferrable == Some(true) || of.initially.is_some() || of.enforced == Some(false));
    unless(any, "a constraint that is deferred or not enforced", "leave it out: keys are checked by each statement")
}

fn in_create_view(create: &CreateView) -> Flow {
    unless(create.or_alter, "CREATE OR ALTER VIEW", "use CREATE OR REPLACE VIEW")?;
    unless(create.secure, "CREATE SECURE VIEW", "use CREATE VIEW")?;
    unless(create.params.is_some(), "ALGORITHM, DEFINER or SQL SECURITY of a view", "leave it out")?;
    let typed = create.columns.iter().any(|column| column.data_type.is_some() || column.options.is_some());
    unless(typed, "a type or an option in the column list of a view", "use CAST in its query")
}

fn in_insert(insert: &Insert) -> Flow {
    let conflict = "use ON CONFLICT, OR REPLACE or OR IGNORE";
    unless(matches!(insert.on, Some(OnInsert::DuplicateKeyUpdate(_))), "ON DUPLICATE KEY", conflict)?;
    let other = |or: SqliteOnConflict| !matches!(or, SqliteOnConflict::Ignore | SqliteOnConflict::Replace);
    unless(insert.or.is_some_and(other), "INSERT OR ABORT, OR FAIL or OR ROLLBACK", conflict)?;
    unless(insert.replace_into, "REPLACE INTO", "use INSERT OR REPLACE INTO")?;
    unless(insert.ignore, "INSERT IGNORE", "use INSERT OR IGNORE INTO")?;
    unless(insert.overwrite, "INSERT OVERWRITE", "use TRUNCATE before the INSERT")?;
    unless(insert.partitioned.is_some(), "PARTITION (..) of an INSERT", "leave it out")?;
    unless(
        insert.insert_alias.is_some(),
        "an alias behind the rows of an INSERT",
        "use ON CONFLICT, which calls them excluded",
    )?;
    unless(insert.output.is_some(), "OUTPUT", "use RETURNING behind the INSERT")
}

fn in_set(set: &Set) -> Flow {
    let local = match set {
        Set::SingleAssignment { scope, .. } => matches!(scope, Some(ContextModifier::Local)),
        Set::SetTimeZone { local, .. } => *local,
        _ => false,
    };
    unless(local, "SET LOCAL", "use SET, which holds to the end of the session")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        for (sql, named) in [
            ("SELECT i FROM t PREWHERE i > 1", "PREWHERE"),
            ("SELECT id FROM t START WITH p IS NULL CONNECT BY PRIOR id = p", "CONNECT BY"),
            ("SELECT i FROM t SETTINGS no_such_setting = 1", "SETTINGS"),
            ("SELECT i FROM t FORMAT JSON", "FORMAT"),
            ("SELECT i FROM t FOR UPDATE", "FOR UPDATE"),
            ("SELECT i FROM t FOR XML AUTO", "FOR XML"),
            ("SELECT i FROM t LIMIT 1 BY i", "LIMIT .. BY"),
            ("SELECT i FROM t FETCH FIRST 2 ROWS WITH TIES", "WITH TIES"),
            ("SELECT i FROM t FETCH FIRST 2 PERCENT ROWS ONLY", "PERCENT"),
            ("SELECT i FROM t ORDER BY i WITH FILL", "WITH FILL"),
            ("SELECT i FROM t ORDER BY i INTERPOLATE (i)", "INTERPOLATE"),
            ("SELECT * FROM (SELECT i INTO u FROM t)", "INTO"),
            ("SELECT i FROM t LATERAL VIEW explode(l) x AS y", "LATERAL VIEW"),
            ("SELECT i FROM t CLUSTER BY i", "CLUSTER BY"),
            ("SELECT i FROM t DISTRIBUTE BY i", "DISTRIBUTE BY"),
            ("SELECT i FROM t SORT BY i", "SORT BY"),
            ("SELECT k, sum(v) FROM t GROUP BY k WITH TOTALS", "WITH TOTALS"),
            ("SELECT k, sum(v) FROM t GROUP BY ALL WITH ROLLUP", "ALL WITH ROLLUP"),
            ("SELECT * FROM t WITH (NOLOCK)", "NOLOCK"),
            ("SELECT * FROM t WITH ORDINALITY", "ORDINALITY"),
            ("SELECT * FROM unnest([1], [2]) WITH ORDINALITY", "ORDINALITY"),
            ("SELECT * FROM unnest([1]) WITH OFFSET", "OFFSET"),
            ("SELECT * FROM a CROSS APPLY b", "APPLY"),
            ("SELECT * FROM a GLOBAL JOIN b ON true", "GLOBAL"),
            ("SELECT * FROM t AS x(a INT)", "type in the column list"),
            ("SELECT quantile(0.5)(i) FROM t", "second pair of brackets"),
            ("SELECT a COLLATE NOCASE FROM t", "COLLATE NOCASE"),
            ("SELECT CAST(a AS DATE FORMAT 'YYYY') FROM t", "FORMAT"),
            ("CREATE TABLE t (a INT AUTO_INCREMENT)", "AUTO_INCREMENT"),
            ("CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY)", "generated column a"),
            ("CREATE TABLE t (a INT COMMENT 'x')", "COMMENT"),
            ("CREATE TABLE t (a VARCHAR COLLATE NOCASE)", "COLLATE NOCASE"),
            ("CREATE TABLE t (a INT, CHECK (a > 0) NOT ENFORCED)", "not enforced"),
            ("CREATE TABLE t (a INT, UNIQUE (a) NOT ENFORCED)", "not enforced"),
            ("CREATE TABLE t (a INT, UNIQUE NULLS NOT DISTINCT (a))", "NULLS NOT DISTINCT"),
            ("CREATE SECURE VIEW v AS SELECT 1", "SECURE"),
            ("INSERT OR ABORT INTO t VALUES (1)", "OR ABORT"),
            ("REPLACE INTO t VALUES (1)", "REPLACE INTO"),
            ("SET LOCAL threads = 2", "SET LOCAL"),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", "isolation level of a transaction"),
            ("ROLLBACK TO SAVEPOINT a", "SAVEPOINT"),
            ("CREATE INDEX i ON t (a) WHERE a > 0", "an index of some rows"),
            ("SELECT * FROM a POSITIONAL JOIN b JOIN c ON true", "POSITIONAL JOIN beside other joins"),
            ("SELECT * FROM a GLOBAL CROSS JOIN b", "GLOBAL JOIN"),
            ("EXPLAIN SELECT i FROM t PREWHERE i > 1", "PREWHERE"),
            ("COPY (SELECT i FROM t PREWHERE i > 1) TO 'x.csv'", "PREWHERE"),
            ("SELECT (SELECT max(i) FROM t FOR UPDATE)", "FOR UPDATE"),
            ("SELECT * FROM t |> AGGREGATE sum(v) GROUP BY k DESC", "AGGREGATE"),
        ] {
            let Err(error) = parse(sql) else { panic!("{sql}") };
            assert!(error.to_string().contains(named), "{sql}: {error}");
        }
    }

    #[test]
    fn what_has_a_meaning_is_not_refused() {
        for sql in [
            "SELECT i INTO u FROM t",
            "SELECT a COLLATE \"C\" FROM t",
            "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL UNIQUE DEFAULT 5, c INT NULL, UNIQUE (a, c))",
            "SELECT i FROM t GROUP BY i WITH ROLLUP",
            "SELECT i FROM t FETCH FIRST 3 ROWS ONLY",
        ] {
            parse(sql).unwrap();
        }
    }
}
