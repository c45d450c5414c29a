//! Which statements change nothing.

use datafusion::sql::{parser::Statement as Parsed, sqlparser::ast::Statement as SqlStatement};
use ogee_datafusion::{Error as StatementError, is_change, on_large_stack, parse};

use crate::Result;

/// Whether the statements of `sql` change neither tables nor files, nor prepare what does.
///
/// # Errors
/// If it is no SQL.
pub fn only_reads(sql: &str) -> Result<bool> {
    let reads =
        on_large_stack(|| Ok::<_, StatementError>(parse(sql)?.iter().all(|statement| reads(statement.parsed()))));
    Ok(reads??)
}

/// Whether `statement` is one of those that are known to change nothing.
fn reads(statement: &Parsed) -> bool {
    match statement {
        Parsed::Statement(parsed) => match &**parsed {
            SqlStatement::Prepare { statement, .. } => {
                matches!(&**statement, SqlStatement::Query(_)) && !is_change(&Parsed::Statement(statement.clone()))
            }
            SqlStatement::Explain { analyze, statement, .. } => {
                !analyze || reads(&Parsed::Statement(statement.clone()))
            }
            SqlStatement::Query(_)
            | SqlStatement::Set(_)
            | SqlStatement::Use(_)
            | SqlStatement::ShowVariable { .. }
            | SqlStatement::ShowTables { .. }
            | SqlStatement::ShowColumns { .. }
            | SqlStatement::ShowFunctions { .. }
            | SqlStatement::ShowDatabases { .. }
            | SqlStatement::ShowSchemas { .. }
            | SqlStatement::ExplainTable { .. }
            // What it runs was prepared, and refused then if it changes something.
            | SqlStatement::Execute { .. }
            | SqlStatement::Deallocate { .. }
            | SqlStatement::StartTransaction { .. }
            | SqlStatement::Commit { .. }
            | SqlStatement::Rollback { .. }
            | SqlStatement::Pragma { .. } => !is_change(statement),
            _ => false,
        },
        Parsed::Explain(explain) => !explain.options.analyze || reads(&explain.statement),
        Parsed::Reset(_) => true,
        Parsed::CopyTo(_) | Parsed::CreateExternalTable(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::only_reads;

    #[test]
    fn what_changes_something_is_known() {
        let reading = [
            "SELECT 1",
            "FROM range(3)",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "SHOW TABLES",
            "DESCRIBE SELECT 1",
            "SUMMARIZE SELECT 1",
            "SET threads = 1",
            "RESET threads",
            "EXPLAIN SELECT 1",
            "EXPLAIN INSERT INTO t VALUES (1)",
            "PREPARE p AS SELECT 1",
            "EXECUTE p",
            "BEGIN",
            "COMMIT",
            "PRAGMA show_tables",
            "",
        ];
        for sql in reading {
            assert!(only_reads(sql).unwrap(), "{sql}");
        }
        let changing = [
            "CREATE TABLE t (a INTEGER)",
            "CREATE VIEW v AS SELECT 1",
            "CREATE MACRO f(a) AS a",
            "INSERT INTO t VALUES (1)",
            "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
            "UPDATE t SET a = 1",
            "DELETE FROM t",
            "TRUNCATE t",
            "DROP TABLE t",
            "ALTER TABLE t ADD COLUMN b INTEGER",
            "COPY t TO 'x.csv'",
            "COPY t FROM 'x.csv'",
            "ATTACH ':memory:' AS y",
            "COMMENT ON TABLE t IS 'x'",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "PREPARE p AS INSERT INTO t VALUES (1)",
            "SELECT 1; DROP TABLE t",
        ];
        for sql in changing {
            assert!(!only_reads(sql).unwrap(), "{sql}");
        }
        assert!(only_reads("SELEC 1").is_err());
    }
}
