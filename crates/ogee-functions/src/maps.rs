//! The value of a key in a map: `m[key]`, whatever the type of the keys, for a key of each row.
//!
//! DataFusion's field access takes one constant key of the very type of the map's, and compares nested ones out of step with their rows. Here keys are
//! compared with the key of their row; a key that is not there, or NULL, has no value. `map_extract(m, key)` is a list of the value, empty where there is none; DataFusion's
//! has NULL for it, as where the value is NULL.
//!
//! Not here: fields of structs, which stay DataFusion's.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array, make_comparator},
        buffer::{NullBuffer, OffsetBuffer},
        compute::{SortOptions, cast, concat, take},
        datatypes::{DataType, Field, FieldRef},
    },
    common::{DFSchema, Result, ScalarValue, exec_err, internal_err, plan_err},
    functions_nested::map_extract::map_extract_udf,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExprSchemable, GetFieldAccess, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr},
        type_coercion::binary::{comparison_coercion, type_union_resolution},
    },
};

use ogee_vector::canonical_floats;

use crate::{arguments::refused, function::Function, marks::list_of, times::Zone};

/// Plans access to maps.
#[derive(Debug)]
pub struct MapAccess;

impl ExprPlanner for MapAccess {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if !matches!(access.expr.get_type(schema), Ok(DataType::Map(..))) {
            return Ok(PlannerResult::Original(access));
        }
        let key = match &access.field_access {
            GetFieldAccess::NamedStructField { name } => Expr::Literal(name.clone(), None),
            GetFieldAccess::ListIndex { key } => key.as_ref().clone(),
            GetFieldAccess::ListRange { .. } => return plan_err!("a map has no slices; ask for one key"),
        };
        let call = ScalarFunction::new_udf(Arc::clone(&VALUE_OF), vec![access.expr, key]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

static VALUE_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ValueOf { signature }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueOf {
    signature: Signature,
}

/// Fields of the keys and the values of maps of type `data_type`.
fn key_and_value(data_type: &DataType) -> Result<(&FieldRef, &FieldRef)> {
    match data_type {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Ok((&fields[0], &fields[1])),
            other => internal_err!("entries of a map are {other}"),
        },
        other => plan_err!("a value of type {other} has no keys"),
    }
}

/// The type in which keys of type `of` are compared with one of type `asked`.
fn common(of: &DataType, asked: &DataType) -> Option<DataType> {
    match (of, asked) {
        (_, DataType::Null) => Some(of.clone()),
        // A text is read as a key of the map's type.
        (of, asked) if asked.is_string() && !of.is_nested() => Some(of.clone()),
        _ if of.is_nested() != asked.is_nested() => None,
        _ => comparison_coercion(of, asked),
    }
}

impl ScalarUDFImpl for ValueOf {
    fn name(&self) -> &str {
        "ogee_value_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        of_common_keys(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(key_and_value(&arg_types[0])?.1.data_type().clone())
    }

    /// As the values of the map are, which may be marked text.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (_, value) = key_and_value(args.arg_fields[0].data_type())?;
        Ok(Arc::new(value.as_ref().clone().with_name("").with_nullable(true)))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{}[{}]", args[0], args[1]))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match &args[1] {
            Expr::Literal(key, _) => format!("{}[{key}]", args[0].schema_name()),
            key => format!("{}[{}]", args[0].schema_name(), key.schema_name()),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let values = values_of(&arrays[0], &arrays[1])?;
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// The types of a map and a key with that in which keys are compared.
fn of_common_keys(arg_types: &[DataType]) -> Result<Vec<DataType>> {
    let [map, asked] = arg_types else { return plan_err!("a map is asked for one key") };
    let of = key_and_value(map)?.0.data_type();
    match common(of, asked) {
        Some(common) => Ok(vec![map.clone(), common]),
        None => plan_err!("a map with keys of type {of} has none of type {asked}; cast the key"),
    }
}

/// `map_from_entries(l)`: a map of a list of structs of two fields, a key and its value.
pub fn map_from_entries() -> ScalarUDF {
    fn entries(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Null] => Ok(vec![DataType::Null]),
            [DataType::List(entry) | DataType::LargeList(entry) | DataType::FixedSizeList(entry, _)] => {
                match entry.data_type() {
                    DataType::Struct(fields) if fields.len() == 2 => Ok(vec![DataType::List(Arc::clone(entry))]),
                    // A list without elements.
                    DataType::Null => Ok(vec![DataType::Null]),
                    _ => refused(name, given),
                }
            }
            _ => refused(name, given),
        }
    }
    fn returns(given: &[DataType]) -> Result<DataType> {
        let [DataType::List(entry)] = given else { return Ok(DataType::Null) };
        let DataType::Struct(fields) = entry.data_type() else { return internal_err!("entries are structs") };
        let key = Field::new("key", fields[0].data_type().clone(), false);
        let value = Field::new("value", fields[1].data_type().clone(), true);
        let entries = DataType::Struct(vec![key, value].into());
        Ok(DataType::Map(Arc::new(Field::new("entries", entries, false)), false))
    }
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let Some(lists) = args[0].as_list_opt::<i32>() else { return Ok(Arc::clone(&args[0])) };
        let DataType::Map(field, _) = returns(&[args[0].data_type().clone()])? else {
            return internal_err!("a list of entries makes a map");
        };
        let DataType::Struct(fields) = field.data_type() else { return internal_err!("entries are structs") };
        // Lists that are NULL may have elements all the same.
        let offsets = OffsetBuffer::from_lengths(
            (0..lists.len()).map(|row| if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 }),
        );
        let kept = (0..lists.len()).filter(|&row| lists.is_valid(row)).flat_map(|row| {
            let start = lists.value_offsets()[row] as u32;
            start..start + lists.value_length(row) as u32
        });
        let entries = take(lists.values(), &UInt32Array::from_iter_values(kept), None)?;
        let entries = entries.as_struct();
        let keys = entries.column(0);
        if entries.null_count() > 0 || keys.logical_null_count() > 0 {
            return exec_err!("map_from_entries takes no key that is NULL");
        }
        let compared = canonical_floats(keys);
        let same = make_comparator(&compared, &compared, SortOptions::default())?;
        for (row, range) in offsets.windows(2).enumerate() {
            let mut places: Vec<usize> = (range[0] as usize..range[1] as usize).collect();
            places.sort_unstable_by(|&a, &b| same(a, b));
            if places.windows(2).any(|pair| same(pair[0], pair[1]).is_eq()) {
                return exec_err!("map_from_entries takes each key once, and row {} has one twice", row + 1);
            }
        }
        let columns = vec![Arc::clone(keys), Arc::clone(entries.column(1))];
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        Ok(Arc::new(MapArray::try_new(field, offsets, entries, lists.nulls().cloned(), false)?))
    }
    let taken = |given: &[DataType]| entries("map_from_entries", given);
    Function::of("map_from_entries", taken, returns, body).registered()
}

