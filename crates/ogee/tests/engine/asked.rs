//! What a program asks a database: tables, functions, settings, progress.

use std::{
    thread,
    time::{Duration, Instant},
};

use ogee::{ColumnInfo, Config, Database, FunctionKind, SchemaInfo, TableKind};

use crate::common::{batch, column, connect, error_of, hostile, open, query};
use datafusion::arrow::{array::Int32Array, datatypes::DataType};

#[test]
fn tables_are_listed_with_their_columns() {
    let connection = connect();
    assert!(connection.tables().unwrap().is_empty());
    query(
        &connection,
        "CREATE TABLE Orders (Id INTEGER PRIMARY KEY, price DECIMAL(10, 2) NOT NULL DEFAULT 1.5, tags VARCHAR[], at TIMESTAMPTZ, j JSON, s STRUCT(a INTEGER, b VARCHAR))",
    );
    query(&connection, "CREATE VIEW v AS SELECT id + 1 AS next FROM orders");
    query(&connection, "CREATE VIEW broken AS SELECT * FROM orders");
    query(&connection, "CREATE TEMP TABLE brief AS SELECT 1 AS a");
    query(&connection, "CREATE SCHEMA apart");
    query(&connection, "CREATE TABLE apart.t (a BIGINT)");
    query(&connection, "ATTACH ':memory:' AS other");
    connection.register("given", batch([("x", column(Int32Array::from(vec![1])))])).unwrap();
    let tables = connection.tables().unwrap();
    let listed: Vec<_> = tables
        .iter()
        .map(|table| (&*table.database, &*table.schema, &*table.name, table.kind, table.is_temporary))
        .collect();
    assert_eq!(
        listed,
        [
            ("memory", "apart", "t", TableKind::Table, false),
            ("memory", "main", "brief", TableKind::Table, true),
            ("memory", "main", "broken", TableKind::View, false),
            ("memory", "main", "given", TableKind::Registered, false),
            ("memory", "main", "orders", TableKind::Table, false),
            ("memory", "main", "v", TableKind::View, false),
        ]
    );
    let orders = &tables[4].columns;
    let shown: Vec<_> = orders
        .iter()
        .map(|column| (&*column.name, &*column.data_type, column.is_nullable, column.is_primary_key))
        .collect();
    assert_eq!(
        shown,
        [
            ("Id", "INTEGER", false, true),
            ("price", "DECIMAL(10,2)", false, false),
            ("tags", "VARCHAR[]", true, false),
            ("at", "TIMESTAMP WITH TIME ZONE", true, false),
            ("j", "JSON", true, false),
            ("s", "STRUCT(a INTEGER, b VARCHAR)", true, false),
        ]
    );
    assert!(orders[1].default.as_ref().is_some_and(|default| default.contains("1.5")), "{:?}", orders[1].default);
    let next = ColumnInfo {
        name: "next".to_owned(),
        data_type: "BIGINT".to_owned(),
        arrow_type: DataType::Int64,
        is_nullable: true,
        is_primary_key: false,
        default: None,
    };
    assert_eq!((tables[5].columns[0].name.as_str(), tables[5].columns.len()), (next.name.as_str(), 1));
    let schema = |database: &str, name: &str| SchemaInfo { database: database.to_owned(), name: name.to_owned() };
    assert_eq!(connection.schemas(), [schema("memory", "apart"), schema("memory", "main"), schema("other", "main")]);
    // A view whose table is gone is listed.
    query(&connection, "DROP VIEW v");
    query(&connection, "DROP TABLE orders");
    let broken = connection.tables().unwrap().into_iter().find(|table| table.name == "broken").unwrap();
    assert_eq!(broken.kind, TableKind::View);
}

#[test]
fn functions_are_listed() {
    let functions = connect().functions();
    for (name, kind) in [
        ("abs", FunctionKind::Scalar),
        ("sum", FunctionKind::Aggregate),
        ("row_number", FunctionKind::Window),
        ("range", FunctionKind::Table),
    ] {
        assert!(functions.iter().any(|function| function.name == name && function.kind == kind), "{name}");
    }
    assert!(functions.iter().all(|function| !function.is_of_program && !function.name.starts_with("ogee_")));
    assert!(functions.is_sorted());
}

