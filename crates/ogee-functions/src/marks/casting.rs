//! Casts to marked text and from it, and of lists, structs and maps part by part.
//!
//! A struct becomes another by the names of its fields: one that there is not is NULL. A row, whose fields have no names, becomes one by their places, and a struct a map of its
//! names. What a text is taken apart to is cast as the text alone would be. `TRY_CAST` makes NULL of the part that does not fit; a map without a key, and a list of another length than
//! is asked for, are NULL as a whole.
//!
//! Not here: which casts of a plan are these (`ogee-sql`), and values with no others in them (`leaves`).

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, MapArray, StringViewArray, StringViewBuilder,
            StructArray, UInt32Array, new_null_array,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, take},
        datatypes::{DataType, Field, FieldRef, Fields},
    },
    common::{ExprSchema, Result, ScalarValue, exec_err, metadata::FieldMetadata, plan_err},
    logical_expr::{Expr, ExprSchemable, ReturnFieldArgs, ScalarUDF, expr::ScalarFunction},
};
use ogee_memory::BufferManager;

use super::{Mark, bits, enum_values, enums, has_mark, is_alike, is_text, keeping::kept, leaves, reading, uuids};
use crate::{
    arguments::texts,
    function::{Call, Function, Shown},
    growing::Promises,
    json::{self, Manner},
    lists::element,
    nested_text::written,
    times::Zone,
    type_names::{sql_name, sql_name_of},
};

/// The function that a cast is of which the value or the type has marked text in it, or that is of nested types: of the value, and NULL of the type.
const CAST: &str = "ogee_marked_cast";
/// [`CAST`] for `TRY_CAST`.
const TRY_CAST: &str = "ogee_try_marked_cast";

/// The functions of casts.
pub(crate) fn functions(memory: &Arc<BufferManager>) -> [Function; 2] {
    let any = |given: &[DataType]| Ok(given.to_vec());
    [
        Function::of_fields(CAST, any, second, |call| cast_of(call, false), memory),
        Function::of_fields(TRY_CAST, any, second, |call| cast_of(call, true), memory),
    ]
    .map(|function| function.zoned().shown(Shown::Argument))
}

/// The field of the second argument, a NULL of the type that is wanted.
fn second(args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    match args.arg_fields {
        [_, wanted] => Ok(Arc::new(wanted.as_ref().clone().with_nullable(true))),
        _ => plan_err!("a cast has a value and a type"),
    }
}

/// Casts of marked text and nested values, for plans.
#[derive(Clone, Debug)]
pub struct Casts {
    /// For JSON alone: to it, tried, and to text.
    json: [Arc<ScalarUDF>; 3],
    memory: Arc<BufferManager>,
    shown: Shown,
}

impl Casts {
    /// Casts that are promised memory of `memory`.
    pub fn new(memory: &Arc<BufferManager>) -> Self {
        let json = json::casts(memory).map(|function| Arc::new(function.registered()));
        Self { json, memory: Arc::clone(memory), shown: Shown::Argument }
    }

    /// Those of conditions, which have names of their own: a join computes a cast of a column beside the column.
    #[must_use]
    pub fn of_conditions(&self) -> Self {
        Self { shown: Shown::Call, ..self.clone() }
    }

    /// `expr`, of field `from`, as values of `to`; `None` where Arrow does that. `tries`: what is none is NULL.
    ///
    /// # Errors
    /// If there is no such cast.
    pub fn cast(&self, expr: &Expr, from: &Field, to: &Field, tries: bool) -> Result<Option<Expr>> {
        self.cast_in(&Zone::UTC, expr, from, to, tries)
    }

