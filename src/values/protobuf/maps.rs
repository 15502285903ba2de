//! Entries of maps.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::compile::bad;
use super::scan::{FieldSlot, SlotState, check_text, deeper};
use super::schema::{FieldKind, ProtoField, ProtoSchema};
use super::wire::{Part, low32};
use crate::values::fault::Undecoded;

/// An entry of a map.
pub(super) struct MapEntry<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
    pub(super) key: &'a ProtoField,
    pub(super) value: &'a ProtoField,
    pub(super) key_slot: FieldSlot,
    pub(super) value_slot: FieldSlot,
    pub(super) depth: u32,
}

impl MapEntry<'_> {
    pub(super) fn part(&self) -> Part<'_> {
        Part {
            bytes: &self.bytes,
            at: self.at,
        }
    }
}

/// A key of a map, to be compared with others.
#[derive(PartialEq, Eq, Hash)]
enum MapKey {
    Number(u64),
    Text(Vec<u8>),
}

impl ProtoSchema {
    /// The entries of a map: of those with one key, the last.
    pub(super) fn entries<'a>(
        &'a self,
        field: &ProtoField,
        slot: &FieldSlot,
        part: Part<'a>,
        depth: u32,
        unknown: &mut u64,
    ) -> Result<Vec<MapEntry<'a>>, Undecoded> {
        let message = self.at(field.kind.message().unwrap_or_default())?;
        let (Some((key_at, key)), Some((value_at, value))) = (message.field(1), message.field(2))
        else {
            return Err(bad("a map without key or value"));
        };
        let mut entries: Vec<MapEntry<'a>> = Vec::new();
        self.occurrences(field, slot, part, depth, &mut |_, bytes| {
            let depth = deeper(depth, bytes)?;
            let mut slots = [FieldSlot::default(); 2];
            let mut inside = 0;
            let sorted = self.scan(message, bytes, depth, &mut slots, &mut inside)?;
            // An entry with an unknown field is one itself (upb), as is one with a number that its closed enum has not.
            if inside > 0 {
                if slots.get(value_at).is_some_and(FieldSlot::is_set) {
                    let whole = field.kind.message().unwrap_or_default();
                    self.check(whole, bytes, depth.saturating_add(1))?;
                }
                *unknown = unknown.saturating_add(1);
                return Ok(());
            }
            let found = |at: usize| slots.get(at).copied().unwrap_or_default();
            entries.push(MapEntry {
                bytes: sorted.map_or(bytes.bytes.into(), Into::into),
                at: bytes.at,
                key,
                value,
                key_slot: found(key_at),
                value_slot: found(value_at),
                depth,
            });
            Ok(())
        })?;
        if entries.len() < 2 {
            return Ok(entries);
        }
        let mut last = HashMap::with_capacity(entries.len());
        for (i, entry) in entries.iter().enumerate() {
            let text = entry.key_slot.part(entry.part());
            let key = match key.kind {
                FieldKind::Text { .. } => {
                    check_text(text)?;
                    MapKey::Text(text.bytes.to_vec())
                }
                FieldKind::Bool => MapKey::Number(u64::from(entry.key_slot.value != 0)),
                FieldKind::Int64
                | FieldKind::Uint64
                | FieldKind::Sint64
                | FieldKind::Fixed64
                | FieldKind::Sfixed64 => MapKey::Number(entry.key_slot.value),
                _ => MapKey::Number(low32(entry.key_slot.value).into()),
            };
            last.insert(key, i);
        }
        if last.len() == entries.len() {
            return Ok(entries);
        }
        let kept: HashSet<_> = last.into_values().collect();
        let mut result = Vec::with_capacity(kept.len());
        for (i, entry) in entries.into_iter().enumerate() {
            if kept.contains(&i) {
                result.push(entry);
                continue;
            }
            let slot = &entry.value_slot;
            match value.kind {
                FieldKind::Text { strict: true } => check_text(slot.part(entry.part()))?,
                FieldKind::Message(inner) if slot.state == SlotState::One => {
                    self.check(inner, slot.part(entry.part()), entry.depth)?;
                }
                _ => {}
            }
        }
        Ok(result)
    }
}
