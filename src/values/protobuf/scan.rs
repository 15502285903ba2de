//! One pass over a message: where the last value of each field is, and the occurrences of those that have several.

use super::schema::{FieldKind, Label, ProtoField, ProtoMessage, ProtoSchema};
use super::wire::{GROUP, LENGTH, Part, ProtoCursor};
use crate::values::fault::{Cause, Undecoded};

/// The last value of a field in a message, or all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldSlot {
    pub(super) state: SlotState,
    /// The number of a field of numbers; of a message, where its tag begins.
    pub(super) value: u64,
    /// Bytes of text, bytes or a message; of several occurrences, all with their tags.
    start: usize,
    end: usize,
    /// The end of the last occurrence.
    last: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SlotState {
    #[default]
    Absent,
    One,
    /// Occurrences that follow each other: of a list or map, or a message in several parts.
    Several,
}

impl FieldSlot {
    /// The occurrences of a map that follow each other.
    pub(super) const fn run(start: usize, end: usize) -> Self {
        Self {
            state: SlotState::Several,
            value: 0,
            start,
            end,
            last: end,
        }
    }

    pub(super) const fn is_set(&self) -> bool {
        !matches!(self.state, SlotState::Absent)
    }

    pub(super) fn part<'a>(&self, of: Part<'a>) -> Part<'a> {
        of.cut(self.start, self.end)
    }

    fn set(&mut self, bytes: Part<'_>, of: Part<'_>, from: usize, last: usize) {
        let start = bytes.at.saturating_sub(of.at);
        *self = Self {
            state: SlotState::One,
            value: u64::try_from(from).unwrap_or_default(),
            start,
            end: start.saturating_add(bytes.bytes.len()),
            last,
        };
    }

    /// Adds an occurrence; returns whether it follows the one before.
    fn extend(&mut self, from: usize, to: usize) -> bool {
        let follows = match self.state {
            SlotState::Absent => {
                self.start = from;
                true
            }
            SlotState::One => {
                self.start = usize::try_from(self.value).unwrap_or_default();
                self.last == from
            }
            SlotState::Several => self.last == from,
        };
        self.state = SlotState::Several;
        (self.end, self.last) = (to, to);
        follows
    }
}

/// Findings of a pass besides the slots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanned {
    pub(super) unknown: u64,
    /// Occurrences of a field do not follow each other.
    tangled: bool,
}

/// The content of a field that is no number: as bytes, or as a group.
pub(super) fn content<'a>(
    wire: &mut ProtoCursor<'a>,
    tag: u32,
    depth: u32,
) -> Result<Part<'a>, Undecoded> {
    if tag & 7 == GROUP {
        wire.group(tag >> 3, depth)
    } else {
        wire.chunk()
    }
}

/// # Errors
/// `InvalidUtf8`
pub(super) fn check_text(text: Part<'_>) -> Result<(), Undecoded> {
    match std::str::from_utf8(text.bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Undecoded::at(
            Cause::InvalidUtf8,
            text.at.saturating_add(error.valid_up_to()),
            "text that is not UTF-8",
        )),
    }
}

/// One less, for a message within a message.
pub(super) fn deeper(depth: u32, part: Part<'_>) -> Result<u32, Undecoded> {
    depth.checked_sub(1).ok_or_else(|| part.cursor().too_deep())
}

impl ProtoSchema {
    /// Fills the slots of a message, one for each field. Where occurrences do not follow each other, returns the fields
    /// in order, as other bytes, which the slots are of.
    pub(super) fn scan(
        &self,
        message: &ProtoMessage,
        part: Part<'_>,
        depth: u32,
        slots: &mut [FieldSlot],
        unknown: &mut u64,
    ) -> Result<Option<Vec<u8>>, Undecoded> {
        let scanned = self.pass(message, part, depth, slots)?;
        *unknown = unknown.saturating_add(scanned.unknown);
        let mut sorted = None;
        if scanned.tangled {
            slots.fill(FieldSlot::default());
            let bytes = Self::sorted(message, part, depth)?;
            self.pass(
                message,
                Part {
                    bytes: &bytes,
                    at: part.at,
                },
                depth,
                slots,
            )?;
            sorted = Some(bytes);
        }
        if message.has_required {
            let mut all = message.fields.iter().zip(slots.iter());
            if let Some((field, _)) = all.find(|(field, slot)| field.is_required && !slot.is_set())
            {
                let text = format_args!("the required field {} is missing", field.name);
                return Err(Undecoded::at(Cause::Malformed, part.at, text));
            }
        }
        Ok(sorted)
    }