    /// The same, where the zone of the session is known.
    ///
    /// # Errors
    /// If there is no such cast.
    pub fn cast_in(&self, zone: &Zone, expr: &Expr, from: &Field, to: &Field, tries: bool) -> Result<Option<Expr>> {
        if !is_known(from.data_type(), to.data_type()) && !matches!(expr, Expr::Literal(value, _) if value.is_null()) {
            return match tries {
                true => Ok(Some(Expr::Literal(ScalarValue::try_from(to.data_type())?, None))),
                false => check(from, to).map(|()| None),
            };
        }
        if !differs(from, to) {
            return if tries { Ok(None) } else { check(from, to).map(|()| None) };
        }
        check(from, to)?;
        let json = |at: usize| {
            let call = ScalarFunction::new_udf(Arc::clone(&self.json[at]), vec![expr.clone()]);
            Some(Expr::ScalarFunction(call))
        };
        let is_plain = is_text(from.data_type()) && Mark::of(from).is_none_or(|mark| mark == Mark::Json);
        if Mark::of(to) == Some(Mark::Json) && is_plain {
            return Ok(json(usize::from(tries)));
        }
        if Mark::of(from) == Some(Mark::Json) && Mark::of(to).is_none() && to.data_type().is_string() {
            return Ok(json(2));
        }
        let metadata = (!to.metadata().is_empty()).then(|| FieldMetadata::from(to.metadata().clone()));
        let null = Expr::Literal(ScalarValue::try_from(to.data_type())?, metadata);
        let [strict, lenient] = functions(&self.memory);
        let function = if tries { lenient } else { strict };
        Ok(Some(function.shown(self.shown).in_zone(zone).call(vec![expr.clone(), null])))
    }

    /// `expr`, of which `schema` has the columns, as the marked text that it keeps; `None` where that is known, or nothing.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn kept(&self, expr: &Expr, schema: &dyn ExprSchema) -> Result<Option<Expr>> {
        let Some(to) = kept(expr, schema) else { return Ok(None) };
        match expr.to_field(schema) {
            Ok((_, from)) if !has_mark(&from) => self.cast(expr, &from, &to, false),
            _ => Ok(None),
        }
    }
}

impl Casts {
    /// The place of `expr`, a value of the `ENUM` that `field` is of, in the order of its type.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn place(&self, expr: Expr, field: &Field) -> Result<Expr> {
        enums::place(expr, field, &self.memory)
    }

    /// The value at the place `expr`, in the `ENUM` that `field` is of.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn value_at(&self, expr: Expr, field: &Field) -> Result<Expr> {
        enums::value_at(expr, field, &self.memory)
    }

    /// The map `expr`, whose keys are values of the `ENUM` that `field` is of, with its entries in the order of the type.
    ///
    /// # Errors
    /// If there is no NULL of the type.
    pub fn by_place(&self, expr: Expr, field: &Field) -> Result<Expr> {
        enums::by_place(expr, field, &self.memory)
    }
}

fn entry(entries: &Field) -> Option<[&FieldRef; 2]> {
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => Some([&fields[0], &fields[1]]),
        _ => None,
    }
}

/// Whether the cast is one that is done here.
fn differs(from: &Field, to: &Field) -> bool {
    let (given, wanted) = (from.data_type(), to.data_type());
    if has_mark(from) || has_mark(to) {
        return given != wanted || !is_alike(from, to);
    }
    if given == wanted || given.is_null() {
        return false;
    }
    match (element(given), element(wanted)) {
        (Some(of), Some(to)) => {
            matches!((given, wanted), (DataType::FixedSizeList(..), _) | (_, DataType::FixedSizeList(..)))
                || differs(of, to)
                || leaves::differs(of.data_type(), to.data_type())
        }
        _ => wanted.is_nested() || given.is_nested() && !is_text(wanted),
    }
}

/// Whether the fields are those of a row, which have the names that DataFusion gives them.
pub(crate) fn is_row(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(nth, field)| *field.name() == format!("c{nth}"))
}

/// Where the fields of `to` are among those of `from`.
fn places(from: &Fields, to: &Fields) -> Result<Vec<Option<usize>>> {
    if is_row(from) || is_row(to) {
        if from.len() != to.len() {
            return plan_err!("a struct of {} fields cannot be cast to one of {}", from.len(), to.len());
        }
        return Ok((0..to.len()).map(Some).collect());
    }
    let place = |field: &FieldRef| {
        let same = from.iter().position(|from| from.name() == field.name());
        same.or_else(|| from.iter().position(|from| from.name().eq_ignore_ascii_case(field.name())))
    };
    let places: Vec<Option<usize>> = to.iter().map(place).collect();
    match places.iter().all(Option::is_none) {
        true => plan_err!(
            "{} and {} have no field in common; structs are cast by the names of their fields",
            sql_name(&DataType::Struct(from.clone())),
            sql_name(&DataType::Struct(to.clone()))
        ),
        false => Ok(places),
    }
}

