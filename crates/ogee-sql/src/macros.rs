//! Macros: expressions and queries with parameters, put in the place of their calls before anything else is done with a statement.
//!
//! A session keeps them as they were parsed ([`Macros`], an extension of its configuration). A call is replaced by the body, in which each parameter is the argument; a parameter hides
//! columns of its name, and is hidden by the parameters of a lambda and, before a dot, by tables of the body. Views keep the call, and see the macro there is when they are used.
//!
//! 1. Arguments are written out before the body, the body before it gets them: a name in an argument is never taken for a parameter.
//! 2. What is written out is counted, since bodies may double what they are given: at [`NODES_MAX`] it ends in an error.
//! 3. A macro whose body leads back to itself is an error when it is called.
//!
//! A macro may have the name of a function, and is then called in its place. What the parser's tree says for such a function is written otherwise for DataFusion (`syntax`), which is left to this
//! module for the names that macros have had in this process ([`is_hidden`]).
//!
//! Not here: the text of `CREATE MACRO` (`syntax::macros`).

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use datafusion::{
    execution::SessionState,
    sql::{
        parser::Statement as Parsed,
        sqlparser::ast::{
            AccessExpr, DataType, DropFunction, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
            FunctionDesc, Ident, MacroDefinition, ObjectName, Query, Select, SelectItem, Statement, TableAlias,
            TableFactor, TableFunctionArgs, TableWithJoins, Visitor, VisitorMut, WindowType,
        },
    },
};
use ogee_functions::{Error, Result};
use parking_lot::RwLock;

use crate::{
    changes::shown_expression,
    columns_of,
    depth::DEPTH_MAX,
    names::normal_name,
    syntax::{
        self,
        macros::{BODY, DEFAULT, MACRO, MACRO_UNLESS_THERE},
    },
    visitors,
};

/// Expressions that the macros of a statement may become. Twenty calls of `m(x) AS x + x` within one another would be a million; a statement of this many is planned in seconds.
const NODES_MAX: usize = 100_000;

/// Names that macros have had in this process, in lower case.
static HIDDEN: RwLock<Option<HashSet<String>>> = RwLock::new(None);

/// Whether a call of the function `name`, in lower case, may be one of a macro.
pub(crate) fn is_hidden(name: &str) -> bool {
    HIDDEN.read().as_ref().is_some_and(|names| names.contains(name))
}

/// Whether `function` may call a macro.
pub(crate) fn may_call(function: &Function) -> bool {
    HIDDEN.read().as_ref().is_some_and(|names| callee(&function.name).is_some_and(|name| names.contains(&name)))
}

/// Has calls be left for the macro that `statement` makes, also in later statements of the same text.
pub(crate) fn hide(statement: &Parsed) {
    let Parsed::Statement(statement) = statement else { return };
    if let Statement::CreateMacro { name, .. } = &**statement
        && let Some(name) = called(name)
    {
        HIDDEN.write().get_or_insert_default().insert(name);
    }
}

/// The macros of a session.
#[derive(Debug, Default)]
pub struct Macros(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    values: HashMap<String, Arc<Vec<Body>>>,
    tables: HashMap<String, Arc<Vec<Body>>>,
}

#[derive(Debug)]
struct Body {
    parameters: Vec<Parameter>,
    is: Is,
}

#[derive(Clone, Debug)]
enum Is {
    Value(Box<Expr>),
    Table(Box<Query>),
}

#[derive(Debug)]
struct Parameter {
    name: String,
    data_type: Option<DataType>,
    default: Option<Expr>,
}

/// A macro, as it is told of.
pub struct MacroInfo {
    /// Its name.
    pub name: String,
    /// Whether it is a table.
    pub is_table: bool,
    /// The names of its parameters.
    pub parameters: Vec<String>,
    /// What it stands for.
    pub body: String,
}

