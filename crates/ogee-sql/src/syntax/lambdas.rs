//! Fields of the parameters of lambdas: in `lambda s: s.a`, where DataFusion looks for a table `s`, `s.a` is `s['a']`. Lambdas of elements and their places, which have functions
//! of their own.
//!
//! Which names within a lambda are its parameters is told here, too: what is put in the place of a name is not put in theirs, and the names in it are not taken for theirs.
//!
//! Not here: lambdas themselves, which the parser knows.

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    OneOrManyWithParens, Subscript, VisitMut, VisitorMut,
};
use ogee_functions::list_places::{FILTER, TRANSFORM};

use crate::{names::normal_name, visitors};

use super::{for_each_outside_queries, text};

/// The name of the function that `function`, called `name`, is if its lambda takes the place of an element besides it.
pub(super) fn of_places(name: &str, function: &Function) -> Option<&'static str> {
    let of_places = match name {
        "list_transform" | "array_transform" | "list_apply" | "array_apply" | "apply" => TRANSFORM,
        "list_filter" | "array_filter" | "filter" => FILTER,
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda)))] if lambda.params.iter().count() == 2 => {
            Some(of_places)
        }
        _ => None,
    }
}

fn parameters(lambda: &LambdaFunction) -> impl Iterator<Item = String> + '_ {
    lambda.params.iter().map(|param| normal_name(&param.name))
}

/// The parameters of the lambdas around an expression, as a visitor comes by them.
#[derive(Default)]
pub(crate) struct Bound(Vec<Vec<String>>);

impl Bound {
    /// A visitor comes to `expr`.
    pub(crate) fn enter(&mut self, expr: &Expr) {
        if let Expr::Lambda(lambda) = expr {
            self.0.push(parameters(lambda).collect());
        }
    }

    /// A visitor leaves `expr`.
    pub(crate) fn leave(&mut self, expr: &Expr) {
        if matches!(expr, Expr::Lambda(_)) {
            self.0.pop();
        }
    }

    /// Whether `name` is one of them.
    pub(crate) fn has(&self, name: &Ident) -> bool {
        let name = normal_name(name);
        self.0.iter().flatten().any(|bound| *bound == name)
    }

    /// Whether `expr` begins with the name of one of them.
    pub(super) fn begins(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(name) => self.has(name),
            Expr::CompoundIdentifier(names) => names.first().is_some_and(|name| self.has(name)),
            _ => false,
        }
    }
}

/// Gives parameters of lambdas in `clause` other names where they have one of `names`, which something has that is put in the place of `name`.
pub(crate) fn keep_apart(clause: &mut impl VisitMut, name: &str, names: &HashSet<String>) {
    struct Apart<'a> {
        name: &'a str,
        names: &'a HashSet<String>,
    }

    impl VisitorMut for Apart<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Lambda(lambda) = expr else { return ControlFlow::Continue(()) };
            let taken: Vec<String> = parameters(lambda).filter(|param| self.names.contains(param)).collect();
            let mut is_used = false;
            for_each_outside_queries(&mut lambda.body, |expr| {
                is_used |= matches!(expr, Expr::Identifier(used) if normal_name(used) == self.name);
            });
            if !taken.is_empty() && is_used && !parameters(lambda).any(|param| param == self.name) {
                taken.iter().for_each(|param| rename(lambda, param));
            }
            ControlFlow::Continue(())
        }
    }

    let visited = visitors::visit_mut(clause, &mut Apart { name, names });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

/// Gives the parameter `name` of `lambda` another name.
fn rename(lambda: &mut LambdaFunction, name: &str) {
    let other = Ident::with_quote('"', format!("ogee_{name}"));
    let params = match &mut lambda.params {
        OneOrManyWithParens::One(param) => std::slice::from_mut(param),
        OneOrManyWithParens::Many(params) => params,
    };
    for param in params.iter_mut().filter(|param| normal_name(&param.name) == name) {
        param.name = other.clone();
    }
    for_each_outside_queries(&mut lambda.body, |expr| {
        let first = match expr {
            Expr::Identifier(first) => Some(first),
            Expr::CompoundIdentifier(names) => names.first_mut(),
            _ => None,
        };
        if let Some(first) = first.filter(|first| normal_name(first) == name) {
            *first = other.clone();
        }
    });
}

/// Puts the fields of its parameters in `lambda` in other words.
pub(super) fn in_lambda(lambda: &mut LambdaFunction) {
    let params: Vec<String> = parameters(lambda).collect();
    for_each_outside_queries(&mut lambda.body, |expr| {
        let Expr::CompoundIdentifier(names) = expr else { return };
        let [first, fields @ ..] = names.as_slice() else { return };
        if fields.is_empty() || !params.contains(&normal_name(first)) {
            return;
        }
        let field = |name| AccessExpr::Subscript(Subscript::Index { index: text(&normal_name(name)) });
        let access_chain = fields.iter().map(field).collect();
        *expr = Expr::CompoundFieldAccess { root: Box::new(Expr::Identifier(first.clone())), access_chain };
    });
}
