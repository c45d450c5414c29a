//! Functions of the program: what statements call by name.
//!
//! Not here: how they are called (`ogee_datafusion::user_functions`).

use std::sync::Arc;

use datafusion::arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
        Int64Array, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    },
    datatypes::{
        DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
pub use ogee_datafusion::{AggregateFunction, AggregateState, ScalarFunction, UserError};

use crate::{Connection, Result};

impl Connection {
    /// Makes a scalar function known to all connections, in the place of one that the program gave before under its name.
    ///
    /// ```
    /// use ogee::{ScalarFunction, arrow::{array::AsArray, compute::kernels::numeric::add, datatypes::{DataType, Int64Type}}};
    /// # use ogee::{Config, Database};
    /// # let connection = Database::open_in_memory(Config::default())?.connect();
    /// // Over columns:
    /// connection.create_scalar_function(ScalarFunction::new("plus", [DataType::Int64, DataType::Int64], DataType::Int64, |columns| {
    ///     Ok(add(&columns[0], &columns[1])?)
    /// }))?;
    /// // Over values:
    /// connection.create_scalar_function(ogee::unary::<str, String>("shout", |text| text.to_uppercase() + "!"))?;
    /// let batch = connection.execute("SELECT plus(40, 2), shout('hello')")?.next().expect("a row")?;
    /// assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 42);
    /// assert_eq!(batch.column(1).as_string::<i32>().value(0), "HELLO!");
    /// # Ok::<(), ogee::Error>(())
    /// ```
    ///
    /// # Errors
    /// The name is none, or of a function that the program did not give.
    pub fn create_scalar_function(&self, function: ScalarFunction) -> Result<()> {
        Ok(self.inner().session.add_scalar_function(function)?)
    }

    /// Makes an aggregate known to all connections, in the place of one that the program gave before under its name.
    ///
    /// # Errors
    /// The name is none, or of a function that the program did not give; it has no arguments.
    pub fn create_aggregate_function(&self, function: AggregateFunction) -> Result<()> {
        Ok(self.inner().session.add_aggregate_function(function)?)
    }

    /// Takes a function of the program away. Statements that call it go on.
    ///
    /// # Errors
    /// The program gave none of this name.
    pub fn drop_function(&self, name: &str) -> Result<()> {
        Ok(self.inner().session.drop_function(name)?)
    }
}

/// A type of Rust that arguments of a function over values are taken as.
pub trait Argument {
    /// A value in a row.
    type Value<'a>;

    /// The type in SQL.
    const TYPE: DataType;

    /// The value of row `row` of a column of [`TYPE`](Self::TYPE), which is not NULL.
    fn value(column: &dyn Array, row: usize) -> Self::Value<'_>;
}

/// A type of Rust that a function over values gives; `Option` of one can be NULL.
pub trait Returned: Sized {
    /// The type in SQL.
    const TYPE: DataType;

    /// A column of values.
    fn column(values: impl Iterator<Item = Self>) -> ArrayRef;
}

macro_rules! natives {
    ($($native:ty, $data_type:ident, $array:ident, $arrow:ty;)+) => {
        $(
            impl Argument for $native {
                type Value<'a> = $native;
                const TYPE: DataType = DataType::$data_type;

                fn value(column: &dyn Array, row: usize) -> $native {
                    column.as_primitive::<$arrow>().value(row)
                }
            }

            impl Returned for $native {
                const TYPE: DataType = DataType::$data_type;

                fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
                    Arc::new(values.map(Some).collect::<$array>())
                }
            }

            impl Returned for Option<$native> {
                const TYPE: DataType = DataType::$data_type;

                fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
                    Arc::new(values.collect::<$array>())
                }
            }
        )+
    };
}

natives! {
    i8, Int8, Int8Array, Int8Type;
    i16, Int16, Int16Array, Int16Type;
    i32, Int32, Int32Array, Int32Type;
    i64, Int64, Int64Array, Int64Type;
    u8, UInt8, UInt8Array, UInt8Type;
    u16, UInt16, UInt16Array, UInt16Type;
    u32, UInt32, UInt32Array, UInt32Type;
    u64, UInt64, UInt64Array, UInt64Type;
    f32, Float32, Float32Array, Float32Type;
    f64, Float64, Float64Array, Float64Type;
}

impl Argument for bool {
    type Value<'a> = bool;
    const TYPE: DataType = DataType::Boolean;

    fn value(column: &dyn Array, row: usize) -> bool {
        column.as_boolean().value(row)
    }
}

impl Argument for str {
    type Value<'a> = &'a str;
    const TYPE: DataType = DataType::Utf8;

    fn value(column: &dyn Array, row: usize) -> &str {
        column.as_string::<i32>().value(row)
    }
}

impl Returned for bool {
    const TYPE: DataType = DataType::Boolean;

    fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
        Arc::new(values.map(Some).collect::<BooleanArray>())
    }
}

impl Returned for Option<bool> {
    const TYPE: DataType = DataType::Boolean;

    fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
        Arc::new(values.collect::<BooleanArray>())
    }
}

impl Returned for String {
    const TYPE: DataType = DataType::Utf8;

    fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
        Arc::new(values.map(Some).collect::<StringArray>())
    }
}

impl Returned for Option<String> {
    const TYPE: DataType = DataType::Utf8;

    fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
        Arc::new(values.collect::<StringArray>())
    }
}

/// A scalar function of one value: `unary::<i64, i64>("double", |x| 2 * x)`.
pub fn unary<A: Argument + ?Sized, R: Returned>(
    name: &str,
    body: impl Fn(A::Value<'_>) -> R + Send + Sync + 'static,
) -> ScalarFunction {
    ScalarFunction::new(name, [A::TYPE], R::TYPE, move |columns| {
        let column = &*columns[0];
        Ok(R::column((0..column.len()).map(|row| body(A::value(column, row)))))
    })
}

/// A scalar function of two values: `binary::<str, i64, bool>("is_longer", |text, length| text.len() as i64 > length)`.
pub fn binary<A: Argument + ?Sized, B: Argument + ?Sized, R: Returned>(
    name: &str,
    body: impl Fn(A::Value<'_>, B::Value<'_>) -> R + Send + Sync + 'static,
) -> ScalarFunction {
    ScalarFunction::new(name, [A::TYPE, B::TYPE], R::TYPE, move |columns| {
        let (first, second) = (&*columns[0], &*columns[1]);
        Ok(R::column((0..first.len()).map(|row| body(A::value(first, row), B::value(second, row)))))
    })
}
