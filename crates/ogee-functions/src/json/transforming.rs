//! Values of JSON: `json_transform`, `from_json`, and casts of JSON to other types.
//!
//! Values are made a column at a time, of places in the texts of all rows. A number fits every type of numbers that has room for it, and is rounded where that has no fraction; a text
//! is read as if it were cast. What does not fit is NULL, or an error.
//!
//! Not here: the types that `json_transform` is told (`structures`).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{
            Array, ArrayRef, AsArray, BinaryViewBuilder, Decimal128Array, FixedSizeListArray, Float64Array, ListArray,
            MapArray, StringViewArray, StringViewBuilder, StructArray, new_null_array,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, interleave},
        datatypes::{DataType, Field, FieldRef, Fields, IntervalMonthDayNanoType, TimestampMicrosecondType},
    },
    common::{Result, exec_err, plan_err},
    logical_expr::ReturnFieldArgs,
};
use ogee_memory::BufferManager;

use super::{
    building::documents,
    is_document, is_json,
    reading::{Kind, Place, shown, unescaped},
    structures::parse_structure,
    writing::write_value,
};
use crate::{
    arguments::refused,
    function::{Call, Function},
    text_casts::cast_texts,
    times::{Zone, infinite::cast_moments, instants::instants, intervals::parse_interval, moments::instant_of},
    type_names::sql_name,
};

/// The functions that statements may name.
pub(super) fn functions(memory: &Arc<BufferManager>) -> Vec<Function> {
    vec![
        Function::of_fields(
            "json_transform",
            |given| with_structure("json_transform", given),
            structured,
            |call| of_call(call, Manner::Lenient),
            memory,
        )
        .also(&["from_json"])
        .zoned(),
        Function::of_fields(
            "json_transform_strict",
            |given| with_structure("json_transform_strict", given),
            structured,
            |call| of_call(call, Manner::Strict),
            memory,
        )
        .also(&["from_json_strict"])
        .zoned(),
    ]
}

fn with_structure(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [document, structure] if is_document(document) && (super::is_text(structure) || structure.is_null()) => {
            Ok(given.to_vec())
        }
        _ => refused(name, given),
    }
}

/// The field that the second argument tells.
fn structured(args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    let structure = args.scalar_arguments.get(1).copied().flatten();
    match structure.map(|structure| (structure, structure.try_as_str())) {
        Some((_, Some(Some(structure)))) => parse_structure(structure),
        Some((structure, _)) if structure.is_null() => Ok(Arc::new(Field::new("", DataType::Null, true))),
        _ => plan_err!("the structure of json_transform is a constant text, as in '{{\"a\": \"INTEGER\"}}'"),
    }
}

fn of_call(call: &mut Call<'_, '_>, manner: Manner) -> Result<ArrayRef> {
    if call.returns.data_type().is_null() || call.args[0].data_type().is_null() {
        return Ok(new_null_array(call.returns.data_type(), call.rows));
    }
    let documents = documents(call, 0)?;
    values(&documents, &Arc::clone(call.returns), manner, call)
}

/// What becomes of values that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// They are NULL.
    Lenient,
    /// They are an error; members of objects that nobody asks for are not.
    Strict,
    /// They are an error.
    Cast,
}

/// The values that `documents` are as those of `to`.
pub(crate) fn values(
    documents: &StringViewArray,
    to: &FieldRef,
    manner: Manner,
    call: &mut Call<'_, '_>,
) -> Result<ArrayRef> {
    let mut places = Vec::with_capacity(documents.len());
    for document in documents {
        places.push(document.map(Place::of).transpose()?);
    }
    let zone = *call.zone;
    let mut transformer = Transformer { manner, zone: &zone, call };
    transformer.column(&places, to)
}

type Places<'a> = [Option<Place<'a>>];

struct Transformer<'t, 'a, 'm> {
    manner: Manner,
    zone: &'t Zone,
    call: &'t mut Call<'a, 'm>,
}

