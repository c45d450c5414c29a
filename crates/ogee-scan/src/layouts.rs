//! Structs of Parquet's metadata with the types of their fields, as the format's `parquet.thrift` has them.
//!
//! Not here: what is encrypted, which is not read.

use crate::thrift::{
    Layout,
    Shape::{Binary, Boolean, Byte, Double, Integer, List, Struct},
};

/// A footer: `FileMetaData`.
pub(crate) const FILE: Layout = &[
    (1, Integer),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, Integer),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(COLUMN_ORDER))),
];

const SCHEMA_ELEMENT: Layout = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Binary),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, Integer),
    (9, Integer),
    (10, Struct(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: Layout = &[
    (1, Struct(EMPTY)),
    (2, Struct(EMPTY)),
    (3, Struct(EMPTY)),
    (4, Struct(EMPTY)),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, Struct(EMPTY)),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Boolean)])),
    (11, Struct(EMPTY)),
    (12, Struct(EMPTY)),
    (13, Struct(EMPTY)),
    (14, Struct(EMPTY)),
    (15, Struct(EMPTY)),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Integer)])),
];

const EMPTY: Layout = &[];

/// Times and timestamps: in UTC or not, and their unit.
const TIME: Layout = &[(1, Boolean), (2, Struct(&[(1, Struct(EMPTY)), (2, Struct(EMPTY)), (3, Struct(EMPTY))]))];

const KEY_VALUE: Layout = &[(1, Binary), (2, Binary)];

const COLUMN_ORDER: Layout = &[(1, Struct(EMPTY)), (2, Struct(EMPTY))];

const ROW_GROUP: Layout = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Boolean), (3, Boolean)]))),
    (5, Integer),
    (6, Integer),
    (7, Integer),
];

const COLUMN_CHUNK: Layout = &[
    (1, Binary),
    (2, Integer),
    (3, Struct(COLUMN_METADATA)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    // How it is encrypted.
    (8, Struct(EMPTY)),
    (9, Binary),
];

const COLUMN_METADATA: Layout = &[
    (1, Integer),
    (2, List(&Integer)),
    (3, List(&Binary)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, List(&Struct(KEY_VALUE))),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))),
    (14, Integer),
    (15, Integer),
    (16, Struct(&[(1, Integer), (2, List(&Integer)), (3, List(&Integer))])),
    (17, Struct(&[(1, Struct(BOUNDING_BOX)), (2, List(&Integer))])),
];

const BOUNDING_BOX: Layout =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

const STATISTICS: Layout =
    &[(1, Binary), (2, Binary), (3, Integer), (4, Integer), (5, Binary), (6, Binary), (7, Boolean), (8, Boolean)];

/// Where the pages of a column chunk are.
pub(crate) const OFFSET_INDEX: Layout =
    &[(1, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))), (2, List(&Integer))];

/// What is in the pages of a column chunk.
pub(crate) const COLUMN_INDEX: Layout = &[
    (1, List(&Boolean)),
    (2, List(&Binary)),
    (3, List(&Binary)),
    (4, Integer),
    (5, List(&Integer)),
    (6, List(&Integer)),
    (7, List(&Integer)),
];

/// Before a page.
pub(crate) const PAGE_HEADER: Layout = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Integer),
    (5, Struct(DATA_PAGE)),
    (6, Struct(EMPTY)),
    (7, Struct(&[(1, Integer), (2, Integer), (3, Boolean)])),
    (8, Struct(DATA_PAGE_V2)),
];

const DATA_PAGE: Layout = &[(1, Integer), (2, Integer), (3, Integer), (4, Integer), (5, Struct(STATISTICS))];

const DATA_PAGE_V2: Layout = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Boolean),
    (8, Struct(STATISTICS)),
];
