//! `MERGE` as a query of the rows of both sides, each with the clause that is for it, and a query of what each clause makes of its rows.
//!
//! The rows are joined once, and kept: conditions that vary are asked once, and a clause computes only what is its own. Columns of both sides have names of their own there.
//!
//! Not here: how `DO NOTHING`, `INSERT *` and their kin are read (`syntax::merges`).

use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, MergeAction, MergeClauseKind, MergeInsertKind, MergeUpdateExpr, Query, TableAlias,
    TableFactor, TableWithJoins, Value, helpers::attached_token::AttachedToken,
};
use ogee_functions::{Error, Result};

use super::{
    Action, Change, Columns, ROW, is_default, last,
    queries::{alone, column, find, for_each_name, named, quoted, select, shorten, table, template, unparsed},
    unless, unsupported,
    updates::{assigned, null},
};
use crate::{
    names::{call, normal_name},
    syntax::merges as marks,
};

/// The output that says whether there is a row of the source.
const THERE: &str = "ogee_there";

/// The output that has the number of the clause.
const CLAUSE: &str = "ogee_clause";

/// What a `MERGE` says behind its table.
#[derive(Debug)]
pub struct Merge {
    source: TableFactor,
    source_alias: Ident,
    on: Expr,
    /// What it does, clause by clause.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN .. THEN ..`
#[derive(Debug)]
pub struct MergeClause {
    kind: MergeClauseKind,
    predicate: Option<Expr>,
    /// What is done with its rows.
    pub does: MergeDoes,
}

/// What is done with rows of a [`Merge`].
#[derive(Debug)]
pub enum MergeDoes {
    /// `DO NOTHING`
    Nothing,
    /// `ERROR`, with what is said of it.
    Error(Option<Box<Expr>>),
    /// `DELETE`
    Delete,
    /// `UPDATE`
    Update(Vec<Assignment>),
    /// `UPDATE` or `INSERT` of all columns of the source.
    All {
        /// By their names, and not by their positions.
        by_name: bool,
        /// New rows, and not those that there are.
        inserts: bool,
    },
    /// `INSERT`
    Insert {
        /// For which columns, if that is written.
        columns: Vec<Ident>,
        /// The values.
        values: Vec<Expr>,
    },
    /// `INSERT DEFAULT VALUES`
    Defaults,
}

/// Which rows an expression of a clause sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sees {
    Both,
    Target,
    Source,
}

impl MergeClause {
    fn sees(&self) -> Sees {
        match self.kind {
            MergeClauseKind::Matched => Sees::Both,
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => Sees::Source,
            MergeClauseKind::NotMatchedBySource => Sees::Target,
        }
    }

    /// What `merge_action` is of its rows.
    pub fn told(&self) -> &'static str {
        match &self.does {
            MergeDoes::Delete => "DELETE",
            MergeDoes::Update(_) | MergeDoes::All { inserts: false, .. } => "UPDATE",
            _ => "INSERT",
        }
    }

    /// `WHEN NOT MATCHED`
    pub fn shown(&self) -> String {
        format!("WHEN {}", self.kind)
    }
}

impl Merge {
    pub(super) fn new(mut source: TableFactor, on: Expr, clauses: Vec<ast::MergeClause>) -> Result<Self> {
        let source_alias = match &mut source {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => alias.name.clone(),
            TableFactor::Table { name, alias: None, args: None, .. } => last(name)?,
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                let name = quoted("ogee_source");
                *alias = Some(TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None });
                name
            }
            _ => return Err(unsupported("such a source of MERGE", "write it as a query: USING (SELECT ..) AS s")),
        };
        let clauses = clauses.into_iter().map(clause).collect::<Result<Vec<_>>>()?;
        for (at, later) in clauses.iter().enumerate() {
            let hides = |before: &MergeClause| before.predicate.is_none() && before.sees() == later.sees();
            if let Some(before) = clauses[..at].iter().find(|before| hides(before)) {
                return Err(Error::Plan(format!("a clause behind {} without AND is never reached", before.shown())));
            }
        }
        if clauses.is_empty() {
            return Err(Error::Plan("a MERGE has a WHEN".to_owned()));
        }
        Ok(Self { source, source_alias, on, clauses })
    }

    fn sees(&self, sees: Sees) -> bool {
        self.clauses.iter().any(|clause| clause.sees() == sees)
    }
}

