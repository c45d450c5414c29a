//! Writes a table of the standards' queries, so that the binary carries their texts.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const SUITES: [&str; 4] = ["tpch", "tpcds", "ssb", "job"];

/// `17e` as (17, "e"), so that 2 comes before 10.
fn order(path: &Path) -> (u32, String) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let digits: String = name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(0), name.into_owned())
}

fn main() -> Result<(), Box<dyn Error>> {
    let queries = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("queries");
    println!("cargo::rerun-if-changed={}", queries.display());
    let mut source = String::new();
    for suite in SUITES {
        println!("cargo::rerun-if-changed={}", queries.join(suite).display());
        let mut paths = fs::read_dir(queries.join(suite))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        paths.sort_by_key(|path| order(path));
        writeln!(source, "pub const {}: &[(&str, &str)] = &[", suite.to_uppercase())?;
        for path in paths {
            let name = path.file_stem().ok_or("a query without a name")?;
            writeln!(source, "    ({name:?}, include_str!({path:?})),")?;
        }
        writeln!(source, "];")?;
    }
    fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("queries.rs"), source)?;
    Ok(())
}
