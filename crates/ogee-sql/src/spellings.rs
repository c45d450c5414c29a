//! Names in any case: `SELECT counterid` finds the column `CounterID`, in quotes or not, and shows it as it is spelled.
//!
//! To the planner all names are in small letters: words in quotes become so among the tokens ([`fold`]), and tables call their columns so (`ogee_files::spelling`). How a
//! statement spells the names that it gives is kept beside it ([`Spellings`]); results, tables and views get those names, and columns that are spelled
//! elsewhere their own. An output without a name is called what was written for it.
//!
//! Names of files keep their letters.
//!
//! Not here: fields of structs (`fields_of_any_case`).

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    ops::ControlFlow,
    sync::Arc,
};

use datafusion::{
    arrow::datatypes::{Field, FieldRef, Schema, SchemaRef},
    common::{Column, metadata::FieldMetadata},
    error::Result,
    logical_expr::{Expr as LogicalExpr, LogicalPlan, LogicalPlanBuilder},
    sql::{
        parser::{CopyToSource, Statement as Parsed},
        sqlparser::{
            ast::{
                DescribeAlias, Expr, Function, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement,
                TableAlias, TableFactor, Value, VisitorMut,
            },
            keywords::Keyword,
            tokenizer::{Location, Token, TokenWithSpan},
        },
    },
};
use ogee_files::{
    Read, is_file_name,
    spelling::{folded, known_spelling, plain, spelled},
};

use parking_lot::Mutex;

use crate::{
    columns_of,
    names::{base_name, normal_name},
    syntax,
};

/// Words in quotes that are not in small letters, by where they stand.
type Quoted = HashMap<(u64, u64), String>;

fn place(location: Location) -> (u64, u64) {
    (location.line, location.column)
}

/// Brings the words in quotes among `tokens` to small letters, but for names of files and keys of structs; those that were not.
pub(crate) fn fold(tokens: &mut [TokenWithSpan]) -> Quoted {
    let is_quoted = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_some());
    let mut quoted = Quoted::new();
    if !tokens.iter().any(|token| is_quoted(&token.token)) {
        return quoted;
    }
    let significant = syntax::significant(tokens);
    // Names that `UNPIVOT` gives are values of its rows.
    let mut names_rows = false;
    // Those that `PIVOT` gives are parts of names; behind a table it gives them in brackets only. How many are open, and how many around its own.
    let (mut depth, mut pivots) = (0_usize, Vec::<(usize, bool)>::new());
    for (nth, &at) in significant.iter().enumerate() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.saturating_sub(1);
                pivots.retain(|(around, is_open)| *around < depth || *around == depth && !is_open);
            }
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::PIVOT => {
                let next = |n: usize| significant.get(nth + n).map(|&next| &tokens[next].token);
                let is_query = matches!(next(2), Some(Token::Word(word)) if matches!(word.keyword, Keyword::SELECT | Keyword::FROM | Keyword::WITH | Keyword::VALUES | Keyword::PIVOT | Keyword::UNPIVOT));
                pivots.push((depth, next(1) == Some(&Token::LParen) && !is_query));
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::UNPIVOT => names_rows = true,
                Keyword::INTO | Keyword::SELECT | Keyword::WHERE | Keyword::ORDER | Keyword::GROUP => {
                    names_rows = false
                }
                _ => {}
            },
            Token::SemiColon => {
                names_rows = false;
                pivots.clear();
            }
            _ => {}
        }
        let before = nth.checked_sub(1).map(|before| &tokens[significant[before]].token);
        let behind = significant.get(nth + 1).map(|&behind| &tokens[behind].token);
        let Token::Word(word) = &tokens[at].token else { continue };
        let is_key = word.quote_style.is_some()
            && match behind {
                Some(Token::Colon) => open_bracket(tokens, &significant[..nth]).is_some_and(|(_, is_brace)| is_brace),
                Some(Token::Assignment) => true,
                Some(Token::Word(_)) if matches!(before, Some(Token::LParen | Token::Comma)) => {
                    let opened = open_bracket(tokens, &significant[..nth]);
                    let word =
                        opened.and_then(|(place, _)| place.checked_sub(1)).map(|word| &tokens[significant[word]]);
                    word.is_some_and(|word| {
                        matches!(&word.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::STRUCT)
                    })
                }
                _ => false,
            };
        let is_value = names_rows
            && matches!(before, Some(Token::Word(before)) if before.quote_style.is_none() && before.keyword == Keyword::AS)
            && matches!(behind, Some(Token::Comma | Token::RParen | Token::SemiColon | Token::EOF) | None);
        let in_pivot =
            pivots.last().is_some_and(|(around, is_open)| if *is_open { *around < depth } else { *around == depth });
        let is_part = in_pivot
            && matches!(before, Some(Token::Word(before)) if before.quote_style.is_none() && before.keyword == Keyword::AS);
        if is_value || is_part {
            continue;
        }
        let lower = folded(&word.value);
        if word.quote_style.is_none() || is_key || lower == word.value || is_file(&word.value, before) {
            continue;
        }
        let lower = lower.into_owned();
        let begin = tokens[at].span.start;
        if let Token::Word(word) = &mut tokens[at].token {
            quoted.insert(place(begin), std::mem::replace(&mut word.value, lower));
        }
    }
    quoted
}

