//! `* EXCLUDE (t.x)`: a column of one table of several.
//!
//! The star becomes one of each table, without the columns that are its own. Where `USING` or `NATURAL` makes one column of several, it is refused: DataFusion would leave out the columns of that
//! name of all tables.
//!
//! Not here: `EXCLUDE` of bare names, which the planner knows of one table, and `columns_of` of several.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, RenameSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, TableWithJoins, WildcardAdditionalOptions,
};
use ogee_functions::{Error, Result};

use super::using::{constraint, name_of};
use crate::names::normal_name;

/// Writes out the stars of `select` that leave columns of tables out.
///
/// # Errors
/// Where it cannot be told which columns remain.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    for item in &mut select.projection {
        if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
            fold(options);
            once(options)?;
        }
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) = item {
            of_one_table(table, options);
        }
    }
    let is_one = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if !qualified(options).is_empty());
    if !select.projection.iter().any(is_one) {
        return Ok(());
    }
    let tables = tables(&mut select.from);
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if !qualified(&options).is_empty() => {
                items.extend(of_tables(&options, tables.as_deref())?);
            }
            item => items.push(item),
        }
    }
    select.projection = items;
    Ok(())
}

/// Brings the names in `options` to small letters: the planner takes them as they are written.
fn fold(options: &mut WildcardAdditionalOptions) {
    let excluded: Vec<&mut ObjectName> = match &mut options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().collect(),
        None => Vec::new(),
    };
    let mut names: Vec<&mut Ident> = Vec::new();
    for name in excluded {
        names.extend(name.0.iter_mut().filter_map(|part| match part {
            ObjectNamePart::Identifier(name) => Some(name),
            ObjectNamePart::Function(_) => None,
        }));
    }
    if let Some(except) = &mut options.opt_except {
        names.push(&mut except.first_element);
        names.extend(&mut except.additional_elements);
    }
    for item in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
        names.push(&mut item.column_name);
    }
    for name in names {
        name.value = normal_name(name);
    }
}

/// # Errors
/// A column is renamed that is left out or replaced.
fn once(options: &WildcardAdditionalOptions) -> Result<()> {
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(item)) => std::slice::from_ref(item),
        Some(RenameSelectItem::Multiple(items)) => items,
        None => return Ok(()),
    };
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let replaced: Vec<String> = replaced.map(|item| normal_name(&item.column_name)).collect();
    let excluded = super::excluded(options);
    for item in renamed {
        let name = normal_name(&item.ident);
        let others = [("EXCLUDE", &excluded), ("REPLACE", &replaced)];
        if let Some((clause, _)) = others.iter().find(|(_, names)| names.contains(&name)) {
            let hint = if *clause == "EXCLUDE" { "name it in one of them" } else { "select it by itself" };
            return Err(Error::Plan(format!("column '{name}' is in both {clause} and RENAME; {hint}")));
        }
    }
    Ok(())
}

/// Of the star of a table, its columns may be excluded by their whole names.
fn of_one_table(table: &ObjectName, options: &mut WildcardAdditionalOptions) {
    let Some(table) = table.0.last().and_then(|part| part.as_ident()).map(normal_name) else { return };
    let excluded: &mut [ObjectName] = match &mut options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_mut(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => &mut [],
    };
    for name in excluded {
        let of = name.0.len().checked_sub(2).and_then(|of| name.0[of].as_ident());
        if of.is_some_and(|of| normal_name(of) == table) {
            name.0.drain(..name.0.len() - 1);
        }
    }
}

fn names(options: &WildcardAdditionalOptions) -> &[ObjectName] {
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => &[],
    }
}

/// The excluded columns that are of a table, with its name.
fn qualified(options: &WildcardAdditionalOptions) -> Vec<(Ident, Ident)> {
    let two = |name: &ObjectName| match name.0.as_slice() {
        [.., table, column] => Some((table.as_ident()?.clone(), column.as_ident()?.clone())),
        _ => None,
    };
    names(options).iter().filter_map(two).collect()
}

/// The tables of `from`, if a star of each gives what one of all does.
fn tables(from: &mut [TableWithJoins]) -> Option<Vec<Ident>> {
    use JoinOperator as J;
    let mut found = Vec::new();
    for table in from {
        found.push(name_of(&table.relation)?);
        for join in &mut table.joins {
            let merges =
                constraint(join).is_some_and(|on| matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural));
            let shows_both = matches!(
                join.join_operator,
                J::Join(_)
                    | J::Inner(_)
                    | J::Left(_)
                    | J::LeftOuter(_)
                    | J::Right(_)
                    | J::RightOuter(_)
                    | J::FullOuter(_)
                    | J::CrossJoin(_)
            );
            if merges || !shows_both {
                return None;
            }
            found.push(name_of(&join.relation)?);
        }
    }
    Some(found)
}

fn of_tables(options: &WildcardAdditionalOptions, tables: Option<&[Ident]>) -> Result<Vec<SelectItem>> {
    let columns = qualified(options);
    let Some(tables) = tables.filter(|_| {
        columns.len() == names(options).len() && options.opt_replace.is_none() && options.opt_rename.is_none()
    }) else {
        let message = "EXCLUDE of a column with its table's name, beside bare names, REPLACE, USING or NATURAL, is not \
                       supported; name the columns, or use JOIN .. ON";
        return Err(Error::Unsupported(message.to_owned()));
    };
    if let Some((table, column)) = columns.iter().find(|(table, _)| tables.iter().all(|other| !is_same(other, table))) {
        return Err(Error::Plan(format!("there is no table {table} in FROM whose column {column} EXCLUDE names")));
    }
    let star = |table: &Ident| {
        let of_table = columns.iter().filter(|(of, _)| is_same(of, table)).map(|(_, column)| column.clone().into());
        let of_table: Vec<ObjectName> = of_table.collect();
        let opt_exclude = (!of_table.is_empty()).then_some(ExcludeSelectItem::Multiple(of_table));
        let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()]));
        SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions { opt_exclude, ..options.clone() })
    };
    Ok(tables.iter().map(star).collect())
}

fn is_same(one: &Ident, other: &Ident) -> bool {
    normal_name(one) == normal_name(other)
}
