//! Outputs that are the fields of a struct: `unnest(s)` and `s.*`.
//!
//! DataFusion names the fields of `unnest(s)` as in `t.s.x`, under which no query finds them, and takes the `s` of `s.*` for a table. They become `s.x AS x, s.y AS y`, which
//! are known when the struct's type is (`stars`).
//!
//! Not here: structs in lists, whose fields stay together.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement as Parsed,
    sqlparser::ast::{
        AccessExpr, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, IdentWithAlias,
        RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, Subscript, TableFactor, TableWithJoins,
        Value, VisitorMut, WildcardAdditionalOptions,
    },
};

use super::using::{excluded, name_of};
use ogee_functions::{Error, Result};

use crate::names::{call, normal_name};

/// What the output `item` of `select` gives the fields of, if it is a struct.
pub(crate) fn unnested(select: &Select, item: &SelectItem) -> Option<Expr> {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = &list.args[..] else { return None };
            let [name] = &function.name.0[..] else { return None };
            let is_unnest = name.as_ident().is_some_and(|name| normal_name(name) == "unnest");
            let is_list = matches!(arg, Expr::Array(_) | Expr::Cast { data_type: DataType::Array(_), .. });
            (is_unnest && !is_list).then(|| arg.clone())
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
            if options.opt_ilike.is_none() && options.opt_except.is_none() =>
        {
            let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
            match &parts[..] {
                [column] if !select.from.iter().any(|table| has_table(table, column)) => {
                    Some(Expr::Identifier(column.clone()))
                }
                [table, _] if select.from.iter().any(|from| has_table(from, table)) => {
                    Some(Expr::CompoundIdentifier(parts))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a table of this name is in `from`, or may be.
fn has_table(from: &TableWithJoins, name: &Ident) -> bool {
    super::factors(from).any(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => has_table(table_with_joins, name),
        TableFactor::NestedJoin { alias: Some(alias), .. } => normal_name(&alias.name) == normal_name(name),
        factor => name_of(factor).is_some_and(|table| normal_name(&table) == normal_name(name)),
    })
}

/// Puts the fields of `of` in the place of the output at `at`, as the options of its star say.
///
/// # Errors
/// Options name a field that is not there, or none is left.
pub(crate) fn write_out_fields(select: &mut Select, at: usize, of: &Expr, fields: &[String]) -> Result<()> {
    let options = match &select.projection[at] {
        SelectItem::QualifiedWildcard(_, options) => options.clone(),
        _ => WildcardAdditionalOptions::default(),
    };
    let excluded: Vec<String> = excluded(&options);
    let replaced: Vec<_> = options.opt_replace.iter().flat_map(|replace| &replace.items).collect();
    let renamed: &[IdentWithAlias] = match &options.opt_rename {
        Some(RenameSelectItem::Single(item)) => std::slice::from_ref(item),
        Some(RenameSelectItem::Multiple(items)) => items,
        None => &[],
    };
    let is = |field: &str, name: &str| field.eq_ignore_ascii_case(name);
    let named = excluded.iter().cloned();
    let named = named.chain(replaced.iter().map(|item| normal_name(&item.column_name)));
    for name in named.chain(renamed.iter().map(|item| normal_name(&item.ident))) {
        if !fields.iter().any(|field| is(field, &name)) {
            return Err(Error::Plan(format!("{of} has no field '{name}'; it has {}", fields.join(", "))));
        }
    }
    let field = |name: &String| {
        if excluded.iter().any(|excluded| is(name, excluded)) {
            return None;
        }
        let replacement = replaced.iter().find(|item| is(name, &normal_name(&item.column_name)));
        let expr = match replacement {
            Some(item) => item.expr.clone(),
            None => call("get_field", vec![of.clone(), Expr::value(Value::SingleQuotedString(name.clone()))]),
        };
        let new = renamed.iter().find(|item| is(name, &normal_name(&item.ident))).map(|item| item.alias.clone());
        Some(SelectItem::ExprWithAlias { expr, alias: new.unwrap_or_else(|| Ident::with_quote('"', name.clone())) })
    };
    let items: Vec<SelectItem> = fields.iter().filter_map(field).collect();
    if items.is_empty() {
        return Err(Error::Plan(format!("EXCLUDE leaves no field of {of}")));
    }
    select.projection.splice(at..=at, items);
    Ok(())
}

/// Takes the fields of the column `name` that are written with dots of the column as a value, which it may be of an outer query; false if there are none.
pub(crate) fn take_fields_of(statement: &mut Parsed, name: &str) -> bool {
    struct Fields<'a> {
        name: &'a str,
        any: bool,
    }

    impl VisitorMut for Fields<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
            let column = parts.iter().take(2).position(|part| normal_name(part) == self.name);
            let Some(column) = column.filter(|column| column + 1 < parts.len()) else {
                return ControlFlow::Continue(());
            };
            let fields = parts.split_off(column + 1);
            let root = match parts.as_slice() {
                [column] => Expr::Identifier(column.clone()),
                _ => Expr::CompoundIdentifier(std::mem::take(parts)),
            };
            let field = |field: Ident| {
                let index = Expr::value(Value::SingleQuotedString(normal_name(&field)));
                AccessExpr::Subscript(Subscript::Index { index })
            };
            let access_chain = fields.into_iter().map(field).collect();
            *expr = Expr::CompoundFieldAccess { root: Box::new(root), access_chain };
            self.any = true;
            ControlFlow::Continue(())
        }
    }

    let mut fields = Fields { name, any: false };
    let visited = super::visit(statement, &mut fields);
    debug_assert!(visited.is_continue(), "the visitor never stops");
    fields.any
}