/// Where the last of the brackets that are open behind `before` is in it, and whether that is a brace, as of a struct.
fn open_bracket(tokens: &[TokenWithSpan], before: &[usize]) -> Option<(usize, bool)> {
    let mut closed = 0_usize;
    for (place, &at) in before.iter().enumerate().rev() {
        match &tokens[at].token {
            Token::RBrace | Token::RParen | Token::RBracket => closed += 1,
            token @ (Token::LBrace | Token::LParen | Token::LBracket) => match closed.checked_sub(1) {
                Some(left) => closed = left,
                None => return Some((place, *token == Token::LBrace)),
            },
            _ => {}
        }
    }
    None
}

/// Whether the word `value` in quotes behind `before` names files.
fn is_file(value: &str, before: Option<&Token>) -> bool {
    if Read::is_name(value) {
        return true;
    }
    if !value.contains(['.', '/', '\\', '*']) {
        return false;
    }
    match before {
        Some(Token::Comma) => is_file_name(value),
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::FROM | Keyword::JOIN | Keyword::COPY | Keyword::INTO | Keyword::TABLE | Keyword::DESCRIBE
        ),
        _ => false,
    }
}

/// What an output is called in the text.
#[derive(Clone, Debug, PartialEq)]
enum Output {
    /// It has a name of its own, or a column's.
    Named,
    /// What was written for it.
    Written(String),
    /// One with a name or with what was written, or, of a struct, one for each field: `unnest(..)`.
    Unnested(Option<String>),
    /// As many as there are.
    Many,
}

impl Output {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Written(text) | Self::Unnested(Some(text)) => Some(text),
            _ => None,
        }
    }
}

/// How a statement spells the names that it gives.
#[derive(Clone, Debug, Default)]
pub struct Spellings {
    /// Those that are not in small letters, by those that are.
    named: HashMap<String, String>,
    /// The outputs of the statement's query.
    outputs: Vec<Output>,
}

impl Spellings {
    /// Those of `statement`, whose words in quotes were folded. Queries in `FROM` and `WITH` get names for the outputs that have none.
    pub(crate) fn of(statement: &mut Parsed, quoted: &Quoted) -> Self {
        let mut found = Self::default();
        if let Some(query) = query_of(statement) {
            found.outputs = first_select(&query.body)
                .map_or_else(Vec::new, |select| select.projection.iter().map(|item| output(item, quoted)).collect());
        }
        let mut visitor = Found { spellings: &mut found, quoted };
        if let Parsed::Statement(statement) = &*statement {
            visitor.of_statement(statement);
        }
        let visited = syntax::visit(statement, &mut visitor);
        debug_assert!(visited.is_continue(), "the visitor never stops");
        found
    }

    /// Adds names that `statement` got since, and brings them to small letters.
    pub fn fold_new(&mut self, statement: &mut Parsed) {
        struct New<'a>(&'a mut Spellings);

