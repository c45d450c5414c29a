//! Directories named `key=value` as columns.
//!
//! Not here: which files there are.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef},
    common::plan_err,
    error::Result,
    scalar::ScalarValue,
};

use super::listing::Found;

/// What writers call the directory of rows whose key is NULL.
pub(crate) const NULL_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns that the directories of all files name, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Partitions {
    pub(super) fields: Vec<FieldRef>,
    /// The last is the path of the file.
    pub(super) has_file_names: bool,
}

/// Whether both are names of one column.
fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

impl Partitions {
    /// Of `files`; none unless all have the same keys, in whatever case.
    pub(super) fn of(files: &[&Found]) -> Self {
        let mut columns: Vec<(String, Vec<Option<String>>)> = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let pairs = pairs(&file.given);
            if number == 0 {
                columns = pairs.iter().map(|(key, _)| ((*key).to_owned(), Vec::new())).collect();
            }
            if columns.len() != pairs.len() {
                return Self::default();
            }
            for (key, value) in pairs {
                let column = columns.iter_mut().find(|column| column.0.eq_ignore_ascii_case(key));
                let Some(column) = column.filter(|column| column.1.len() == number) else { return Self::default() };
                column.1.push(value.map(Cow::into_owned));
            }
        }
        let field = |(key, values): (String, Vec<Option<String>>)| {
            let nullable = values.iter().any(Option::is_none);
            let values: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
            Field::new(key, value_type(&values), nullable).into()
        };
        let mut fields: Vec<FieldRef> = columns.into_iter().map(field).collect();
        // DuckDB's order.
        fields.sort_by(|a, b| a.name().cmp(b.name()));
        Self { fields, has_file_names: false }
    }

    /// Adds a column of the files' paths, which is called `name`.
    pub(super) fn add_file_names(&mut self, name: &str) {
        self.has_file_names = true;
        self.fields.push(Arc::new(Field::new(name, DataType::Utf8, false)));
    }

    /// Gives columns the types that are said, and those of which none is said text, if all are to be that.
    ///
    /// # Errors
    /// A column of a type that is said is not there.
    pub(super) fn cast(&mut self, types: &[(String, DataType)], are_text: bool) -> Result<()> {
        if let Some((name, _)) =
            types.iter().find(|(name, _)| !self.fields.iter().any(|field| is_same(field.name(), name)))
        {
            return plan_err!("no directory of all files is named '{name}=..', of which hive_types has a type");
        }
        for field in &mut self.fields {
            let said =
                types.iter().find(|(name, _)| is_same(name, field.name())).map(|(_, data_type)| data_type.clone());
            if let Some(data_type) = said.or_else(|| are_text.then_some(DataType::Utf8)) {
                *field = Arc::new(field.as_ref().clone().with_data_type(data_type));
            }
        }
        Ok(())
    }

    /// The values of `file`.
    pub(super) fn values(&self, file: &Found) -> Result<Vec<ScalarValue>> {
        let pairs = pairs(&file.given);
        let value = |(nth, field): (usize, &FieldRef)| {
            if self.has_file_names && nth + 1 == self.fields.len() {
                return Ok(ScalarValue::from(file.given.as_str()));
            }
            let pair = pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(field.name()));
            match pair.and_then(|(_, value)| value.as_ref()) {
                Some(value) => ScalarValue::try_from_string(value.clone().into_owned(), field.data_type()),
                None => ScalarValue::try_new_null(field.data_type()),
            }
        };
        self.fields.iter().enumerate().map(value).collect()
    }
}

/// The keys and values in a path, without the name of the file; what is written as the value of NULL is none.
fn pairs(path: &str) -> Vec<(&str, Option<Cow<'_, str>>)> {
    let Some((directories, _)) = path.rsplit_once('/') else { return Vec::new() };
    let pair = |directory| {
        let (key, value): (&str, &str) = str::split_once(directory, '=')?;
        (!key.is_empty()).then(|| (key, (value != NULL_VALUE).then(|| decoded(value))))
    };
    directories.split('/').filter_map(pair).collect()
}

/// `value` without percent signs that stand for bytes: names of directories cannot have all of them.
pub(crate) fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| byte == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(value), Cow::Owned)
}

fn value_type(values: &[&str]) -> DataType {
    // What would not print as it was written (leading zeros, a plus sign) stays text.
    let is_number = |value: &&str| value.parse::<i64>().is_ok_and(|number| number.to_string() == *value);
    if values.is_empty() {
        DataType::Utf8
    } else if values.iter().all(is_number) {
        DataType::Int64
    } else if values.iter().all(|value| is_date(value)) {
        DataType::Date32
    } else {
        DataType::Utf8
    }
}

fn is_date(value: &str) -> bool {
    let date = || ScalarValue::try_from_string(value.to_owned(), &DataType::Date32).is_ok();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(value.split('-').collect::<Vec<_>>().as_slice(),
        [year, month, day] if year.len() == 4 && month.len() == 2 && day.len() == 2
            && digits(year) && digits(month) && digits(day))
        && date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_values_are_numbers_or_dates_only_if_all_are() {
        assert_eq!(value_type(&["2020", "-7"]), DataType::Int64);
        assert_eq!(value_type(&["2020", "07"]), DataType::Utf8);
        assert_eq!(value_type(&["2020-01-31", "1999-12-01"]), DataType::Date32);
        assert_eq!(value_type(&["2020-01-31", "2020-13-01"]), DataType::Utf8);
        assert_eq!(value_type(&["2020-02-31"]), DataType::Utf8);
    }

    #[test]
    fn values_are_decoded_and_the_default_partition_is_null() {
        let path = "data/a=x%3Ay%2/b=__HIVE_DEFAULT_PARTITION__/c=/=d/file=1.csv";
        let values: Vec<_> = pairs(path).into_iter().map(|(key, value)| (key, value.map(Cow::into_owned))).collect();
        assert_eq!(values, [("a", Some("x:y%2".to_owned())), ("b", None), ("c", Some(String::new()))]);
    }
}
