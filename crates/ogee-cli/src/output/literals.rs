//! Values as SQL literals, which give the same value where they are read: `quote` and `insert`.

use std::io::{self, Write};
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

use super::cells::{Texts, rows_at_a_time};
use super::{Mode, ResultWriter, Style};

/// See the module.
pub struct Literals {
    style: Style,
    /// What a row begins with.
    start: String,
}

impl Literals {
    pub fn new(style: Style) -> Self {
        Self { style, start: String::new() }
    }

    fn is_insert(&self) -> bool {
        self.style.mode == Mode::Insert
    }
}

/// Whether `name` can stand without quotes.
fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && !crate::editor::keywords::is_reserved(name)
}

/// `name` as SQL takes it.
pub fn identifier(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// `text` in quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl ResultWriter for Literals {
    fn begin(&mut self, schema: &SchemaRef, out: &mut dyn Write) -> io::Result<()> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        if self.is_insert() {
            // A table that the user named is written as it was.
            let columns = match self.style.headers {
                true => format!("({})", names.map(identifier).collect::<Vec<_>>().join(", ")),
                false => String::new(),
            };
            self.start = format!("INSERT INTO {}{columns} VALUES (", self.style.table);
        } else if self.style.headers {
            writeln!(out, "{}", names.map(quoted).collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let step = rows_at_a_time(batch);
        for start in (0..batch.num_rows()).step_by(step) {
            let rows = step.min(batch.num_rows() - start);
            let columns = batch.columns().iter().map(|column| Literal::of(&column.slice(start, rows), &self.style));
            let columns = columns.collect::<io::Result<Vec<_>>>()?;
            let mut line = String::new();
            for row in 0..rows {
                line.clear();
                line.push_str(&self.start);
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        line.push_str(if self.is_insert() { ", " } else { "," });
                    }
                    column.write(row, &mut line);
                }
                line.push_str(if self.is_insert() { ");\n" } else { "\n" });
                out.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Values that are about to be written.
enum Literal {
    /// As they are: numbers that are such, and truths.
    Plain(Texts),
    /// Floats: some of them are no numbers.
    Float(Texts),
    /// In quotes behind these words, and with those after.
    Quoted(&'static str, Texts, &'static str),
    List(ArrayRef, Vec<Range<usize>>, Box<Self>),
    Struct(ArrayRef, Vec<(String, Self)>),
    Map(ArrayRef, Vec<Range<usize>>, Box<Self>, Box<Self>),
}

impl Literal {
    fn of(array: &ArrayRef, style: &Style) -> io::Result<Self> {
        let texts = || Texts::of(array, &style.zone);
        // The elements that `offsets` speak of, and which of them are of which row.
        let parts = |offsets: &[i32], elements: &ArrayRef| {
            let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
            let of_row = |pair: &[i32]| pair[0] as usize - first..pair[1] as usize - first;
            (elements.slice(first, last - first), offsets.windows(2).map(of_row).collect::<Vec<_>>())
        };
        Ok(match array.data_type() {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float(texts()?),
            other if other.is_numeric() => Self::Plain(texts()?),
            DataType::Boolean | DataType::Null => Self::Plain(texts()?),
            DataType::Date32 | DataType::Date64 => Self::Quoted("DATE ", texts()?, ""),
            DataType::Time32(_) | DataType::Time64(_) => Self::Quoted("TIME ", texts()?, ""),
            DataType::Timestamp(_, None) => Self::Quoted("TIMESTAMP ", texts()?, ""),
            DataType::Timestamp(_, Some(_)) => Self::Quoted("TIMESTAMPTZ ", texts()?, ""),
            DataType::Interval(_) => Self::Quoted("INTERVAL ", texts()?, ""),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Quoted("", texts()?, "::BLOB")
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let (elements, ranges) = parts(list.value_offsets(), list.values());
                Self::List(array.clone(), ranges, Box::new(Self::of(&elements, style)?))
            }
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let size = *size as usize;
                let ranges = (0..list.len()).map(|row| row * size..(row + 1) * size).collect();
                Self::List(array.clone(), ranges, Box::new(Self::of(list.values(), style)?))
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter();
                let parts = fields
                    .iter()
                    .zip(columns)
                    .map(|(field, column)| Ok((quoted(field.name()), Self::of(column, style)?)));
                Self::Struct(array.clone(), parts.collect::<io::Result<_>>()?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (keys, ranges) = parts(map.value_offsets(), map.keys());
                let (values, _) = parts(map.value_offsets(), map.values());
                let (keys, values) = (Self::of(&keys, style)?, Self::of(&values, style)?);
                Self::Map(array.clone(), ranges, Box::new(keys), Box::new(values))
            }
            _ => Self::Quoted("", texts()?, ""),
        })
    }

    fn write(&self, row: usize, line: &mut String) {
        let null = |array: &ArrayRef| array.is_null(row);
        match self {
            Self::Plain(texts) => line.push_str(texts.get(row).unwrap_or("NULL")),
            Self::Float(texts) => match texts.get(row) {
                None => line.push_str("NULL"),
                Some(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => line.push_str(text),
                Some(text) => line.push_str(&format!("'{text}'::DOUBLE")),
            },
            Self::Quoted(before, texts, after) => match texts.get(row) {
                None => line.push_str("NULL"),
                Some(text) => {
                    line.push_str(before);
                    line.push_str(&quoted(text));
                    line.push_str(after);
                }
            },
            Self::List(array, ..) | Self::Struct(array, _) | Self::Map(array, ..) if null(array) => {
                line.push_str("NULL");
            }
            Self::List(_, ranges, elements) => {
                line.push('[');
                elements.write_all(ranges[row].clone(), line);
                line.push(']');
            }
            Self::Struct(_, parts) => {
                line.push('{');
                for (at, (name, part)) in parts.iter().enumerate() {
                    line.push_str(if at == 0 { "" } else { ", " });
                    line.push_str(name);
                    line.push_str(": ");
                    part.write(row, line);
                }
                line.push('}');
            }
            Self::Map(_, ranges, keys, values) => {
                line.push_str("map([");
                keys.write_all(ranges[row].clone(), line);
                line.push_str("], [");
                values.write_all(ranges[row].clone(), line);
                line.push_str("])");
            }
        }
    }

    fn write_all(&self, rows: Range<usize>, line: &mut String) {
        for (at, row) in rows.enumerate() {
            line.push_str(if at == 0 { "" } else { ", " });
            self.write(row, line);
        }
    }
}