    fn pass(
        &self,
        message: &ProtoMessage,
        part: Part<'_>,
        depth: u32,
        slots: &mut [FieldSlot],
    ) -> Result<Scanned, Undecoded> {
        let mut wire = part.cursor();
        let mut scanned = Scanned::default();
        while !wire.is_done() {
            let from = wire.pos;
            let tag = wire.tag()?;
            let Some((at, field)) = message.tagged(tag) else {
                scanned.unknown = scanned.unknown.saturating_add(1);
                wire.skip(tag, depth)?;
                continue;
            };
            let Some(slot) = slots.get_mut(at) else {
                return Err(wire.malformed("a field is missing"));
            };
            if field.label != Label::Single {
                let content = wire.pos;
                wire.skip(tag, depth)?;
                if let FieldKind::Enum(_) = field.kind {
                    let foreign = self.foreign(field.kind, tag, part.cut(content, wire.pos))?;
                    scanned.unknown = scanned.unknown.saturating_add(foreign);
                }
                scanned.tangled |= !slot.extend(from, wire.pos);
                continue;
            }
            match field.kind {
                FieldKind::Text { .. } | FieldKind::Bytes => {
                    let bytes = wire.chunk()?;
                    if slot.is_set() && matches!(field.kind, FieldKind::Text { strict: true }) {
                        check_text(slot.part(part))?;
                    }
                    slot.set(bytes, part, from, wire.pos);
                }
                FieldKind::Message(inner) | FieldKind::Group(inner) => {
                    let bytes = content(&mut wire, tag, depth)?;
                    if slot.is_set() {
                        if slot.state == SlotState::One {
                            self.check(inner, slot.part(part), depth)?;
                        }
                        self.check(inner, bytes, depth)?;
                        scanned.tangled |= !slot.extend(from, wire.pos);
                    } else {
                        slot.set(bytes, part, from, wire.pos);
                    }
                }
                kind => {
                    let value = wire.number(tag & 7)?;
                    if self.is_foreign(kind, value) {
                        scanned.unknown = scanned.unknown.saturating_add(1);
                        continue;
                    }
                    slot.state = SlotState::One;
                    slot.value = value;
                }
            }
            for &other in &field.others {
                self.clear(message, other, part, depth, slots)?;
            }
        }
        Ok(scanned)
    }

    /// Numbers of an occurrence in a list that a closed enum does not have.
    fn foreign(&self, kind: FieldKind, tag: u32, content: Part<'_>) -> Result<u64, Undecoded> {
        let mut wire = content.cursor();
        if tag & 7 == LENGTH {
            wire = wire.chunk()?.cursor();
        }
        let mut foreign = 0_u64;
        while !wire.is_done() {
            let number = wire.varint()?;
            foreign = foreign.saturating_add(self.is_foreign(kind, number).into());
        }
        Ok(foreign)
    }

    /// Forgets a field of a oneof of which another was set; its bytes must be right nevertheless.
    fn clear(
        &self,
        message: &ProtoMessage,
        at: usize,
        part: Part<'_>,
        depth: u32,
        slots: &mut [FieldSlot],
    ) -> Result<(), Undecoded> {
        let (Some(slot), Some(field)) = (slots.get_mut(at), message.fields.get(at)) else {
            return Ok(());
        };
        if slot.state == SlotState::One {
            match field.kind {
                FieldKind::Text { strict: true } => check_text(slot.part(part))?,
                FieldKind::Message(inner) | FieldKind::Group(inner) => {
                    self.check(inner, slot.part(part), depth)?;
                }
                _ => {}
            }
        }
        *slot = FieldSlot::default();
        Ok(())
    }