        impl New<'_> {
            fn fold(&mut self, name: &mut Ident) {
                let lower = folded(&name.value);
                if name.quote_style.is_some() && lower != name.value {
                    let lower = lower.into_owned();
                    let spelling = std::mem::replace(&mut name.value, lower.clone());
                    self.0.named.entry(lower).or_insert(spelling);
                }
            }
        }

        impl VisitorMut for New<'_> {
            type Break = ();

            fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
                let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
                tables.flat_map(|cte| &mut cte.alias.columns).for_each(|column| self.fold(&mut column.name));
                ControlFlow::Continue(())
            }

            fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
                for item in &mut select.projection {
                    if let SelectItem::ExprWithAlias { alias, .. } = item {
                        self.fold(alias);
                    }
                }
                ControlFlow::Continue(())
            }

            fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
                if let Some(alias) = alias_of(factor) {
                    alias.columns.iter_mut().for_each(|column| self.fold(&mut column.name));
                }
                ControlFlow::Continue(())
            }
        }

        let visited = syntax::visit(statement, &mut New(self));
        debug_assert!(visited.is_continue(), "the visitor never stops");
    }

    /// What the columns of `schema` are called, which the statement gives.
    fn names(&self, schema: &Schema) -> Vec<String> {
        let mut written: Vec<Option<&str>> = vec![None; schema.fields().len()];
        // As many columns as outputs: each is one.
        let is_one = self.outputs.len() == written.len() && !self.outputs.contains(&Output::Many);
        let is_many = |output: &Output| !is_one && matches!(output, Output::Many | Output::Unnested(_));
        let many = self.outputs.iter().position(is_many);
        if many.is_some() || self.outputs.len() == written.len() {
            let text = Output::text;
            let first = &self.outputs[..many.unwrap_or(self.outputs.len())];
            written.iter_mut().zip(first).for_each(|(name, output)| *name = text(output));
            let last = self.outputs.iter().rev().take_while(|output| !is_many(output));
            // Those before the first of many are not those behind the last.
            let last = last.take(if many.is_some() { written.len().saturating_sub(first.len()) } else { 0 });
            written.iter_mut().rev().zip(last).for_each(|(name, output)| *name = text(output));
        }
        let mut taken = HashSet::new();
        let fields = schema.fields().iter().zip(written);
        let name = |(field, written): (&FieldRef, Option<&str>)| {
            let own = || {
                let named = || self.named.get(field.name()).map(String::as_str);
                known_spelling(field).or_else(named).unwrap_or(field.name())
            };
            let written = written.filter(|written| !taken.contains(&*folded(written)));
            let name = written.unwrap_or_else(own).to_owned();
            taken.insert(folded(&name).into_owned());
            name
        };
        fields.map(name).collect()
    }

    /// `schema` of the statement's rows, as others see it.
    pub fn shown(&self, schema: &SchemaRef) -> SchemaRef {
        let names = self.names(schema);
        let is_plain = |(field, name): (&FieldRef, &String)| field.name() == name && known_spelling(field).is_none();
        if schema.fields().iter().zip(&names).all(is_plain) {
            return Arc::clone(schema);
        }
        let fields = schema.fields().iter().zip(names).map(|(field, name)| match *field.name() == name {
            true => plain(field),
            false => Arc::new(plain(field).as_ref().clone().with_name(name)),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }

    /// `schema` of a table that the statement makes.
    pub fn of_table(&self, schema: &Schema) -> SchemaRef {
        let fields = schema.fields().iter().zip(self.names(schema)).map(|(field, name)| spelled(field, &name));
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<Field>>(), schema.metadata().clone()))
    }

    /// `plan` of a query whose columns are called as it spells them, in small letters with their spelling beside them.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn in_plan(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let names = self.names(plan.schema().as_arrow());
        let is_known = |(field, name): (&FieldRef, &String)| {
            *field.name() == *folded(name) && known_spelling(field).unwrap_or(field.name()) == name
        };
        if plan.schema().fields().iter().zip(&names).all(is_known) {
            return Ok(plan);
        }
        let columns = plan.schema().iter().zip(&names).map(|((relation, field), name)| {
            let metadata = FieldMetadata::from(&spelled(field, name));
            LogicalExpr::Column(Column::from((relation, field)))
                .alias_with_metadata(folded(name).into_owned(), Some(metadata))
        });
        let columns: Vec<LogicalExpr> = columns.collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// `plan` whose columns got names that it spells.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn of_names(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Self { named: self.named.clone(), outputs: Vec::new() }.in_plan(plan)
    }

    /// `plan`, which if it copies a query writes columns that are called as they are spelled.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn in_copy(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::Copy(mut copy) = plan else { return Ok(plan) };
        let names = self.names(copy.input.schema().as_arrow());
        if copy.input.schema().fields().iter().zip(&names).all(|(field, name)| field.name() == name) {
            return Ok(LogicalPlan::Copy(copy));
        }
        let mut named = HashMap::new();
        let columns = copy.input.schema().iter().zip(&names).map(|((relation, field), name)| {
            named.insert(field.name().clone(), name.clone());
            LogicalExpr::Column(Column::from((relation, field))).alias(name)
        });
        let columns: Vec<LogicalExpr> = columns.collect();
        let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(copy.input)).project(columns)?.build()?;
        copy.input = Arc::new(input);
        for directory in &mut copy.partition_by {
            if let Some(name) = named.get(&*folded(directory)) {
                directory.clone_from(name);
            }
        }
        Ok(LogicalPlan::Copy(copy))
    }
}

