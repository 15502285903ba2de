//! One message on its way into its columns.

use super::columns::{ColumnForm, MessageColumns};
use super::known;
use super::scan::{FieldSlot, MessageSlots, SlotState, check_text, deeper};
use super::schema::{FieldKind, Label, ProtoField, ProtoSchema};
use super::texts::ProtoPrinter;
use super::wire::{MAX_DEPTH, Part, low32, unzigzag32, unzigzag64};
use crate::values::builder::{Builder, BytesBuilder, ListBuilder, StructBuilder};
use crate::values::fault::{Cause, Undecoded};

#[cold]
pub(super) fn wrong_column() -> Undecoded {
    Undecoded::new(Cause::Malformed, "a column of another type")
}

/// One payload on its way into the column.
pub(super) struct MessageDecoding<'s> {
    pub(super) schema: &'s ProtoSchema,
    pub(super) unknown: u64,
    /// Messages are decoded in one pass; whatever that cannot do ends it.
    is_direct: bool,
}

impl<'s> MessageDecoding<'s> {
    /// Decodes a payload as a row; returns the number of its unknown fields.
    ///
    /// The first try is the direct one. Where it fails for any reason, the other one decides.
    pub(super) fn run(
        schema: &'s ProtoSchema,
        columns: &MessageColumns,
        part: Part<'_>,
        to: &mut StructBuilder,
    ) -> Result<u64, Undecoded> {
        let mut decoding = Self {
            schema,
            unknown: 0,
            is_direct: true,
        };
        if columns.direct.is_some() {
            if decoding.message(columns, part, MAX_DEPTH, to).is_ok() {
                return Ok(decoding.unknown);
            }
            let rows = to.rows();
            let children = to.children().iter_mut();
            children.for_each(|child| child.truncate(rows));
            decoding.unknown = 0;
        }
        decoding.is_direct = false;
        decoding.message(columns, part, MAX_DEPTH, to)?;
        Ok(decoding.unknown)
    }

    fn message(
        &mut self,
        columns: &MessageColumns,
        part: Part<'_>,
        depth: u32,
        to: &mut StructBuilder,
    ) -> Result<(), Undecoded> {
        let schema = self.schema;
        let message = schema.at(columns.message)?;
        if let Some(direct) = columns.direct.as_ref().filter(|_| self.is_direct) {
            return self.direct(direct, columns, message, part, depth, to);
        }
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
    pub(super) fn value(
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
                to.push(known::micros(seconds, nanos).ok_or_else(|| {
                    let text = format_args!(
                        "a Timestamp of {seconds} seconds and {nanos} nanoseconds, which has the years 1 to 9999 and \
                         0 to 999999999 nanoseconds; decode_as=\"json\" gives the two numbers"
                    );
                    Undecoded::at(Cause::Malformed, bytes.at, text)
                })?);
                Ok(())
            }
            (ColumnForm::Wrapper(place), to) => {
                let message = self.schema.at(*place)?;
                let mut slots = [FieldSlot::default()];
                let depth = deeper(depth, bytes)?;
                let sorted =
                    self.schema
                        .scan(message, bytes, depth, &mut slots, &mut self.unknown)?;
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
    ) -> Result<(i64, i32), Undecoded> {
        let message = self.schema.at(message)?;
        let mut slots = [FieldSlot::default(); 2];
        self.schema
            .scan(message, part, depth, &mut slots, &mut self.unknown)?;
        let value = |number| {
            let at = message.field(number).map(|(at, _)| at);
            at.and_then(|at| slots.get(at)).map_or(0, |slot| slot.value)
        };
        Ok((value(1).cast_signed(), low32(value(2)).cast_signed()))
    }

    #[inline]
    pub(super) fn plain(
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
    pub(super) fn map(
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
