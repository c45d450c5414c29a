//! Functions of structs: their names, their values, values looked for in them, structs put together.
//!
//! Not here: a field of a struct, and structs of their fields, which DataFusion has.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringViewArray, StructArray,
            make_comparator, new_null_array,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::{SortOptions, cast},
        datatypes::{DataType, Field, Fields},
    },
    common::{Result, plan_err},
    error::DataFusionError,
    logical_expr::{ScalarUDF, type_coercion::binary::comparison_coercion},
};
use ogee_vector::canonical_floats;

use crate::{arguments::refused, function::Function, times::Zone};

/// The functions that statements may name.
pub fn functions() -> Vec<ScalarUDF> {
    let functions = [
        Function::of("struct_keys", |given| structs("struct_keys", given, Some(1)), |_| Ok(names_type()), keys),
        Function::of("struct_values", |given| structs("struct_values", given, Some(1)), values_type, values),
        Function::of("struct_concat", |given| structs("struct_concat", given, None), joined_type, joined),
        Function::of("struct_insert", |given| structs("struct_insert", given, None), joined_type, joined),
        Function::of("struct_update", |given| structs("struct_update", given, Some(2)), updated_type, updated),
        Function::of(
            "struct_contains",
            |given| searched("struct_contains", given),
            |_| Ok(DataType::Boolean),
            contains,
        )
        .also(&["struct_has"]),
        Function::of("struct_position", |given| searched("struct_position", given), |_| Ok(DataType::Int32), position)
            .also(&["struct_indexof"]),
    ];
    functions.into_iter().map(Function::registered).collect()
}

fn searched(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::Struct(_) | DataType::Null, _] => Ok(given.to_vec()),
        _ => refused(name, given),
    }
}

/// The first field of each row, counted from 0, that is `args[1]`, as which NULL is like NULL.
fn found(args: &[ArrayRef]) -> Result<Vec<Option<usize>>> {
    let mut found = vec![None; args[0].len()];
    let DataType::Struct(_) = args[0].data_type() else { return Ok(found) };
    let structs = args[0].as_struct();
    for (nth, column) in structs.columns().iter().enumerate() {
        let (one, other) = (column.data_type(), args[1].data_type());
        // Texts are none of the numbers.
        let is_alike = one.is_null() || other.is_null() || one.is_string() == other.is_string();
        let Some(common) = comparison_coercion(one, other).filter(|_| is_alike) else { continue };
        let [one, other] =
            [column, &args[1]].map(|side| Ok::<_, DataFusionError>(canonical_floats(&cast(side, &common)?)));
        let (one, other) = (one?, other?);
        let (one_nulls, other_nulls) = (one.logical_nulls(), other.logical_nulls());
        let order = make_comparator(&one, &other, SortOptions::default())?;
        for (row, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            let is_null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let is_same = match (is_null(&one_nulls), is_null(&other_nulls)) {
                (false, false) => order(row, row).is_eq(),
                (one, other) => one && other,
            };
            *found = (is_same && structs.is_valid(row)).then_some(nth);
        }
    }
    Ok(found)
}

/// Whether a field is the value; whether one is NULL nobody knows.
fn contains(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let (structs, values) = (args[0].logical_nulls(), args[1].logical_nulls());
    let is_null = |nulls: &Option<NullBuffer>, row| nulls.as_ref().is_some_and(|nulls: &NullBuffer| nulls.is_null(row));
    let found = found(args)?.into_iter().enumerate();
    let contains =
        found.map(|(row, found)| (!is_null(&structs, row) && !is_null(&values, row)).then_some(found.is_some()));
    Ok(Arc::new(contains.collect::<BooleanArray>()))
}

/// Which field is the value, counted from 1.
fn position(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let places = found(args)?.into_iter().map(|found| found.map(|nth| nth as i32 + 1));
    Ok(Arc::new(places.collect::<Int32Array>()))
}

fn structs(name: &str, given: &[DataType], count: Option<usize>) -> Result<Vec<DataType>> {
    let are_structs = given.iter().all(|given| matches!(given, DataType::Struct(_) | DataType::Null));
    if !are_structs || given.is_empty() || count.is_some_and(|count| given.len() != count) {
        return refused(name, given);
    }
    Ok(given.to_vec())
}

fn names_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

fn fields_of(data_type: &DataType) -> Fields {
    match data_type {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    }
}

