//! Types that statements have given a name: `CREATE TYPE money AS DECIMAL(9, 2)`.
//!
//! A name stands for its type wherever one is written, and a column has that type from then on: to drop the name changes no table.
//!
//! A type with the values of a query has those that it gave when the type was made.
//!
//! Not here: which types there are (`types`).

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, CreateDomain, DataType, EnumMember, Expr,
        ObjectName, ObjectType, Query, Statement, VisitorMut,
    },
};
use ogee_functions::{Error, Result};

use crate::{names::normal_name, statements, syntax, types};

/// Types by name.
pub type NamedTypes = HashMap<String, DataType>;

/// Makes or drops a name among `types`, if `statement` is of one. Gives whether it is.
///
/// # Errors
/// There is one already, or none.
pub fn change(statement: &Parsed, types: &mut NamedTypes) -> Result<bool> {
    let Parsed::Statement(statement) = statement else { return Ok(false) };
    match &**statement {
        Statement::CreateDomain(CreateDomain { name, data_type, collation, .. }) => {
            let key = key(name)?;
            let said = collation.as_ref().map_or("", |said| said.value.as_str());
            if types.contains_key(&key) && said != statements::REPLACES {
                return match said {
                    statements::UNLESS_EXISTS => Ok(true),
                    _ => Err(Error::Plan(format!("there is a type '{key}' already"))),
                };
            }
            let mut data_type = data_type.clone();
            in_type(&mut data_type, types);
            types::check(&data_type)?;
            types.insert(key, data_type);
            Ok(true)
        }
        Statement::Drop { object_type: ObjectType::Type, if_exists, names, .. } => {
            for name in names {
                let key = key(name)?;
                if types.remove(&key).is_none() && !if_exists {
                    return Err(Error::Plan(format!("there is no type '{key}'")));
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The query of the values of the `ENUM` that `statement` makes, if they are those of one.
///
/// # Errors
/// If it is none.
pub fn values_query(statement: &Parsed) -> Result<Option<Query>> {
    let Parsed::Statement(statement) = statement else { return Ok(None) };
    let Statement::CreateDomain(CreateDomain { data_type: DataType::Custom(name, query), .. }) = &**statement else {
        return Ok(None);
    };
    let [query] = &query[..] else { return Ok(None) };
    if !name.to_string().eq_ignore_ascii_case("ENUM") {
        return Ok(None);
    }
    match crate::parse(query)?.pop().map(|statement| statement.0) {
        Some(Parsed::Statement(statement)) => match *statement {
            Statement::Query(query) => Ok(Some(*query)),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Makes `values` those of the `ENUM` that `statement` makes.
pub fn set_values(statement: &mut Parsed, values: Vec<String>) {
    if let Parsed::Statement(statement) = statement
        && let Statement::CreateDomain(CreateDomain { data_type, .. }) = &mut **statement
    {
        *data_type = DataType::Enum(values.into_iter().map(EnumMember::Name).collect(), None);
    }
}

fn key(name: &ObjectName) -> Result<String> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(normal_name);
    last.ok_or_else(|| Error::Plan(format!("'{name}' is no name of a type")))
}

/// Writes types in the place of their names.
pub fn write_out(statement: &mut Parsed, types: &NamedTypes) {
    if types.is_empty() {
        return;
    }
    let visited = syntax::visit(statement, &mut Names { types });
    debug_assert!(visited.is_continue(), "the visitor never stops");
}

struct Names<'a> {
    types: &'a NamedTypes,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        match statement {
            Statement::CreateTable(create) => {
                create.columns.iter_mut().for_each(|column| in_type(&mut column.data_type, self.types));
            }
            Statement::AlterTable(alter) => {
                for operation in &mut alter.operations {
                    match operation {
                        AlterTableOperation::AddColumn { column_def, .. } => {
                            in_type(&mut column_def.data_type, self.types);
                        }
                        AlterTableOperation::AlterColumn {
                            op: AlterColumnOperation::SetDataType { data_type, .. },
                            ..
                        } => in_type(data_type, self.types),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } => in_type(data_type, self.types),
            Expr::TypedString(typed) => in_type(&mut typed.data_type, self.types),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Writes out the names within `data_type`, and puts it in the words of the planner.
fn in_type(data_type: &mut DataType, types: &NamedTypes) {
    match data_type {
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            if let Some(known) = key(name).ok().and_then(|key| types.get(&key)) {
                *data_type = known.clone();
            }
        }
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => in_type(inner, types),
        DataType::Map(key, value) => {
            in_type(key, types);
            in_type(value, types);
        }
        DataType::Struct(fields, _) | DataType::Tuple(fields) => {
            fields.iter_mut().for_each(|field| in_type(&mut field.field_type, types))
        }
        _ => {}
    }
    syntax::in_type(data_type);
}
