//! The Star Schema Benchmark: O'Neil, O'Neil, Chen, Revilak, "The star schema benchmark and augmented fact table indexing", TPCTC 2009.
//!
//! Its tables are derived from those of TPC-H at the same scale factor. Orders and line items are joined; every fifth customer and supplier
//! remains, and takes over the orders of the four after it; there are 200,000 (1 + log2 of the scale factor) parts. Money is in cents.

use std::fmt::Write;
use std::io;
use std::iter::Peekable;
use std::sync::LazyLock;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use clap::Args;
use tpchgen::dates::TPCHDate;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItem, LineItemGenerator, Order, OrderGenerator, PartGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;

use crate::files::{BATCH_ROWS, Batches, Selection};
use crate::random::Random;
use crate::rows::Value::{Number, Owned, Text};
use crate::rows::{Rows, schema};

/// Flags of `generate ssb`.
#[derive(Args)]
pub struct Arguments {
    /// Scale factor; lineorder has 6 million rows at 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[command(flatten)]
    selection: Selection,
}

/// Every table, large ones first.
pub const TABLES: [&str; 5] = ["lineorder", "part", "customer", "supplier", "date"];

/// Tables of one file.
const SMALL: [&str; 4] = ["part", "customer", "supplier", "date"];

/// So many customers and suppliers of TPC-H are one here.
const MERGED: i64 = 5;

/// As dates name them.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn columns(columns: &[(&str, DataType)]) -> SchemaRef {
    schema(columns.iter().map(|(name, data_type)| (*name, data_type.clone(), false)))
}

fn schema_of(table: &str) -> SchemaRef {
    const INT: DataType = DataType::Int32;
    const LONG: DataType = DataType::Int64;
    const TEXT: DataType = DataType::Utf8;
    match table {
        "lineorder" => columns(&[
            ("lo_orderkey", LONG),
            ("lo_linenumber", INT),
            ("lo_custkey", INT),
            ("lo_partkey", INT),
            ("lo_suppkey", INT),
            ("lo_orderdate", INT),
            ("lo_orderpriority", TEXT),
            ("lo_shippriority", TEXT),
            ("lo_quantity", INT),
            ("lo_extendedprice", LONG),
            ("lo_ordtotalprice", LONG),
            ("lo_discount", INT),
            ("lo_revenue", LONG),
            ("lo_supplycost", LONG),
            ("lo_tax", INT),
            ("lo_commitdate", INT),
            ("lo_shipmode", TEXT),
        ]),
        "part" => columns(&[
            ("p_partkey", INT),
            ("p_name", TEXT),
            ("p_mfgr", TEXT),
            ("p_category", TEXT),
            ("p_brand1", TEXT),
            ("p_color", TEXT),
            ("p_type", TEXT),
            ("p_size", INT),
            ("p_container", TEXT),
        ]),
        "customer" => columns(&[
            ("c_custkey", INT),
            ("c_name", TEXT),
            ("c_address", TEXT),
            ("c_city", TEXT),
            ("c_nation", TEXT),
            ("c_region", TEXT),
            ("c_phone", TEXT),
            ("c_mktsegment", TEXT),
        ]),
        "supplier" => columns(&[
            ("s_suppkey", INT),
            ("s_name", TEXT),
            ("s_address", TEXT),
            ("s_city", TEXT),
            ("s_nation", TEXT),
            ("s_region", TEXT),
            ("s_phone", TEXT),
        ]),
        _ => columns(&[
            ("d_datekey", INT),
            ("d_date", TEXT),
            ("d_dayofweek", TEXT),
            ("d_month", TEXT),
            ("d_year", INT),
            ("d_yearmonthnum", INT),
            ("d_yearmonth", TEXT),
            ("d_daynuminweek", INT),
            ("d_daynuminmonth", INT),
            ("d_daynuminyear", INT),
            ("d_monthnuminyear", INT),
            ("d_weeknuminyear", INT),
            ("d_sellingseason", TEXT),
            ("d_lastdayinweekfl", INT),
            ("d_lastdayinmonthfl", INT),
            ("d_holidayfl", INT),
            ("d_weekdayfl", INT),
        ]),
    }
}

