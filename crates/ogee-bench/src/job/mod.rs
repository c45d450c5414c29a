//! The Join Order Benchmark: Leis, Gubichev, Mirchev, Boncz, Kemper, Neumann, "How good are query optimizers, really?", PVLDB 2015. Its 21 tables are
//! those of the Internet Movie Database.
//!
//! They are made here: deterministic, skewed and correlated like the real ones, so that the 113 queries find what they ask for and joins meet long
//! chains. Or they are read from the benchmark's CSV files.

mod famous;
mod import;
mod tables;
mod words;
mod world;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use clap::Args;

use crate::files::{BATCH_ROWS, Batches, Selection};
use crate::random::Random;
use crate::rows::{self, Rows, Value};
use world::{Permutation, Title, World};

/// Flags of `generate job`.
#[derive(Args)]
pub struct Arguments {
    /// Size against the real database, whose cast_info has 36 million rows
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Directory with the real tables as CSV, to be read instead
    #[arg(long)]
    from: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

/// Every table, large ones first.
pub const TABLES: [&str; 21] = [
    "cast_info",
    "movie_info",
    "name",
    "char_name",
    "title",
    "person_info",
    "movie_keyword",
    "movie_companies",
    "movie_info_idx",
    "aka_name",
    "aka_title",
    "company_name",
    "keyword",
    "complete_cast",
    "movie_link",
    "info_type",
    "link_type",
    "role_type",
    "kind_type",
    "company_type",
    "comp_cast_type",
];

/// Columns of a table: `:s` is a string, all others are integers, `!` is never NULL.
fn columns(table: &str) -> &'static str {
    match table {
        "aka_name" => "id! person_id! name:s! imdb_index:s name_pcode_cf:s name_pcode_nf:s surname_pcode:s md5sum:s",
        "aka_title" => {
            "id! movie_id! title:s! imdb_index:s kind_id! production_year phonetic_code:s episode_of_id season_nr \
             episode_nr note:s md5sum:s"
        }
        "cast_info" => "id! person_id! movie_id! person_role_id note:s nr_order role_id!",
        "char_name" => "id! name:s! imdb_index:s imdb_id name_pcode_nf:s surname_pcode:s md5sum:s",
        "company_name" => "id! name:s! country_code:s imdb_id name_pcode_nf:s name_pcode_sf:s md5sum:s",
        "complete_cast" => "id! movie_id subject_id! status_id!",
        "info_type" => "id! info:s!",
        "keyword" => "id! keyword:s! phonetic_code:s",
        "link_type" => "id! link:s!",
        "role_type" => "id! role:s!",
        "movie_companies" => "id! movie_id! company_id! company_type_id! note:s",
        "movie_info" | "movie_info_idx" => "id! movie_id! info_type_id! info:s! note:s",
        "movie_keyword" => "id! movie_id! keyword_id!",
        "movie_link" => "id! movie_id! linked_movie_id! link_type_id!",
        "name" => "id! name:s! imdb_index:s imdb_id gender:s name_pcode_cf:s name_pcode_nf:s surname_pcode:s md5sum:s",
        "person_info" => "id! person_id! info_type_id! info:s! note:s",
        "title" => {
            "id! title:s! imdb_index:s kind_id! production_year imdb_id phonetic_code:s episode_of_id season_nr \
             episode_nr series_years:s md5sum:s"
        }
        // kind_type, company_type, comp_cast_type
        _ => "id! kind:s!",
    }
}

/// The schema of a table.
pub fn schema(table: &str) -> SchemaRef {
    rows::schema(columns(table).split_whitespace().map(|column| {
        let (column, nullable) = column.strip_suffix('!').map_or((column, true), |column| (column, false));
        match column.strip_suffix(":s") {
            Some(name) => (name, DataType::Utf8, nullable),
            None => (column, DataType::Int32, nullable),
        }
    }))
}

/// Entities whose rows are made at a time, and mixed.
const BLOCK: u64 = 4096;

