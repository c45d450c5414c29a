//! `COMMENT ON`.
//!
//! A comment is kept by the name of what it is of, and goes to what takes that name.
//!
//! Not here: where comments are to be seen (`crate::system`).

use datafusion::{
    datasource::TableType,
    execution::SessionState,
    sql::{
        parser::Statement as ParsedStatement,
        planner::object_name_to_table_reference,
        sqlparser::ast::{CommentObject, ObjectName, ObjectNamePart, Statement as SqlStatement},
    },
};
use ogee_functions::{Error, Result};
use ogee_sql::catalogs;

use super::{Outcome, Session};

impl Session {
    /// Runs `statement` if it comments on something.
    pub(super) async fn comment(&self, state: &SessionState, statement: &ParsedStatement) -> Result<Option<Outcome>> {
        let ParsedStatement::Statement(statement) = statement else { return Ok(None) };
        let SqlStatement::Comment { object_type, object_name, comment, if_exists, .. } = &**statement else {
            return Ok(None);
        };
        let (name, column) = match object_type {
            CommentObject::Table | CommentObject::View => (object_name.clone(), None),
            CommentObject::Column => match object_name.0.as_slice() {
                [table @ .., ObjectNamePart::Identifier(column)] if !table.is_empty() => {
                    (ObjectName(table.to_vec()), Some(column.clone()))
                }
                _ => return Err(Error::Plan(format!("'{object_name}' is no column: write table.column"))),
            },
            other => {
                let instead = "comments are of tables, views and columns";
                return Err(Error::Unsupported(format!("COMMENT ON {other} is not supported; {instead}")));
            }
        };
        let reference = object_name_to_table_reference(name.clone(), true)?;
        if !self.table_exists(&reference)? {
            if *if_exists {
                return Ok(Some(Outcome::Done(None)));
            }
            return Err(Error::Plan(format!("table '{name}' does not exist")));
        }
        let provider = state.schema_for_ref(reference.clone())?;
        let kind = provider.table_type(reference.table()).await?;
        match (object_type, kind) {
            (CommentObject::Table, Some(TableType::View)) => {
                return Err(Error::Plan(format!("'{name}' is a view; use COMMENT ON VIEW")));
            }
            (CommentObject::View, Some(TableType::Base)) => {
                return Err(Error::Plan(format!("'{name}' is a table; use COMMENT ON TABLE")));
            }
            _ => {}
        }
        let column = match column {
            None => None,
            Some(column) => {
                let column = catalogs::last_name(&column);
                let table = provider.table(reference.table()).await?;
                let fields = table.map(|table| table.schema());
                let found = fields.as_ref().and_then(|fields| {
                    fields
                        .fields()
                        .iter()
                        .find(|field| *field.name() == column || field.name().eq_ignore_ascii_case(&column))
                });
                let missing = || Error::Plan(format!("table '{name}' has no column '{column}'"));
                Some(found.ok_or_else(missing)?.name().clone())
            }
        };
        let options = &state.config_options().catalog;
        let resolved = reference.resolve(&options.default_catalog, &options.default_schema);
        let key = (resolved.schema.to_string(), resolved.table.to_string(), column);
        let mut comments = self.comments.lock();
        match comment {
            Some(comment) => comments.insert(key, comment.clone()),
            None => comments.remove(&key),
        };
        Ok(Some(Outcome::Done(None)))
    }
}