impl Transformer<'_, '_, '_> {
    /// Promises memory for `count` values of `bytes` each.
    fn promise(&mut self, count: usize, bytes: usize) -> Result<()> {
        let last = self.call.rows.saturating_sub(1);
        self.call.promises.add(last, count as u128 * bytes as u128)
    }

    /// An error where that is asked for.
    fn unfit(&self, place: Place<'_>, to: &DataType) -> Result<()> {
        if self.manner == Manner::Lenient {
            return Ok(());
        }
        let (kind, raw) = (place.kind().name(), shown(place.raw()));
        match to {
            DataType::Struct(_) | DataType::Map(..) => exec_err!("Expected OBJECT, but got {kind}: {raw}"),
            to if to.is_nested() => exec_err!("Expected ARRAY, but got {kind}: {raw}"),
            to => exec_err!("Failed to cast JSON to {}: {raw}", sql_name(to)),
        }
    }

    /// Types are no deeper than statements are.
    fn column(&mut self, places: &Places<'_>, to: &FieldRef) -> Result<ArrayRef> {
        self.promise(places.len(), size_of::<Option<Place<'_>>>())?;
        match to.data_type() {
            DataType::List(of) => self.lists(places, of, to.data_type()),
            DataType::FixedSizeList(of, length) => self.fixed_lists(places, of, *length, to.data_type()),
            DataType::Struct(fields) => self.structs(places, fields, to.data_type()),
            DataType::Map(entries, _) => self.maps(places, entries, to.data_type()),
            DataType::Null => Ok(new_null_array(&DataType::Null, places.len())),
            given if given.is_string() => Ok(cast(&self.texts(places, is_json(to))?, given)?),
            given if given.is_numeric() => self.numbers(places, given),
            given => self.others(places, given),
        }
    }

    fn texts(&mut self, places: &Places<'_>, is_json: bool) -> Result<ArrayRef> {
        let mut texts = StringViewBuilder::with_capacity(places.len());
        let mut text = String::new();
        for place in places {
            let Some(place) = place.filter(|place| place.kind() != Kind::Null) else {
                texts.append_null();
                continue;
            };
            text.clear();
            match place.kind() {
                Kind::Text if !is_json => text.push_str(&place.unquoted()),
                _ => write_value(place, &mut text),
            }
            self.promise(1, text.len())?;
            texts.try_append_value(&text)?;
        }
        Ok(Arc::new(texts.finish()))
    }

    /// Numbers by what they are written as: whole ones, others, and texts.
    fn numbers(&mut self, places: &Places<'_>, to: &DataType) -> Result<ArrayRef> {
        const WHOLE: usize = 0;
        const REAL: usize = 1;
        const TEXT: usize = 2;
        let (mut wholes, mut reals) = (vec![None; places.len()], vec![None; places.len()]);
        let mut texts = StringViewBuilder::with_capacity(places.len());
        let mut picked = Vec::with_capacity(places.len());
        for (row, place) in places.iter().enumerate() {
            let kind = place.map_or(Kind::Null, |place| place.kind());
            let mut pick = WHOLE;
            match (place, kind) {
                (Some(place), Kind::Text) => {
                    texts.append_value(place.unquoted());
                    picked.push((TEXT, row));
                    continue;
                }
                (Some(place), Kind::Boolean) => wholes[row] = Some(i128::from(place.raw() == "true")),
                (Some(place), Kind::Whole | Kind::Negative | Kind::Real) => {
                    let raw = place.raw();
                    match raw.parse::<i128>() {
                        Ok(whole) if whole.unsigned_abs() < 10_u128.pow(38) => wholes[row] = Some(whole),
                        _ => {
                            pick = REAL;
                            reals[row] = raw.parse::<f64>().ok();
                        }
                    }
                }
                _ => {}
            }
            texts.append_null();
            picked.push((pick, row));
        }
        let wholes: ArrayRef = Arc::new(Decimal128Array::from(wholes).with_precision_and_scale(38, 0)?);
        let reals: Float64Array = match to.is_integer() {
            true => reals.into_iter().map(|real| real.map(f64::round_ties_even)).collect(),
            false => reals.into_iter().collect(),
        };
        let reals: ArrayRef = Arc::new(reals);
        let texts = self.parsed(&texts.finish(), to)?;
        let sources = [cast(&wholes, to)?, cast(&reals, to)?, texts];
        let made = interleave(&[&sources[WHOLE], &sources[REAL], &sources[TEXT]], &picked)?;
        self.checked(places, made, to)
    }

    /// `made` of `places`, if each fits that is no null.
    fn checked(&self, places: &Places<'_>, made: ArrayRef, to: &DataType) -> Result<ArrayRef> {
        if self.manner != Manner::Lenient && made.null_count() > 0 {
            for (row, place) in places.iter().enumerate() {
                if let Some(place) = place.filter(|place| made.is_null(row) && place.kind() != Kind::Null) {
                    self.unfit(place, to)?;
                }
            }
        }
        Ok(made)
    }

    /// `texts` as they are cast to `to`, NULL where they are no such value.
    fn parsed(&self, texts: &StringViewArray, to: &DataType) -> Result<ArrayRef> {
        match to {
            DataType::Interval(_) => {
                let parsed = texts.iter().map(|text| text.and_then(|text| parse_interval(text).ok()));
                let parsed: datafusion::arrow::array::PrimitiveArray<IntervalMonthDayNanoType> = parsed.collect();
                Ok(cast(&parsed, to)?)
            }
            DataType::Timestamp(_, Some(_)) => {
                let parsed = texts.iter().map(|text| text.and_then(|text| instant_of(text, self.zone).ok()));
                let parsed: datafusion::arrow::array::PrimitiveArray<TimestampMicrosecondType> = parsed.collect();
                cast_moments(&instants(parsed), to, true)
            }
            to => cast_texts(texts, to, true),
        }
    }

    /// Truth values, bytes, and what JSON has as texts.
    fn others(&mut self, places: &Places<'_>, to: &DataType) -> Result<ArrayRef> {
        let is_bytes = matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        if is_bytes {
            let texts = self.texts(places, false)?;
            let mut bytes = BinaryViewBuilder::with_capacity(texts.len());
            texts.as_string_view().iter().for_each(|text| bytes.append_option(text));
            return Ok(cast(&bytes.finish(), to)?);
        }
        let mut texts = StringViewBuilder::with_capacity(places.len());
        for place in places {
            match place.map(|place| (place, place.kind())) {
                Some((place, Kind::Text)) => texts.append_value(place.unquoted()),
                Some((place, Kind::Boolean)) if *to == DataType::Boolean => texts.append_value(place.raw()),
                Some((place, Kind::Whole | Kind::Negative | Kind::Real)) if *to == DataType::Boolean => {
                    let is_zero = place.raw().parse::<f64>().is_ok_and(|number| number == 0.0);
                    texts.append_value(if is_zero { "false" } else { "true" });
                }
                _ => texts.append_null(),
            }
        }
        let made = self.parsed(&texts.finish(), to)?;
        self.checked(places, made, to)
    }

    fn lists(&mut self, places: &Places<'_>, of: &FieldRef, to: &DataType) -> Result<ArrayRef> {
        let (mut elements, mut lengths) = (Vec::new(), Vec::with_capacity(places.len()));
        let mut valid = Vec::with_capacity(places.len());
        for place in places {
            let before = elements.len();
            let list = self.of_kind(*place, Kind::List, to)?;
            elements.extend(list.into_iter().flat_map(Place::elements).map(Some));
            valid.push(list.is_some());
            lengths.push(elements.len() - before);
        }
        let values = self.column(&elements, of)?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(ListArray::try_new(Arc::clone(of), OffsetBuffer::from_lengths(lengths), values, nulls)?))
    }

    fn fixed_lists(&mut self, places: &Places<'_>, of: &FieldRef, length: i32, to: &DataType) -> Result<ArrayRef> {
        let count = usize::try_from(length).unwrap_or_default();
        let (mut elements, mut valid) = (Vec::new(), Vec::with_capacity(places.len()));
        for place in places {
            let mut list = self.of_kind(*place, Kind::List, to)?;
            if let Some(place) = list.filter(|list| list.elements().count() != count) {
                if self.manner != Manner::Lenient {
                    return exec_err!("Expected an array of {count} elements, but got {}", shown(place.raw()));
                }
                list = None;
            }
            match list {
                Some(list) => elements.extend(list.elements().map(Some)),
                None => elements.extend(std::iter::repeat_n(None, count)),
            }
            valid.push(list.is_some());
        }
        let values = self.column(&elements, of)?;
        Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(of), length, values, Some(NullBuffer::from(valid)))?))
    }

    /// `place` if the value there is of `kind`.
    fn of_kind<'a>(&self, place: Option<Place<'a>>, kind: Kind, to: &DataType) -> Result<Option<Place<'a>>> {
        match place {
            Some(place) if place.kind() == kind => Ok(Some(place)),
            Some(place) if place.kind() != Kind::Null => self.unfit(place, to).map(|()| None),
            _ => Ok(None),
        }
    }

    fn structs(&mut self, places: &Places<'_>, fields: &Fields, to: &DataType) -> Result<ArrayRef> {
        let by_name: HashMap<&str, usize> =
            fields.iter().enumerate().map(|(nth, field)| (field.name().as_str(), nth)).collect();
        self.promise(places.len() * fields.len(), size_of::<Option<Place<'_>>>())?;
        let mut columns = vec![vec![None; places.len()]; fields.len()];
        let mut valid = Vec::with_capacity(places.len());
        for (row, place) in places.iter().enumerate() {
            // What is no object has none of the fields, but is no NULL.
            valid.push(place.is_some_and(|place| place.kind() != Kind::Null));
            let Some(object) = self.of_kind(*place, Kind::Object, to)? else { continue };
            for (key, value) in object.members() {
                let key = unescaped(key);
                match by_name.get(key.as_ref()) {
                    Some(&field) if columns[field][row].is_none() => columns[field][row] = Some(value),
                    Some(_) if self.manner != Manner::Lenient => {
                        return exec_err!("Object {} has duplicate key {key:?}", shown(object.raw()));
                    }
                    None if self.manner == Manner::Cast => {
                        return exec_err!("Object {} has unknown key {key:?}", shown(object.raw()));
                    }
                    _ => {}
                }
            }
            if self.manner != Manner::Lenient
                && let Some(missing) = columns.iter().position(|column| column[row].is_none())
            {
                return exec_err!("Object {} does not have key {:?}", shown(object.raw()), fields[missing].name());
            }
        }
        let arrays = columns.iter().zip(fields).map(|(column, field)| self.column(column, field));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls, places.len())?))
    }

    fn maps(&mut self, places: &Places<'_>, entries: &FieldRef, to: &DataType) -> Result<ArrayRef> {
        let DataType::Struct(fields) = entries.data_type() else { return exec_err!("entries of a map are no structs") };
        let is_text = fields[0].data_type().is_string();
        let (mut keys, mut values) = (StringViewBuilder::new(), Vec::new());
        let (mut lengths, mut valid) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
        for place in places {
            let object = self.of_kind(*place, Kind::Object, to)?;
            let members: Vec<_> = object.into_iter().flat_map(Place::members).collect();
            self.promise(members.len(), 3 * size_of::<Option<Place<'_>>>())?;
            let unquoted: Vec<_> = members.iter().map(|(key, _)| unescaped(key)).collect();
            let mut known = HashSet::new();
            let mut fits = object.is_some();
            if !unquoted.iter().all(|key| known.insert(key.as_ref())) {
                if self.manner != Manner::Lenient {
                    return exec_err!(
                        "keys of a map are unique, and {} has one twice",
                        shown(place.map_or("", |of| of.raw()))
                    );
                }
                fits = false;
            }
            if fits && !is_text {
                let texts: StringViewArray = unquoted.iter().map(|key| Some(key.as_ref())).collect();
                if self.parsed(&texts, fields[0].data_type())?.null_count() > 0 {
                    if self.manner != Manner::Lenient {
                        let name = sql_name(fields[0].data_type());
                        return exec_err!(
                            "keys of the map are {name}, and those of {} are not",
                            shown(place.map_or("", |of| of.raw()))
                        );
                    }
                    fits = false;
                }
            }
            valid.push(fits);
            lengths.push(if fits { members.len() } else { 0 });
            if fits {
                unquoted.iter().for_each(|key| keys.append_value(key));
                values.extend(members.into_iter().map(|(_, value)| Some(value)));
            }
        }
        let keys = self.parsed(&keys.finish(), fields[0].data_type())?;
        let values = self.column(&values, &fields[1])?;
        let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(MapArray::try_new(Arc::clone(entries), OffsetBuffer::from_lengths(lengths), pairs, nulls, false)?))
    }
}