/// 19920102 for the second of January 1992.
fn date_key(date: TPCHDate) -> i64 {
    let (year, month, day) = date.to_ymd();
    i64::from((1900 + year) * 10_000 + month * 100 + day)
}

/// City, nation and region of a customer or supplier: a city is the nation in nine letters and a digit.
fn place(nation: i64, key: i64, salt: u64) -> (String, &'static str, &'static str) {
    // Nations in TPC-H's order, each with its region.
    const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
    const OF: [usize; 25] = [0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1];
    let name = Distributions::static_default().nations().get_values()[nation as usize];
    let digit = Random::new(key as u64 ^ salt).below(10);
    let mut city = String::with_capacity(10);
    // Writing to a string does not fail.
    let _ = write!(city, "{name:<9.9}{digit}");
    (city, name, REGIONS[OF[nation as usize]])
}

/// Parts at a scale factor.
fn parts(scale: f64) -> i64 {
    let growth = if scale >= 1.0 { 1.0 + scale.log2().floor() } else { scale };
    ((200_000.0 * growth) as i64).max(1)
}

/// Line items in step with their orders; both come in order of the key.
struct Lines<O, L: Iterator> {
    orders: O,
    lines: Peekable<L>,
    scale: f64,
}

impl<'a, O: Iterator<Item = Order<'a>>, L: Iterator<Item = LineItem<'a>>> Iterator for Lines<O, L> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut columns = Rows::new(&schema_of("lineorder"));
        let parts = parts(self.scale);
        let mut rows = 0;
        while rows < BATCH_ROWS {
            let Some(order) = self.orders.next() else { break };
            while let Some(line) = self.lines.next_if(|line| line.l_orderkey == order.o_orderkey) {
                let (price, discount) = (line.l_extendedprice.0, line.l_discount.0);
                columns.push([
                    Number(order.o_orderkey),
                    Number(i64::from(line.l_linenumber)),
                    Number((order.o_custkey - 1) / MERGED + 1),
                    Number((line.l_partkey - 1) % parts + 1),
                    Number((line.l_suppkey - 1) / MERGED + 1),
                    Number(date_key(order.o_orderdate)),
                    Text(order.o_orderpriority),
                    Owned(order.o_shippriority.to_string()),
                    Number(line.l_quantity),
                    Number(price),
                    Number(order.o_totalprice.0),
                    Number(discount),
                    Number(price * (100 - discount) / 100),
                    // Six tenths of the price of one.
                    Number(price / line.l_quantity * 6 / 10),
                    Number(line.l_tax.0),
                    Number(date_key(line.l_commitdate)),
                    Text(line.l_shipmode),
                ]);
                rows += 1;
            }
        }
        (rows > 0).then(|| columns.finish())
    }
}

/// Comments are left out, so a little text is enough for their generators, which would make 300 MB of it.
fn no_text() -> &'static TextPool {
    static POOL: LazyLock<TextPool> = LazyLock::new(|| TextPool::new(1 << 16, Distributions::static_default()));
    &POOL
}

/// A generator of TPC-H's rows for the columns that remain.
macro_rules! derived {
    ($generator:ident, $scale:expr, $number:expr, $count:expr) => {
        $generator::new_with_distributions_and_text_pool(
            $scale,
            $number,
            $count,
            Distributions::static_default(),
            no_text(),
        )
    };
}

/// Batches of what `push` makes of `rows`.
fn stream<R>(
    table: &'static str,
    mut rows: impl Iterator<Item = R> + 'static,
    push: impl Fn(&mut Rows, R) + 'static,
) -> Batches {
    Box::new(std::iter::from_fn(move || {
        let mut next = rows.by_ref().take(BATCH_ROWS as usize).peekable();
        next.peek()?;
        let mut columns = Rows::new(&schema_of(table));
        next.for_each(|row| push(&mut columns, row));
        Some(columns.finish())
    }))
}