    /// The known fields of a message, those of each field together; those of a oneof in their order.
    fn sorted(message: &ProtoMessage, part: Part<'_>, depth: u32) -> Result<Vec<u8>, Undecoded> {
        let mut wire = part.cursor();
        let mut found = Vec::new();
        while !wire.is_done() {
            let from = wire.pos;
            let tag = wire.tag()?;
            wire.skip(tag, depth)?;
            if let Some((at, field)) = message.tagged(tag) {
                let first = field.others.iter().min().map_or(at, |&other| at.min(other));
                found.push((first, from, wire.pos));
            }
        }
        found.sort_by_key(|&(first, ..)| first);
        let mut bytes = Vec::with_capacity(part.bytes.len());
        for (_, from, to) in found {
            bytes.extend_from_slice(part.cut(from, to).bytes);
        }
        Ok(bytes)
    }

    /// Looks whether a message can be parsed, without its required fields.
    pub(super) fn check(
        &self,
        message: usize,
        part: Part<'_>,
        depth: u32,
    ) -> Result<(), Undecoded> {
        let message = self.at(message)?;
        let depth = deeper(depth, part)?;
        let mut wire = part.cursor();
        while !wire.is_done() {
            let tag = wire.tag()?;
            match message.tagged(tag) {
                None => wire.skip(tag, depth)?,
                Some((_, field)) => self.check_field(&mut wire, tag, field, depth)?,
            }
        }
        Ok(())
    }

    fn check_field(
        &self,
        wire: &mut ProtoCursor<'_>,
        tag: u32,
        field: &ProtoField,
        depth: u32,
    ) -> Result<(), Undecoded> {
        match field.kind {
            FieldKind::Text { strict: true } => check_text(wire.chunk()?),
            FieldKind::Message(inner) | FieldKind::Group(inner) => {
                let bytes = content(wire, tag, depth)?;
                self.check(inner, bytes, depth)
            }
            kind if kind.is_number() && tag & 7 == LENGTH => {
                let mut packed = wire.chunk()?.cursor();
                while !packed.is_done() {
                    packed.number(kind.wire())?;
                }
                Ok(())
            }
            _ => wire.skip(tag, depth),
        }
    }

    /// Calls `each` for the occurrences of a list or map, or of a message in parts: with a number, or with bytes.
    pub(super) fn occurrences<'a>(
        &self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'a>,
        depth: u32,
        each: &mut dyn FnMut(u64, Part<'a>) -> Result<(), Undecoded>,
    ) -> Result<(), Undecoded> {
        if !slot.is_set() {
            return Ok(());
        }
        let none = part.cut(0, 0);
        let mut wire = slot.part(part).cursor();
        while !wire.is_done() {
            let tag = wire.tag()?;
            if !field.kind.is_number() {
                each(0, content(&mut wire, tag, depth)?)?;
            } else if tag & 7 == LENGTH {
                let mut packed = wire.chunk()?.cursor();
                while !packed.is_done() {
                    let value = packed.number(field.kind.wire())?;
                    if !self.is_foreign(field.kind, value) {
                        each(value, none)?;
                    }
                }
            } else {
                let value = wire.number(tag & 7)?;
                if !self.is_foreign(field.kind, value) {
                    each(value, none)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of a message that occurs in several parts: one after the other, which is how they merge.
    pub(super) fn merged(
        &self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'_>,
        depth: u32,
    ) -> Result<Vec<u8>, Undecoded> {
        let mut bytes = Vec::new();
        self.occurrences(field, slot, part, depth, &mut |_, piece| {
            bytes.extend_from_slice(piece.bytes);
            Ok(())
        })?;
        Ok(bytes)
    }
}

/// Slots for the fields of a message, on the stack where they are few.
#[derive(Debug)]
pub(super) struct MessageSlots {
    few: [FieldSlot; 12],
    many: Vec<FieldSlot>,
}

impl MessageSlots {
    pub(super) fn new(fields: usize) -> Self {
        let many = if fields > 12 {
            vec![FieldSlot::default(); fields]
        } else {
            Vec::new()
        };
        Self {
            few: [FieldSlot::default(); 12],
            many,
        }
    }

    pub(super) fn all(&mut self) -> &mut [FieldSlot] {
        if self.many.is_empty() {
            &mut self.few
        } else {
            &mut self.many
        }
    }
}