/// `map_entries(m)` and `map_keys(m)`: lists of what is in a map, whose fields say what DataFusion's forget, or what makes them panic: that texts are marked.
pub fn map_parts() -> [ScalarUDF; 2] {
    fn taken(given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Map(..) | DataType::Null] => Ok(given.to_vec()),
            _ => refused("map_entries and map_keys", given),
        }
    }
    fn entries_of(map: &DataType) -> Result<DataType> {
        Ok(match map {
            DataType::Map(entries, _) => list_of(entries),
            _ => DataType::Null,
        })
    }
    fn keys_of(map: &DataType) -> Result<DataType> {
        if map.is_null() { Ok(DataType::Null) } else { Ok(list_of(key_and_value(map)?.0)) }
    }
    fn list(maps: &MapArray, of: &DataType, elements: ArrayRef) -> Result<ArrayRef> {
        let DataType::List(of) = of else { return internal_err!("{of} is no list") };
        Ok(Arc::new(ListArray::try_new(Arc::clone(of), maps.offsets().clone(), elements, maps.nulls().cloned())?))
    }
    let entries = Function::of(
        "map_entries",
        taken,
        |given| entries_of(&given[0]),
        |args, _| match args[0].as_map_opt() {
            Some(maps) => list(maps, &entries_of(args[0].data_type())?, Arc::new(maps.entries().clone())),
            None => Ok(Arc::clone(&args[0])),
        },
    );
    let keys = Function::of(
        "map_keys",
        taken,
        |given| keys_of(&given[0]),
        |args, _| match args[0].as_map_opt() {
            Some(maps) => list(maps, &keys_of(args[0].data_type())?, Arc::clone(maps.keys())),
            None => Ok(Arc::clone(&args[0])),
        },
    );
    [entries.registered(), keys.registered()]
}