/// # Errors
/// If no value of `from` is one of `to`.
fn check(from: &Field, to: &Field) -> Result<()> {
    let none = || plan_err!("{} cannot be cast to {}", sql_name_of(from), sql_name_of(to));
    let (given, wanted) = (from.data_type(), to.data_type());
    if given.is_null() || is_alike(from, to) && given == wanted {
        return Ok(());
    }
    match (Mark::of(from), Mark::of(to)) {
        (_, Some(Mark::Json)) | (Some(Mark::Json), _) => return Ok(()),
        (_, Some(Mark::Uuid)) if !is_text(given) && !uuids::takes(given) => return none(),
        (_, Some(Mark::Bit)) if !is_text(given) && !bits::takes(given) => return none(),
        (_, Some(Mark::Enum)) if !is_text(given) => return none(),
        (_, Some(_)) => return Ok(()),
        (Some(_), None) if !is_text(wanted) && wanted.is_nested() => return none(),
        _ => {}
    }
    match (given, wanted) {
        (_, wanted) if is_text(wanted) => Ok(()),
        (given, _) if is_text(given) => Ok(()),
        (DataType::Dictionary(..) | DataType::RunEndEncoded(..), _) => Ok(()),
        (DataType::Struct(of), DataType::Struct(fields)) => {
            let places = places(of, fields)?;
            fields.iter().zip(places).try_for_each(|(to, at)| at.map_or(Ok(()), |at| check(&of[at], to)))
        }
        (DataType::Struct(of), DataType::Map(entries, _)) => match entry(entries) {
            Some([_, value]) if !is_row(of) => of.iter().try_for_each(|from| check(from, value)),
            _ => none(),
        },
        (DataType::Map(of, _), DataType::Map(entries, _)) => match (entry(of), entry(entries)) {
            (Some(from), Some(to)) => from.into_iter().zip(to).try_for_each(|(from, to)| check(from, to)),
            _ => none(),
        },
        (given, wanted) => match (element(given), element(wanted)) {
            (Some(of), Some(to)) => check(of, to),
            (None, Some(_)) if !given.is_nested() => {
                plan_err!(
                    "values of type {} cannot be cast to lists; write [value] for a list of one",
                    sql_name_of(from)
                )
            }
            _ if given.is_nested() || wanted.is_nested() || !is_known(given, wanted) => none(),
            _ => Ok(()),
        },
    }
}

/// Whether a value of a type without parts is one of another: a number is no moment, though a moment is kept as one.
fn is_known(given: &DataType, wanted: &DataType) -> bool {
    let is_moment = |of: &DataType| of.is_temporal() && !matches!(of, DataType::Duration(_));
    let is_time = |of: &DataType| matches!(of, DataType::Time32(_) | DataType::Time64(_));
    let is_number = |of: &DataType| of.is_numeric() || *of == DataType::Boolean;
    let is_bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::BinaryView | DataType::LargeBinary);
    let is_date = |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64);
    let is_unknown = is_number(given) && (is_moment(wanted) || is_bytes(wanted))
        || (is_moment(given) || is_bytes(given)) && is_number(wanted)
        || is_time(given) && (is_date(wanted) || matches!(wanted, DataType::Timestamp(..)))
        || is_date(given) && is_time(wanted);
    !is_unknown
}

fn cast_of(call: &mut Call<'_, '_>, tries: bool) -> Result<ArrayRef> {
    let (array, from, to) = (Arc::clone(&call.args[0]), Arc::clone(&call.fields[0]), Arc::clone(call.returns));
    Caster { tries, call }.parts(&array, &from, &to)
}

