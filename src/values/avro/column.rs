//! Arrow types of Avro types.

use std::sync::Arc;

use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, Fields, TimeUnit,
};

use super::super::fault::Undecoded;
use super::super::field_tree::FieldTree;
use super::cursor::MAX_DEPTH;
use super::parse::bad;
use super::schema::{AvroKind, AvroLogical, AvroSchema, AvroType, TypeId};

/// Most columns, nested ones too: types that refer to others twice at each level would have any number.
const MAX_COLUMNS: usize = 20_000;
/// Most bytes of a row before its text and items: wide `fixed` take them in null rows too.
const MAX_ROW: usize = 1 << 20;

/// A union as a column.
pub(super) enum UnionColumn {
    /// At most one branch besides null: the column of that branch.
    Nullable,
    /// A struct with a child for each branch besides null.
    Branches,
}

/// The form of a union's column.
pub(super) fn union_column(schema: &AvroSchema, branches: &[TypeId]) -> UnionColumn {
    let values = branches.iter().filter(|&&branch| !is_null(schema, branch));
    match branches.len().saturating_sub(values.count()) {
        1 if branches.len() <= 2 => UnionColumn::Nullable,
        _ => UnionColumn::Branches,
    }
}

pub(super) fn is_null(schema: &AvroSchema, id: TypeId) -> bool {
    matches!(schema.get(id).kind, AvroKind::Null)
}

/// The type of a column of `schema`, of the wanted fields only.
///
/// # Errors
/// `BadSchema` for recursive types, and for those that make too many columns.
pub(super) fn data_type(schema: &AvroSchema, wanted: &FieldTree) -> Result<DataType, Undecoded> {
    let mut columns = ColumnTypes {
        schema,
        within: Vec::new(),
        count: 0,
    };
    let (data_type, _) = columns.of(schema.root, wanted)?;
    let row = row_width(&data_type);
    if row > MAX_ROW {
        return Err(bad(format_args!(
            "a row would take {row} bytes before its values, at most {MAX_ROW}; decode_as=\"json\" gives text"
        )));
    }
    Ok(data_type)
}

/// Bytes that a value of a type takes whatever it is.
///
/// # Errors
/// As those of [`data_type`].
pub(super) fn width(schema: &AvroSchema, id: TypeId) -> Result<usize, Undecoded> {
    let mut columns = ColumnTypes {
        schema,
        within: Vec::new(),
        count: 0,
    };
    let (data_type, _) = columns.of(id, &FieldTree::All)?;
    Ok(row_width(&data_type))
}

/// Bytes that a row takes whatever its value; one for each column without any, which takes time.
fn row_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or_default(),
        DataType::Struct(fields) => fields.iter().fold(1, |sum: usize, field| {
            sum.saturating_add(row_width(field.data_type()))
        }),
        DataType::Null => 1,
        other => other.primitive_width().unwrap_or(4),
    }
}

struct ColumnTypes<'s> {
    schema: &'s AvroSchema,
    /// The types around this one.
    within: Vec<TypeId>,
    count: usize,
}