impl Macros {
    /// All of them, one for each body.
    pub fn list(&self) -> Vec<MacroInfo> {
        let known = self.0.read();
        let bodies = [(&known.values, false), (&known.tables, true)].into_iter().flat_map(|(of, is_table)| {
            of.iter().flat_map(move |(name, bodies)| bodies.iter().map(move |body| (name, is_table, body)))
        });
        let told = |(name, is_table, body): (&String, bool, &Body)| MacroInfo {
            name: name.clone(),
            is_table,
            parameters: body.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
            body: match &body.is {
                Is::Value(value) => shown_expression(value),
                Is::Table(query) => query.to_string(),
            },
        };
        bodies.map(told).collect()
    }

    /// Does what `statement` says, if it makes or drops a macro; whether it does.
    ///
    /// # Errors
    /// [`Error::Plan`] for a macro that is there already or is not there, and for parameters that make no sense.
    pub fn apply(&self, statement: &Parsed) -> Result<bool> {
        let Parsed::Statement(statement) = statement else { return Ok(false) };
        match &**statement {
            Statement::CreateMacro { or_replace, name, definition, .. } => {
                self.create(name, definition, *or_replace)?
            }
            Statement::DropFunction(DropFunction { if_exists, func_desc, .. }) => {
                self.drop(func_desc, false, *if_exists)?
            }
            Statement::DropProcedure { if_exists, proc_desc, .. } => self.drop(proc_desc, true, *if_exists)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn create(&self, name: &ObjectName, definition: &MacroDefinition, or_replace: bool) -> Result<()> {
        let Some(called) = called(name) else { return Err(Error::Plan(format!("{name} is no name of a macro"))) };
        let MacroDefinition::Expr(Expr::Function(bodies)) = definition else {
            return Err(Error::Internal("a macro without bodies".to_owned()));
        };
        let kind = bodies.name.to_string();
        let unless_there = kind == MACRO_UNLESS_THERE;
        if kind != MACRO && !unless_there {
            return Err(Error::Internal(format!("a macro made of {kind}")));
        }
        let bodies: Vec<Body> = unnamed(bodies).map(|body| Body::read(&called, body)).collect::<Result<_>>()?;
        for (at, body) in bodies.iter().enumerate() {
            let count = body.parameters.len();
            if bodies[..at].iter().any(|other| other.parameters.len() == count) {
                return Err(Error::Plan(format!(
                    "macro '{called}' has two bodies of {count} parameters; macros are told apart by their number"
                )));
            }
        }
        let is_table = bodies.iter().any(|body| matches!(body.is, Is::Table(_)));
        let mut known = self.0.write();
        let macros = if is_table { &mut known.tables } else { &mut known.values };
        if macros.contains_key(&called) && !or_replace {
            return match unless_there {
                true => Ok(()),
                false => Err(Error::Plan(format!(
                    "macro '{called}' exists already; use CREATE OR REPLACE MACRO to replace it"
                ))),
            };
        }
        macros.insert(called, Arc::new(bodies));
        Ok(())
    }

    fn drop(&self, dropped: &[FunctionDesc], is_table: bool, if_exists: bool) -> Result<()> {
        let mut known = self.0.write();
        let macros = if is_table { &mut known.tables } else { &mut known.values };
        for FunctionDesc { name, .. } in dropped {
            let called = called(name).unwrap_or_default();
            if macros.remove(&called).is_none() && !if_exists {
                let (kind, other) = if is_table { ("table macro", "MACRO") } else { ("macro", "MACRO TABLE") };
                return Err(Error::Plan(format!(
                    "there is no {kind} '{name}' to drop; DROP {other} drops those of the other kind"
                )));
            }
        }
        Ok(())
    }

    fn of(&self, name: &str, is_table: bool) -> Option<Arc<Vec<Body>>> {
        let known = self.0.read();
        let macros = if is_table { &known.tables } else { &known.values };
        macros.get(name).cloned()
    }
}

/// What a macro of this name is known by: case does not count, nor does the schema.
fn called(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_ascii_lowercase())
}

/// What a call of this name may mean: functions have no schema here, but those that are left out (`syntax::methods`).
fn callee(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [_] => called(name),
        _ => None,
    }
}