/// The values of `to` that `values`, texts, stand for; `tries`: a text that is none is NULL, and so is the part of one.
///
/// # Errors
/// If a text is none, unless it is tried; or there is no memory.
pub fn of_texts(
    values: &StringViewArray,
    to: &FieldRef,
    tries: bool,
    zone: &Zone,
    memory: &Arc<BufferManager>,
) -> Result<ArrayRef> {
    let text = Arc::new(Field::new("", values.data_type().clone(), true));
    let args: [ArrayRef; 1] = [Arc::new(values.clone())];
    let (array, from) = (Arc::clone(&args[0]), Arc::clone(&text));
    let mut call = Call {
        args: &args,
        fields: &[text],
        returns: to,
        zone,
        promises: Promises::new(memory, CAST, values.len()),
        rows: values.len(),
    };
    Caster { tries, call: &mut call }.parts(&array, &from, to)
}

struct Caster<'c, 'a, 'm> {
    tries: bool,
    call: &'c mut Call<'a, 'm>,
}

impl Caster<'_, '_, '_> {
    /// Promises memory for `bytes` more.
    fn promise(&mut self, bytes: usize) -> Result<()> {
        self.call.promises.add(self.call.rows.saturating_sub(1), bytes as u128)
    }

    /// The values of `array`, of field `from`, as those of `to`. Types are no deeper than statements are.
    fn parts(&mut self, array: &ArrayRef, from: &Field, to: &FieldRef) -> Result<ArrayRef> {
        if array.data_type().is_null() {
            return Ok(new_null_array(to.data_type(), array.len()));
        }
        if let Some(mark) = Mark::of(to) {
            return self.marked(array, from, to, mark);
        }
        match Mark::of(from) {
            Some(Mark::Json) if to.data_type().is_string() => return Ok(cast(&texts(array)?, to.data_type())?),
            Some(Mark::Json) => {
                let manner = if self.tries { Manner::Lenient } else { Manner::Cast };
                return json::values(&texts(array)?, to, manner, self.call);
            }
            Some(Mark::Uuid) => {
                if let Some(cast) = uuids::to_other(&texts(array)?, to.data_type(), self.tries)? {
                    return Ok(cast);
                }
            }
            Some(Mark::Bit) => {
                if let Some(cast) = bits::to_other(&texts(array)?, to.data_type(), self.tries)? {
                    return Ok(cast);
                }
            }
            Some(Mark::Enum) | None => {}
        }
        let given = array.data_type().clone();
        match (&given, to.data_type()) {
            (given, wanted) if is_text(given) && wanted.is_nested() => self.taken_apart(&texts(array)?, to),
            (given, wanted) if given.is_nested() && is_text(wanted) => {
                Ok(cast(&written(array, self.call.zone)?, wanted)?)
            }
            (DataType::Struct(given), DataType::Struct(wanted)) => self.structs(array, given, wanted),
            (DataType::Struct(given), DataType::Map(entries, sorted)) => {
                self.map_of_struct(array, given, entries, *sorted)
            }
            (DataType::Map(given, _), DataType::Map(entries, sorted)) => {
                let (Some(from), Some([key, value])) = (entry(given), entry(entries)) else {
                    return exec_err!("entries of a map are no structs");
                };
                let map = array.as_map();
                let keys = self.parts(map.keys(), from[0], key)?;
                let values = self.parts(map.values(), from[1], value)?;
                map_of(entries, *sorted, map.offsets().clone(), keys, values, map.nulls().cloned(), self.tries)
            }
            (given, wanted) => match (element(given), element(wanted)) {
                (Some(from), Some(of)) => self.lists(array, from, of, wanted),
                _ => leaves::cast_leaves(array, wanted, self.tries, self.call.zone),
            },
        }
    }

    /// The values of `array` as text with a mark.
    fn marked(&mut self, array: &ArrayRef, from: &Field, to: &FieldRef, mark: Mark) -> Result<ArrayRef> {
        if super::is_same(from, to) {
            return Ok(Arc::new(texts(array)?));
        }
        let of_json = Mark::of(from) == Some(Mark::Json);
        if mark == Mark::Json {
            return match is_text(array.data_type()) {
                true if Mark::of(from).is_none() => Ok(Arc::new(json::checked(&texts(array)?, self.tries)?)),
                _ => self.as_json(array, from, to),
            };
        }
        let array = match of_json {
            true => {
                let text = Arc::new(Field::new("", DataType::Utf8View, true));
                json::values(&texts(array)?, &text, Manner::Cast, self.call)?
            }
            false => Arc::clone(array),
        };
        match mark {
            Mark::Uuid => uuids::of_other(&array, self.tries),
            Mark::Bit => bits::of_other(&array, Mark::of(from).is_some(), self.tries),
            _ => Ok(Arc::new(enums::checked(&texts(&array)?, &enum_values(to), self.tries)?)),
        }
    }

    /// What `to_json` makes of the values.
    fn as_json(&mut self, array: &ArrayRef, from: &Field, to: &FieldRef) -> Result<ArrayRef> {
        let fields = [Arc::new(from.clone())];
        let arrays = [Arc::clone(array)];
        let none = self.call.promises.of_none();
        let promises = std::mem::replace(&mut self.call.promises, none);
        let mut inner =
            Call { args: &arrays, fields: &fields, returns: to, zone: self.call.zone, promises, rows: array.len() };
        let json = json::to_json(&mut inner);
        self.call.promises = inner.promises;
        json
    }

    fn lists(&mut self, array: &ArrayRef, from: &FieldRef, of: &FieldRef, wanted: &DataType) -> Result<ArrayRef> {
        let lists = cast(array, &DataType::List(Arc::clone(from)))?;
        let lists = lists.as_list::<i32>();
        let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
        let values = self.parts(&lists.values().slice(first, last - first), from, of)?;
        let offsets = OffsetBuffer::from_lengths(lists.offsets().lengths());
        match wanted {
            DataType::FixedSizeList(_, length) => {
                let length = *length;
                if let DataType::FixedSizeList(_, given) = array.data_type()
                    && *given != length
                {
                    return exec_err!("an array of {given} elements cannot be cast to one of {length}");
                }
                fixed_lists(of, length, &offsets, &values, lists.nulls(), self.tries)
            }
            _ => Ok(Arc::new(ListArray::try_new(Arc::clone(of), offsets, values, lists.nulls().cloned())?)),
        }
    }

    fn structs(&mut self, array: &ArrayRef, given: &Fields, wanted: &Fields) -> Result<ArrayRef> {
        let structs = array.as_struct();
        let mut columns = Vec::with_capacity(wanted.len());
        for (field, at) in wanted.iter().zip(places(given, wanted)?) {
            columns.push(match at {
                Some(at) => self.parts(structs.column(at), &given[at], field)?,
                None => new_null_array(field.data_type(), array.len()),
            });
        }
        let nulls = structs.nulls().cloned();
        Ok(Arc::new(StructArray::try_new_with_length(wanted.clone(), columns, nulls, array.len())?))
    }

    /// Each struct as a map of the names of its fields.
    fn map_of_struct(
        &mut self,
        array: &ArrayRef,
        given: &Fields,
        entries: &FieldRef,
        sorted: bool,
    ) -> Result<ArrayRef> {
        let Some([key, value]) = entry(entries) else { return exec_err!("entries of a map are no structs") };
        let structs = array.as_struct();
        let names: StringViewArray = given.iter().map(|field| Some(field.name())).collect();
        let text = Field::new("", DataType::Utf8View, true);
        let names = self.parts(&(Arc::new(names) as ArrayRef), &text, key)?;
        let columns = given.iter().zip(structs.columns()).map(|(field, column)| self.parts(column, field, value));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let width = given.len();
        let valid: Vec<usize> = (0..array.len()).filter(|row| structs.is_valid(*row)).collect();
        self.promise(valid.len() * width * size_of::<u128>())?;
        let picks: Vec<(usize, usize)> =
            valid.iter().flat_map(|row| (0..width).map(move |column| (column, *row))).collect();
        let sides: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
        let values = match sides.is_empty() {
            true => new_null_array(value.data_type(), 0),
            false => datafusion::arrow::compute::interleave(&sides, &picks)?,
        };
        let repeated: UInt32Array = valid.iter().flat_map(|_| 0..width as u32).collect();
        let keys = take(&names, &repeated, None)?;
        let lengths = (0..array.len()).map(|row| if structs.is_valid(row) { width } else { 0 });
        let offsets = OffsetBuffer::from_lengths(lengths);
        map_of(entries, sorted, offsets, keys, values, structs.nulls().cloned(), self.tries)
    }

    /// What the texts are, taken apart.
    fn taken_apart(&mut self, texts: &StringViewArray, to: &FieldRef) -> Result<ArrayRef> {
        let unfit = |text: &str| exec_err!("'{text}' cannot be cast to {}", sql_name_of(to));
        match to.data_type() {
            DataType::List(of) | DataType::FixedSizeList(of, _) => {
                let (mut elements, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
                let fixed = match to.data_type() {
                    DataType::FixedSizeList(_, length) => Some(*length),
                    _ => None,
                };
                for text in texts {
                    let list = match text.map(|text| (text, reading::list(text))) {
                        Some((text, list)) => match list {
                            Some(list) if fixed.is_none_or(|length| list.len() == length as usize) => Some(list),
                            _ if self.tries => None,
                            Some(list) => {
                                let length = fixed.unwrap_or_default();
                                return exec_err!("'{text}' has {} elements, not {length}", list.len());
                            }
                            None => return exec_err!("'{text}' is no list, as [1, 2] is"),
                        },
                        None => None,
                    };
                    valid.push(list.is_some());
                    let list = list.unwrap_or_default();
                    lengths.push(list.len());
                    elements.extend(list);
                }
                let values = self.texts_as(elements, of)?;
                let offsets = OffsetBuffer::from_lengths(lengths);
                let nulls = Some(NullBuffer::from(valid));
                match fixed {
                    Some(length) => fixed_lists(of, length, &offsets, &values, nulls.as_ref(), self.tries),
                    None => Ok(Arc::new(ListArray::try_new(Arc::clone(of), offsets, values, nulls)?)),
                }
            }
            DataType::Struct(fields) => {
                let mut columns: Vec<Vec<Option<String>>> = vec![Vec::with_capacity(texts.len()); fields.len()];
                let mut valid = Vec::with_capacity(texts.len());
                for text in texts {
                    let known = match text.map(|text| (text, of_fields(text, fields))) {
                        Some((text, None)) if !self.tries => return unfit(text),
                        known => known.and_then(|(_, values)| values),
                    };
                    valid.push(known.is_some());
                    let known = known.unwrap_or_else(|| vec![None; fields.len()]);
                    columns.iter_mut().zip(known).for_each(|(column, value)| column.push(value));
                }
                let columns = fields.iter().zip(columns).map(|(field, column)| self.texts_as(column, field));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let nulls = Some(NullBuffer::from(valid));
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, texts.len())?))
            }
            DataType::Map(entries, sorted) => {
                let Some([key, value]) = entry(entries) else { return exec_err!("entries of a map are no structs") };
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                let (mut lengths, mut valid) = (Vec::new(), Vec::new());
                for text in texts {
                    let map = match text.map(|text| (text, reading::entries(text))) {
                        Some((text, None)) if !self.tries => return unfit(text),
                        map => map.and_then(|(_, map)| map),
                    };
                    valid.push(map.is_some());
                    let map = map.unwrap_or_default();
                    lengths.push(map.len());
                    for (key, value) in map {
                        keys.push(key);
                        values.push(value);
                    }
                }
                let (keys, values) = (self.texts_as(keys, key)?, self.texts_as(values, value)?);
                let nulls = Some(NullBuffer::from(valid));
                map_of(entries, *sorted, OffsetBuffer::from_lengths(lengths), keys, values, nulls, self.tries)
            }
            _ => exec_err!("text cannot be cast to {}", sql_name_of(to)),
        }
    }

    /// `parts`, which a text was taken apart to, as values of `to`.
    fn texts_as(&mut self, parts: Vec<Option<String>>, to: &FieldRef) -> Result<ArrayRef> {
        let bytes: usize = parts.iter().map(|part| size_of::<u128>() + part.as_ref().map_or(0, String::len)).sum();
        self.promise(2 * bytes)?;
        let mut texts = StringViewBuilder::with_capacity(parts.len());
        parts.iter().for_each(|part| texts.append_option(part.as_deref()));
        drop(parts);
        self.parts(&(Arc::new(texts.finish()) as ArrayRef), &Field::new("", DataType::Utf8View, true), to)
    }
}

