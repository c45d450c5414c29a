//! What a session says of itself: the catalog and schema that names are looked up in, its user, the version of the program.
//!
//! Not here: its settings (`ogee`), its zone (`times`).

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, ListArray, StringArray},
        buffer::OffsetBuffer,
        datatypes::{DataType, Field},
    },
    common::{Result, ScalarValue, config::ConfigOptions, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let all = [
        ("current_database", &["current_catalog"][..], Told::Catalog),
        ("current_schema", &[], Told::Schema),
        ("current_schemas", &[], Told::Schemas),
        ("current_user", &["current_role", "session_user", "user"], Told::User),
        ("version", &[], Told::Version),
    ];
    let function = |(name, aliases, told): (_, &[&str], _)| {
        let signature = match told {
            Told::Schemas => TypeSignature::Exact(vec![DataType::Boolean]),
            _ => TypeSignature::Nullary,
        };
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::new(signature, Volatility::Stable);
        ScalarUDF::new_from_impl(OfSession { name, aliases, told, signature })
    };
    all.into_iter().map(function).collect()
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Catalog,
    Schema,
    /// Those that a name is looked up in.
    Schemas,
    /// There are no others.
    User,
    Version,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfSession {
    name: &'static str,
    aliases: Vec<String>,
    told: Told,
    signature: Signature,
}

/// The database, and the schema of tables without one, as DuckDB calls them, and what the schema is called here.
const DATABASE: &str = "memory";
const MAIN: &str = "main";
const MAIN_SCHEMA: &str = "public";

/// The user that everybody is.
const USER: &str = "ogee";

impl OfSession {
    fn text(&self, options: &ConfigOptions) -> String {
        match self.told {
            Told::Catalog => DATABASE.to_owned(),
            Told::Schema | Told::Schemas => match options.catalog.default_schema.as_str() {
                MAIN_SCHEMA => MAIN.to_owned(),
                other => other.to_owned(),
            },
            Told::User => USER.to_owned(),
            Told::Version => format!("Ogee v{}", env!("CARGO_PKG_VERSION")),
        }
    }
}

fn texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

impl ScalarUDFImpl for OfSession {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.told == Told::Schemas { texts() } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = self.text(&args.config_options);
        if self.told != Told::Schemas {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))));
        }
        let Some(ColumnarValue::Scalar(implied)) = args.args.first() else {
            return exec_err!("{} takes a constant: whether schemas that nobody named count", self.name);
        };
        let implied = match implied {
            ScalarValue::Boolean(Some(implied)) => *implied,
            _ => return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&texts())?)),
        };
        let schemas: Vec<String> = if implied { vec![text, "information_schema".to_owned()] } else { vec![text] };
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let offsets = OffsetBuffer::from_lengths([schemas.len()]);
        let schemas: ArrayRef = Arc::new(StringArray::from(schemas));
        Ok(ColumnarValue::Scalar(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, schemas, None)?))))
    }
}
