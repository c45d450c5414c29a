//! Nested values as bytes: an order-preserving encoding from `arrow-row`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryViewArray, builder::BinaryViewBuilder};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SortOptions};
use ogee_vector::{PhysicalType, VectorError, canonical_floats};

/// Encodes lists, structs and other nested values to bytes that are equal and ordered as the values are, and back.
pub struct NestedCodec {
    data_type: DataType,
    converter: RowConverter,
}

impl NestedCodec {
    /// A codec for values of `data_type`.
    ///
    /// # Errors
    /// When the encoding does not know the type.
    pub fn new(data_type: &DataType) -> Result<Self, VectorError> {
        Ok(Self {
            data_type: data_type.clone(),
            converter: RowConverter::new(vec![SortField::new(data_type.clone())])?,
        })
    }

    /// A codec whose bytes have the order that `options` ask for, also within the values.
    ///
    /// # Errors
    /// When the encoding does not know the type.
    pub fn ordered(data_type: &DataType, options: SortOptions) -> Result<Self, VectorError> {
        let field = SortField::new_with_options(data_type.clone(), options);
        Ok(Self { data_type: data_type.clone(), converter: RowConverter::new(vec![field])? })
    }

    /// The codec that rows need for values of normalized type `data_type`, if they keep these encoded.
    ///
    /// # Errors
    /// When the type has no row form.
    pub fn of(data_type: &DataType) -> Result<Option<Self>, VectorError> {
        match PhysicalType::of(data_type)? {
            PhysicalType::Nested => Self::new(data_type).map(Some),
            _ => Ok(None),
        }
    }

    /// `array` as rows keep it: encoded, if there is a `codec`.
    ///
    /// # Errors
    /// As Arrow fails.
    pub fn encoded(array: ArrayRef, codec: Option<&Self>) -> Result<ArrayRef, VectorError> {
        match codec {
            Some(codec) => codec.encode(&array),
            None => Ok(array),
        }
    }

    /// Whether values of `data_type` can be encoded.
    pub fn supports(data_type: &DataType) -> bool {
        RowConverter::supports_fields(&[SortField::new(data_type.clone())])
    }

    /// The values' encodings; NULL stays NULL.
    ///
    /// # Errors
    /// As Arrow fails.
    pub fn encode(&self, array: &ArrayRef) -> Result<ArrayRef, VectorError> {
        // Equal values have equal bytes.
        let rows = self.converter.convert_columns(&[canonical_floats(array)])?;
        let mut bytes = BinaryViewBuilder::with_capacity(array.len());
        for (i, row) in rows.iter().enumerate() {
            if array.is_null(i) {
                bytes.append_null();
            } else {
                bytes.append_value(row.as_ref());
            }
        }
        Ok(Arc::new(bytes.finish()))
    }

    /// The values of encodings made by [`encode`](Self::encode).
    ///
    /// # Errors
    /// As Arrow fails.
    pub fn decode(&self, bytes: &BinaryViewArray) -> Result<ArrayRef, VectorError> {
        let null = self.converter.convert_columns(&[arrow_array::new_null_array(&self.data_type, 1)])?;
        let parser = self.converter.parser();
        let rows = bytes.iter().map(|b| b.map_or_else(|| null.row(0), |b| parser.parse(b)));
        let arrays = self.converter.convert_rows(rows)?;
        Ok(arrays.into_iter().next().expect("one field, one array"))
    }
}
