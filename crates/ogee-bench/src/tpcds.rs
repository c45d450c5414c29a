//! TPC-DS: its tables at any scale factor.
//!
//! A table is one file: the generator does not promise that its parts add up to the standard's data for tables that change slowly.

use std::io;

use arrow_schema::SchemaRef;
use clap::Args;
use tpcdsgen::config::{Session, SessionBuilder};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow, CustomerAddressArrow, CustomerArrow,
    CustomerDemographicsArrow, DateDimArrow, HouseholdDemographicsArrow, IncomeBandArrow, InventoryArrow, ItemArrow,
    PromotionArrow, ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow, StoreSalesArrow, TimeDimArrow,
    WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow, WebSiteArrow,
};

use crate::files::{Batches, Selection};

/// Flags of `generate tpcds`.
#[derive(Args)]
pub struct Arguments {
    /// Scale factor; store_sales has 2.9 million rows at 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[command(flatten)]
    selection: Selection,
}

macro_rules! tables {
    ($($name:literal => $arrow:ident),* $(,)?) => {
        /// Every table, large ones first.
        pub const TABLES: [&str; 24] = [$($name),*];

        /// Schema and rows of a table.
        fn rows(table: &str, session: Session) -> Option<(SchemaRef, Batches)> {
            match table {
                $($name => Some(($arrow::schema_ref(), Box::new($arrow::new(session)))),)*
                _ => None,
            }
        }
    };
}

tables! {
    "inventory" => InventoryArrow,
    "store_sales" => StoreSalesArrow,
    "catalog_sales" => CatalogSalesArrow,
    "web_sales" => WebSalesArrow,
    "store_returns" => StoreReturnsArrow,
    "catalog_returns" => CatalogReturnsArrow,
    "web_returns" => WebReturnsArrow,
    "customer_demographics" => CustomerDemographicsArrow,
    "customer" => CustomerArrow,
    "customer_address" => CustomerAddressArrow,
    "time_dim" => TimeDimArrow,
    "date_dim" => DateDimArrow,
    "item" => ItemArrow,
    "catalog_page" => CatalogPageArrow,
    "household_demographics" => HouseholdDemographicsArrow,
    "promotion" => PromotionArrow,
    "web_page" => WebPageArrow,
    "call_center" => CallCenterArrow,
    "income_band" => IncomeBandArrow,
    "reason" => ReasonArrow,
    "ship_mode" => ShipModeArrow,
    "store" => StoreArrow,
    "warehouse" => WarehouseArrow,
    "web_site" => WebSiteArrow,
}

/// Writes the tables.
pub fn generate(Arguments { scale, selection }: &Arguments) -> io::Result<()> {
    let session = SessionBuilder::new().with_scale_factor(*scale).build().map_err(io::Error::other)?;
    let tables = selection.pick(&TABLES, &TABLES)?;
    selection.files.write_tables(&selection.out, &tables, |table, _, _| {
        rows(table, session.clone()).ok_or_else(|| io::Error::other(format!("no generator for {table}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_rows_of_its_schema() {
        let session = SessionBuilder::new().with_scale_factor(1.0).build().expect("a scale factor");
        for table in TABLES {
            let (schema, mut batches) = rows(table, session.clone()).expect("a generator");
            let first = batches.next().expect("rows").expect("a batch");
            assert_eq!(first.schema(), schema, "{table}");
        }
        assert!(rows("lineitem", session).is_none());
    }
}