/// `map_concat(m, n)`: the entries of maps in one; of entries with one key the last counts, where the first is.
pub fn map_concat() -> ScalarUDF {
    fn taken(given: &[DataType]) -> Result<Vec<DataType>> {
        let mut maps = given.iter().filter(|given| !given.is_null());
        let Some(first @ DataType::Map(..)) = maps.next() else {
            return match given {
                [_, _, ..] if given.iter().all(DataType::is_null) => Ok(given.to_vec()),
                _ => refused("map_concat", given),
            };
        };
        let mut types = [key_and_value(first)?.0.data_type().clone(), key_and_value(first)?.1.data_type().clone()];
        for other in maps {
            let DataType::Map(..) = other else { return refused("map_concat", given) };
            let (key, value) = key_and_value(other)?;
            for (common, other) in types.iter_mut().zip([key, value]) {
                match type_union_resolution(&[common.clone(), other.data_type().clone()]) {
                    Some(wider) => *common = wider,
                    None => return refused("map_concat", given),
                }
            }
        }
        if given.len() < 2 {
            return plan_err!("map_concat takes two maps or more");
        }
        let [key, value] = types;
        let fields = vec![Field::new("key", key, false), Field::new("value", value, true)];
        let entries = Field::new("entries", DataType::Struct(fields.into()), false);
        Ok(vec![DataType::Map(Arc::new(entries), false); given.len()])
    }
    fn body(args: &[ArrayRef], _zone: &Zone) -> Result<ArrayRef> {
        let DataType::Map(field, _) = args[0].data_type() else { return Ok(Arc::clone(&args[0])) };
        let DataType::Struct(fields) = field.data_type() else { return internal_err!("entries are structs") };
        let maps: Vec<&MapArray> = args.iter().map(|arg| arg.as_map()).collect();
        // All entries of all arguments, and where those of each argument begin.
        let side = |of: fn(&MapArray) -> &ArrayRef| -> Result<ArrayRef> {
            Ok(concat(&maps.iter().map(|map| of(map).as_ref()).collect::<Vec<&dyn Array>>())?)
        };
        let (keys, values) = (side(MapArray::keys)?, side(MapArray::values)?);
        let compared = canonical_floats(&keys);
        let order = make_comparator(&compared, &compared, SortOptions::default())?;
        let rows = args[0].len();
        let (mut key_places, mut value_places) = (Vec::new(), Vec::new());
        let (mut lengths, mut valid) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut entries: Vec<usize> = Vec::new();
        for row in 0..rows {
            entries.clear();
            let mut begin = 0;
            for map in &maps {
                let ends = [map.value_offsets()[row], map.value_offsets()[row + 1]].map(|end| end as usize + begin);
                entries.extend(if map.is_valid(row) { ends[0]..ends[1] } else { 0..0 });
                begin += map.entries().len();
            }
            // Entries of one key one after the other, in the order of the arguments.
            let mut sorted = entries.clone();
            sorted.sort_by(|&a, &b| order(a, b).then(a.cmp(&b)));
            let mut once: Vec<(usize, usize)> = sorted
                .chunk_by(|&a, &b| order(a, b).is_eq())
                .filter_map(|same| Some((*same.first()?, *same.last()?)))
                .collect();
            once.sort_unstable();
            lengths.push(once.len());
            valid.push(maps.iter().any(|map| map.is_valid(row)));
            key_places.extend(once.iter().map(|(first, _)| *first as u32));
            value_places.extend(once.iter().map(|(_, last)| *last as u32));
        }
        let keys = take(&keys, &UInt32Array::from(key_places), None)?;
        let values = take(&values, &UInt32Array::from(value_places), None)?;
        let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), Some(NullBuffer::from(valid)));
        Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, false)?))
    }
    Function::of("map_concat", taken, |args| Ok(args[0].clone()), body).registered()
}

/// The function to register in a session, instead of DataFusion's.
pub fn map_extract() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(MapExtract { inner: map_extract_udf(), signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MapExtract {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for MapExtract {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [map, _] if map.is_null() => Ok(arg_types.to_vec()),
            _ => of_common_keys(arg_types),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match &arg_types[0] {
            map if map.is_null() => Ok(DataType::Null),
            map => Ok(DataType::List(extracted(map)?)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args[0].data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        let all_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let entries = entries_of(&arrays[0], &arrays[1])?;
        let offsets = OffsetBuffer::from_lengths((0..entries.len()).map(|row| usize::from(entries.is_valid(row))));
        let found: UInt32Array = entries.iter().flatten().collect();
        let values = take(arrays[0].as_map().values(), &found, None)?;
        let field = extracted(arrays[0].data_type())?;
        let lists: ArrayRef = Arc::new(ListArray::try_new(field, offsets, values, arrays[0].nulls().cloned())?);
        Ok(match all_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?),
            false => ColumnarValue::Array(lists),
        })
    }
}

/// The field of a list of values of maps of type `map`.
fn extracted(map: &DataType) -> Result<FieldRef> {
    Ok(Arc::new(Field::new_list_field(key_and_value(map)?.1.data_type().clone(), true)))
}

fn values_of(maps: &ArrayRef, asked: &ArrayRef) -> Result<ArrayRef> {
    Ok(take(maps.as_map().values(), &entries_of(maps, asked)?, None)?)
}

/// Where the values of the keys `asked` are among those of `maps`.
fn entries_of(maps: &ArrayRef, asked: &ArrayRef) -> Result<UInt32Array> {
    let maps = maps.as_map();
    let keys = match maps.keys().data_type() == asked.data_type() {
        true => Arc::clone(maps.keys()),
        false => cast(maps.keys(), asked.data_type())?,
    };
    let order = make_comparator(&keys, asked, SortOptions::default())?;
    let offsets = maps.value_offsets();
    let found = (0..maps.len()).map(|row| {
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        let is_asked = maps.is_valid(row) && asked.is_valid(row);
        let entry = is_asked.then(|| entries.find(|&entry| order(entry, row).is_eq()))?;
        entry.map(|entry| entry as u32)
    });
    Ok(found.collect())
}
