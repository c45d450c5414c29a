//! `SUMMARIZE`, written out: a row for each column with what is in its rows, and `FROM (DESCRIBE ..)`, a row for each column with its type.
//!
//! All columns are looked at in one pass, as aggregates; the one row of these becomes lists of texts, which become rows. Quartiles are those of a digest (`approx_percentile_cont`), numbers of
//! different values those of a sketch.
//!
//! Not here: the text (`syntax::summaries`), and `DESCRIBE` as a statement.

use datafusion::{
    arrow::datatypes::DataType,
    sql::sqlparser::ast::{Select, SelectItem, TableFactor, WildcardAdditionalOptions},
};
use ogee_functions::Result;

use crate::{
    asked::{Answers, Column, select_of},
    columns_of,
    pivots::quoted,
};

/// The columns of a summary, and the types that they have.
const SUMMARY: [(&str, &str); 12] = [
    ("column_name", "VARCHAR"),
    ("column_type", "VARCHAR"),
    ("min", "VARCHAR"),
    ("max", "VARCHAR"),
    ("approx_unique", "BIGINT"),
    ("avg", "VARCHAR"),
    ("std", "VARCHAR"),
    ("q25", "VARCHAR"),
    ("q50", "VARCHAR"),
    ("q75", "VARCHAR"),
    ("count", "BIGINT"),
    ("null_percentage", "DECIMAL(9,2)"),
];

/// The columns of a description, all of which are texts.
const DESCRIPTION: [&str; 6] = ["column_name", "column_type", "null", "key", "default", "extra"];

/// Quartiles, as they are asked for.
const QUARTILES: [&str; 3] = ["0.25", "0.5", "0.75"];

const NULL: &str = "NULL";

/// From so many columns on, what is known of them is computed before it is put into rows.
const COLUMNS_MANY: usize = 24;

/// Makes the summary of what `select` selects from.
///
/// # Errors
/// Those of planning what is selected from.
pub(crate) async fn summarize(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    let columns = columns(select, answers).await?;
    let reference = columns_of::reference(&columns, false);
    let mut aggregates = vec!["count(*) AS ogee_rows".to_owned()];
    let mut cells: [Vec<String>; SUMMARY.len()] = Default::default();
    for (nth, column) in columns.iter().enumerate() {
        let of_column = cells_of(column, &reference(column).to_string(), |aggregate: String| {
            let name = format!("ogee_{nth}_{}", aggregates.len());
            aggregates.push(format!("{aggregate} AS {name}"));
            name
        });
        cells.iter_mut().zip(of_column).for_each(|(cells, cell)| cells.push(cell));
    }
    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
    let rows = format!("SELECT {} FROM {}", aggregates.join(", "), from.join(", "));
    let outputs = SUMMARY.iter().zip(cells).map(|((name, data_type), cells)| rows_of(name, data_type, &cells));
    let outputs = outputs.collect::<Vec<_>>().join(", ");
    *select = select_of(&match columns.len() {
        ..COLUMNS_MANY => format!("SELECT {outputs} FROM ({rows}) AS ogee_facts"),
        // Read twice they are a table, of which it is not known that all columns are constants: for each constant that is not an output itself DataFusion goes through all outputs
        // (`EquivalenceGroup::augment_projection_mapping`), which took minutes of 500 columns.
        _ => format!(
            "SELECT * FROM (WITH ogee_facts AS ({rows}) \
             SELECT {outputs} FROM ogee_facts, (SELECT ogee_rows AS ogee_again FROM ogee_facts) AS ogee_twice) AS ogee_summary"
        ),
    })?;
    Ok(())
}

