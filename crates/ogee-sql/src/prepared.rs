//! Prepared statements: kept as they were written, and planned when they are run.
//!
//! DataFusion keeps the plan, with the tables that there were when it was made. Here a statement that is run is planned anew before, and DataFusion's plan is replaced.
//!
//! Not here: parameters, which are DataFusion's.

use std::collections::HashMap;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{ObjectName, Statement},
};

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

/// The prepared statements of a session, by name. The lock is held while DataFusion's plan of one is replaced and taken.
pub type Prepared = tokio::sync::Mutex<HashMap<String, (Parsed, Spellings)>>;
