//! The columns of a message.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::compile::bad;
use super::schema::{FieldKind, Label, ProtoField, ProtoMessage, ProtoSchema, WellKnown};
use super::wire::LENGTH;
use crate::values::fault::Undecoded;
use crate::values::field_tree::FieldTree;

/// Most columns, nested ones too: messages that hold others twice at each level would have any number.
const MAX_COLUMNS: usize = 20_000;
/// Deepest nesting of columns.
const MAX_LEVELS: usize = 64;

/// The wanted fields of a message.
#[derive(Debug)]
pub(super) struct MessageColumns {
    pub(super) message: usize,
    /// Places of fields in the message, in the order of the columns.
    pub(super) fields: Vec<(usize, ColumnForm)>,
    /// None where the message needs another pass.
    pub(super) direct: Option<DirectFields>,
}

/// The form of a value in its column.
#[derive(Debug)]
pub(super) enum ColumnForm {
    /// A number, text, bytes or the name of an enum.
    Plain,
    Timestamp(usize),
    /// A message of one field, which is the value.
    Wrapper(usize),
    /// JSON text: a message that holds itself, or holds anything.
    Text(usize),
    Struct(MessageColumns),
}

/// Fields of a message that one pass takes, by their places.
#[derive(Debug)]
pub(super) struct DirectFields {
    pub(super) places: Vec<DirectField>,
    /// Bits of the fields that must be there.
    pub(super) required: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DirectField {
    /// Its tag as serializers write it: lists of numbers packed.
    pub(super) tag: u32,
    pub(super) kind: FieldKind,
    pub(super) label: Label,
    pub(super) has_presence: bool,
    pub(super) is_number: bool,
    pub(super) is_closed: bool,
    pub(super) column: Option<usize>,
    pub(super) bit: u64,
    /// Fields after which this one cannot come.
    pub(super) excludes: u64,
}

impl DirectFields {
    /// None for messages that always need the other pass: of more fields than bits, or with a closed enum that is not in a
    /// column of its own.
    fn of(
        schema: &ProtoSchema,
        message: &ProtoMessage,
        columns: &[(usize, ColumnForm)],
    ) -> Option<Self> {
        let bit = |at: usize| 1_u64.checked_shl(u32::try_from(at).ok()?);
        let mut found = Self {
            places: Vec::with_capacity(message.fields.len()),
            required: 0,
        };
        for (at, field) in message.fields.iter().enumerate() {
            let own = bit(at)?;
            let column = columns.iter().position(|(place, _)| *place == at);
            let is_single = field.label == Label::Single;
            if schema.has_closed(field.kind) && !(is_single && column.is_some()) {
                return None;
            }
            let mut excludes = if field.label == Label::List { 0 } else { own };
            for &other in &field.others {
                excludes |= bit(other)?;
            }
            if field.is_required {
                found.required |= own;
            }
            let is_number = field.kind.is_number();
            let wire = match field.label {
                Label::List if is_number => LENGTH,
                _ => field.kind.wire(),
            };
            found.places.push(DirectField {
                tag: field.number << 3 | wire,
                kind: field.kind,
                label: field.label,
                has_presence: field.has_presence,
                is_number,
                is_closed: schema.has_closed(field.kind),
                column,
                bit: own,
                excludes,
            });
        }
        Some(found)
    }
}

/// Columns of messages.
pub(super) struct ProtoColumns<'s> {
    schema: &'s ProtoSchema,
    /// The messages around this one.
    within: Vec<usize>,
    count: usize,
}

impl<'s> ProtoColumns<'s> {
    pub(super) const fn new(schema: &'s ProtoSchema) -> Self {
        Self {
            schema,
            within: Vec::new(),
            count: 0,
        }
    }