/// Makes the description of what `select` selects from.
///
/// # Errors
/// As for [`summarize`].
pub(crate) async fn describe(select: &mut Select, answers: &Answers<'_>) -> Result<()> {
    let columns = columns(select, answers).await?;
    let null = |_: &Column| NULL.to_owned();
    let nullable = |column: &Column| quoted(if column.is_nullable { "YES" } else { "NO" });
    // Of what a query gives nobody says that it is never NULL.
    let of_table = matches!(&select.from[..], [from] if from.joins.is_empty() && matches!(&from.relation, TableFactor::Table { name, args: None, .. } if !answers.is_with(name)));
    let of: [&dyn Fn(&Column) -> String; DESCRIPTION.len()] = [
        &|column| quoted(&column.spelling),
        &|column| quoted(&column.sql_type),
        &|column| if of_table { nullable(column) } else { quoted("YES") },
        &null,
        &null,
        &null,
    ];
    let outputs = DESCRIPTION.iter().zip(of).map(|(name, of)| {
        let cells: Vec<String> = columns.iter().map(of).collect();
        rows_of(name, "VARCHAR", &cells)
    });
    *select = select_of(&format!("SELECT {}", outputs.collect::<Vec<_>>().join(", ")))?;
    Ok(())
}

async fn columns(select: &Select, answers: &Answers<'_>) -> Result<Vec<Column>> {
    answers.columns(vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())], &select.from).await
}

/// An output whose rows are `cells`.
fn rows_of(name: &str, data_type: &str, cells: &[String]) -> String {
    format!("unnest(CAST([{}] AS {data_type}[])) AS \"{name}\"", cells.join(", "))
}

/// What each column of a summary has of `column`, which is written as `expr`; `compute` gives the name of an aggregate.
fn cells_of(column: &Column, expr: &str, mut compute: impl FnMut(String) -> String) -> [String; SUMMARY.len()] {
    let is_null = column.data_type == DataType::Null;
    let text = |value: String| format!("CAST({value} AS VARCHAR)");
    let mut shown = |aggregate: String| if is_null { NULL.to_owned() } else { text(compute(aggregate)) };
    let (least, greatest) = (shown(format!("min({expr})")), shown(format!("max({expr})")));
    let [mut average, mut deviation] = [NULL.to_owned(), NULL.to_owned()];
    let mut quartiles = [const { String::new() }; QUARTILES.len()].map(|_| NULL.to_owned());
    let data_type = &column.sql_type;
    // What a digest is made of, and the value that a number of it stands for.
    let digest = match &column.data_type {
        DataType::Time32(_) | DataType::Time64(_) => {
            Some((format!("epoch({expr}) * 1000000"), "make_timestamp(CAST(# AS BIGINT))"))
        }
        DataType::Timestamp(_, Some(_)) => Some((format!("epoch_us({expr})"), "to_timestamp(# / 1000000.0)")),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None) => {
            Some((format!("epoch_us({expr})"), "make_timestamp(CAST(# AS BIGINT))"))
        }
        of_numbers if of_numbers.is_numeric() => {
            deviation = shown(format!("stddev(CAST({expr} AS DOUBLE))"));
            Some((expr.to_owned(), "#"))
        }
        _ => None,
    };
    if let Some((numbers, value)) = digest {
        average = shown(match column.data_type.is_numeric() {
            true => format!("avg(CAST({expr} AS DOUBLE))"),
            false => format!("avg({expr})"),
        });
        quartiles = QUARTILES.map(|quartile| {
            let number = compute(format!("approx_percentile_cont(CAST({numbers} AS DOUBLE), {quartile})"));
            text(format!("CAST({} AS {data_type})", value.replace('#', &number)))
        });
    }
    // The sketch takes these as they are, and all others as their texts.
    let is_plain = match &column.data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32 => true,
        data_type => data_type.is_integer(),
    };
    let value = if is_plain { expr.to_owned() } else { text(expr.to_owned()) };
    let different = if is_null { "0".to_owned() } else { compute(format!("approx_count_distinct({value})")) };
    let there = compute(format!("count({expr})"));
    let missing = format!("CASE WHEN ogee_rows > 0 THEN round((ogee_rows - {there}) * 100e0 / ogee_rows, 2) END");
    let [q25, q50, q75] = quartiles;
    [
        quoted(&column.spelling),
        quoted(data_type),
        least,
        greatest,
        different,
        average,
        deviation,
        q25,
        q50,
        q75,
        "ogee_rows".to_owned(),
        missing,
    ]
}
