//! Where NULLs come in an order that says nothing of them: `SET default_null_order`.
//!
//! Not here: how DataFusion's planner heeds it.

use datafusion::config::SqlParserOptions;
use ogee_functions::{Error, Result};

/// The place of NULLs among the rows of `ORDER BY x` and of `ORDER BY x DESC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NullOrder {
    /// First in both.
    First,
    /// Last in both, as DuckDB has it.
    Last,
    /// As if NULL were less than all values.
    Least,
    /// As if NULL were greater than all values, as PostgreSQL has it.
    #[default]
    Greatest,
}

/// Each with its name as a setting, what DuckDB takes for it, too, and its name among DataFusion's settings.
const NAMES: [(NullOrder, &str, &[&str], &str); 4] = [
    (NullOrder::First, "nulls_first", &["nulls first", "null first", "first"], "nulls_first"),
    (NullOrder::Last, "nulls_last", &["nulls last", "null last", "last"], "nulls_last"),
    (NullOrder::Least, "nulls_first_on_asc_last_on_desc", &["sqlite", "mysql"], "nulls_min"),
    (NullOrder::Greatest, "nulls_last_on_asc_first_on_desc", &["postgres"], "nulls_max"),
];

impl NullOrder {
    /// The order of this name.
    ///
    /// # Errors
    /// [`Error::Setting`] if there is none.
    pub fn named(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, known, others, _)| lower == *known || others.contains(&lower.as_str()));
        found.map(|(order, ..)| *order).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name, ..)| *name).collect();
            Error::Setting(format!("'{name}' is no place for NULLs; set one of {}", names.join(", ")))
        })
    }

    /// Its name as a setting.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> &'static (Self, &'static str, &'static [&'static str], &'static str) {
        NAMES.iter().find(|(order, ..)| *order == self).expect("all orders have names")
    }

    /// What `options` say.
    pub fn of(options: &SqlParserOptions) -> Self {
        let found = NAMES.iter().find(|(.., theirs)| options.default_null_ordering == *theirs);
        found.map_or_else(Self::default, |(order, ..)| *order)
    }

    /// Says it in `options`.
    pub fn set_in(self, options: &mut SqlParserOptions) {
        self.names().3.clone_into(&mut options.default_null_ordering);
    }
}
