//! Protobuf messages as structs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::compile::bad;
use super::scan::{FieldSlot, MessageSlots, SlotState, check_text, deeper};
use super::schema::{FieldKind, Label, ProtoField, ProtoSchema, WellKnown};
use super::texts::ProtoPrinter;
use super::wire::{MAX_DEPTH, Part, low32, unzigzag32, unzigzag64};
use crate::values::builder::{Builder, BytesBuilder, ListBuilder, StructBuilder};
use crate::values::decoder::{Body, Decoder, ProgramId, SchemaText};
use crate::values::fault::{Cause, Undecoded};
use crate::values::field_tree::FieldTree;

/// Most columns, nested ones too: messages that hold others twice at each level would have any number.
const MAX_COLUMNS: usize = 20_000;
/// Deepest nesting of columns.
const MAX_LEVELS: usize = 64;

const NANOS: i64 = 1_000_000_000;

/// A decoder into the first message of a reader schema.
#[derive(Debug)]
pub(crate) struct ProtoStructs {
    reader: ProtoSchema,
    message: usize,
    data_type: DataType,
    row: MessageColumns,
    /// The messages of each writer schema, for which only names matter: fields are known by number.
    writers: Vec<ProtoWriter>,
    unknown: AtomicU64,
}

/// A writer schema.
#[derive(Debug)]
struct ProtoWriter {
    schema: ProtoSchema,
    /// Its first message is that of the column.
    is_first_read: bool,
}

/// The wanted fields of a message.
#[derive(Debug)]
struct MessageColumns {
    message: usize,
    fields: Vec<(usize, ColumnForm)>,
}

/// The form of a value in its column.
#[derive(Debug)]
enum ColumnForm {
    /// A number, text, bytes or the name of an enum.
    Plain,
    Timestamp(usize),
    /// A message of one field, which is the value.
    Wrapper(usize),
    /// JSON text: a message that holds itself, or holds anything.
    Text(usize),
    Struct(MessageColumns),
}

impl ProtoStructs {
    /// # Errors
    /// `BadSchema`
    pub(crate) fn try_new(reader: &SchemaText<'_>, wanted: &FieldTree) -> Result<Self, Undecoded> {
        let schema = ProtoSchema::try_new(reader)?;
        let message = schema.indexed(&[]).map_err(|_| bad("it has no message"))?;
        let mut columns = ProtoColumns {
            schema: &schema,
            within: Vec::new(),
            count: 0,
        };
        let (row, data_type) = columns.message(message, wanted)?;
        Ok(Self {
            reader: schema,
            message,
            data_type,
            row,
            writers: Vec::new(),
            unknown: AtomicU64::new(0),
        })
    }

    /// Looks whether message indexes mean the message of the column.
    fn is_read(&self, writer: &ProtoWriter, message: &[i32]) -> Result<(), Undecoded> {
        let written = &writer.schema.at(writer.schema.indexed(message)?)?.name;
        let read = &self.reader.at(self.message)?.name;
        if written != read {
            let text = match self.reader.find(written) {
                Some(_) => format!(
                    "the message is {written}, the column holds {read}; decode_as=\"json\" serves several messages"
                ),
                None => format!("the reader schema has no message {written}"),
            };
            return Err(Undecoded::new(Cause::NoSuchMessage, text));
        }
        Ok(())
    }
}

/// Columns of messages.
struct ProtoColumns<'s> {
    schema: &'s ProtoSchema,
    /// The messages around this one.
    within: Vec<usize>,
    count: usize,
}

