//! Protobuf messages as JSON: what `json_format.MessageToJson` of google.protobuf gives with
//! `preserving_proto_field_name` and `always_print_fields_with_no_presence`.
//!
//! A message that has no JSON (an `Any` of a type that the schema does not have, a `Timestamp` out of range) is an object of
//! its fields.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::DataType;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::compile::bad;
use super::known;
use super::scan::{FieldSlot, MessageSlots, SlotState, check_text, deeper};
use super::schema::{FieldKind, Label, ProtoField, ProtoMessage, ProtoSchema, WellKnown};
use super::wire::{MAX_DEPTH, Part, low32, unzigzag32, unzigzag64};
use crate::values::builder::Builder;
use crate::values::decoder::{Body, Decoder, ProgramId, SchemaText};
use crate::values::fault::{Cause, Undecoded};

/// A decoder into JSON text.
#[derive(Debug, Default)]
pub(crate) struct ProtoTexts {
    writers: Vec<ProtoSchema>,
    unknown: AtomicU64,
}

impl Decoder for ProtoTexts {
    fn data_type(&self) -> DataType {
        DataType::Utf8
    }

    fn unknown_fields(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        self.writers.push(ProtoSchema::try_new(writer)?);
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
        let Builder::Bytes(column) = column else {
            return Err(Undecoded::new(Cause::Malformed, "a column of another type"));
        };
        let message = writer.indexed(body.message)?;
        let mut printer = ProtoPrinter::new(writer);
        printer.message(
            message,
            Part {
                bytes: body.bytes,
                at: 0,
            },
            MAX_DEPTH,
        )?;
        if printer.unknown > 0 {
            self.unknown.fetch_add(printer.unknown, Ordering::Relaxed);
        }
        column.push(&printer.out)
    }
}

/// JSON of one message.
#[derive(Debug)]
pub(super) struct ProtoPrinter<'s> {
    schema: &'s ProtoSchema,
    pub(super) out: Vec<u8>,
    pub(super) unknown: u64,
}

/// True if a message has a JSON of its own kind.
type HasJson = Result<bool, Undecoded>;