fn unnamed(function: &Function) -> impl Iterator<Item = &Expr> {
    let args = match &function.args {
        FunctionArguments::List(list) => &list.args[..],
        _ => &[],
    };
    args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn function<'a>(expr: &'a Expr, name: &str) -> Option<&'a Function> {
    match expr {
        Expr::Function(function) if function.name.to_string() == name => Some(function),
        _ => None,
    }
}

impl Body {
    fn read(called: &str, body: &Expr) -> Result<Self> {
        let wrong = || {
            Error::Plan(format!(
                "a parameter of macro '{called}' is a name, a name and a type, or a name := its default"
            ))
        };
        let mut parts = function(body, BODY).map(unnamed).into_iter().flatten();
        let is = match parts.next().ok_or_else(wrong)? {
            Expr::Exists { subquery, negated: false } => Is::Table(subquery.clone()),
            value => Is::Value(Box::new(value.clone())),
        };
        let mut parameters: Vec<Parameter> = Vec::new();
        for part in parts {
            let (part, default) = match function(part, DEFAULT) {
                Some(given) => {
                    let mut given = unnamed(given);
                    (given.next().ok_or_else(wrong)?, given.next().cloned())
                }
                None => (part, None),
            };
            let (name, data_type) = match part {
                Expr::Identifier(name) => (name, None),
                Expr::Cast { expr, data_type, .. } => match &**expr {
                    Expr::Identifier(name) => (name, Some(data_type.clone())),
                    _ => return Err(wrong()),
                },
                _ => return Err(wrong()),
            };
            let parameter = Parameter { name: name.value.to_ascii_lowercase(), data_type, default };
            if parameters.iter().any(|other| other.name == parameter.name) {
                return Err(Error::Plan(format!("macro '{called}' has two parameters '{}'", parameter.name)));
            }
            if parameter.default.is_none() && parameters.last().is_some_and(|last| last.default.is_some()) {
                let name = parameter.name;
                return Err(Error::Plan(format!(
                    "parameter '{name}' of macro '{called}' has no default, and one before it has; put those with a default last"
                )));
            }
            parameters.push(parameter);
        }
        Ok(Self { parameters, is })
    }

    /// What the parameters are in a call with `args`; `None` if it takes others.
    fn arguments(&self, args: &[FunctionArg]) -> Option<Vec<Expr>> {
        let mut given: Vec<Option<Expr>> = vec![None; self.parameters.len()];
        let mut named = false;
        for (at, arg) in args.iter().enumerate() {
            let (at, value) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if !named => (at, value),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (self.position(name)?, value),
                FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                    (self.position(name)?, value)
                }
                _ => return None,
            };
            named |= !matches!(arg, FunctionArg::Unnamed(_));
            let place = given.get_mut(at)?;
            if place.is_some() {
                return None;
            }
            *place = Some(value.clone());
        }
        let values = given.into_iter().zip(&self.parameters);
        values
            .map(|(value, parameter)| {
                let value = value.or_else(|| parameter.default.clone())?;
                Some(match &parameter.data_type {
                    Some(data_type) => Expr::Cast {
                        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
                        expr: Box::new(bracketed(value)),
                        data_type: data_type.clone(),
                        array: false,
                        format: None,
                    },
                    None => value,
                })
            })
            .collect()
    }

    fn position(&self, name: &Ident) -> Option<usize> {
        self.parameters.iter().position(|parameter| name.value.eq_ignore_ascii_case(&parameter.name))
    }

    /// How it is called.
    fn shown(&self, name: &str) -> String {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|parameter| match &parameter.default {
                Some(default) => format!("{} := {default}", parameter.name),
                None => parameter.name.clone(),
            })
            .collect();
        format!("{name}({})", parameters.join(", "))
    }
}

/// `expr`, so that it stays one expression whatever is around it.
fn bracketed(expr: Expr) -> Expr {
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Function(_)
        | Expr::Nested(_)
        | Expr::Array(_)
        | Expr::Subquery(_)
        | Expr::Lambda(_) => expr,
        expr => Expr::Nested(Box::new(expr)),
    }
}

