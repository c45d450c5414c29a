//! Names of types as duckboxes show them: `int32`, `varchar`, `decimal(9,2)`, `int64[]`.

use arrow_schema::Field;
use ogee_functions::type_names::sql_name_of;

/// Types that have another name than in SQL, where they stand alone or in lists.
const OTHERS: [(&str, &str); 9] = [
    ("TINYINT", "int8"),
    ("SMALLINT", "int16"),
    ("INTEGER", "int32"),
    ("BIGINT", "int64"),
    ("HUGEINT", "int128"),
    ("UTINYINT", "uint8"),
    ("USMALLINT", "uint16"),
    ("UINTEGER", "uint32"),
    ("UBIGINT", "uint64"),
];

/// The name of the type of `field`.
pub fn shown_type(field: &Field) -> String {
    let name = sql_name_of(field);
    // `INTEGER[3][]` is a list of a list.
    let base = name.find('[').filter(|_| !name.contains('(')).unwrap_or(name.len());
    let (base, lists) = name.split_at(base);
    match OTHERS.iter().find(|(sql, _)| *sql == base) {
        Some((_, shown)) => format!("{shown}{lists}"),
        None => name.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    fn of(data_type: DataType) -> String {
        shown_type(&Field::new("a", data_type, true))
    }

    #[test]
    fn numbers_are_called_by_their_bits() {
        assert_eq!(of(DataType::Int32), "int32");
        assert_eq!(of(DataType::new_list(DataType::Int64, true)), "int64[]");
        assert_eq!(of(DataType::Decimal128(9, 2)), "decimal(9,2)");
        assert_eq!(of(DataType::Utf8View), "varchar");
        assert_eq!(of(DataType::Null), "\"null\"");
        let fields = vec![Field::new("x", DataType::Int32, true)];
        assert_eq!(of(DataType::Struct(fields.into())), "struct(x integer)");
    }
}
