//! What can go wrong between a SQL text and its rows.
//!
//! Errors reach the user through several layers (an expression in DataFusion in a pipeline in an island in DataFusion), each of which
//! wraps them. Conversion goes down to the one that says what happened; ours keep their code.

use std::error::Error as StdError;

use datafusion::{
    arrow::error::ArrowError,
    common::{Column, DataFusionError, SchemaError, utils::datafusion_strsim::levenshtein},
    object_store,
    parquet::errors::ParquetError,
};
use ogee_exec::ExecError;
use ogee_memory::MemoryError;
use ogee_vector::VectorError;

/// Failure of a statement. The handle stays usable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The text is not SQL.
    #[error("{0}")]
    Parse(String),
    /// The statement names what does not exist, or does not type.
    #[error("{0}")]
    Plan(String),
    /// SQL that is understood but not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A setting that does not exist or a value that it does not take.
    #[error("{0}")]
    Setting(String),
    /// A file or object could not be read or written.
    #[error("{0}")]
    Source(String),
    /// An operator that is DataFusion's could not have the memory it needs.
    #[error("{0}")]
    Resources(String),
    /// A value that an expression does not take, found while the statement ran.
    #[error("{0}")]
    Execution(String),
    /// A bug.
    #[error("internal error: {0}; please report it")]
    Internal(String),
    /// The statement was interrupted.
    #[error("the statement was interrupted")]
    Interrupted,
    /// Failure in the engine, with the engine's code.
    #[error("{message}")]
    Engine {
        /// Code of the engine's error.
        code: &'static str,
        /// Its message.
        message: String,
    },
    /// Failure of the buffer manager.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The code of [`ExecError::Overflow`]: which of the two engines evaluates an expression is not the user's concern.
const OVERFLOW: &str = "OGEE_X001";

impl Error {
    /// Stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parse(_) => "OGEE_Q001",
            Self::Plan(_) => "OGEE_Q002",
            Self::Unsupported(_) => "OGEE_Q003",
            Self::Setting(_) => "OGEE_Q004",
            Self::Source(_) => "OGEE_Q005",
            Self::Resources(_) => "OGEE_Q006",
            Self::Execution(_) => "OGEE_Q007",
            Self::Internal(_) => "OGEE_Q008",
            Self::Interrupted => "OGEE_X004",
            Self::Engine { code, .. } => code,
            Self::Memory(e) => e.code(),
        }
    }

    fn overflow(message: &str) -> Self {
        Self::Engine { code: OVERFLOW, message: format!("{message}; cast the arguments to a wider type") }
    }
}

impl From<ExecError> for Error {
    fn from(error: ExecError) -> Self {
        Self::from(&error)
    }
}

impl From<&ExecError> for Error {
    fn from(error: &ExecError) -> Self {
        match error {
            ExecError::Cancelled => Self::Interrupted,
            ExecError::Memory(e) => Self::Memory(e.clone()),
            ExecError::Foreign(inner) => from_any(&**inner),
            ExecError::Shared(inner) => from_any(&**inner),
            ExecError::Vector(VectorError::Arrow(inner)) => Self::from(inner),
            other => Self::Engine { code: other.code(), message: other.to_string() },
        }
    }
}