fn clause(clause: ast::MergeClause) -> Result<MergeClause> {
    let ast::MergeClause { clause_kind: kind, predicate, action, .. } = clause;
    let does = match action {
        MergeAction::Delete { .. } => MergeDoes::Delete,
        MergeAction::Update(MergeUpdateExpr { assignments, update_predicate, delete_predicate, .. }) => {
            let any = update_predicate.is_some() || delete_predicate.is_some();
            unless(any, "WHERE behind SET of a MERGE", "use WHEN MATCHED AND .. THEN")?;
            match assignments.as_slice() {
                [Assignment { target: AssignmentTarget::ColumnName(name), value }] => {
                    marked(&last(name)?, value, false).unwrap_or(MergeDoes::Update(assignments))
                }
                _ => MergeDoes::Update(assignments),
            }
        }
        MergeAction::Insert(insert) => {
            unless(
                insert.insert_predicate.is_some(),
                "WHERE behind VALUES of a MERGE",
                "use WHEN NOT MATCHED AND .. THEN",
            )?;
            let columns = insert.columns.iter().map(last).collect::<Result<Vec<_>>>()?;
            let values = match insert.kind {
                MergeInsertKind::Row => return Err(unsupported("INSERT ROW", "use INSERT, which inserts all columns")),
                MergeInsertKind::Values(mut values) => match (values.rows.pop(), values.rows.is_empty()) {
                    (Some(row), true) => row.content,
                    _ => return Err(unsupported("several rows of VALUES in a MERGE", "use one")),
                },
            };
            match (columns.as_slice(), values.as_slice()) {
                ([name], [value]) => marked(name, value, true).unwrap_or(MergeDoes::Insert { columns, values }),
                _ => MergeDoes::Insert { columns, values },
            }
        }
    };
    Ok(MergeClause { kind, predicate, does })
}

/// What is meant by a mark that was put in the place of a column.
fn marked(name: &Ident, value: &Expr, inserts: bool) -> Option<MergeDoes> {
    Some(match name.value.as_str() {
        marks::NOTHING => MergeDoes::Nothing,
        marks::ERROR => MergeDoes::Error(
            (!matches!(value, Expr::Value(value) if value.value == Value::Null)).then(|| Box::new(value.clone())),
        ),
        marks::ALL => MergeDoes::All { by_name: false, inserts },
        marks::ALL_BY_NAME => MergeDoes::All { by_name: true, inserts },
        marks::DEFAULTS => MergeDoes::Defaults,
        _ => return None,
    })
}

/// Column `at` of the target, or of the source, in the rows of both.
fn kept(of_target: bool, at: usize) -> String {
    if of_target { format!("ogee_t_{at}") } else { format!("ogee_s_{at}") }
}

impl Change {
    fn merged(&self) -> Result<&Merge> {
        match &self.action {
            Action::Merge(merge) => Ok(merge),
            _ => Err(unparsed()),
        }
    }

    /// The query of all columns of the source, by which they are known.
    ///
    /// # Errors
    /// This is no `MERGE`.
    pub fn source(&self) -> Result<Query> {
        let merge = self.merged()?;
        let mut query = template("SELECT * FROM t")?;
        if let ast::SetExpr::Select(select) = &mut *query.body {
            select.from = vec![alone(merge.source.clone())];
        }
        query.with = self.with.clone();
        Ok(query)
    }