tokio::task_local! {
    /// Those of the statement, or of the view, whose columns are asked for.
    static NAMED: Arc<Mutex<HashMap<String, String>>>;
}

/// Runs `planning`, in which columns are called as `spellings` have them where what stands for others depends on how they are spelled.
pub async fn heeded<F: Future>(spellings: &Spellings, planning: F) -> F::Output {
    NAMED.scope(Arc::new(Mutex::new(spellings.named.clone())), planning).await
}

/// How the name of a column is spelled.
pub(crate) fn spelling_of(field: &Field) -> String {
    let named = || NAMED.try_with(|named| named.lock().get(field.name()).cloned()).ok().flatten();
    known_spelling(field).map(str::to_owned).or_else(named).unwrap_or_else(|| field.name().clone())
}

/// Brings the names that passes over `statement` gave to small letters. Who asks for columns of a query within learns how they are spelled.
pub(crate) fn fold_names(statement: &mut Parsed) {
    let mut new = Spellings::default();
    new.fold_new(statement);
    if new.named.is_empty() {
        return;
    }
    // Nobody asks outside of `heeded`.
    let _ = NAMED.try_with(|named| {
        let mut named = named.lock();
        for (name, spelling) in new.named {
            named.entry(name).or_insert(spelling);
        }
    });
}

/// The query whose rows `statement` gives, keeps or writes.
fn query_of(statement: &Parsed) -> Option<&Query> {
    match statement {
        Parsed::Statement(statement) => match &**statement {
            Statement::Query(query) => Some(query),
            Statement::CreateTable(create) => create.query.as_deref(),
            Statement::CreateView(create) => Some(&create.query),
            Statement::Prepare { statement, .. } => match &**statement {
                Statement::Query(query) => Some(query),
                _ => None,
            },
            Statement::ExplainTable { .. } => None,
            Statement::Explain { describe_alias, statement, .. } => match (&**statement, describe_alias) {
                (Statement::Query(query), DescribeAlias::Describe | DescribeAlias::Desc) => Some(query),
                _ => None,
            },
            _ => None,
        },
        Parsed::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => Some(query),
            CopyToSource::Relation(_) => None,
        },
        _ => None,
    }
}

/// The `SELECT` that names the outputs of `body`.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn output(item: &SelectItem, quoted: &Quoted) -> Output {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => Output::Named,
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if columns_of::has_star(expr) => {
            Output::Many
        }
        SelectItem::ExprWithAlias { expr, .. } if is_unnest(expr) => Output::Unnested(None),
        SelectItem::UnnamedExpr(expr) => {
            let written = without_quotes(&syntax::exclusions::as_written(expr), quoted);
            if is_unnest(expr) { Output::Unnested(Some(written)) } else { Output::Written(written) }
        }
        SelectItem::ExprWithAlias { .. } => Output::Named,
        _ => Output::Many,
    }
}