fn part(scale: f64) -> Batches {
    // TPC-H has as many parts at this scale factor, or more.
    let generator = derived!(PartGenerator, scale.max(parts(scale) as f64 / 200_000.0), 1, 1);
    stream("part", generator.into_iter().take(parts(scale) as usize), |columns, row| {
        let name = row.p_name.to_string();
        let mut words = name.split(' ');
        let color = words.next().unwrap_or_default();
        let name = words.next().map_or(color.to_owned(), |second| format!("{color} {second}"));
        // `Brand#13` is manufacturer 1, category 13.
        let category = row.p_brand.to_string().replace("Brand#", "MFGR#");
        let brand = Random::new(row.p_partkey as u64).below(40) + 1;
        columns.push([
            Number(row.p_partkey),
            Text(&name),
            Text(&category[..6]),
            Text(&category),
            Owned(format!("{category}{brand}")),
            Text(color),
            Text(row.p_type),
            Number(i64::from(row.p_size)),
            Text(row.p_container),
        ]);
    })
}

fn customer(scale: f64) -> Batches {
    let rows = derived!(CustomerGenerator, scale, 1, 1).into_iter().filter(|row| row.c_custkey % MERGED == 1);
    stream("customer", rows, |columns, row| {
        let key = row.c_custkey / MERGED + 1;
        let (city, nation, region) = place(row.c_nationkey, key, 1 << 40);
        columns.push([
            Number(key),
            Owned(format!("Customer#{key:09}")),
            Owned(row.c_address.to_string()),
            Owned(city),
            Text(nation),
            Text(region),
            Owned(row.c_phone.to_string()),
            Text(row.c_mktsegment),
        ]);
    })
}

fn supplier(scale: f64) -> Batches {
    let rows = derived!(SupplierGenerator, scale, 1, 1).into_iter().filter(|row| row.s_suppkey % MERGED == 1);
    stream("supplier", rows, |columns, row| {
        let key = row.s_suppkey / MERGED + 1;
        let (city, nation, region) = place(row.s_nationkey, key, 1 << 41);
        columns.push([
            Number(key),
            Owned(format!("Supplier#{key:09}")),
            Owned(row.s_address.to_string()),
            Owned(city),
            Text(nation),
            Text(region),
            Owned(row.s_phone.to_string()),
        ]);
    })
}

fn leap(year: i64) -> bool {
    year % 4 == 0
}

