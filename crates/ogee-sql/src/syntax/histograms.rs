//! The table functions `histogram_values(t, x)` and `histogram(t, x)`: queries of the table.
//!
//! Bins are found first, by a technique: of one width (`equi-width`, `equi-width-nice`), of as many values (`equi-height`), of the most frequent values (`sample`), or by the type of the values
//! (`auto`). `histogram` says in words which values a bin is for, and draws a bar.
//!
//! Not here: what is counted (`ogee_functions::histograms`).

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, Select, TableFactor, TableFunctionArgs, Value,
};
use ogee_functions::{
    Error, Result,
    bins_found::BINS,
    histograms::{BINNED, COUNTED},
};

use crate::names::normal_name;

/// What `histogram(x, bins)` is called.
pub(super) const OF_BINS: &str = BINNED;

/// Puts queries in the place of such functions in the tables of `select`.
///
/// # Errors
/// Arguments that they do not take.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    for table in &mut select.from {
        in_factor(&mut table.relation)?;
        table.joins.iter_mut().try_for_each(|join| in_factor(&mut join.relation))?;
    }
    Ok(())
}

fn in_factor(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(TableFunctionArgs { args, settings: None }), alias, .. } => {
            (&*name, &*args, alias)
        }
        TableFactor::Function { name, args, alias, .. } => (&*name, &*args, alias),
        TableFactor::NestedJoin { table_with_joins, .. } => {
            in_factor(&mut table_with_joins.relation)?;
            return table_with_joins.joins.iter_mut().try_for_each(|join| in_factor(&mut join.relation));
        }
        _ => return Ok(()),
    };
    let Some(name) = function(name) else { return Ok(()) };
    let call = Call::of(name, args)?;
    let text = match name {
        "histogram" => call.in_words(),
        _ => call.values(),
    };
    let Some(query) = super::query_of(&text) else {
        return Err(Error::Plan(format!("{name} takes a table and an expression of its columns")));
    };
    let mut alias = alias.take();
    if alias.is_none() {
        alias = Some(datafusion::sql::sqlparser::ast::TableAlias {
            explicit: true,
            name: datafusion::sql::sqlparser::ast::Ident::new(name),
            columns: Vec::new(),
            at: None,
        });
    }
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}

fn function(name: &ObjectName) -> Option<&'static str> {
    let [part] = &name.0[..] else { return None };
    match normal_name(part.as_ident()?).as_str() {
        "histogram" => Some("histogram"),
        "histogram_values" => Some("histogram_values"),
        _ => None,
    }
}

/// A call of one of them.
struct Call {
    table: String,
    value: String,
    count: String,
    technique: String,
}

impl Call {
    fn of(name: &str, args: &[FunctionArg]) -> Result<Self> {
        let (mut plain, mut count, mut technique) = (Vec::new(), "10".to_owned(), "auto".to_owned());
        for arg in args {
            let (named, value) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
                    plain.push(value);
                    continue;
                }
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (normal_name(name), value),
                FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                    (normal_name(name), value)
                }
                _ => return Err(Error::Plan(format!("{name} does not take the argument {arg}"))),
            };
            match named.as_str() {
                "bin_count" => count = value.to_string(),
                "technique" => technique = technique_of(name, value)?,
                other => return Err(Error::Plan(format!("{name} has no parameter {other}"))),
            }
        }
        let [table, value] = plain.as_slice() else {
            return Err(Error::Plan(format!("{name} takes a table and an expression of its columns")));
        };
        let table = match table {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => table.to_string(),
            Expr::Value(text) => match &text.value {
                Value::SingleQuotedString(text) => text.clone(),
                _ => return Err(Error::Plan(format!("{name} takes the name of a table, not {table}"))),
            },
            _ => return Err(Error::Plan(format!("{name} takes the name of a table, not {table}"))),
        };
        Ok(Self { table, value: value.to_string(), count, technique })
    }

    /// The query of the bins.
    fn bins(&self) -> String {
        let Self { table, value, count, technique } = self;
        if technique == "equi-height" {
            return format!(
                "SELECT quantile_disc(ogee_value, ogee_parts) AS ogee_bins FROM \
                 (SELECT {value} AS ogee_value FROM {table}) AS ogee_values, \
                 (SELECT array_agg(CAST(ogee_part AS DOUBLE) / ({count}) ORDER BY ogee_part) AS ogee_parts \
                 FROM generate_series(1, {count}) AS ogee_series(ogee_part)) AS ogee_fractions"
            );
        }
        let found = match technique.as_str() {
            "sample" => format!("approx_top_k({value}, {count})"),
            "equi-width" => format!("equi_width_bins(min({value}), max({value}), {count}, false)"),
            "equi-width-nice" => format!("equi_width_bins(min({value}), max({value}), {count}, true)"),
            _ => format!("{BINS}({value}, {count})"),
        };
        format!("SELECT {found} AS ogee_bins FROM {table}")
    }

    /// How many values are in each bin.
    fn values(&self) -> String {
        let Self { table, value, technique, .. } = self;
        let bins = self.bins();
        format!(
            "SELECT unnest(map_keys(ogee_counts)) AS bin, unnest(map_values(ogee_counts)) AS count FROM \
             (SELECT {COUNTED}({value}, ogee_bins, '{technique}') AS ogee_counts FROM {table}, ({bins}) AS ogee_found)"
        )
    }

    /// The same, in words.
    fn in_words(&self) -> String {
        let values = self.values();
        let numbers = "'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'UTINYINT', 'USMALLINT', 'UINTEGER', \
                       'UBIGINT', 'FLOAT', 'DOUBLE', 'DATE'";
        let is_value = match self.technique.as_str() {
            "sample" => "true".to_owned(),
            "auto" => format!(
                "typeof(bin) NOT IN ({numbers}) AND typeof(bin) NOT LIKE 'TIMESTAMP%' AND typeof(bin) NOT LIKE 'DECIMAL%'"
            ),
            _ => "false".to_owned(),
        };
        format!(
            "SELECT CASE WHEN is_histogram_other_bin(bin) THEN '(other values)' WHEN {is_value} THEN CAST(bin AS VARCHAR) \
             WHEN row_number() OVER () = 1 THEN concat('x <= ', CAST(bin AS VARCHAR)) \
             ELSE concat(lag(CAST(bin AS VARCHAR)) OVER (), ' < x <= ', CAST(bin AS VARCHAR)) END AS bin, count, \
             bar(count, 0, max(count) OVER ()) AS bar FROM ({values})"
        )
    }
}

/// The technique that is written.
fn technique_of(name: &str, value: &Expr) -> Result<String> {
    const TECHNIQUES: [&str; 5] = ["auto", "equi-height", "equi-width", "equi-width-nice", "sample"];
    let written = match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(written) => Some(written.as_str()),
            _ => None,
        },
        _ => None,
    };
    match written {
        Some(written) if TECHNIQUES.contains(&written) => Ok(written.to_owned()),
        _ => Err(Error::Plan(format!("{name} knows no technique {value}; it knows {}", TECHNIQUES.join(", ")))),
    }
}