/// Writes out the calls of macros in `statement`.
///
/// # Errors
/// [`Error::Plan`] for calls that no macro of the name takes; [`Error::Unsupported`] where there is no end to what a call becomes.
pub fn write_out(state: &SessionState, statement: &mut Parsed) -> Result<()> {
    if HIDDEN.read().is_none() {
        return Ok(());
    }
    let macros = state.config().get_extension::<Macros>().unwrap_or_default();
    if syntax::look(statement, &mut Calls { macros: &macros }).is_continue() {
        return Ok(());
    }
    let mut expansion =
        Expansion { macros: &macros, within: Vec::new(), nodes: 0, places: 0, tables: Vec::new(), any: false };
    if let ControlFlow::Break(error) = syntax::visit(statement, &mut expansion) {
        return Err(error);
    }
    if expansion.any { syntax::refusals::check(statement) } else { Ok(()) }
}

/// Whether there is a call of a name that a macro has had, or has.
struct Calls<'a> {
    macros: &'a Macros,
}

impl Calls<'_> {
    fn look(&self, name: &ObjectName, is_table: bool) -> ControlFlow<()> {
        let is_one = callee(name).is_some_and(|name| is_hidden(&name) || self.macros.of(&name, is_table).is_some());
        if is_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.look(&function.name, false),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.look(name, true)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Expansion<'a> {
    macros: &'a Macros,
    /// The macros whose bodies are being written out, the innermost last.
    within: Vec<String>,
    /// Expressions written out so far.
    nodes: usize,
    /// Names given to places of parameters so far.
    places: usize,
    /// Of each `SELECT` around, what it reads, if that is one thing.
    tables: Vec<Option<Ident>>,
    any: bool,
}

/// How large an expression is.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    depth: usize,
}

/// Stands before a number in the name of a place that an argument is put at.
const PLACE: char = '\u{1}';

impl Expansion<'_> {
    /// The body of the macro `name` for `args`; `None` if there is no such macro.
    fn expand(&mut self, name: &str, args: &[FunctionArg], is_table: bool) -> Result<Option<Is>> {
        let Some(bodies) = self.macros.of(name, is_table) else { return Ok(None) };
        if self.within.iter().any(|other| other == name) {
            return Err(Error::Unsupported(format!(
                "macro '{name}' calls itself; use WITH RECURSIVE for what repeats"
            )));
        }
        let found = bodies.iter().find_map(|body| Some((body, body.arguments(args)?)));
        let Some((body, arguments)) = found else {
            let known: Vec<String> = bodies.iter().map(|body| body.shown(name)).collect();
            return Err(Error::Plan(format!(
                "macro '{name}' does not take these arguments; it is {}",
                known.join(", or ")
            )));
        };
        self.any = true;
        let mut parameters = HashMap::new();
        let mut given = HashMap::new();
        // What is given was counted where it was written.
        let mut counted = 0;
        let selects = matches!(&body.is, Is::Value(value) if selects(value));
        for (parameter, mut argument) in body.parameters.iter().zip(arguments) {
            if let Some(Some(table)) = self.tables.last().filter(|_| selects) {
                of_table(&mut argument, table);
            }
            self.places += 1;
            let place = format!("{PLACE}{}", self.places);
            parameters.insert(parameter.name.clone(), place.clone());
            let size = size(&mut argument);
            counted += size.nodes;
            given.insert(place, (size, bracketed(argument)));
        }
        let mut is = body.is.clone();
        self.within.push(name.to_owned());
        let mut placing = Placing { parameters: &parameters, hidden: Vec::new(), tables: Vec::new() };
        visit_body(&mut is, &mut placing).break_value().map_or(Ok(()), Err)?;
        visit_body(&mut is, self).break_value().map_or(Ok(()), Err)?;
        self.within.pop();
        for (place, (_, argument)) in &given {
            keep_apart(&mut is, place, argument);
        }
        let nodes_max = NODES_MAX - self.nodes + counted;
        let mut giving = Giving { given: &given, name, size: Size::default(), deep: 0, nodes_max };
        visit_body(&mut is, &mut giving).break_value().map_or(Ok(()), Err)?;
        self.nodes += giving.size.nodes.saturating_sub(counted);
        // What stands for a constant may be written otherwise than what stands for any value.
        match &mut is {
            Is::Value(value) => syntax::translate_part(&mut **value),
            Is::Table(query) => syntax::translate_part(&mut **query),
        }
        Ok(Some(is))
    }

    fn in_function(&mut self, function: &mut Function) -> Result<Option<Expr>> {
        let Some(name) = callee(&function.name) else { return Ok(None) };
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let Some(is) = self.expand(&name, &list.args, false)? else {
            if self.macros.of(&name, true).is_some() && !is_hidden_function(&name) {
                return Err(Error::Plan(format!("'{name}' is a table macro: call it in FROM")));
            }
            return Ok(is_hidden(&name).then(|| syntax::function_in_other_words(function)).flatten());
        };
        let Is::Value(mut value) = is else { return Ok(None) };
        let clauses = list.duplicate_treatment.is_some() || !list.clauses.is_empty();
        if clauses
            || function.filter.is_some()
            || !function.within_group.is_empty()
            || function.null_treatment.is_some()
        {
            return Err(Error::Plan(format!(
                "'{name}' is a macro and takes no DISTINCT, ORDER BY, FILTER and the like; write them in its body"
            )));
        }
        if let Some(window) = function.over.take() {
            over(&mut value, &window, &name)?;
        }
        Ok(Some(bracketed(*value)))
    }

    fn in_factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        let (name, args, alias, lateral) = match factor {
            TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), alias, .. } => {
                (name, args, alias, false)
            }
            TableFactor::Function { name, args, alias, lateral, .. } => (name, args, alias, *lateral),
            _ => return Ok(()),
        };
        let Some(called) = callee(name) else { return Ok(()) };
        let Some(is) = self.expand(&called, args, true)? else {
            if self.macros.of(&called, false).is_some() && !is_hidden_function(&called) {
                return Err(Error::Plan(format!(
                    "'{called}' is a macro of a value: call it in an expression, not in FROM"
                )));
            }
            return Ok(());
        };
        let Is::Table(subquery) = is else { return Ok(()) };
        let named = TableAlias { explicit: true, name: Ident::with_quote('"', called), columns: Vec::new(), at: None };
        let alias = Some(alias.take().unwrap_or(named));
        *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
        Ok(())
    }
}