impl ProtoColumns<'_> {
    fn message(
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
        for (i, field) in self.schema.at(place)?.fields.iter().enumerate() {
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
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
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

impl Decoder for ProtoStructs {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn unknown_fields(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        let schema = ProtoSchema::try_new(writer)?;
        let mut writer = ProtoWriter {
            schema,
            is_first_read: false,
        };
        writer.is_first_read = self.is_read(&writer, &[]).is_ok();
        self.writers.push(writer);
        Ok(self.writers.len().saturating_sub(1))
    }

    fn decode(
        &self,
        program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let writer = self.writers.get(program);
        let writer = writer.ok_or_else(|| bad("a schema was not compiled"))?;
        let is_first = matches!(body.message, [] | [0]);
        if !(is_first && writer.is_first_read) {
            self.is_read(writer, body.message)?;
        }
        let Builder::Struct(column) = column else {
            return Err(wrong_column());
        };
        let mut decoding = MessageDecoding {
            schema: &self.reader,
            unknown: 0,
        };
        let part = Part {
            bytes: body.bytes,
            at: 0,
        };
        decoding.message(&self.row, part, MAX_DEPTH, column)?;
        if decoding.unknown > 0 {
            self.unknown.fetch_add(decoding.unknown, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cold]
fn wrong_column() -> Undecoded {
    Undecoded::new(Cause::Malformed, "a column of another type")
}

/// One payload on its way into the column.
struct MessageDecoding<'s> {
    schema: &'s ProtoSchema,
    unknown: u64,
}

impl MessageDecoding<'_> {
    fn message(
        &mut self,
        columns: &MessageColumns,
        part: Part<'_>,
        depth: u32,
        to: &mut StructBuilder,
    ) -> Result<(), Undecoded> {
        let schema = self.schema;
        let message = schema.at(columns.message)?;
        let mut slots = MessageSlots::new(message.fields.len());
        let slots = slots.all();
        let sorted = schema.scan(message, part, depth, slots, &mut self.unknown)?;
        let part = sorted
            .as_ref()
            .map_or(part, |bytes| Part { bytes, at: part.at });
        for ((place, form), child) in columns.fields.iter().zip(to.children()) {
            let (Some(field), Some(slot)) = (message.fields.get(*place), slots.get(*place)) else {
                return Err(wrong_column());
            };
            match (field.label, child) {
                (Label::Single, child) => self.single(field, form, slot, part, depth, child)?,
                (Label::List, Builder::List(lists)) => {
                    let item = lists.item();
                    schema.occurrences(field, slot, part, depth, &mut |value, bytes| {
                        self.value(field.kind, form, value, bytes, depth, item)
                    })?;
                    lists.close()?;
                }
                (Label::Map, Builder::List(lists)) => {
                    self.map(field, form, slot, part, depth, lists)?;
                }
                _ => return Err(wrong_column()),
            }
        }
        to.close();
        Ok(())
    }

    #[inline]
    fn single(
        &mut self,
        field: &ProtoField,
        form: &ColumnForm,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
        to: &mut Builder,
    ) -> Result<(), Undecoded> {
        match slot.state {
            SlotState::Absent if field.has_presence => {
                to.push_null();
                Ok(())
            }
            SlotState::Several => {
                let bytes = self.schema.merged(field, slot, part, depth)?;
                let whole = Part {
                    bytes: &bytes,
                    at: part.at,
                };
                self.value(field.kind, form, 0, whole, depth, to)
            }
            // Without a value, the slot is that of zero or of no bytes.
            _ => self.value(field.kind, form, slot.value, slot.part(part), depth, to),
        }
    }

    /// Appends a value.
    fn value(
        &mut self,
        kind: FieldKind,
        form: &ColumnForm,
        value: u64,
        bytes: Part<'_>,
        depth: u32,
        to: &mut Builder,
    ) -> Result<(), Undecoded> {
        match (form, to) {
            (ColumnForm::Plain, to) => self.plain(kind, value, bytes, to),
            (ColumnForm::Struct(columns), Builder::Struct(to)) => {
                self.message(columns, bytes, deeper(depth, bytes)?, to)
            }
            (ColumnForm::Timestamp(message), Builder::Int64(to)) => {
                let (seconds, nanos) = self.seconds(*message, bytes, deeper(depth, bytes)?)?;
                let range = 0..NANOS;
                let time = range.contains(&nanos).then_some(seconds);
                let time = time.and_then(|seconds| seconds.checked_mul(NANOS)?.checked_add(nanos));
                to.push(time.ok_or_else(|| {
                    let text = format_args!(
                        "a Timestamp of {seconds} seconds and {nanos} nanoseconds is outside of 1677-09-21 to \
                         2262-04-11, which timestamp[ns] holds; decode_as=\"json\" gives text"
                    );
                    Undecoded::at(Cause::Malformed, bytes.at, text)
                })?);
                Ok(())
            }
            (ColumnForm::Wrapper(place), to) => {
                let message = self.schema.at(*place)?;
                let mut slots = MessageSlots::new(message.fields.len());
                let slots = slots.all();
                let depth = deeper(depth, bytes)?;
                let sorted = self
                    .schema
                    .scan(message, bytes, depth, slots, &mut self.unknown)?;
                let bytes = sorted.as_ref().map_or(bytes, |sorted| Part {
                    bytes: sorted,
                    at: bytes.at,
                });
                let (Some(field), Some(slot)) = (message.fields.first(), slots.first()) else {
                    return Err(wrong_column());
                };
                self.plain(field.kind, slot.value, slot.part(bytes), to)
            }
            (ColumnForm::Text(message), Builder::Bytes(to)) => {
                let mut printer = ProtoPrinter::new(self.schema);
                printer.message(*message, bytes, deeper(depth, bytes)?)?;
                self.unknown = self.unknown.saturating_add(printer.unknown);
                to.push(&printer.out)
            }
            _ => Err(wrong_column()),
        }
    }

    /// Seconds and nanoseconds of a Timestamp.
    fn seconds(
        &mut self,
        message: usize,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(i64, i64), Undecoded> {
        let message = self.schema.at(message)?;
        let mut slots = MessageSlots::new(message.fields.len());
        let slots = slots.all();
        self.schema
            .scan(message, part, depth, slots, &mut self.unknown)?;
        let value = |number| {
            let at = message.field(number).map(|(at, _)| at);
            at.and_then(|at| slots.get(at)).map_or(0, |slot| slot.value)
        };
        Ok((
            value(1).cast_signed(),
            i64::from(low32(value(2)).cast_signed()),
        ))
    }

    #[inline]
    fn plain(
        &self,
        kind: FieldKind,
        value: u64,
        bytes: Part<'_>,
        to: &mut Builder,
    ) -> Result<(), Undecoded> {
        match (kind, to) {
            (FieldKind::Bytes, Builder::Bytes(to)) => return to.push(bytes.bytes),
            (FieldKind::Text { .. }, Builder::Bytes(to)) => {
                check_text(bytes)?;
                return to.push(bytes.bytes);
            }
            (FieldKind::Enum(place), Builder::Bytes(to)) => return self.symbol(place, value, to),
            (FieldKind::Double, Builder::Float64(to)) => to.push(f64::from_bits(value)),
            (FieldKind::Float, Builder::Float32(to)) => to.push(f32::from_bits(low32(value))),
            (FieldKind::Sint32, Builder::Int32(to)) => to.push(unzigzag32(value)),
            (FieldKind::Sint64, Builder::Int64(to)) => to.push(unzigzag64(value)),
            (_, Builder::Int32(to)) => to.push(low32(value).cast_signed()),
            (_, Builder::Int64(to)) => to.push(value.cast_signed()),
            (_, Builder::UInt32(to)) => to.push(low32(value)),
            (_, Builder::UInt64(to)) => to.push(value),
            (_, Builder::Boolean(to)) => to.push(value != 0),
            _ => return Err(wrong_column()),
        }
        Ok(())
    }

    /// Appends the name of an enum's number; numbers without one as digits.
    fn symbol(&self, place: usize, value: u64, to: &mut BytesBuilder) -> Result<(), Undecoded> {
        let number = low32(value).cast_signed();
        match self.schema.enum_at(place)?.name(number) {
            Some(name) => to.push(name.as_bytes()),
            None => to.push(number.to_string().as_bytes()),
        }
    }

    /// Appends a map. The last entry of a key counts.
    fn map(
        &mut self,
        field: &ProtoField,
        form: &ColumnForm,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
        to: &mut ListBuilder,
    ) -> Result<(), Undecoded> {
        let schema = self.schema;
        for entry in schema.entries(field, slot, part, depth, &mut self.unknown)? {
            let Builder::Struct(item) = to.item() else {
                return Err(wrong_column());
            };
            let [keys, values] = item.children() else {
                return Err(wrong_column());
            };
            let of = entry.part();
            self.plain(
                entry.key.kind,
                entry.key_slot.value,
                entry.key_slot.part(of),
                keys,
            )?;
            let slot = &entry.value_slot;
            // Values of maps have no presence: without one, the value is the default.
            if slot.state == SlotState::Several {
                self.single(entry.value, form, slot, of, entry.depth, values)?;
            } else {
                let bytes = slot.part(of);
                self.value(
                    entry.value.kind,
                    form,
                    slot.value,
                    bytes,
                    entry.depth,
                    values,
                )?;
            }
            item.close();
        }
        to.close()
    }
}