    /// The wanted fields of a message, and their type.
    ///
    /// # Errors
    /// `BadSchema` where columns are too many or nest too deep.
    pub(super) fn message(
        &mut self,
        place: usize,
        wanted: &FieldTree,
    ) -> Result<(MessageColumns, DataType), Undecoded> {
        if self.within.len() >= MAX_LEVELS {
            return Err(bad(format_args!(
                "columns deeper than {MAX_LEVELS} levels; decode_as=\"json\" gives text"
            )));
        }
        self.within.push(place);
        let (mut forms, mut columns) = (Vec::new(), Vec::new());
        let message = self.schema.at(place)?;
        for (i, field) in message.fields.iter().enumerate() {
            let tree = wanted.field(&field.name);
            let Some(tree) = tree.filter(|_| !field.is_extension) else {
                continue;
            };
            let (form, column) = self.field(field, tree)?;
            forms.push((i, form));
            columns.push(column);
        }
        self.within.pop();
        let fields = MessageColumns {
            message: place,
            direct: DirectFields::of(self.schema, message, &forms),
            fields: forms,
        };
        Ok((fields, DataType::Struct(Fields::from(columns))))
    }

    fn field(
        &mut self,
        field: &ProtoField,
        wanted: &FieldTree,
    ) -> Result<(ColumnForm, FieldRef), Undecoded> {
        let name = field.name.as_str();
        if field.label == Label::Map {
            let entry = field.kind.message().unwrap_or_default();
            let entry = self.schema.at(entry)?;
            let (Some((_, key)), Some((_, value))) = (entry.field(1), entry.field(2)) else {
                return Err(bad(format_args!("the map {name} has no key or value")));
            };
            let (form, data_type) = self.value(value.kind, &FieldTree::All)?;
            let (_, key_type) = self.value(key.kind, &FieldTree::All)?;
            let entry = vec![
                Field::new("key", key_type, false),
                Field::new("value", data_type, false),
            ];
            let entries = Field::new("entries", DataType::Struct(entry.into()), false);
            let map = DataType::Map(Arc::new(entries), false);
            return Ok((form, Arc::new(Field::new(name, map, false))));
        }
        if field.label == Label::List {
            let (form, data_type) = self.value(field.kind, &FieldTree::All)?;
            let item = DataType::List(Arc::new(Field::new("item", data_type, false)));
            return Ok((form, Arc::new(Field::new(name, item, false))));
        }
        let (form, data_type) = self.value(field.kind, wanted)?;
        let nullable = field.has_presence && !field.is_required;
        Ok((form, Arc::new(Field::new(name, data_type, nullable))))
    }

    fn value(
        &mut self,
        kind: FieldKind,
        wanted: &FieldTree,
    ) -> Result<(ColumnForm, DataType), Undecoded> {
        self.count = self.count.saturating_add(1);
        if self.count > MAX_COLUMNS {
            return Err(bad(format_args!(
                "more than {MAX_COLUMNS} columns; decode_as=\"json\" gives text"
            )));
        }
        let Some(message) = kind.message() else {
            return Ok((ColumnForm::Plain, scalar(kind)));
        };
        if self.within.contains(&message) {
            return Ok((ColumnForm::Text(message), DataType::Utf8));
        }
        let made = self.schema.at(message)?;
        Ok(match made.known {
            Some(WellKnown::Timestamp) => (
                ColumnForm::Timestamp(message),
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ),
            Some(WellKnown::Wrapper) => {
                let value = made
                    .fields
                    .first()
                    .map_or(FieldKind::Bool, |field| field.kind);
                (ColumnForm::Wrapper(message), scalar(value))
            }
            Some(WellKnown::Struct | WellKnown::Value | WellKnown::ListValue) => {
                (ColumnForm::Text(message), DataType::Utf8)
            }
            _ => {
                let (columns, data_type) = self.message(message, wanted)?;
                (ColumnForm::Struct(columns), data_type)
            }
        })
    }
}

const fn scalar(kind: FieldKind) -> DataType {
    match kind {
        FieldKind::Double => DataType::Float64,
        FieldKind::Float => DataType::Float32,
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => DataType::Int32,
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => DataType::Int64,
        FieldKind::Uint32 | FieldKind::Fixed32 => DataType::UInt32,
        FieldKind::Uint64 | FieldKind::Fixed64 => DataType::UInt64,
        FieldKind::Bool => DataType::Boolean,
        FieldKind::Bytes => DataType::Binary,
        _ => DataType::Utf8,
    }
}