#[test]
fn settings_have_names() {
    let config = Config::default().set("memory_limit", "512MB").unwrap().set("THREADS", "3").unwrap();
    let config = config.set("default_null_order", "nulls_first").unwrap().set("integer_division", "off").unwrap();
    let connection = Database::open_in_memory(config).unwrap().connect();
    for (name, value) in [
        ("memory_limit", "512MB"),
        ("threads", "3"),
        ("default_null_order", "nulls_first"),
        ("integer_division", "false"),
        ("preserve_insertion_order", "true"),
    ] {
        assert_eq!(connection.setting(name).unwrap(), value);
    }
    assert_eq!(query(&connection, "SELECT 1 / 2"), ["0.5"]);
    for (name, value) in [
        ("memory_limit", "1GiB"),
        ("Threads", "2"),
        ("datafusion.execution.batch_size", "1000"),
        ("TimeZone", "Europe/Berlin"),
    ] {
        connection.set(name, value).unwrap();
        assert_eq!(connection.setting(name).unwrap(), value, "{name}");
    }
    connection.reset("integer_division").unwrap();
    assert_eq!(query(&connection, "SELECT 1 / 2"), ["0"]);
    let said = |result: ogee::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "OGEE_Q004", "{error}");
        error.message().to_owned()
    };
    assert_eq!(
        said(connection.set("memory_limt", "1GB")),
        "there is no setting 'memory_limt'; did you mean memory_limit?"
    );
    assert_eq!(said(connection.setting("thread").map(drop)), "there is no setting 'thread'; did you mean threads?");
    assert_eq!(said(connection.set("threads", "many")), "'many' is not a number of threads; set 1 to 4096");
    assert_eq!(said(Config::default().set("threads", "0").map(drop)), "'0' is not a number of threads; set 1 to 4096");
    assert_eq!(
        said(Config::default().set("treads", "1").map(drop)),
        "there is no setting 'treads'; did you mean threads?"
    );
    said(Config::default().set("integer_division", "perhaps").map(drop));
    said(Config::default().set("temp_compression", "zip").map(drop));
    said(connection.set("datafusion.nothing", "1"));
    said(connection.set("a.b'; DROP TABLE t; --", "1"));
    said(connection.set("datafusion.runtime.memory_limit", "1GB"));
    connection.set("datafusion.execution.time_zone", "it's").unwrap_err();
    assert_eq!(query(&connection, "SELECT 1"), ["1"]);
}

#[test]
fn progress_is_seen_from_other_threads() {
    for config in hostile() {
        let connection = open(config).connect();
        query(&connection, "CREATE TABLE t AS SELECT value AS i FROM range(500000)");
        let handle = connection.progress_handle();
        assert_eq!(handle.progress(), None);
        let (interrupt, watching) = (connection.interrupt_handle(), handle.clone());
        let watch = thread::spawn(move || {
            let (begun, mut seen) = (Instant::now(), Vec::new());
            while begun.elapsed() < Duration::from_secs(20) {
                if let Some(progress) = watching.progress() {
                    let enough = progress.rows_read > 200_000;
                    seen.push(progress);
                    if enough {
                        break;
                    }
                }
                thread::sleep(Duration::from_micros(200));
            }
            interrupt.interrupt();
            seen
        });
        let sql = "SELECT count(*) FROM t a JOIN t b ON a.i % 1000 = b.i % 1000 WHERE a.i + b.i = 17";
        let ended = error_of(connection.execute(sql));
        assert_eq!(ended.0, "OGEE_X004", "{ended:?}");
        let seen = watch.join().unwrap();
        assert!(seen.iter().all(|progress| !progress.is_over && progress.rows == 0));
        assert!(seen.is_sorted_by(|a, b| a.rows_read <= b.rows_read && a.elapsed <= b.elapsed));
        assert!(seen.last().unwrap().fraction.is_some_and(|fraction| fraction > 0.0 && fraction <= 1.0));
        let mut rows = connection.execute("SELECT i FROM t").unwrap();
        rows.next().unwrap().unwrap();
        let middle = rows.progress();
        assert!(middle.rows > 0 && !middle.is_over && handle.all().len() == 1, "{middle:?}");
        assert!(rows.by_ref().all(|batch| batch.is_ok()));
        let end = rows.progress();
        assert!(end.is_over && end.rows == 500_000 && end.rows_read >= 500_000 && end.fraction == Some(1.0), "{end:?}");
        assert!(handle.all().is_empty());
    }
}