/// Functions that are of both kinds, so that a macro of one kind hides no function of the other.
fn is_hidden_function(name: &str) -> bool {
    matches!(name, "range" | "generate_series" | "unnest")
}

fn visit_body<V: VisitorMut>(is: &mut Is, visitor: &mut V) -> ControlFlow<V::Break> {
    match is {
        Is::Value(value) => visitors::visit_mut(&mut **value, visitor),
        Is::Table(query) => visitors::visit_mut(&mut **query, visitor),
    }
}

impl VisitorMut for Expansion<'_> {
    type Break = Error;

    /// An output is called by what was written.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let mut read = select.from.iter().flat_map(syntax::factors);
        let only = read.next().filter(|_| read.next().is_none());
        self.tables.push(only.and_then(syntax::name_of));
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
                && !columns_of::has_star(expr)
                && visitors::visit(expr, &mut Calls { macros: self.macros }).is_break()
            {
                let alias = Ident::with_quote('"', expr.to_string());
                *item =
                    SelectItem::ExprWithAlias { expr: std::mem::replace(expr, Expr::Identifier(alias.clone())), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Error> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        match self.in_function(function) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(value)) => {
                *expr = value;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.in_factor(factor).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

/// Whether a query is in `value`.
fn selects(value: &Expr) -> bool {
    struct Queries;

    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }

    visitors::visit(value, &mut Queries).is_break()
}

/// Gives parameters of lambdas in a body other names than the columns in `argument` have, which is put at `place`.
fn keep_apart(is: &mut Is, place: &str, argument: &Expr) {
    let mut names = HashSet::new();
    syntax::for_each_outside_queries(&mut argument.clone(), |expr| match expr {
        Expr::Identifier(name) => _ = names.insert(normal_name(name)),
        Expr::CompoundIdentifier(parts) => names.extend(parts.first().map(normal_name)),
        _ => {}
    });
    if names.is_empty() {
        return;
    }
    match is {
        Is::Value(value) => syntax::keep_apart(&mut **value, place, &names),
        Is::Table(query) => syntax::keep_apart(&mut **query, place, &names),
    }
}

/// Says of the columns of `argument` that they are of `table`: within a query of the body they would be taken for columns of what that reads.
fn of_table(argument: &mut Expr, table: &Ident) {
    syntax::for_each_outside_queries(argument, |part| {
        if let Expr::Identifier(column) = part {
            *part = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
        }
    });
}

/// Gives the one aggregate of `value` the window of the call.
fn over(value: &mut Expr, window: &WindowType, name: &str) -> Result<()> {
    let mut windows = Vec::new();
    syntax::for_each_outside_queries(value, |expr| {
        if let Expr::Function(function) = expr
            && function.over.is_none()
            && syntax::is_aggregate(function)
        {
            function.over = Some(window.clone());
            windows.push(());
        }
    });
    match windows.len() {
        1 => Ok(()),
        count => Err(Error::Plan(format!(
            "macro '{name}' is no window function: one has a single aggregate in its body, and this one {count}"
        ))),
    }
}

/// How large `expr` is.
fn size(expr: &mut Expr) -> Size {
    let mut giving = Giving { given: &HashMap::new(), name: "", size: Size::default(), deep: 0, nodes_max: usize::MAX };
    // Nothing is given, so it never stops.
    let _ = visitors::visit_mut(expr, &mut giving);
    giving.size
}

/// Names the places of parameters.
struct Placing<'a> {
    parameters: &'a HashMap<String, String>,
    /// The parameters of each lambda around.
    hidden: Vec<Vec<String>>,
    /// The tables of each `SELECT` around.
    tables: Vec<HashSet<String>>,
}