/// The values of `fields` in the struct that `text` is, NULL for those that it has not; `None` if it is none, or has others.
fn of_fields(text: &str, fields: &Fields) -> Option<Vec<Option<String>>> {
    let given = reading::fields(text)?;
    let mut values: Vec<Option<String>> = vec![None; fields.len()];
    let mut known = vec![false; fields.len()];
    for (nth, (name, value)) in given.into_iter().enumerate() {
        let at = match name {
            Some(name) => fields.iter().position(|field| field.name().eq_ignore_ascii_case(&name))?,
            None => Some(nth).filter(|nth| *nth < fields.len())?,
        };
        if std::mem::replace(&mut known[at], true) {
            return None;
        }
        values[at] = value;
    }
    Some(values)
}

/// Lists of `length` elements each.
fn fixed_lists(
    of: &FieldRef,
    length: i32,
    offsets: &OffsetBuffer<i32>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
    tries: bool,
) -> Result<ArrayRef> {
    let mut picks: Vec<Option<u32>> = Vec::with_capacity(offsets.len() * length.max(0) as usize);
    let mut valid = Vec::with_capacity(offsets.len() - 1);
    for row in 0..offsets.len() - 1 {
        let (from, to) = (offsets[row], offsets[row + 1]);
        let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
        let fits = to - from == length;
        if is_valid && !fits && !tries {
            return exec_err!("a list of {} elements cannot be cast to an array of {length}", to - from);
        }
        valid.push(is_valid && fits);
        match is_valid && fits {
            true => picks.extend((from..to).map(|at| u32::try_from(at).ok())),
            false => picks.extend(std::iter::repeat_n(None, length.max(0) as usize)),
        }
    }
    let values = take(values, &UInt32Array::from(picks), None)?;
    Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(of), length, values, Some(NullBuffer::from(valid)))?))
}

