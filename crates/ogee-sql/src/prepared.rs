//! Prepared statements: kept as they were written, and planned when they are run.
//!
//! DataFusion keeps the plan, with the tables that there were and the types that it took parameters for when it was made. Here a statement is planned for the values that it is run with.
//!
//! Not here: where the values go (`changes::prepared`).

use std::collections::HashMap;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{ObjectName, Statement},
};

pub use crate::changes::prepared::of_nulls;
use crate::{names::normal_name, spellings::Spellings};

/// What a statement does with a prepared one.
pub enum Use {
    /// `PREPARE`
    Prepare(String),
    /// `EXECUTE`
    Execute(String),
    /// `DEALLOCATE`
    Deallocate(String),
}

impl Use {
    /// What `statement` does.
    pub fn of(statement: &Parsed) -> Option<Self> {
        let Parsed::Statement(statement) = statement else { return None };
        match &**statement {
            Statement::Prepare { name, .. } => Some(Self::Prepare(normal_name(name))),
            Statement::Execute { name: Some(name), .. } => last(name).map(Self::Execute),
            Statement::Deallocate { name, .. } => Some(Self::Deallocate(normal_name(name))),
            _ => None,
        }
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(normal_name)
}

/// The prepared statements of a session, by name.
pub type Prepared = tokio::sync::Mutex<HashMap<String, (Parsed, Spellings)>>;
