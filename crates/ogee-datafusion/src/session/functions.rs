//! Functions that a program gives to a session, and the list of all functions.
//!
//! Not here: how they are called (`crate::user_functions`).

use ogee_files::spelling::folded;
use ogee_functions::{Error, Result};
use ogee_sql::told::near;

use super::Session;
use crate::{
    listing::{FunctionInfo, FunctionKind},
    user_functions::{AggregateFunction, ScalarFunction},
};

impl Session {
    /// Makes `function` known to statements that are planned from now on, in the place of one of the program's of the same name.
    ///
    /// # Errors
    /// The name is none, or of a function that is not of the program.
    pub fn add_scalar_function(&self, function: ScalarFunction) -> Result<()> {
        let name = function.name().to_owned();
        self.add(&name, FunctionKind::Scalar, || self.context.register_udf(function.registered()))
    }

    /// Makes `function` known to statements that are planned from now on, in the place of one of the program's of the same name.
    ///
    /// # Errors
    /// The name is none, or of a function that is not of the program; it has no arguments.
    pub fn add_aggregate_function(&self, function: AggregateFunction) -> Result<()> {
        let name = function.name().to_owned();
        if function.arguments() == 0 {
            return Err(Error::Plan(format!("aggregate '{name}' has no arguments; give it one at least")));
        }
        self.add(&name, FunctionKind::Aggregate, || self.context.register_udaf(function.registered()))
    }

    fn add(&self, name: &str, kind: FunctionKind, register: impl FnOnce()) -> Result<()> {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        if !begins || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            return Err(Error::Plan(format!("'{name}' is no name of a function; use letters, digits and _")));
        }
        let mut given = self.functions.lock();
        if !given.contains_key(name) && self.functions_named(Some(name)).next().is_some() {
            return Err(Error::Plan(format!("there is a function '{name}' already; use another name")));
        }
        self.forget(name, given.insert(name.to_owned(), kind));
        register();
        Ok(())
    }

    /// Takes function `name`, which the program gave, away. Statements that call it go on.
    ///
    /// # Errors
    /// The program gave none of this name.
    pub fn drop_function(&self, name: &str) -> Result<()> {
        let mut given = self.functions.lock();
        let Some(kind) = given.remove(&*folded(name)) else {
            let near = near(name, given.keys().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(Error::Plan(format!("the program gave no function '{name}'{hint}")));
        };
        self.forget(&folded(name), Some(kind));
        Ok(())
    }

    fn forget(&self, name: &str, kind: Option<FunctionKind>) {
        match kind {
            Some(FunctionKind::Aggregate) => self.context.deregister_udaf(name),
            Some(_) => self.context.deregister_udf(name),
            None => {}
        }
    }

    /// All functions, by their names.
    pub fn function_list(&self) -> Vec<FunctionInfo> {
        let given = self.functions.lock();
        let mut functions: Vec<FunctionInfo> = self
            .functions_named(None)
            .map(|(name, kind)| FunctionInfo { is_of_program: given.contains_key(&name), name, kind })
            .collect();
        functions.sort();
        functions.dedup();
        functions
    }

    /// The functions, or those of this name.
    fn functions_named(&self, name: Option<&str>) -> impl Iterator<Item = (String, FunctionKind)> + use<> {
        // Functions that statements are written with here have names that nobody can write, or is not to.
        let can_be_written = |known: &String| {
            !known.starts_with("ogee_") && known.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let (name, state) = (name.map(str::to_owned), self.context.state());
        let of = move |names: Vec<String>, kind: FunctionKind| {
            names.into_iter().filter(can_be_written).map(move |name| (name, kind)).collect::<Vec<_>>()
        };
        let scalar = of(state.scalar_functions().keys().cloned().collect(), FunctionKind::Scalar);
        let higher = of(state.higher_order_functions().keys().cloned().collect(), FunctionKind::Scalar);
        let aggregates = of(state.aggregate_functions().keys().cloned().collect(), FunctionKind::Aggregate);
        let windows = of(state.window_functions().keys().cloned().collect(), FunctionKind::Window);
        let tables = of(state.table_functions().keys().cloned().collect(), FunctionKind::Table);
        let all = scalar.into_iter().chain(higher).chain(aggregates).chain(windows).chain(tables);
        all.filter(move |(known, _)| name.as_ref().is_none_or(|name| name == known))
    }
}