/// Rows without ids, mixed if `mix` is, with ids from `first` on.
fn with_ids(schema: &SchemaRef, rows: Rows, first: u64, mix: Option<&mut Random>) -> Result<RecordBatch, ArrowError> {
    let mut batch = rows.finish()?;
    if let Some(random) = mix {
        let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
        for end in (1..order.len()).rev() {
            order.swap(end, random.below(end as u64 + 1) as usize);
        }
        batch = arrow_select::take::take_record_batch(&batch, &UInt32Array::from(order))?;
    }
    let ids = Int32Array::from_iter_values((0..batch.num_rows() as i32).map(|row| first as i32 + row));
    let columns: Vec<ArrayRef> = std::iter::once(Arc::new(ids) as ArrayRef).chain(batch.columns().to_vec()).collect();
    debug_assert!(columns.iter().all(|column| column.len() == batch.num_rows()));
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// How a table is made from its entities.
enum Order {
    /// One row for each, by id.
    ById,
    /// Any number of rows for each, entities and rows in no order.
    Mixed,
}

/// The rows of a table of `entities`; `push` makes those of one, from its place for [`Order::ById`] or else its id less one.
fn blocks(
    table: &'static str,
    world: &Arc<World>,
    of: fn(&World) -> &Permutation,
    order: Order,
    push: impl Fn(&World, u64, &mut Rows) + 'static,
) -> Batches {
    let (whole, world) = (schema(table), Arc::clone(world));
    let own: SchemaRef = Arc::new(Schema::new(whole.fields()[1..].to_vec()));
    let (mut next, mut id, mut random) = (0, 1, Random::new(table.len() as u64));
    Box::new(std::iter::from_fn(move || {
        let mut rows = Rows::new(&own);
        let entities = of(&world);
        // Blocks of tables with few rows for an entity are put together.
        while next < entities.count && rows.len() < BATCH_ROWS as usize {
            let end = (next + BLOCK).min(entities.count);
            for at in next..end {
                match order {
                    Order::ById => push(&world, entities.back(at), &mut rows),
                    Order::Mixed => push(&world, entities.forth(at), &mut rows),
                }
            }
            next = end;
        }
        if rows.len() == 0 {
            return None;
        }
        let first = id;
        id += rows.len() as u64;
        Some(with_ids(&whole, rows, first, matches!(order, Order::Mixed).then_some(&mut random)))
    }))
}

/// A table of fixed contents.
fn fixed<'a>(table: &'static str, names: impl IntoIterator<Item = &'a str>) -> Result<RecordBatch, ArrowError> {
    let mut rows = Rows::new(&schema(table));
    for (at, name) in names.into_iter().enumerate() {
        rows.push([Value::Number(at as i64 + 1), Value::Text(name)]);
    }
    rows.finish()
}

/// The rows of a table.
fn batches(table: &'static str, world: &Arc<World>) -> Batches {
    let by_title = |push: fn(&World, &Title, &mut Rows)| {
        blocks(
            table,
            world,
            |world| &world.titles,
            Order::Mixed,
            move |world, at, rows| {
                push(world, &world.title(at + 1), rows);
            },
        )
    };
    let by_person = |push: fn(&World, u64, &mut Rows)| {
        blocks(
            table,
            world,
            |world| &world.people,
            Order::Mixed,
            move |world, at, rows| {
                push(world, at, rows);
            },
        )
    };
    let once = |batch| -> Batches { Box::new(std::iter::once(batch)) };
    match table {
        "title" => blocks(
            table,
            world,
            |world| &world.titles,
            Order::ById,
            |world, place, rows| {
                // Places of titles have no meaning: an id is one more than where its place goes.
                tables::title(world, &world.title(world.titles.forth(place) + 1), rows);
            },
        ),
        "cast_info" => by_title(tables::cast_info),
        "movie_info" => by_title(tables::movie_info),
        "movie_info_idx" => by_title(tables::movie_info_idx),
        "movie_keyword" => by_title(tables::movie_keyword),
        "movie_companies" => by_title(tables::movie_companies),
        "aka_title" => by_title(tables::aka_title),
        "complete_cast" => by_title(tables::complete_cast),
        "movie_link" => by_title(tables::movie_link),
        "aka_name" => by_person(tables::aka_name),
        "person_info" => by_person(tables::person_info),
        "name" => blocks(table, world, |world| &world.people, Order::ById, tables::name),
        "char_name" => blocks(table, world, |world| &world.characters, Order::ById, tables::char_name),
        "company_name" => blocks(table, world, |world| &world.companies, Order::ById, tables::company_name),
        "keyword" => blocks(table, world, |world| &world.keywords, Order::ById, tables::keyword),
        "info_type" => once(fixed(table, words::INFO_TYPES)),
        "link_type" => once(fixed(table, words::LINKS)),
        "role_type" => once(fixed(table, words::ROLES.map(|role| role.0))),
        "kind_type" => once(fixed(table, words::KINDS)),
        "company_type" => once(fixed(table, words::COMPANY_TYPES)),
        _ => once(fixed(table, words::COMPLETE)),
    }
}

/// Writes the tables, each as one file.
pub fn generate(Arguments { scale, from, selection }: &Arguments) -> io::Result<()> {
    let tables = selection.pick(&TABLES, &TABLES)?;
    if let Some(from) = from {
        return selection.files.write_tables(&selection.out, &tables, |table, _, _| import::open(from, table));
    }
    if !(*scale > 0.0 && *scale <= 50.0) {
        return Err(io::Error::other("--scale is above 0 and at most 50, so that ids have 32 bits"));
    }
    let world = Arc::new(World::new(*scale));
    selection.files.write_tables(&selection.out, &tables, |table, _, _| Ok((schema(table), batches(table, &world))))
}

#[cfg(test)]
mod tests;