impl From<&ArrowError> for Error {
    fn from(error: &ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(inner) => from_any(&**inner),
            ArrowError::ArithmeticOverflow(message) => Self::overflow(message),
            ArrowError::IoError(message, inner) => match inner.get_ref() {
                Some(wrapped) => from_any(wrapped),
                None => Self::Source(message.clone()),
            },
            ArrowError::DivideByZero => Self::Execution("division by zero".to_owned()),
            ArrowError::CastError(message) | ArrowError::ParseError(message) if cast_message(message).is_some() => {
                Self::Execution(cast_message(message).unwrap_or_default())
            }
            ArrowError::ParseError(message)
            | ArrowError::CastError(message)
            | ArrowError::ComputeError(message)
            | ArrowError::InvalidArgumentError(message)
            | ArrowError::CsvError(message)
            | ArrowError::JsonError(message) => Self::Execution(message.clone()),
            other => Self::Execution(other.to_string()),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::from(&error)
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<&DataFusionError> for Error {
    fn from(error: &DataFusionError) -> Self {
        match error {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => Self::from(&**inner),
            DataFusionError::Collection(errors) => match errors.first() {
                Some(first) => Self::from(first),
                None => Self::Internal("an empty list of errors".to_owned()),
            },
            DataFusionError::Shared(inner) => Self::from(&**inner),
            DataFusionError::External(inner) => from_any(&**inner),
            DataFusionError::ArrowError(inner, _) => Self::from(&**inner),
            DataFusionError::SQL(inner, _) => Self::Parse(parse_message(&inner.to_string())),
            DataFusionError::Plan(message) => Self::Plan(plan_message(&without_trace(message))),
            DataFusionError::SchemaError(inner, _) => Self::Plan(schema_message(inner)),
            DataFusionError::NotImplemented(message) => Self::Unsupported(refusal(&without_trace(message))),
            DataFusionError::Configuration(message) => Self::Setting(without_trace(message)),
            DataFusionError::ParquetError(inner) => match &**inner {
                ParquetError::External(inner) => from_any(&**inner),
                inner => Self::Source(inner.to_string()),
            },
            DataFusionError::ObjectStore(inner) => from_store(inner),
            DataFusionError::IoError(inner) => match inner.get_ref() {
                Some(wrapped) => from_any(wrapped),
                None => Self::Source(inner.to_string()),
            },
            DataFusionError::ResourcesExhausted(message) => Self::Resources(without_trace(message)),
            DataFusionError::Execution(message) => Self::Execution(without_trace(message)),
            DataFusionError::ExecutionJoin(inner) => Self::Internal(inner.to_string()),
            DataFusionError::Internal(message) if message.starts_with("No suitable object store found for ") => {
                let url = message["No suitable object store found for ".len()..].split(". ").next().unwrap_or_default();
                let scheme = url.split("://").next().unwrap_or_default();
                Self::Unsupported(format!(
                    "'{url}': files of {scheme} are not supported; copy it to this machine first"
                ))
            }
            DataFusionError::Internal(message) => match mistake_of(message) {
                Some(message) => Self::Plan(message),
                None => Self::Internal(without_trace(message)),
            },
            other => Self::Internal(without_trace(&other.to_string())),
        }
    }
}

/// Stores of ours say what happened within the error that their interface has.
fn from_store(error: &object_store::Error) -> Error {
    let own = error.source().and_then(|source| source.downcast_ref::<Error>());
    own.cloned().unwrap_or_else(|| Error::Source(error.to_string()))
}

fn from_any(error: &(dyn StdError + Send + Sync + 'static)) -> Error {
    if let Some(exec) = error.downcast_ref::<ExecError>() {
        Error::from(exec)
    } else if let Some(own) = error.downcast_ref::<Error>() {
        own.clone()
    } else if let Some(memory) = error.downcast_ref::<MemoryError>() {
        Error::Memory(memory.clone())
    } else if let Some(datafusion) = error.downcast_ref::<DataFusionError>() {
        Error::from(datafusion)
    } else if let Some(arrow) = error.downcast_ref::<ArrowError>() {
        Error::from(arrow)
    } else if let Some(store) = error.downcast_ref::<object_store::Error>() {
        from_store(store)
    } else if let Some(io) = error.downcast_ref::<std::io::Error>() {
        match io.get_ref() {
            Some(wrapped) => from_any(wrapped),
            None => Error::Source(io.to_string()),
        }
    } else {
        Error::Execution(error.to_string())
    }
}

/// Names that are listed where one is not found.
const LISTED: usize = 10;

/// What is wrong with a name. Of many columns that there are some are listed; that names are told apart by their case is not true here.
fn schema_message(error: &SchemaError) -> String {
    let message = without_trace(&error.to_string());
    if let SchemaError::DuplicateUnqualifiedField { name } = error {
        return format!(
            "two columns are called \"{name}\"; name one of them with AS, and group by nothing that is an aggregate"
        );
    }
    let SchemaError::FieldNotFound { valid_fields, .. } = error else { return message };
    let mut message = message.lines().next().unwrap_or_default().to_owned();
    if !valid_fields.is_empty() {
        // With their tables, where there are several of one name.
        let is_repeated =
            |column: &Column| valid_fields.iter().any(|other| other.name == column.name && other != column);
        let mut listed: Vec<String> = Vec::new();
        for column in valid_fields.iter().take(LISTED) {
            let name = if is_repeated(column) { column.quoted_flat_name() } else { column.name.clone() };
            if !listed.contains(&name) {
                listed.push(name);
            }
        }
        message.push_str("\nValid fields are ");
        message.push_str(&listed.join(", "));
        match valid_fields.len().saturating_sub(LISTED) {
            0 => message.push('.'),
            others => message.push_str(&format!(" and {others} others.")),
        }
    }
    message
}

/// The parser's message without the name of its error type in front.
fn parse_message(message: &str) -> String {
    let bare = message.strip_prefix("sql parser error: ").unwrap_or(message);
    format!("not understood as SQL: {bare}")
}

/// What is wrong with the arguments of a function, said once: DataFusion tells how each signature failed to match, calls that an internal error, and then says what the
/// function takes.
fn plan_message(message: &str) -> String {
    if let Some(said) = in_words(message) {
        return said;
    }
    let Some(at) = message.find("No function matches") else {
        return unmatched_signatures(message).unwrap_or_else(|| message.to_owned());
    };
    // Functions of ours say it in their own words.
    if let Some((_, own)) = message[..at].split_once("user-defined coercion failed with: ") {
        if let Some(said) = unmatched_signatures(own) {
            return said;
        }
        let own = own.trim_end().trim_end_matches('.');
        return own.strip_prefix("Error during planning: ").unwrap_or(own).to_owned();
    }
    let is_list = message[..at].contains("failed to match any signature") || message[..at].contains("Internal error");
    if is_list { message[at..].to_owned() } else { message.to_owned() }
}

/// What is not supported, in the words of SQL.
fn refusal(message: &str) -> String {
    let is_left = |of: &str| {
        let of_plan = message.strip_prefix("Physical plan does not support logical expression ");
        of_plan.is_some_and(|expr| expr.starts_with(of))
    };
    let is_subquery = ["ScalarSubquery", "InSubquery", "Exists", "SetComparison"].into_iter().any(is_left);
    if is_subquery || message.starts_with("Physical plan does not support undecorrelated Subquery") {
        return "a subquery is not supported in this place, such as the condition of an outer, semi or anti join: \
                join what it reads, or compute it in a query in FROM and use its column"
            .to_owned();
    }
    message.to_owned()
}

/// What some messages of the planner say, in the words of SQL.
fn in_words(message: &str) -> Option<String> {
    if let Some(types) = message.strip_prefix("Cannot coerce arithmetic expression ") {
        let types = types.strip_suffix(" to valid types")?;
        return Some(format!("there is no {}; cast one of them", with_sql_types(types)));
    }
    if message.starts_with("Column in ") && message.contains("must appear in the GROUP BY clause") {
        let column = message.split("column \"").nth(1)?.split('"').next()?;
        // A statement that changes rows reads their numbers beside what is assigned.
        if column.ends_with(".ogee_row") {
            return Some(
                "aggregates are not allowed in what is assigned to rows; compute them in a subquery".to_owned(),
            );
        }
        return Some(format!(
            "column {column} must be in GROUP BY, or within an aggregate such as any_value({column})"
        ));
    }
    if message.starts_with("Cannot create filter with non-boolean predicate") {
        let data_type = with_sql_types(message.rsplit(" returning ").next()?);
        return Some(format!("a condition is of type BOOLEAN, and this one is {data_type}; compare it, as in x <> 0"));
    }
    if let Some(name) = message.strip_prefix("Invalid function '") {
        // The planner names the nearest function, however far it is.
        let (name, meant) = name.split_once("'.\nDid you mean '")?;
        let meant = meant.strip_suffix("'?")?;
        let is_near = levenshtein(&name.to_lowercase(), meant) <= (name.chars().count() / 3).max(1);
        return (!is_near).then(|| format!("Invalid function '{name}'"));
    }
    if message.starts_with("Argument #") {
        return Some(with_sql_types(message));
    }
    if message.starts_with("Substring without for/from") {
        return Some(
            "substr takes a text, where to begin, and, if it is to end earlier, a number of characters".to_owned(),
        );
    }
    if let Some(ending) = message.strip_prefix("There is no registered file format with ext ") {
        return Some(format!(
            "no format is known by the ending '{ending}'; name one of parquet, csv, json, arrow: (FORMAT parquet)"
        ));
    }
    None
}

/// `text` with the names that SQL has for types in place of Arrow's.
fn with_sql_types(text: &str) -> String {
    const TYPES: [(&str, &str); 20] = [
        ("UInt8", "UTINYINT"),
        ("UInt16", "USMALLINT"),
        ("UInt32", "UINTEGER"),
        ("UInt64", "UBIGINT"),
        ("Int8", "TINYINT"),
        ("Int16", "SMALLINT"),
        ("Int32", "INTEGER"),
        ("Int64", "BIGINT"),
        ("Float32", "FLOAT"),
        ("Float64", "DOUBLE"),
        ("Utf8", "VARCHAR"),
        ("Utf8View", "VARCHAR"),
        ("LargeUtf8", "VARCHAR"),
        ("Boolean", "BOOLEAN"),
        ("Date32", "DATE"),
        ("Timestamp(µs)", "TIMESTAMP"),
        ("Timestamp(ns)", "TIMESTAMP_NS"),
        ("Time64(µs)", "TIME"),
        ("Time64(ns)", "TIME"),
        ("Interval(MonthDayNano)", "INTERVAL"),
    ];
    let of_sql = |word: &str| {
        TYPES.iter().find(|(arrow, _)| *arrow == word).map_or(word.to_owned(), |(_, sql)| (*sql).to_owned())
    };
    text.split(' ').map(of_sql).collect::<Vec<_>>().join(" ")
}

/// A cast that failed, in the words of SQL.
fn cast_message(message: &str) -> Option<String> {
    let (text, data_type) = message.strip_prefix("Cannot cast string ")?.rsplit_once(" to value of ")?;
    let data_type = with_sql_types(data_type.strip_suffix(" type")?);
    Some(format!("{text} is no {data_type}; TRY_CAST gives NULL in its place"))
}

/// What is wrong with the arguments of a function with several signatures, where DataFusion's internal error about it comes through as it is.
fn unmatched_signatures(message: &str) -> Option<String> {
    let message = without_trace(message);
    let (function, errors) = message.split_once(" failed to match any signature, errors: ")?;
    let function = function.strip_prefix("Internal error: ").unwrap_or(function);
    // They stand in a list without a blank, and several signatures may say the same.
    let mut said: Vec<&str> = Vec::new();
    for error in errors.lines().next().unwrap_or_default().split("Error during planning: ") {
        let error = error.trim_end_matches(['.', ',']);
        if !error.is_empty() && !said.contains(&error) {
            said.push(error);
        }
    }
    Some(format!("{function} does not take these arguments: {}", said.join("; or: ")))
}

/// What DataFusion takes for internal errors, and is a mistake in the statement.
fn mistake_of(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("Failed to coerce types ") {
        let (types, _) = rest.split_once(" in BETWEEN expression")?;
        return Some(format!("there is no BETWEEN of {}; cast one of them", with_sql_types(types)));
    }
    if message.contains("unnest on struct can only be applied at the root level") {
        return Some("unnest of a struct gives several columns, and is an output of SELECT by itself".to_owned());
    }
    unmatched_signatures(message)
}

/// Messages without the stack trace that DataFusion may append.
fn without_trace(message: &str) -> String {
    message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(message).trim_end().to_owned()
}

/// An engine error as DataFusion carries it.
pub fn to_datafusion(error: impl Into<ExecError>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

/// A DataFusion error as the engine carries it.
pub fn to_exec(error: DataFusionError) -> ExecError {
    // Who is to take fewer rows must see it, whatever says where it happened.
    if let DataFusionError::External(inner) = error.find_root()
        && let Some(ExecError::Grown { bytes }) = inner.downcast_ref()
    {
        return ExecError::Grown { bytes: *bytes };
    }
    match error {
        DataFusionError::External(inner) => match inner.downcast::<ExecError>() {
            Ok(exec) => *exec,
            Err(inner) => ExecError::Foreign(inner),
        },
        other => ExecError::Foreign(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_errors_keep_their_code_through_datafusion() {
        let ours = ExecError::Overflow { operation: "sum", data_type: "Int64".to_owned() };
        let wrapped = to_datafusion(ours).context("while sorting").context("while joining");
        let through_arrow = DataFusionError::from(ArrowError::ExternalError(Box::new(wrapped)));
        let error = Error::from(through_arrow);
        assert_eq!(error.code(), "OGEE_X001");
        assert!(error.to_string().starts_with("sum overflows Int64"));
    }

    #[test]
    fn arguments_that_do_not_fit_are_no_internal_errors() {
        let of = |message: &str| Error::from(DataFusionError::Plan(message.to_owned())).to_string();
        let long = "Internal error: Function 'f' failed to match any signature, errors: a,b. No function matches the given name and \
                    argument types 'f(Utf8)'.";
        assert_eq!(of(long), "No function matches the given name and argument types 'f(Utf8)'.");
        let own = "Execution error: Function 'sum' user-defined coercion failed with: Error during planning: sum takes numbers. No \
                   function matches the given name and argument types 'sum(Utf8)'.";
        assert_eq!(of(own), "sum takes numbers");
        let bare = "Function 'f' failed to match any signature, errors: Error during planning: Function 'f' requires A, but received B.,Error \
                    during planning: Function 'f' requires C, but received B.";
        let error = Error::from(DataFusionError::Internal(bare.to_owned()));
        let expected = "Function 'f' does not take these arguments: Function 'f' requires A, but received B; or: Function 'f' requires C, but \
                        received B";
        assert_eq!((error.code(), error.to_string().as_str()), ("OGEE_Q002", expected));
        let number = "Internal error: Function 'f' failed to match any signature, errors: Error during planning: Function 'f' expects 2 \
                      arguments but received 1,Error during planning: Function 'f' expects 2 arguments but received 1.";
        let expected = "Function 'f' does not take these arguments: Function 'f' expects 2 arguments but received 1";
        assert_eq!(of(number), expected);
        let within = format!(
            "Execution error: Function 'f' user-defined coercion failed with: {number}\nThis issue was likely caused by a bug. No function \
             matches the given name and argument types 'f(Utf8)'."
        );
        assert_eq!(of(&within), expected);
    }

    #[test]
    fn contexts_are_unwrapped_to_the_cause() {
        let error = DataFusionError::Plan("no column x".to_owned()).context("type_coercion");
        let error = Error::from(error);
        assert_eq!((error.code(), error.to_string().as_str()), ("OGEE_Q002", "no column x"));
        let foreign = ExecError::Foreign(Box::new(DataFusionError::Execution("bad date".to_owned())));
        assert_eq!(Error::from(foreign).to_string(), "bad date");
        let shared = ExecError::Shared(std::sync::Arc::new(ExecError::Cancelled));
        assert_eq!(Error::from(shared).code(), "OGEE_X004");
    }
}
