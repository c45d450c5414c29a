//! Names of columns: as statements compare them, in small letters, and as they are spelled.
//!
//! Names that differ in case alone are one name, in quotes or not, and results show the spelling of whoever made the column. So tables call their columns by small
//! letters when statements are planned, and a field that is spelled otherwise says so in its metadata, which goes with a column through plans.
//!
//! Not here: the names in statements (`ogee-sql`).

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use datafusion::{
    arrow::datatypes::{Field, FieldRef, Schema, SchemaRef},
    error::Result,
    physical_expr::expressions::Column,
    physical_plan::{
        ExecutionPlan,
        projection::{ProjectionExec, ProjectionExpr},
    },
};

/// The key of a spelling in the metadata of a field.
const KEY: &str = "ogee.spelling";

/// `name` as it is compared with others.
pub fn folded(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// The spelling of `field`'s name that goes with it, if it has one.
pub fn known_spelling(field: &Field) -> Option<&str> {
    let spelling = field.metadata().get(KEY)?;
    // A column that got another name has kept what was said of it.
    spelling.eq_ignore_ascii_case(field.name()).then_some(spelling)
}

/// `field` with a name that is spelled so.
pub fn spelled(field: &Field, spelling: &str) -> Field {
    let name = folded(spelling).into_owned();
    let mut metadata = field.metadata().clone();
    match name == spelling {
        true => metadata.remove(KEY),
        false => metadata.insert(KEY.to_owned(), spelling.to_owned()),
    };
    field.clone().with_name(name).with_metadata(metadata)
}

/// `field` as others than this engine see it: without what is said of its spelling.
pub fn plain(field: &FieldRef) -> FieldRef {
    if !field.metadata().contains_key(KEY) {
        return Arc::clone(field);
    }
    let mut metadata = field.metadata().clone();
    metadata.remove(KEY);
    Arc::new(field.as_ref().clone().with_metadata(metadata))
}

/// Whether columns of `schema` have names that statements do not find.
pub fn needs_folding(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(folded(field.name()), Cow::Owned(_)))
}

/// `schema` with names in small letters, no two of them the same: `a`, `A` are `a`, `a_1`, which is spelled `A_1`.
pub fn fold(schema: &Schema) -> SchemaRef {
    let mut taken = HashSet::new();
    let one = |field: &FieldRef| {
        let spelling = known_spelling(field).unwrap_or(field.name());
        let mut spellings =
            std::iter::once(Cow::Borrowed(spelling)).chain((1..).map(|n| Cow::Owned(format!("{spelling}_{n}"))));
        let own = spellings.find(|own| taken.insert(folded(own).into_owned())).expect("a name among infinitely many");
        match *field.name() == own && matches!(folded(&own), Cow::Borrowed(_)) {
            true => Arc::clone(field),
            false => Arc::new(spelled(field, &own)),
        }
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(one).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `plan` with columns that are called as in `schema`.
///
/// # Errors
/// Those of the planner.
pub fn named(plan: Arc<dyn ExecutionPlan>, schema: &Schema) -> Result<Arc<dyn ExecutionPlan>> {
    let found = plan.schema();
    if found.fields().iter().zip(schema.fields()).all(|(found, wanted)| found.name() == wanted.name()) {
        return Ok(plan);
    }
    let columns = found.fields().iter().zip(schema.fields()).enumerate();
    let column = |(index, (found, wanted)): (usize, (&FieldRef, &FieldRef))| ProjectionExpr {
        expr: Arc::new(Column::new(found.name(), index)),
        alias: wanted.name().clone(),
    };
    let projection = ProjectionExec::try_new(columns.map(column), Arc::clone(&plan))?;
    // A scan that can give its columns other names does so itself.
    Ok(match plan.try_swapping_with_projection(&projection)? {
        Some(named) => named,
        None => Arc::new(projection),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn names_are_folded_apart_and_keep_their_spelling() {
        let field = |name: &str| Field::new(name, DataType::Int32, true);
        let schema = Schema::new(vec![field("a"), field("A"), field("a_1"), field("Größe")]);
        assert!(needs_folding(&schema));
        let schema = fold(&schema);
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "a_1", "a_1_1", "größe"]);
        let spellings: Vec<_> = schema.fields().iter().map(|field| known_spelling(field)).collect();
        assert_eq!(spellings, [None, Some("A_1"), None, Some("Größe")]);
        assert_eq!(fold(&schema), schema);
        let renamed = schema.field(1).clone().with_name("b");
        assert_eq!(known_spelling(&renamed), None);
        assert!(plain(&schema.fields()[1]).metadata().is_empty());
    }
}
