//! TPC-H: its tables at any scale factor.

use std::io;

use arrow_schema::SchemaRef;
use clap::Args;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::files::{Batches, Selection};

/// Flags of `generate tpch`.
#[derive(Args)]
pub struct Arguments {
    /// Scale factor; lineitem has 6 million rows at 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[command(flatten)]
    selection: Selection,
}

/// Every table, large ones first.
pub const TABLES: [&str; 8] = ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"];

/// Tables of one file.
const SMALL: [&str; 3] = ["supplier", "nation", "region"];

/// Schema and rows of one part of a table.
fn part(table: &str, scale: f64, number: i32, count: i32) -> (SchemaRef, Batches) {
    macro_rules! of {
        ($arrow:ident, $generator:ident) => {
            ($arrow::schema_ref(), Box::new($arrow::new($generator::new(scale, number, count))) as Batches)
        };
    }
    match table {
        "lineitem" => of!(LineItemArrow, LineItemGenerator),
        "orders" => of!(OrderArrow, OrderGenerator),
        "partsupp" => of!(PartSuppArrow, PartSuppGenerator),
        "part" => of!(PartArrow, PartGenerator),
        "customer" => of!(CustomerArrow, CustomerGenerator),
        "supplier" => of!(SupplierArrow, SupplierGenerator),
        "nation" => of!(NationArrow, NationGenerator),
        _ => of!(RegionArrow, RegionGenerator),
    }
}

/// Writes the tables.
pub fn generate(Arguments { scale, selection }: &Arguments) -> io::Result<()> {
    let tables = selection.pick(&TABLES, &SMALL)?;
    selection.files.write_tables(&selection.out, &tables, |table, number, count| Ok(part(table, *scale, number, count)))
}
