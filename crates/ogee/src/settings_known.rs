//! Settings of DuckDB that are what they are here, or are not: taken at the one value that is true, or refused with what to do instead.
//!
//! Not here: settings that change something (`settings`).

use crate::{Error, Result};

/// A setting that has one value.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) name: &'static str,
    /// As it is shown.
    pub(crate) value: &'static str,
    /// Other ways to write it.
    accepts: &'static [&'static str],
    /// Why it has no other.
    why: &'static str,
    pub(crate) input_type: &'static str,
}

/// Those with one value.
pub(crate) const FIXED: [Fixed; 10] = [
    fixed("Calendar", "gregorian", &[], "there is no other calendar", "VARCHAR"),
    fixed("access_mode", "automatic", &["read_write"], "a database in memory is read and written", "VARCHAR"),
    fixed("default_collation", "", &["binary", "c", "posix"], "write COLLATE where it matters", "VARCHAR"),
    fixed("errors_as_json", "false", NO, "errors have a code and a text", "BOOLEAN"),
    fixed("explain_output", "physical_only", &[], "EXPLAIN shows the plan that runs", "VARCHAR"),
    fixed("ieee_floating_point_ops", "true", YES, "floats follow IEEE 754", "BOOLEAN"),
    fixed("lambda_syntax", "DEFAULT", &["enable_single_arrow"], "both ways to write a lambda are known", "VARCHAR"),
    fixed("max_expression_depth", "1000", &[], "deeper expressions are refused", "UBIGINT"),
    fixed("order_by_non_integer_literal", "false", NO, "an order of a constant is none", "BOOLEAN"),
    fixed(
        "preserve_identifier_case",
        "true",
        &["preserve_case", "1", "on", "yes", "t"],
        "names keep their letters",
        "VARCHAR",
    ),
];

const YES: &[&str] = &["1", "on", "yes", "t"];
const NO: &[&str] = &["0", "off", "no", "f"];

const fn fixed(
    name: &'static str,
    value: &'static str,
    accepts: &'static [&'static str],
    why: &'static str,
    input_type: &'static str,
) -> Fixed {
    Fixed { name, value, accepts, why, input_type }
}

/// Those that there are not, by how their names begin, and why.
const ABSENT: &[(&str, &str)] = &[
    ("allow_", "there are no extensions, and secrets are not kept"),
    ("allowed_", "enable_external_access is for all files or none"),
    ("arrow_", "results are Arrow as they are"),
    ("custom_extension", "there are no extensions"),
    ("enable_logging", "there are no logs"),
    ("enable_prof", "use EXPLAIN ANALYZE"),
    ("extension_", "there are no extensions"),
    ("file_search_path", "write the paths"),
    ("home_directory", "write the paths"),
    ("http_", "use CREATE SECRET (TYPE http, ..), or the environment"),
    ("logging_", "there are no logs"),
    ("max_execution_time", "interrupt the statement"),
    ("old_implicit_casting", "casts are those of DuckDB 2"),
    ("profil", "use EXPLAIN ANALYZE"),
    ("secret_", "secrets are not kept"),
    ("storage_", "there are no database files"),
    ("temp_file_encryption", "temporary files are not encrypted; set temp_directory to a disk that is"),
];

/// The one of this name.
pub(crate) fn fixed_named(name: &str) -> Option<&'static Fixed> {
    FIXED.iter().find(|fixed| fixed.name.eq_ignore_ascii_case(name))
}

impl Fixed {
    /// # Errors
    /// If `value` is not the one that there is.
    pub(crate) fn check(&self, value: &str) -> Result<()> {
        let is = |known: &&str| known.eq_ignore_ascii_case(value.trim());
        if is(&self.value) || self.accepts.iter().any(is) {
            return Ok(());
        }
        let shown = if self.value.is_empty() { "''" } else { self.value };
        Err(Error::setting(format!("{} is always {shown}, and '{value}' is not supported: {}", self.name, self.why)))
    }
}

/// Why there is no setting of this name, if that is known.
pub(crate) fn absent(name: &str) -> Option<Error> {
    let lower = name.to_ascii_lowercase();
    let (_, why) = ABSENT.iter().find(|(begin, _)| lower.starts_with(begin))?;
    Some(Error::setting(format!("setting '{name}' is not supported: {why}")))
}