impl Placing<'_> {
    fn place(&self, name: &Ident) -> Option<Expr> {
        let lower = name.value.to_ascii_lowercase();
        if self.hidden.iter().flatten().any(|hidden| *hidden == lower) {
            return None;
        }
        let place = self.parameters.get(&lower)?;
        Some(Expr::Identifier(Ident::with_quote('"', place.clone())))
    }
}

fn names_of(tables: &[TableWithJoins]) -> HashSet<String> {
    let factors = tables.iter().flat_map(syntax::factors);
    factors.filter_map(syntax::name_of).map(|name| normal_name(&name)).collect()
}

impl VisitorMut for Placing<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.tables.push(names_of(&select.from));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Error> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Lambda(lambda) => {
                self.hidden.push(lambda.params.iter().map(|param| param.name.value.to_ascii_lowercase()).collect());
            }
            Expr::Identifier(name) => {
                if let Some(place) = self.place(name) {
                    *expr = place;
                }
            }
            Expr::CompoundIdentifier(names) => {
                let [first, fields @ ..] = &names[..] else { return ControlFlow::Continue(()) };
                let is_table = self.tables.iter().any(|tables| tables.contains(&normal_name(first)));
                if let Some(place) = self.place(first).filter(|_| !is_table) {
                    let field = |name: &Ident| AccessExpr::Dot(Expr::Identifier(name.clone()));
                    let access_chain = fields.iter().map(field).collect();
                    *expr = Expr::CompoundFieldAccess { root: Box::new(Expr::Nested(Box::new(place))), access_chain };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Lambda(_) = expr {
            self.hidden.pop();
        }
        ControlFlow::Continue(())
    }
}

/// Puts arguments at their places, and counts what comes of it.
struct Giving<'a> {
    given: &'a HashMap<String, (Size, Expr)>,
    name: &'a str,
    size: Size,
    deep: usize,
    nodes_max: usize,
}