/// The seven years from 1992.
fn date() -> Result<RecordBatch, ArrowError> {
    let mut columns = Rows::new(&schema_of("date"));
    // The first of January 1992 was a Wednesday.
    let mut weekday = 3;
    for year in 1992..1999 {
        let mut day_in_year = 0;
        for (month, name) in MONTHS.iter().enumerate() {
            let days = match month {
                1 => 28 + i64::from(leap(year)),
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            let month = month as i64 + 1;
            let season = match month {
                11 | 12 => "Christmas",
                6..=8 => "Summer",
                9 | 10 => "Fall",
                3..=5 => "Spring",
                _ => "Winter",
            };
            for day in 1..=days {
                day_in_year += 1;
                let holiday = matches!((month, day), (1, 1) | (7, 4) | (12, 24..=26));
                columns.push([
                    Number(year * 10_000 + month * 100 + day),
                    Owned(format!("{name} {day}, {year}")),
                    Text(WEEKDAYS[weekday]),
                    Text(name),
                    Number(year),
                    Number(year * 100 + month),
                    Owned(format!("{}{year}", &name[..3])),
                    Number(weekday as i64 + 1),
                    Number(day),
                    Number(day_in_year),
                    Number(month),
                    Number((day_in_year - 1) / 7 + 1),
                    Text(season),
                    Number(i64::from(weekday == 6)),
                    Number(i64::from(day == days)),
                    Number(i64::from(holiday)),
                    Number(i64::from((1..=5).contains(&weekday))),
                ]);
                weekday = (weekday + 1) % 7;
            }
        }
    }
    columns.finish()
}

fn rows(table: &str, scale: f64, number: i32, count: i32) -> (SchemaRef, Batches) {
    let batches = match table {
        "lineorder" => Box::new(Lines {
            orders: derived!(OrderGenerator, scale, number, count).into_iter(),
            lines: derived!(LineItemGenerator, scale, number, count).into_iter().peekable(),
            scale,
        }),
        "part" => part(scale),
        "customer" => customer(scale),
        "supplier" => supplier(scale),
        _ => Box::new(std::iter::once_with(date)),
    };
    (schema_of(table), batches)
}

/// Writes the tables.
pub fn generate(Arguments { scale, selection }: &Arguments) -> io::Result<()> {
    let tables = selection.pick(&TABLES, &SMALL)?;
    selection.files.write_tables(&selection.out, &tables, |table, number, count| Ok(rows(table, *scale, number, count)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};

    use super::*;

    fn whole(table: &str, scale: f64, files: i32) -> RecordBatch {
        let parts = (1..=files).flat_map(|number| rows(table, scale, number, files).1);
        let batches: Vec<_> = parts.map(|batch| batch.expect("a batch")).collect();
        arrow_select::concat::concat_batches(&schema_of(table), &batches).expect("one schema")
    }

    fn keys(batch: &RecordBatch, column: &str) -> HashSet<i32> {
        batch.column_by_name(column).expect("a column").as_primitive::<Int32Type>().values().iter().copied().collect()
    }

    #[test]
    fn keys_of_lineorder_refer_to_rows() {
        let lines = whole("lineorder", 0.01, 1);
        assert_eq!(lines, whole("lineorder", 0.01, 3));
        for (own, table, key) in [
            ("lo_custkey", "customer", "c_custkey"),
            ("lo_partkey", "part", "p_partkey"),
            ("lo_suppkey", "supplier", "s_suppkey"),
            ("lo_orderdate", "date", "d_datekey"),
            ("lo_commitdate", "date", "d_datekey"),
        ] {
            let target = keys(&whole(table, 0.01, 1), key);
            assert!(keys(&lines, own).is_subset(&target), "{own}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_paper() {
        assert_eq!(whole("customer", 0.1, 1).num_rows(), 3_000);
        assert_eq!(whole("supplier", 0.1, 1).num_rows(), 200);
        assert_eq!(whole("date", 0.1, 1).num_rows(), 2_557);
        assert_eq!((parts(0.1), parts(1.0), parts(4.0), parts(10.0)), (20_000, 200_000, 600_000, 800_000));
        assert_eq!(whole("part", 0.1, 1).num_rows(), 20_000);
    }

    #[test]
    fn values_are_made_as_the_queries_expect() {
        let lines = whole("lineorder", 0.01, 1);
        let of = |column: &str| lines.column_by_name(column).expect("a column").as_primitive::<Int64Type>().value(7);
        let discount = lines.column_by_name("lo_discount").expect("a column").as_primitive::<Int32Type>().value(7);
        assert_eq!(of("lo_revenue"), of("lo_extendedprice") * (100 - i64::from(discount)) / 100);
        let contains = |table: &str, column: &str, value: &str| {
            let batch = whole(table, 0.1, 1);
            batch.column_by_name(column).expect("a column").as_string::<i32>().iter().any(|found| found == Some(value))
        };
        assert!(contains("customer", "c_city", "UNITED KI1"));
        assert!(contains("customer", "c_region", "ASIA"));
        assert!(contains("part", "p_brand1", "MFGR#2221"));
        assert!(contains("part", "p_category", "MFGR#14"));
        assert!(contains("date", "d_yearmonth", "Dec1997"));
    }
}