    /// The query of the rows of both sides that some clause is for: the number of the row in table `rows`, all columns of both sides, and the number of the clause.
    ///
    /// # Errors
    /// What a clause cannot look at.
    pub fn both(&self, columns: &Columns, source: &[String], rows: &str) -> Result<Query> {
        let merge = self.merged()?;
        let (alias, source_alias) = (&self.alias, &merge.source_alias);
        if normal_name(alias) == normal_name(source_alias) {
            return Err(Error::Plan(format!(
                "both sides of the MERGE are called {alias}; give one another name with AS"
            )));
        }
        let row = || Box::new(column(alias, ROW));
        let mut items = vec![named(*row(), ROW)];
        items.extend((0..columns.len()).map(|at| named(column(alias, columns.name(at)), &kept(true, at))));
        items.extend(source.iter().enumerate().map(|(at, name)| named(column(source_alias, name), &kept(false, at))));
        let by_source = merge.sees(Sees::Target);
        let there = || Box::new(column(source_alias, THERE));
        let and =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: ast::BinaryOperator::And, right: Box::new(right) };
        let mut conditions = Vec::new();
        for (number, clause) in merge.clauses.iter().enumerate() {
            let sees = clause.sees();
            let mut condition = match sees {
                Sees::Source => Expr::IsNull(row()),
                Sees::Target => Expr::IsNull(there()),
                Sees::Both if by_source => and(Expr::IsNotNull(row()), Expr::IsNotNull(there())),
                Sees::Both => Expr::IsNotNull(row()),
            };
            if let Some(mut predicate) = clause.predicate.clone() {
                self.resolve(&mut predicate, columns, source, sees, &|of_target, at| match of_target {
                    true => column(alias, columns.name(at)),
                    false => column(source_alias, &source[at]),
                })?;
                condition = and(condition, Expr::Nested(Box::new(predicate)));
            }
            let result = match clause.does {
                MergeDoes::Nothing => null(),
                _ => number_of(number),
            };
            conditions.push(CaseWhen { condition, result });
        }
        let case = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions,
            else_result: None,
        };
        items.push(named(case, CLAUSE));
        let from = self.join(columns, source, rows, by_source)?;
        let joined = select(self.with.clone(), items, from, None)?;
        // `SELECT * FROM (joined) AS ogee_both WHERE ogee_clause IS NOT NULL`
        let mut query = template(&format!("SELECT * FROM (SELECT 1) AS ogee_both WHERE {CLAUSE} IS NOT NULL"))?;
        if let ast::SetExpr::Select(select) = &mut *query.body
            && let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) =
                select.from.first_mut()
        {
            **subquery = joined;
        }
        Ok(query)
    }

    /// The source joined with the rows of the table, as far as clauses are for rows of one side alone.
    fn join(&self, columns: &Columns, source: &[String], rows: &str, by_source: bool) -> Result<Vec<TableWithJoins>> {
        let merge = self.merged()?;
        let mut on = merge.on.clone();
        shorten(&mut on, &self.table, &self.alias);
        if let Some(shared) = using(&on) {
            let mut conditions = Vec::new();
            for name in shared {
                let (Some(left), Some(right)) = (columns.find(&name), find(source.iter().map(String::as_str), &name))
                else {
                    return Err(Error::Plan(format!("column {name} of USING is not there on both sides of the MERGE")));
                };
                conditions.push(Expr::BinaryOp {
                    left: Box::new(column(&self.alias, columns.name(left))),
                    op: ast::BinaryOperator::Eq,
                    right: Box::new(column(&merge.source_alias, &source[right])),
                });
            }
            let and = |left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: ast::BinaryOperator::And,
                right: Box::new(right),
            };
            on = conditions.into_iter().reduce(and).ok_or_else(unparsed)?;
        }
        let mut relation = merge.source.clone();
        if by_source {
            let mut query = template(&format!("SELECT *, true AS {THERE} FROM t"))?;
            if let ast::SetExpr::Select(select) = &mut *query.body {
                select.from = vec![alone(relation)];
            }
            let wrapped = template(&format!("SELECT 1 FROM (SELECT 1) AS {}", quoted("s")))?;
            let ast::SetExpr::Select(wrapped) = *wrapped.body else { return Err(unparsed()) };
            relation = wrapped.from.into_iter().next().ok_or_else(unparsed)?.relation;
            if let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut relation {
                (**subquery, alias.name) = (query, merge.source_alias.clone());
            }
        }
        let on = JoinConstraint::On(on);
        let join_operator = match (by_source, merge.sees(Sees::Source)) {
            (true, _) => JoinOperator::FullOuter(on),
            (false, true) => JoinOperator::Left(on),
            (false, false) => JoinOperator::Inner(on),
        };
        let join = Join { relation: table(rows, &self.alias)?, global: false, join_operator };
        Ok(vec![TableWithJoins { relation, joins: vec![join] }])
    }

    /// The query of what clause `number` makes of its rows, which are among those of table `both`: the number of the row, and behind it the columns that are given (of a `DELETE` all columns).
    /// Of an `ERROR`, what is to be said.
    ///
    /// # Errors
    /// What the clause cannot look at, or columns that there are not.
    pub fn of_clause(&self, columns: &Columns, source: &[String], number: usize, both: &str) -> Result<Query> {
        let merge = self.merged()?;
        let clause = &merge.clauses[number];
        let alias = quoted("ogee_both");
        let out = |of_target: bool, at: usize| column(&alias, &kept(of_target, at));
        let sees = clause.sees();
        let resolved = |mut value: Expr| {
            self.resolve(&mut value, columns, source, sees, &out)?;
            Ok::<_, Error>(value)
        };
        let of_target = |name: &str| {
            let at = (0..columns.len()).find(|&at| columns.name(at) == name);
            at.map_or_else(null, |at| out(true, at))
        };
        let row = named(column(&alias, ROW), ROW);
        let mut items = vec![row];
        match &clause.does {
            MergeDoes::Nothing => {}
            MergeDoes::Error(message) => {
                let message = message.as_deref().cloned().map(resolved).transpose()?.unwrap_or_else(null);
                items = vec![named(message, "message")];
            }
            MergeDoes::Delete => {
                items.extend((0..columns.len()).map(|at| named(out(true, at), columns.name(at))));
            }
            MergeDoes::Update(assignments) => {
                let mut values = assigned(assignments, columns)?;
                for name in columns.given() {
                    let value = values.remove(name).map(resolved).transpose()?;
                    items.push(named(value.unwrap_or_else(|| of_target(name)), name));
                }
            }
            MergeDoes::All { by_name, inserts } => {
                if sees == Sees::Target {
                    return Err(Error::Plan(format!(
                        "{} has no row of the source to take values from",
                        clause.shown()
                    )));
                }
                let given = columns.given();
                if !by_name && source.len() != given.len() {
                    let (has, given) = (source.len(), given.len());
                    return Err(Error::Plan(format!(
                        "the source of the MERGE has {has} columns, and '{}' {given}",
                        self.table
                    )));
                }
                for (position, name) in source.iter().enumerate().filter(|_| *by_name) {
                    if columns.find(&quoted(name)).is_none_or(|at| columns.definition.is_generated(columns.name(at))) {
                        return Err(Error::Plan(format!(
                            "column '{name}' of the source of the MERGE, its {}th, is none of '{}'",
                            position + 1,
                            self.table
                        )));
                    }
                }
                for (position, name) in given.into_iter().enumerate() {
                    let at = match by_name {
                        true => source
                            .iter()
                            .position(|known| columns.find(&quoted(known)).is_some_and(|at| columns.name(at) == name)),
                        false => Some(position),
                    };
                    let value = match (at, inserts) {
                        (Some(at), _) => out(false, at),
                        (None, true) => columns.definition.default_of(name),
                        (None, false) => of_target(name),
                    };
                    items.push(named(value, name));
                }
            }
            MergeDoes::Insert { columns: names, values } => {
                let given: Vec<usize> = match names.is_empty() {
                    true => columns
                        .given()
                        .iter()
                        .filter_map(|name| (0..columns.len()).find(|&at| columns.name(at) == *name))
                        .collect(),
                    false => names.iter().map(|name| self.insert_column(columns, name)).collect::<Result<_>>()?,
                };
                if given.len() != values.len() {
                    return Err(Error::Plan(format!(
                        "the MERGE inserts {} values for {} columns",
                        values.len(),
                        given.len()
                    )));
                }
                for name in columns.given() {
                    let mut of_column = given.iter().zip(values).filter(|(at, _)| columns.name(**at) == name);
                    let value = match (of_column.next(), of_column.next()) {
                        (_, Some(_)) => {
                            return Err(Error::Plan(format!("column '{name}' is given two values by the MERGE")));
                        }
                        (Some((_, value)), None) if !is_default(value) => resolved(value.clone())?,
                        _ => columns.definition.default_of(name),
                    };
                    items.push(named(value, name));
                }
            }
            MergeDoes::Defaults => {
                items.extend(columns.given().into_iter().map(|name| named(columns.definition.default_of(name), name)));
            }
        }
        let condition = Expr::BinaryOp {
            left: Box::new(column(&alias, CLAUSE)),
            op: ast::BinaryOperator::Eq,
            right: Box::new(number_of(number)),
        };
        select(self.with.clone(), items, vec![alone(table(both, &alias)?)], Some(condition))
    }

    fn insert_column(&self, columns: &Columns, name: &Ident) -> Result<usize> {
        let at = columns.find(name).ok_or_else(|| Error::Plan(format!("'{}' has no column {name}", self.table)))?;
        if columns.definition.is_generated(columns.name(at)) {
            return Err(Error::Plan(format!("column '{name}' is generated, and takes no value")));
        }
        Ok(at)
    }

    /// Writes what `out` gives for the columns of both sides that `expr` names.
    fn resolve(
        &self,
        expr: &mut Expr,
        columns: &Columns,
        source: &[String],
        sees: Sees,
        out: &dyn Fn(bool, usize) -> Expr,
    ) -> Result<()> {
        let source_alias = normal_name(&self.merged()?.source_alias);
        let alias = normal_name(&self.alias);
        shorten(expr, &self.table, &self.alias);
        let (target_seen, source_seen) = (sees != Sees::Source, sees != Sees::Target);
        let mut failed = None;
        let mut fail = |message: String| {
            failed.get_or_insert(Error::Plan(message));
        };
        for_each_name(expr, |name, _| match &*name {
            Expr::Identifier(ident) => {
                let of_target = columns.find(ident).filter(|_| target_seen);
                let of_source = find(source.iter().map(String::as_str), ident).filter(|_| source_seen);
                match (of_target, of_source) {
                    (Some(_), Some(_)) => fail(format!(
                        "column {ident} may be {}.{ident} or {}.{ident}; write which",
                        self.alias, source_alias
                    )),
                    (Some(at), None) => *name = out(true, at),
                    (None, Some(at)) => *name = out(false, at),
                    (None, None) => {}
                }
            }
            Expr::CompoundIdentifier(names) => {
                let table = normal_name(&names[0]);
                let of_target = table == alias;
                if !of_target && table != source_alias {
                    return;
                }
                if (of_target && !target_seen) || (!of_target && !source_seen) {
                    fail(format!("'{name}' is a column of rows that the clause has none of"));
                    return;
                }
                let at = match of_target {
                    true => columns.find(&names[1]),
                    false => find(source.iter().map(String::as_str), &names[1]),
                };
                match (at, out_names(at.map(|at| out(of_target, at)), &names[2..])) {
                    (Some(_), Some(written)) => *name = written,
                    _ => fail(format!("there is no column '{name}'")),
                }
            }
            _ => {}
        });
        failed.map_or(Ok(()), Err)
    }
}

/// `column` and the names of fields behind it.
fn out_names(column: Option<Expr>, fields: &[Ident]) -> Option<Expr> {
    match column? {
        Expr::CompoundIdentifier(mut names) => {
            names.extend(fields.iter().cloned());
            Some(Expr::CompoundIdentifier(names))
        }
        other => fields.is_empty().then_some(other),
    }
}

fn number_of(number: usize) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

/// The columns of `USING`, for which a call stands.
fn using(on: &Expr) -> Option<Vec<Ident>> {
    let Expr::Function(function) = on else { return None };
    let same = call(marks::USING, Vec::new());
    let Expr::Function(same) = same else { return None };
    if function.name.to_string() != same.name.to_string() {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let name = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => Some(name.clone()),
        _ => None,
    };
    list.args.iter().map(name).collect()
}