/// Maps of these entries, whose keys are not NULL and differ from each other: others are an error, or NULL if `tries`.
fn map_of(
    entries: &FieldRef,
    sorted: bool,
    offsets: OffsetBuffer<i32>,
    keys: ArrayRef,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    tries: bool,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else { return exec_err!("entries of a map are no structs") };
    let shown = written_keys(&keys)?;
    let mut wrong = vec![false; offsets.len() - 1];
    for (row, wrong) in wrong.iter_mut().enumerate() {
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        let mut met = HashSet::with_capacity(range.len());
        for at in range {
            *wrong |= keys.is_null(at) || !met.insert(shown.value(at));
            if *wrong && !tries {
                return match keys.is_null(at) {
                    true => exec_err!("a key of a map is not NULL"),
                    false => exec_err!("keys of a map differ from each other; {} is there twice", shown.value(at)),
                };
            }
        }
    }
    if !wrong.contains(&true) {
        let entries_array = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        return Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, entries_array, nulls, sorted)?));
    }
    let right = |row: &usize| !wrong[*row] && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
    let picks = (0..wrong.len()).filter(right).flat_map(|row| offsets[row] as u32..offsets[row + 1] as u32);
    let picks: UInt32Array = picks.collect();
    let columns = vec![take(&keys, &picks, None)?, take(&values, &picks, None)?];
    let lengths = (0..wrong.len()).map(|row| if right(&row) { (offsets[row + 1] - offsets[row]) as usize } else { 0 });
    let kept = OffsetBuffer::from_lengths(lengths);
    let nulls = NullBuffer::from((0..wrong.len()).map(|row| right(&row)).collect::<Vec<_>>());
    let entries_array = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), kept, entries_array, Some(nulls), sorted)?))
}

/// Keys as texts, by which they are told apart.
fn written_keys(keys: &ArrayRef) -> Result<StringViewArray> {
    match keys.data_type().is_nested() {
        true => Ok(written(keys, &Zone::UTC)?.as_string_view().clone()),
        false => crate::nested_text::singles(keys, &Zone::UTC),
    }
}