impl VisitorMut for Giving<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<Error> {
        self.deep += 1;
        self.size.nodes += 1;
        self.size.depth = self.size.depth.max(self.deep);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.deep -= 1;
        if let Expr::Identifier(name) = expr
            && let Some((size, argument)) = self.given.get(&name.value)
        {
            self.size.nodes += size.nodes;
            self.size.depth = self.size.depth.max(self.deep + size.depth + 1);
            if self.size.nodes <= self.nodes_max && self.size.depth <= DEPTH_MAX {
                *expr = argument.clone();
                return ControlFlow::Continue(());
            }
        }
        let name = self.name;
        if self.size.nodes > self.nodes_max {
            return ControlFlow::Break(Error::Unsupported(format!(
                "macro '{name}' becomes more than {NODES_MAX} expressions; compute its arguments in a subquery, which gives them names"
            )));
        }
        if self.size.depth > DEPTH_MAX && !name.is_empty() {
            return ControlFlow::Break(Error::Unsupported(format!(
                "macro '{name}' becomes an expression of more than {DEPTH_MAX} levels; compute a part of it in a subquery"
            )));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::statement::parse;

    fn written(macros: &[&str], sql: &str) -> Result<String> {
        let known = Arc::new(Macros::default());
        for text in macros {
            for statement in parse(text)? {
                assert!(known.apply(&statement.0)?, "{text}");
            }
        }
        let context = SessionContext::new_with_config(SessionConfig::new().with_extension(Arc::clone(&known)));
        let mut statement = parse(sql)?.pop().unwrap().0;
        write_out(&context.state(), &mut statement)?;
        Ok(statement.to_string())
    }

    #[test]
    fn calls_become_bodies() {
        for (macros, sql, expected) in [
            (&["CREATE MACRO f1(a, b := 5) AS a + b"][..], "SELECT f1(x) AS y FROM t", "SELECT (x + 5) AS y FROM t"),
            (
                &["CREATE MACRO f2(a) AS a + 1, (a, b) AS a * b"],
                "SELECT f2(f2(x), 3) AS y",
                "SELECT ((x + 1) * 3) AS y",
            ),
            (
                &["CREATE MACRO f3(x) AS x + y", "CREATE MACRO f4(y) AS f3(y * 2)"],
                "SELECT f4(z) AS v",
                "SELECT ((z * 2) + y) AS v",
            ),
            (
                &["CREATE FUNCTION f5(l) AS l.f6()", "CREATE MACRO f6(v) AS v.a"],
                "SELECT f5(s)",
                "SELECT ((s)['a']) AS \"f5(s)\"",
            ),
            (
                &["CREATE MACRO f7(n) AS TABLE SELECT n AS m FROM t WHERE t.n < n"],
                "SELECT * FROM f7(3)",
                "SELECT * FROM (SELECT 3 AS m FROM t WHERE t.n < 3) AS \"f7\"",
            ),
            (&["CREATE MACRO add(a, b) AS a + b + 1"], "SELECT add(1, 2) AS s", "SELECT (1 + 2 + 1) AS s"),
        ] {
            assert_eq!(written(macros, sql).unwrap(), expected, "{sql}");
        }
        assert_eq!(written(&[], "SELECT add(1, 2)").unwrap().replace(['(', ')'], ""), "SELECT 1 + 2 AS \"add1, 2\"");
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let nested = |levels: usize| format!("SELECT {}1{}", "g1(".repeat(levels), ")".repeat(levels));
        let error = |macros: &[&str], sql: &str| written(macros, sql).unwrap_err().to_string();
        assert!(error(&["CREATE MACRO g1(a) AS a + a"], &nested(40)).contains("more than 100000"));
        assert!(
            error(&["CREATE MACRO g2(a) AS g3(a)", "CREATE MACRO g3(a) AS g2(a)"], "SELECT g2(1)")
                .contains("calls itself")
        );
        assert!(error(&["CREATE MACRO g4(a, b := 1) AS a"], "SELECT g4()").contains("g4(a, b := 1)"));
        assert!(error(&["CREATE MACRO g5(a, a) AS a"], "SELECT 1").contains("two parameters 'a'"));
        assert!(error(&["CREATE MACRO g6(a) AS a", "CREATE MACRO g6(a) AS a"], "SELECT 1").contains("OR REPLACE"));
        assert!(error(&["DROP MACRO g7"], "SELECT 1").contains("no macro 'g7'"));
    }
}
