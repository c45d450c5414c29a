//! A scalar function made of few parts: its name, the types that it takes, the type of its result, what it does, and the zone it does that in.
//!
//! Not here: any function.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray},
        compute::cast,
        datatypes::{DataType, Field, FieldRef},
    },
    common::{Result, ScalarValue, internal_err},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
    },
};
use ogee_memory::BufferManager;

use crate::{growing::Promises, times::Zone};

/// How a function shows in the names of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// As a call.
    Call,
    /// As an operator between its arguments.
    Operator(&'static str),
    /// As an operator before its argument.
    Prefix(&'static str),
    /// As a call by another name.
    As(&'static str),
    /// As the element of its first argument, or the elements from one to another.
    Index,
    /// As its first argument, as casts do.
    Argument,
}

/// The types that a function takes for those that it is given.
pub type Taken = fn(&[DataType]) -> Result<Vec<DataType>>;

/// What a function gives for arguments of these fields, of which some are constants.
pub type Given = fn(&ReturnFieldArgs<'_>) -> Result<FieldRef>;

/// A call of a function that looks at the fields of its arguments: what they say of values beyond their types.
pub struct Call<'a, 'm> {
    /// The arguments.
    pub args: &'a [ArrayRef],
    /// Their fields.
    pub fields: &'a [FieldRef],
    /// That of the result.
    pub returns: &'a FieldRef,
    /// The zone that the function computes in.
    pub zone: &'a Zone,
    /// For what is made.
    pub promises: Promises<'m>,
    /// Values to give.
    pub rows: usize,
}

/// What a function does.
#[derive(Clone)]
pub enum Body {
    /// Makes values about as large as the arguments.
    Plain(fn(&[ArrayRef], &Zone) -> Result<ArrayRef>),
    /// Makes values that may be far larger, for which it promises memory of this manager as it goes.
    Growing(fn(&[ArrayRef], &mut Promises<'_>) -> Result<ArrayRef>, Arc<BufferManager>),
    /// As `Growing`, of arguments whose fields matter.
    OfFields(fn(&mut Call<'_, '_>) -> Result<ArrayRef>, Arc<BufferManager>),
}

/// See the module. Two are the same if they have one name and one zone.
#[derive(Clone)]
pub struct Function {
    /// What statements and columns call it.
    pub name: &'static str,
    aliases: Vec<String>,
    shown: Shown,
    /// The zone that it computes in.
    pub zone: Zone,
    is_zoned: bool,
    signature: Signature,
    taken: Option<Taken>,
    returns: fn(&[DataType]) -> Result<DataType>,
    gives: Option<Given>,
    body: Body,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("zone", &self.zone).finish_non_exhaustive()
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.zone) == (other.name, &other.zone)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, &self.zone).hash(state);
    }
}

impl Function {
    /// A function of any arguments that shows as a call, in UTC.
    pub fn new(
        name: &'static str,
        args: usize,
        returns: fn(&[DataType]) -> Result<DataType>,
        body: fn(&[ArrayRef], &Zone) -> Result<ArrayRef>,
    ) -> Self {
        let signature = Signature::any(args, Volatility::Immutable);
        let body = Body::Plain(body);
        Self {
            name,
            aliases: Vec::new(),
            shown: Shown::Call,
            zone: Zone::UTC,
            is_zoned: false,
            signature,
            taken: None,
            returns,
            gives: None,
            body,
        }
    }

    /// A function of arguments of the types that `taken` says.
    pub fn of(
        name: &'static str,
        taken: Taken,
        returns: fn(&[DataType]) -> Result<DataType>,
        body: fn(&[ArrayRef], &Zone) -> Result<ArrayRef>,
    ) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { signature, taken: Some(taken), ..Self::new(name, 0, returns, body) }
    }

    /// A function whose values may be far larger than its arguments.
    pub fn growing(
        name: &'static str,
        taken: Taken,
        returns: fn(&[DataType]) -> Result<DataType>,
        body: fn(&[ArrayRef], &mut Promises<'_>) -> Result<ArrayRef>,
        memory: &Arc<BufferManager>,
    ) -> Self {
        let body = Body::Growing(body, Arc::clone(memory));
        Self { body, ..Self::of(name, taken, returns, |args, _| Ok(Arc::clone(&args[0]))) }
    }

    /// A function of the fields of its arguments, whose values may be far larger than those.
    pub fn of_fields(
        name: &'static str,
        taken: Taken,
        gives: Given,
        body: fn(&mut Call<'_, '_>) -> Result<ArrayRef>,
        memory: &Arc<BufferManager>,
    ) -> Self {
        let body = Body::OfFields(body, Arc::clone(memory));
        let unknown = |_: &[DataType]| internal_err!("the result is known by the fields of the arguments");
        Self { body, gives: Some(gives), ..Self::of(name, taken, unknown, |args, _| Ok(Arc::clone(&args[0]))) }
    }

    /// The function by these names, too.
    pub fn also(self, aliases: &[&str]) -> Self {
        Self { aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(), ..self }
    }

    /// The function, which shows like this.
    pub fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// The function, whose answer depends on the zone of the session.
    pub fn zoned(self) -> Self {
        Self { is_zoned: true, ..self }
    }

    /// Whether a statement's call of it is to know the zone of the session.
    pub fn is_zoned(&self) -> bool {
        self.is_zoned
    }

    /// The function in `zone`.
    pub fn in_zone(self, zone: &Zone) -> Self {
        Self { zone: *zone, ..self }
    }

    /// Whether its values may be far larger than its arguments.
    pub fn grows(&self) -> bool {
        matches!(self.body, Body::Growing(..) | Body::OfFields(..))
    }

    /// The call of it.
    pub fn call(self, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(self.registered()), args))
    }

    /// `arrays` in which NULL has the type that the function takes. A rule that asks what a condition is of NULL has columns without a type.
    fn with_typed_nulls(&self, arrays: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let Some(taken) = self.taken.filter(|_| arrays.iter().any(|array| array.data_type().is_null())) else {
            return Ok(arrays);
        };
        let given: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let typed = arrays.iter().zip(taken(&given)?);
        typed
            .map(|(array, to)| if array.data_type().is_null() { Ok(cast(array, &to)?) } else { Ok(Arc::clone(array)) })
            .collect()
    }

    /// The function as a session knows it.
    pub fn registered(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match self.taken {
            Some(taken) => taken(arg_types),
            None => Ok(arg_types.to_vec()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        (self.returns)(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(gives) = self.gives {
            return gives(&args);
        }
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let name = |at: usize| args[at].schema_name().to_string();
        Ok(match self.shown {
            Shown::Operator(operator) => format!("{} {operator} {}", name(0), name(1)),
            Shown::Prefix(operator) => format!("{operator}{}", name(0)),
            Shown::Index if args.len() == 2 => format!("{}[{}]", name(0), name(1)),
            Shown::Index => format!("{}[{}:{}]", name(0), name(1), name(2)),
            Shown::Argument => name(0),
            Shown::Call | Shown::As(_) => {
                let args: Vec<String> = (0..args.len()).map(name).collect();
                let shown = if let Shown::As(shown) = self.shown { shown } else { self.name };
                format!("{shown}({})", args.join(","))
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let arrays = self.with_typed_nulls(arrays)?;
        let result = match &self.body {
            Body::Plain(body) => body(&arrays, &self.zone)?,
            Body::Growing(body, memory) => body(&arrays, &mut Promises::new(memory, self.name, rows))?,
            Body::OfFields(body, memory) => body(&mut Call {
                args: &arrays,
                fields: &args.arg_fields,
                returns: &args.return_field,
                zone: &self.zone,
                promises: Promises::new(memory, self.name, rows),
                rows,
            })?,
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(only_value(&result)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// The value of `array`, which has one, with all that fields within it say.
fn only_value(array: &ArrayRef) -> Result<ScalarValue> {
    Ok(match array.data_type() {
        DataType::List(_) => ScalarValue::List(Arc::new(array.as_list::<i32>().slice(0, 1))),
        DataType::FixedSizeList(..) => ScalarValue::FixedSizeList(Arc::new(array.as_fixed_size_list().slice(0, 1))),
        DataType::Struct(_) => ScalarValue::Struct(Arc::new(array.as_struct().slice(0, 1))),
        DataType::Map(..) => ScalarValue::Map(Arc::new(array.as_map().slice(0, 1))),
        _ => ScalarValue::try_from_array(array, 0)?,
    })
}
