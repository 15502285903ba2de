//! A message whose fields come once, in one pass into its columns.
//!
//! Serializers write every field once. What they may also write (a field twice, two of a oneof, the entries of a map apart
//! from each other, numbers that a closed enum does not have) ends the pass with a fault, as damage does, and the other
//! pass, which looks at the whole message first, decides on the payload anew.

use super::columns::{ColumnForm, DirectField, DirectFields, MessageColumns};
use super::message::{MessageDecoding, wrong_column};
use super::scan::{FieldSlot, check_text, content};
use super::schema::{FieldKind, Label, ProtoMessage};
use super::wire::{LENGTH, Part, ProtoCursor};
use crate::values::builder::{Builder, StructBuilder};
use crate::values::fault::Undecoded;

impl MessageDecoding<'_> {
    /// Appends a message as a row.
    ///
    /// # Errors
    /// A fault that says nothing where the pass ends.
    pub(super) fn direct(
        &mut self,
        direct: &DirectFields,
        columns: &MessageColumns,
        message: &ProtoMessage,
        part: Part<'_>,
        depth: u32,
        to: &mut StructBuilder,
    ) -> Result<(), Undecoded> {
        let mut wire = part.cursor();
        let (mut seen, mut next) = (0_u64, 0);
        while !wire.is_done() {
            let from = wire.pos;
            let tag = wire.tag()?;
            // Serializers write fields in order.
            let expected = direct.places.get(next).filter(|place| place.tag == tag);
            let at = match expected {
                Some(_) => Some(next),
                None => message.tagged(tag).map(|(at, _)| at),
            };
            let Some(at) = at else {
                self.unknown = self.unknown.saturating_add(1);
                wire.skip(tag, depth)?;
                continue;
            };
            next = at.saturating_add(1);
            let place = direct.places.get(at).ok_or_else(|| other_pass(&wire))?;
            if seen & place.excludes != 0 {
                return Err(other_pass(&wire));
            }
            seen |= place.bit;
            let Some(column) = place.column else {
                wire.skip(tag, depth)?;
                continue;
            };
            let form = columns.fields.get(column);
            let ((_, form), child) = form
                .zip(to.children().get_mut(column))
                .ok_or_else(wrong_column)?;
            match (place.label, child) {
                (Label::Single, child) if place.is_number => {
                    let value = wire.number(tag & 7)?;
                    if place.is_closed && self.schema.is_foreign(place.kind, value) {
                        return Err(other_pass(&wire));
                    }
                    self.plain(place.kind, value, part, child)?;
                }
                (Label::Single, Builder::Bytes(texts)) if matches!(form, ColumnForm::Plain) => {
                    if let Some(text) = wire.short_ascii() {
                        texts.push_text(text)?;
                        continue;
                    }
                    let bytes = wire.chunk()?;
                    if matches!(place.kind, FieldKind::Text { .. }) {
                        check_text(bytes)?;
                    }
                    texts.push(bytes.bytes)?;
                }
                (Label::Single, child) => {
                    let bytes = content(&mut wire, tag, depth)?;
                    self.value(place.kind, form, 0, bytes, depth, child)?;
                }
                (Label::List, Builder::List(lists)) => {
                    self.items(&mut wire, tag, place, form, depth, lists.item())?;
                }
                (Label::Map, Builder::List(lists)) => {
                    wire.skip(tag, depth)?;
                    let mut end = wire.pos;
                    while !wire.is_done() && wire.tag()? == tag {
                        wire.skip(tag, depth)?;
                        end = wire.pos;
                    }
                    wire.pos = end;
                    let field = message.fields.get(at).ok_or_else(wrong_column)?;
                    self.map(field, form, &FieldSlot::run(from, end), part, depth, lists)?;
                }
                _ => return Err(wrong_column()),
            }
        }
        if direct.required & !seen != 0 {
            return Err(other_pass(&wire));
        }
        for ((at, _), child) in columns.fields.iter().zip(to.children()) {
            let place = direct.places.get(*at).ok_or_else(wrong_column)?;
            let is_absent = seen & place.bit == 0;
            match (place.label, child) {
                (Label::List, Builder::List(lists)) => lists.close()?,
                (Label::Map, Builder::List(lists)) if is_absent => lists.close()?,
                (Label::Single, child) if is_absent && place.has_presence => child.push_null(),
                // The value is that of zero or of no bytes.
                (Label::Single, child) if is_absent => {
                    self.plain(place.kind, 0, part.cut(0, 0), child)?;
                }
                _ => {}
            }
        }
        to.close();
        Ok(())
    }

    /// Appends what an occurrence of a list holds: one value, or packed numbers.
    fn items(
        &mut self,
        wire: &mut ProtoCursor<'_>,
        tag: u32,
        field: &DirectField,
        form: &ColumnForm,
        depth: u32,
        to: &mut Builder,
    ) -> Result<(), Undecoded> {
        let kind = field.kind;
        if !field.is_number {
            let bytes = content(wire, tag, depth)?;
            return self.value(kind, form, 0, bytes, depth, to);
        }
        if tag & 7 != LENGTH {
            let value = wire.number(tag & 7)?;
            return self.plain(kind, value, wire.part(), to);
        }
        let mut packed = wire.chunk()?.cursor();
        let number = kind.wire();
        while !packed.is_done() {
            let value = packed.number(number)?;
            self.plain(kind, value, packed.part(), to)?;
        }
        Ok(())
    }
}

#[cold]
fn other_pass(wire: &ProtoCursor<'_>) -> Undecoded {
    wire.malformed("fields that one pass cannot take")
}