/// `text` of an expression with names as they were spelled, and no quotes around them.
fn without_quotes(text: &str, quoted: &Quoted) -> String {
    if !text.contains('"') {
        return text.to_owned();
    }
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    // Quotes within texts are no quotes around names.
    while let Some(at) = rest.find(['"', '\'']) {
        let quote = if rest[at..].starts_with('"') { '"' } else { '\'' };
        let Some(length) = rest[at + 1..].find(quote) else { break };
        let (begin, name, end) = (&rest[..at], &rest[at + 1..at + 1 + length], &rest[at + 2 + length..]);
        bare.push_str(begin);
        if quote == '"' {
            let spelling = quoted.values().filter(|spelling| *folded(spelling) == *name).min();
            bare.push_str(spelling.map_or(name, String::as_str));
        } else {
            bare.push_str(&rest[at..at + 2 + length]);
        }
        rest = end;
    }
    bare.push_str(rest);
    bare
}

fn is_unnest(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_called(function, "unnest"))
}

fn is_called(function: &Function, name: &str) -> bool {
    matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|part| normal_name(part) == name))
}

fn alias_of(factor: &mut TableFactor) -> Option<&mut TableAlias> {
    use TableFactor as F;
    match factor {
        F::Table { alias, .. }
        | F::Derived { alias, .. }
        | F::TableFunction { alias, .. }
        | F::Function { alias, .. }
        | F::UNNEST { alias, .. }
        | F::NestedJoin { alias, .. } => alias.as_mut(),
        _ => None,
    }
}

/// Finds the names that a statement gives, outer queries first.
struct Found<'a> {
    spellings: &'a mut Spellings,
    quoted: &'a Quoted,
}

impl Found<'_> {
    fn name(&mut self, name: &Ident) {
        let spelling = match name.quote_style {
            Some(_) => {
                let is_same = |quoted: &&String| *folded(quoted) == name.value;
                let here = self.quoted.get(&place(name.span.start)).filter(is_same);
                // What was put in other words stands elsewhere.
                here.or_else(|| self.quoted.values().filter(is_same).min())
            }
            None => Some(&name.value),
        };
        let Some(spelling) = spelling else { return };
        let lower = folded(spelling);
        if lower != *spelling {
            self.spellings.named.entry(lower.into_owned()).or_insert_with(|| spelling.clone());
        }
    }

    fn of_statement(&mut self, statement: &Statement) {
        match statement {
            Statement::CreateTable(create) => create.columns.iter().for_each(|column| self.name(&column.name)),
            Statement::CreateView(create) => create.columns.iter().for_each(|column| self.name(&column.name)),
            _ => {}
        }
    }

    /// Names the outputs of a query in `FROM` or `WITH` that have none: their names are those of columns.
    fn name_outputs(&mut self, body: &mut SetExpr) {
        let select = match body {
            SetExpr::Select(select) => select,
            SetExpr::Query(query) => return self.name_outputs(&mut query.body),
            SetExpr::SetOperation { left, .. } => return self.name_outputs(left),
            _ => return,
        };
        // What says what a pivot wants is no output.
        if syntax::pivots::marked(select).is_some() {
            return;
        }
        let mut taken: HashSet<String> = select.projection.iter().filter_map(name_of).collect();
        for item in &mut select.projection {
            let Output::Written(written) = output(item, self.quoted) else { continue };
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let lower = folded(&written).into_owned();
            let mut numbered = std::iter::once(lower.clone()).chain((1..).map(|n| format!("{lower}_{n}")));
            let name = numbered.find(|name| taken.insert(name.clone())).expect("a name among infinitely many");
            if lower != written && name == lower {
                self.spellings.named.entry(lower).or_insert(written);
            }
            let expr = std::mem::replace(expr, Expr::value(Value::Null));
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
        }
    }
}

/// The name that `item` has without being given one.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal_name(alias)),
        SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => Some(base_name(expr)),
        _ => None,
    }
}