impl<'s> ProtoPrinter<'s> {
    pub(super) const fn new(schema: &'s ProtoSchema) -> Self {
        Self {
            schema,
            out: Vec::new(),
            unknown: 0,
        }
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Undecoded> {
        serde_json::to_writer(&mut self.out, value)
            .map_err(|error| Undecoded::new(Cause::Malformed, error))
    }

    /// Appends a message of the schema.
    pub(super) fn message(
        &mut self,
        place: usize,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        let message = self.schema.at(place)?;
        let mut slots = MessageSlots::new(message.fields.len());
        let slots = slots.all();
        let sorted = self
            .schema
            .scan(message, part, depth, slots, &mut self.unknown)?;
        let part = sorted
            .as_ref()
            .map_or(part, |bytes| Part { bytes, at: part.at });
        if let Some(known) = message.known {
            let start = self.out.len();
            if self.well_known(known, message, slots, part, depth)? {
                return Ok(());
            }
            self.out.truncate(start);
        }
        self.put("{");
        self.fields(message, slots, part, depth, true)?;
        self.put("}");
        Ok(())
    }

    /// Appends members of an object.
    fn fields(
        &mut self,
        message: &ProtoMessage,
        slots: &[FieldSlot],
        part: Part<'_>,
        depth: u32,
        mut is_first: bool,
    ) -> Result<(), Undecoded> {
        for (field, slot) in message.fields.iter().zip(slots) {
            if !slot.is_set() && (field.has_presence || field.is_extension) {
                continue;
            }
            if !is_first {
                self.put(",");
            }
            is_first = false;
            self.json(field.name.as_str())?;
            self.put(":");
            self.field(field, slot, part, depth)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        match field.label {
            Label::Single => self.single(field, slot, part, depth),
            Label::List => {
                self.put("[");
                let schema = self.schema;
                let mut is_first = true;
                schema.occurrences(field, slot, part, depth, &mut |value, bytes| {
                    if !is_first {
                        self.put(",");
                    }
                    is_first = false;
                    self.value(field.kind, value, bytes, depth)
                })?;
                self.put("]");
                Ok(())
            }
            Label::Map => self.map(field, slot, part, depth),
        }
    }

    fn map(
        &mut self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        self.put("{");
        let schema = self.schema;
        let entries = schema.entries(field, slot, part, depth, &mut self.unknown)?;
        for (i, entry) in entries.iter().enumerate() {
            if i > 0 {
                self.put(",");
            }
            let of = entry.part();
            // Names of members are text, whatever the type of the key.
            let (key, slot) = (entry.key.kind, &entry.key_slot);
            let is_quoted = !matches!(key, FieldKind::Text { .. }) && !is_long(key);
            if is_quoted {
                self.put("\"");
            }
            self.value(key, slot.value, slot.part(of), entry.depth)?;
            self.put(if is_quoted { "\":" } else { ":" });
            self.single(entry.value, &entry.value_slot, of, entry.depth)?;
        }
        self.put("}");
        Ok(())
    }

    fn single(
        &mut self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        if slot.state == SlotState::Several {
            let bytes = self.schema.merged(field, slot, part, depth)?;
            return self.value(
                field.kind,
                0,
                Part {
                    bytes: &bytes,
                    at: part.at,
                },
                depth,
            );
        }
        self.value(field.kind, slot.value, slot.part(part), depth)
    }

    fn value(
        &mut self,
        kind: FieldKind,
        value: u64,
        bytes: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        match kind {
            FieldKind::Double => self.float(f64::from_bits(value)),
            FieldKind::Float => {
                let float = f32::from_bits(low32(value));
                // Of a float, the shortest digits that a float reads back.
                if float.is_finite() {
                    self.json(&float)
                } else {
                    self.float(float.into())
                }
            }
            FieldKind::Int32 | FieldKind::Sfixed32 => self.json(&low32(value).cast_signed()),
            FieldKind::Sint32 => self.json(&unzigzag32(value)),
            FieldKind::Uint32 | FieldKind::Fixed32 => self.json(&low32(value)),
            FieldKind::Int64 | FieldKind::Sfixed64 => self.json(&value.cast_signed().to_string()),
            FieldKind::Sint64 => self.json(&unzigzag64(value).to_string()),
            FieldKind::Uint64 | FieldKind::Fixed64 => self.json(&value.to_string()),
            FieldKind::Bool => self.json(&(value != 0)),
            FieldKind::Text { .. } => {
                check_text(bytes)?;
                self.json(std::str::from_utf8(bytes.bytes).unwrap_or_default())
            }
            FieldKind::Bytes => self.json(&BASE64_STANDARD.encode(bytes.bytes)),
            FieldKind::Enum(place) => {
                let number = low32(value).cast_signed();
                let of = self.schema.enum_at(place)?;
                match of.name(number) {
                    _ if of.is_null => self.json(&()),
                    Some(name) => self.json(name),
                    None => self.json(&number),
                }
            }
            FieldKind::Message(inner) | FieldKind::Group(inner) => {
                self.message(inner, bytes, deeper(depth, bytes)?)
            }
        }
    }

    fn float(&mut self, value: f64) -> Result<(), Undecoded> {
        match value {
            _ if value.is_finite() => self.json(&value),
            _ if value.is_nan() => self.json("NaN"),
            _ if value > 0.0 => self.json("Infinity"),
            _ => self.json("-Infinity"),
        }
    }

    /// Appends the JSON of a well-known message, if it has one.
    fn well_known(
        &mut self,
        known: WellKnown,
        message: &ProtoMessage,
        slots: &[FieldSlot],
        part: Part<'_>,
        depth: u32,
    ) -> HasJson {
        let of = |number: u32| {
            let (at, field) = message.field(number)?;
            Some((field, slots.get(at)?))
        };
        let number = |number: u32| of(number).map_or(0, |(_, slot)| slot.value);
        match known {
            WellKnown::Timestamp | WellKnown::Duration => {
                let seconds = number(1).cast_signed();
                let nanos = low32(number(2)).cast_signed();
                let text = match known {
                    WellKnown::Timestamp => known::timestamp(seconds, nanos),
                    _ => known::duration(seconds, nanos),
                };
                text.map_or(Ok(false), |text| self.json(&text).map(|()| true))
            }
            WellKnown::FieldMask => {
                let Some((field, slot)) = of(1) else {
                    return Ok(false);
                };
                let mut paths = Vec::new();
                self.schema
                    .occurrences(field, slot, part, depth, &mut |_, path| {
                        check_text(path)?;
                        paths.push(known::camel_case(
                            std::str::from_utf8(path.bytes).unwrap_or_default(),
                        ));
                        Ok(())
                    })?;
                let paths: Option<Vec<String>> = paths.into_iter().collect();
                paths.map_or(Ok(false), |paths| {
                    self.json(&paths.join(",")).map(|()| true)
                })
            }
            WellKnown::Wrapper | WellKnown::ListValue | WellKnown::Struct => match of(1) {
                Some((field, slot)) => self.field(field, slot, part, depth).map(|()| true),
                None => Ok(false),
            },
            WellKnown::Value => {
                let mut set = message
                    .fields
                    .iter()
                    .zip(slots)
                    .filter(|(_, slot)| slot.is_set());
                match set.next() {
                    None => self.json(&()).map(|()| true),
                    // It would be read back as text.
                    Some((field, slot))
                        if field.kind == FieldKind::Double
                            && !f64::from_bits(slot.value).is_finite() =>
                    {
                        Ok(false)
                    }
                    Some((field, slot)) => self.single(field, slot, part, depth).map(|()| true),
                }
            }
            WellKnown::Any => self.any(&of, part, depth),
        }
    }

    /// Appends an `Any`, if its type is of the schema and its bytes are right.
    fn any<'f>(
        &mut self,
        of: &dyn Fn(u32) -> Option<(&'f ProtoField, &'f FieldSlot)>,
        part: Part<'_>,
        depth: u32,
    ) -> HasJson {
        let (Some((_, url)), Some((_, value))) = (of(1), of(2)) else {
            return Ok(false);
        };
        if !url.is_set() && !value.is_set() {
            self.put("{}");
            return Ok(true);
        }
        check_text(url.part(part))?;
        let url = std::str::from_utf8(url.part(part).bytes).unwrap_or_default();
        let Some(place) = self.schema.find(url.rsplit('/').next().unwrap_or_default()) else {
            return Ok(false);
        };
        let (inner, bytes) = (self.schema.at(place)?, value.part(part));
        self.put("{\"@type\":");
        self.json(url)?;
        let printed = if inner.known.is_some() {
            self.put(",\"value\":");
            deeper(depth, bytes).and_then(|depth| self.message(place, bytes, depth))
        } else {
            self.any_fields(inner, bytes, depth)
        };
        if printed.is_ok() {
            self.put("}");
        }
        // The bytes of an Any are bytes to the parser: whatever is wrong with them is no fault of the message.
        Ok(printed.is_ok())
    }

    fn any_fields(
        &mut self,
        inner: &ProtoMessage,
        bytes: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        let depth = deeper(depth, bytes)?;
        let mut slots = MessageSlots::new(inner.fields.len());
        let slots = slots.all();
        let mut unknown = 0;
        let sorted = self.schema.scan(inner, bytes, depth, slots, &mut unknown)?;
        let bytes = sorted.as_ref().map_or(bytes, |sorted| Part {
            bytes: sorted,
            at: bytes.at,
        });
        self.fields(inner, slots, bytes, depth, false)
    }
}

/// Returns whether JSON has numbers of this type as text.
const fn is_long(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Int64
            | FieldKind::Uint64
            | FieldKind::Sint64
            | FieldKind::Fixed64
            | FieldKind::Sfixed64
    )
}