/// The names of the fields, for each struct that is not NULL.
fn keys(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let structs = &args[0];
    let names: StringViewArray = fields_of(structs.data_type()).iter().map(|field| Some(field.name())).collect();
    let nulls = structs.logical_nulls();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let lengths: Vec<usize> = (0..structs.len()).map(|row| if is_valid(row) { names.len() } else { 0 }).collect();
    let lists: usize = lengths.iter().filter(|length| **length > 0).count();
    let repeated: StringViewArray = (0..lists).flat_map(|_| names.iter()).collect();
    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), Arc::new(repeated), nulls)?))
}

/// As the struct's, by their positions.
fn values_type(args: &[DataType]) -> Result<DataType> {
    let fields = fields_of(&args[0]);
    let unnamed = fields
        .iter()
        .enumerate()
        .map(|(at, field)| Arc::new(field.as_ref().clone().with_name(format!("c{at}")).with_nullable(true)));
    Ok(DataType::Struct(unnamed.collect()))
}

fn values(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let result = values_type(&[args[0].data_type().clone()])?;
    let DataType::Struct(_) = args[0].data_type() else { return Ok(new_null_array(&result, args[0].len())) };
    let of = args[0].as_struct();
    let columns = of.columns().to_vec();
    let made = StructArray::try_new_with_length(fields_of(&result), columns, of.nulls().cloned(), of.len())?;
    Ok(Arc::new(made))
}

fn joined_type(args: &[DataType]) -> Result<DataType> {
    let mut fields: Vec<Arc<Field>> = Vec::new();
    for field in args.iter().flat_map(|arg| fields_of(arg).iter().cloned().collect::<Vec<_>>()) {
        if fields.iter().any(|known| known.name().eq_ignore_ascii_case(field.name())) {
            return plan_err!("two of the structs that are put together have a field \"{}\"", field.name());
        }
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    Ok(DataType::Struct(fields.into()))
}

/// The fields of a struct's rows, which are NULL where it is.
fn columns_of(array: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let DataType::Struct(_) = array.data_type() else { return Ok(Vec::new()) };
    let of = array.as_struct();
    let masked = |column: &ArrayRef| {
        let nulls = NullBuffer::union(of.nulls(), column.logical_nulls().as_ref());
        match (of.nulls(), column.data_type()) {
            (None, _) | (_, DataType::Null) => Ok(Arc::clone(column)),
            _ => Ok(datafusion::arrow::array::make_array(column.to_data().into_builder().nulls(nulls).build()?)),
        }
    };
    of.columns().iter().map(masked).collect()
}

fn joined(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
    let columns: Vec<ArrayRef> = args.iter().map(columns_of).collect::<Result<Vec<_>>>()?.concat();
    let rows = args[0].len();
    Ok(Arc::new(StructArray::try_new_with_length(fields_of(&joined_type(&types)?), columns, None, rows)?))
}

fn updated_type(args: &[DataType]) -> Result<DataType> {
    let (old, new) = (fields_of(&args[0]), fields_of(&args[1]));
    let known = |name: &str| old.iter().any(|field| field.name().eq_ignore_ascii_case(name));
    let replaced = old.iter().map(|field| {
        let by = new.iter().find(|by| by.name().eq_ignore_ascii_case(field.name())).unwrap_or(field);
        Arc::new(by.as_ref().clone().with_name(field.name()).with_nullable(true))
    });
    let added = new.iter().filter(|field| !known(field.name()));
    let added = added.map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    Ok(DataType::Struct(replaced.chain(added).collect()))
}

fn updated(args: &[ArrayRef], _: &Zone) -> Result<ArrayRef> {
    let fields = fields_of(&updated_type(&[args[0].data_type().clone(), args[1].data_type().clone()])?);
    let (old, new) = (columns_of(&args[0])?, columns_of(&args[1])?);
    let (old_fields, new_fields) = (fields_of(args[0].data_type()), fields_of(args[1].data_type()));
    let named = |fields: &Fields, name: &str| fields.iter().position(|by| by.name().eq_ignore_ascii_case(name));
    let columns = fields.iter().filter_map(|field| match named(&new_fields, field.name()) {
        Some(at) => Some(Arc::clone(&new[at])),
        None => named(&old_fields, field.name()).map(|at| Arc::clone(&old[at])),
    });
    let columns = columns.collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, None, args[0].len())?))
}