impl ColumnTypes<'_> {
    /// The type, and whether it has nulls.
    fn of(&mut self, id: TypeId, wanted: &FieldTree) -> Result<(DataType, bool), Undecoded> {
        let made = self.schema.get(id);
        self.count = self.count.saturating_add(1);
        if self.within.contains(&id) {
            return Err(bad(format_args!(
                "{} refers to itself, which no column can; decode_as=\"json\" gives such values as text",
                made.branch()
            )));
        }
        if self.within.len() > MAX_DEPTH || self.count > MAX_COLUMNS {
            return Err(bad(format_args!(
                "more than {MAX_COLUMNS} columns, or deeper than {MAX_DEPTH} levels; decode_as=\"json\" gives text"
            )));
        }
        let is_level = !matches!(made.kind, AvroKind::Union(_));
        self.within.extend(is_level.then_some(id));
        let found = match &made.kind {
            AvroKind::Null => (DataType::Null, true),
            AvroKind::Array(items) => {
                let (item, nullable) = self.of(*items, &FieldTree::All)?;
                let item = Field::new("item", item, nullable);
                (DataType::List(Arc::new(item)), false)
            }
            AvroKind::Map(values) => {
                let (value, nullable) = self.of(*values, &FieldTree::All)?;
                let entry = vec![
                    Field::new("key", DataType::Utf8, false),
                    Field::new("value", value, nullable),
                ];
                let entries = Field::new("entries", DataType::Struct(entry.into()), false);
                (DataType::Map(Arc::new(entries), false), false)
            }
            AvroKind::Record(fields) => {
                let mut columns = Vec::new();
                for field in fields {
                    if let Some(wanted) = wanted.field(&field.name) {
                        let (data_type, nullable) = self.of(field.value, wanted)?;
                        columns.push(Field::new(&*field.name, data_type, nullable));
                    }
                }
                (DataType::Struct(Fields::from(columns)), false)
            }
            AvroKind::Union(branches) => self.union(branches, wanted)?,
            _ => (scalar(made), false),
        };
        if is_level {
            self.within.pop();
        }
        Ok(found)
    }

    fn union(
        &mut self,
        branches: &[TypeId],
        wanted: &FieldTree,
    ) -> Result<(DataType, bool), Undecoded> {
        let schema = self.schema;
        let is_nullable = branches.iter().any(|&branch| is_null(schema, branch));
        let mut values = branches.iter().filter(|&&branch| !is_null(schema, branch));
        if matches!(union_column(schema, branches), UnionColumn::Nullable) {
            let data_type = values.next().map(|&branch| self.of(branch, wanted));
            return Ok((
                data_type.transpose()?.map_or(DataType::Null, |(t, _)| t),
                true,
            ));
        }
        let mut columns = Vec::new();
        for &branch in values {
            let name = schema.get(branch).branch();
            if let Some(wanted) = wanted.field(name) {
                let (data_type, _) = self.of(branch, wanted)?;
                columns.push(Field::new(name, data_type, true));
            }
        }
        Ok((DataType::Struct(Fields::from(columns)), is_nullable))
    }
}

/// Precision of a decimal that Arrow can hold.
pub(super) fn decimal_precision(made: &AvroType) -> Option<(u8, i8)> {
    let Some(AvroLogical::Decimal { precision, scale }) = made.logical else {
        return None;
    };
    let precision = u8::try_from(precision).ok()?;
    let fits = precision <= DECIMAL256_MAX_PRECISION;
    Some((precision, i8::try_from(scale).ok()?)).filter(|_| fits)
}

fn scalar(made: &AvroType) -> DataType {
    let utc = || Some("UTC".into());
    if let Some((precision, scale)) = decimal_precision(made) {
        return if precision <= DECIMAL128_MAX_PRECISION {
            DataType::Decimal128(precision, scale)
        } else {
            DataType::Decimal256(precision, scale)
        };
    }
    match made.logical {
        Some(AvroLogical::Date) => return DataType::Date32,
        Some(AvroLogical::TimeMillis | AvroLogical::TimeMicros) => {
            return DataType::Time64(TimeUnit::Microsecond);
        }
        Some(AvroLogical::TimestampMillis) => {
            return DataType::Timestamp(TimeUnit::Millisecond, utc());
        }
        Some(AvroLogical::TimestampMicros) => {
            return DataType::Timestamp(TimeUnit::Microsecond, utc());
        }
        Some(AvroLogical::TimestampNanos) => {
            return DataType::Timestamp(TimeUnit::Nanosecond, utc());
        }
        Some(AvroLogical::LocalTimestampMillis) => {
            return DataType::Timestamp(TimeUnit::Millisecond, None);
        }
        Some(AvroLogical::LocalTimestampMicros) => {
            return DataType::Timestamp(TimeUnit::Microsecond, None);
        }
        Some(AvroLogical::LocalTimestampNanos) => {
            return DataType::Timestamp(TimeUnit::Nanosecond, None);
        }
        Some(AvroLogical::Uuid) => return DataType::Utf8,
        // A decimal of more digits than Arrow has is its base type.
        Some(AvroLogical::Decimal { .. }) | None => {}
    }
    match made.kind {
        AvroKind::Boolean => DataType::Boolean,
        AvroKind::Int => DataType::Int32,
        AvroKind::Long => DataType::Int64,
        AvroKind::Float => DataType::Float32,
        AvroKind::Double => DataType::Float64,
        AvroKind::Bytes => DataType::Binary,
        AvroKind::Fixed(size) => DataType::FixedSizeBinary(i32::try_from(size).unwrap_or_default()),
        _ => DataType::Utf8,
    }
}