impl VisitorMut for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(select) = first_select(&query.body) {
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item {
                    self.name(alias);
                }
            }
        }
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            cte.alias.columns.iter().for_each(|column| self.name(&column.name));
            self.name_outputs(&mut cte.query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.name(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            self.name_outputs(&mut subquery.body);
        }
        if let Some(alias) = alias_of(factor) {
            alias.columns.iter().for_each(|column| self.name(&column.name));
        }
        ControlFlow::Continue(())
    }
}

/// The name of a table that `name` of a file or of several gives, if it gives any: `data/Hits.parquet` is `hits`.
fn base_of_file(name: &str) -> Option<String> {
    let (_, file) = name.rsplit_once(['/', '\\']).unwrap_or(("", name));
    let base = file.split('.').next()?;
    (!base.is_empty() && !base.contains(['*', '?', '[', '{'])).then(|| folded(base).into_owned())
}

/// Gives the files in `FROM` the names that they have without directories and endings, where no other table there is called so.
pub(crate) fn name_files(statement: &mut Parsed) {
    struct Files;

    impl VisitorMut for Files {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let mut factors: Vec<&mut TableFactor> = Vec::new();
            for table in &mut select.from {
                factors.push(&mut table.relation);
                factors.extend(table.joins.iter_mut().map(|join| &mut join.relation));
            }
            let mut taken: HashMap<String, usize> = HashMap::new();
            for factor in &factors {
                let name = match factor {
                    TableFactor::Table { alias: None, name, .. } => file(name.0.as_slice())
                        .or_else(|| name.0.last().and_then(|part| part.as_ident()).map(normal_name)),
                    TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                        Some(normal_name(&alias.name))
                    }
                    _ => None,
                };
                if let Some(name) = name {
                    *taken.entry(name).or_default() += 1;
                }
            }
            for factor in factors {
                let TableFactor::Table { alias: alias @ None, name, args: None, .. } = factor else { continue };
                let Some(base) = file(name.0.as_slice()).filter(|base| taken.get(base) == Some(&1)) else { continue };
                let name = Ident::with_quote('"', base);
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            ControlFlow::Continue(())
        }
    }

    fn file(name: &[ObjectNamePart]) -> Option<String> {
        let [part] = name else { return None };
        let name = part.as_ident().filter(|name| name.quote_style.is_some())?;
        name.value.contains(['.', '/']).then(|| base_of_file(&name.value))?
    }

    let visited = syntax::visit(statement, &mut Files);
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::arrow::datatypes::DataType;

    use crate::statement::parse;

    #[test]
    fn names_are_folded_and_shown_as_they_are_spelled() {
        for (sql, folded, columns, shown) in [
            (
                "SELECT MyCol, \"Other\" FROM t",
                "SELECT MyCol, \"other\" FROM t",
                vec!["mycol", "other"],
                vec!["mycol", "other"],
            ),
            (
                "SELECT 1 AS MyCol, 2 \"B c\"",
                "SELECT 1 AS MyCol, 2 AS \"b c\"",
                vec!["mycol", "b c"],
                vec!["MyCol", "B c"],
            ),
            (
                "SELECT Sum(x), *, 1 FROM t",
                "SELECT Sum(x), *, 1 FROM t",
                vec!["a", "b", "c", "d"],
                vec!["Sum(x)", "b", "c", "1"],
            ),
            ("SELECT f(x), f(x)", "SELECT f(x), f(x)", vec!["p", "f(x)_1"], vec!["f(x)", "f(x)_1"]),
            ("SELECT * FROM \"Dir/A.parquet\"", "SELECT * FROM \"Dir/A.parquet\" AS \"a\"", vec!["x"], vec!["x"]),
            ("SELECT {\"A\": 1} AS s", "SELECT {\"A\": 1} AS s", vec!["s"], vec!["s"]),
            (
                "SELECT * FROM (SELECT Max(x), y FROM t)",
                "SELECT * FROM (SELECT Max(x) AS \"max(x)\", y FROM t)",
                vec!["max(x)", "y"],
                vec!["Max(x)", "y"],
            ),
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            let fields: Vec<_> =
                columns.into_iter().map(|name| super::Field::new(name, DataType::Int32, true)).collect();
            let schema = statement.1.shown(&super::Arc::new(super::Schema::new(fields)));
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!((statement.to_string().as_str(), names), (folded, shown), "{sql}");
        }
    }
}
