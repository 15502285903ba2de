//! Messages of a schema, as the decoder needs them.

use std::collections::HashMap;

use prost_reflect::{Cardinality, EnumDescriptor, Kind, MessageDescriptor, Syntax};

use super::compile;
use super::wire::{self, low32};
use crate::values::decoder::SchemaText;
use crate::values::fault::{Cause, Undecoded};

/// A compiled schema.
#[derive(Debug, Default)]
pub(crate) struct ProtoSchema {
    pub(super) messages: Vec<ProtoMessage>,
    enums: Vec<ProtoEnum>,
    names: HashMap<String, usize>,
    enum_names: HashMap<String, usize>,
    roots: Vec<MessageTree>,
}

/// A message that message indexes can name, and those in it.
#[derive(Debug)]
struct MessageTree {
    message: usize,
    nested: Vec<MessageTree>,
}

/// A message type.
#[derive(Debug)]
pub(super) struct ProtoMessage {
    pub(super) name: String,
    pub(super) known: Option<WellKnown>,
    pub(super) fields: Vec<ProtoField>,
    /// Number and place of every field, by number.
    by_number: Vec<(u32, usize)>,
    /// The field numbers are 1, 2, 3 and so on, in this order.
    in_order: bool,
    pub(super) has_required: bool,
}

/// A message type with a meaning of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WellKnown {
    Timestamp,
    Duration,
    FieldMask,
    Any,
    Struct,
    Value,
    ListValue,
    Wrapper,
}

/// A field, or an extension.
#[derive(Debug)]
pub(super) struct ProtoField {
    /// The name in JSON: of an extension its full name in brackets.
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) kind: FieldKind,
    pub(super) label: Label,
    pub(super) has_presence: bool,
    pub(super) is_extension: bool,
    pub(super) is_required: bool,
    /// The other fields of its oneof.
    pub(super) others: Vec<usize>,
}

/// The number of values that a field may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Single,
    List,
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    /// Text; of proto3, where the parser looks whether it is UTF-8.
    Text {
        strict: bool,
    },
    Bytes,
    Enum(usize),
    Message(usize),
    Group(usize),
}

impl FieldKind {
    /// The wire type, not packed.
    #[inline]
    pub(super) const fn wire(self) -> u32 {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => wire::FIXED64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => wire::FIXED32,
            Self::Text { .. } | Self::Bytes | Self::Message(_) => wire::LENGTH,
            Self::Group(_) => wire::GROUP,
            _ => wire::VARINT,
        }
    }

    /// Returns whether it is a number, which lists may pack.
    #[inline]
    pub(super) const fn is_number(self) -> bool {
        !matches!(self.wire(), wire::LENGTH | wire::GROUP)
    }

    pub(super) const fn message(self) -> Option<usize> {
        match self {
            Self::Message(message) | Self::Group(message) => Some(message),
            _ => None,
        }
    }
}

/// An enum.
#[derive(Debug)]
pub(super) struct ProtoEnum {
    /// By number, the first name of each.
    names: Vec<(i32, String)>,
    /// Numbers without a name are unknown fields (proto2).
    pub(super) is_closed: bool,
    pub(super) is_null: bool,
}

impl ProtoEnum {
    #[inline]
    pub(super) fn name(&self, number: i32) -> Option<&str> {
        let direct = usize::try_from(number).ok().and_then(|i| self.names.get(i));
        if let Some((_, name)) = direct.filter(|(found, _)| *found == number) {
            return Some(name);
        }
        let at = self.names.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        self.names.get(at).map(|(_, name)| name.as_str())
    }
}

impl ProtoMessage {
    /// The place and the field of a number.
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<(usize, &ProtoField)> {
        let at = if self.in_order {
            usize::try_from(number).ok()?.checked_sub(1)?
        } else {
            let at = self.by_number.binary_search_by_key(&number, |(n, _)| *n);
            self.by_number.get(at.ok()?)?.1
        };
        self.fields.get(at).map(|field| (at, field))
    }

    /// The field of a tag, if it has the wire type of the field, packed or not.
    #[inline]
    pub(super) fn tagged(&self, tag: u32) -> Option<(usize, &ProtoField)> {
        let (at, field) = self.field(tag >> 3)?;
        let fits = tag & 7 == field.kind.wire()
            || tag & 7 == wire::LENGTH && field.label == Label::List && field.kind.is_number();
        fits.then_some((at, field))
    }
}

impl ProtoSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `BadSchema`
    pub(crate) fn try_new(text: &SchemaText<'_>) -> Result<Self, Undecoded> {
        let mut file = compile::compile(text)?;
        // Message indexes of a file without messages mean those of the file that it stands for.
        for _ in 0..100 {
            let public: Vec<_> = file.public_dependencies().collect();
            let messages = file.messages().len();
            match (messages, public.as_slice()) {
                (0, [one]) => file = one.clone(),
                _ => break,
            }
        }
        let mut schema = Self::default();
        let descriptors: Vec<_> = file.parent_pool().all_messages().collect();
        for (i, message) in descriptors.iter().enumerate() {
            schema.names.insert(message.full_name().to_owned(), i);
        }
        for message in &descriptors {
            let message = schema.message(message)?;
            schema.messages.push(message);
        }
        schema.roots = schema.trees(&mut file.messages());
        Ok(schema)
    }

    fn trees(&self, messages: &mut dyn Iterator<Item = MessageDescriptor>) -> Vec<MessageTree> {
        let trees = messages
            .filter(|message| !message.is_map_entry())
            .map(|message| MessageTree {
                message: self.find(message.full_name()).unwrap_or_default(),
                nested: self.trees(&mut message.child_messages()),
            });
        trees.collect()
    }

    fn message(&mut self, message: &MessageDescriptor) -> Result<ProtoMessage, Undecoded> {
        let mut fields = Vec::new();
        let mut all: Vec<_> = message.fields().collect();
        // In the order of the text.
        all.sort_by_key(|field| field.path().last().copied());
        let places: HashMap<u32, usize> = all
            .iter()
            .enumerate()
            .map(|(i, field)| (field.number(), i))
            .collect();
        for field in &all {
            let others = field.containing_oneof().into_iter().flat_map(|oneof| {
                let numbers: Vec<_> = oneof.fields().map(|other| other.number()).collect();
                numbers
            });
            let others = others.filter(|&number| number != field.number());
            fields.push(ProtoField {
                name: compile::name(field).to_owned(),
                number: field.number(),
                kind: self.kind(&field.kind(), field.is_group(), message)?,
                label: label(field.is_map(), field.cardinality()),
                has_presence: field.supports_presence(),
                is_extension: false,
                is_required: field.is_required(),
                others: others
                    .filter_map(|number| places.get(&number).copied())
                    .collect(),
            });
        }
        for extension in message.extensions() {
            fields.push(ProtoField {
                name: format!("[{}]", extension.full_name()),
                number: extension.number(),
                kind: self.kind(&extension.kind(), extension.is_group(), message)?,
                label: label(extension.is_map(), extension.cardinality()),
                has_presence: !extension.is_list(),
                is_extension: true,
                is_required: false,
                others: Vec::new(),
            });
        }
        let mut by_number: Vec<_> = fields
            .iter()
            .enumerate()
            .map(|(i, field)| (field.number, i))
            .collect();
        by_number.sort_unstable();
        let is_in_order = |(i, field): (usize, &ProtoField)| {
            usize::try_from(field.number).is_ok_and(|number| number.checked_sub(1) == Some(i))
        };
        Ok(ProtoMessage {
            name: message.full_name().to_owned(),
            known: well_known(message, &fields),
            in_order: fields.iter().enumerate().all(is_in_order),
            has_required: fields.iter().any(|field| field.is_required),
            fields,
            by_number,
        })
    }

    fn kind(
        &mut self,
        kind: &Kind,
        is_group: bool,
        of: &MessageDescriptor,
    ) -> Result<FieldKind, Undecoded> {
        Ok(match kind {
            Kind::Double => FieldKind::Double,
            Kind::Float => FieldKind::Float,
            Kind::Int32 => FieldKind::Int32,
            Kind::Int64 => FieldKind::Int64,
            Kind::Uint32 => FieldKind::Uint32,
            Kind::Uint64 => FieldKind::Uint64,
            Kind::Sint32 => FieldKind::Sint32,
            Kind::Sint64 => FieldKind::Sint64,
            Kind::Fixed32 => FieldKind::Fixed32,
            Kind::Fixed64 => FieldKind::Fixed64,
            Kind::Sfixed32 => FieldKind::Sfixed32,
            Kind::Sfixed64 => FieldKind::Sfixed64,
            Kind::Bool => FieldKind::Bool,
            Kind::String => FieldKind::Text {
                strict: of.parent_file().syntax() == Syntax::Proto3,
            },
            Kind::Bytes => FieldKind::Bytes,
            Kind::Enum(of) => FieldKind::Enum(self.enumeration(of)),
            Kind::Message(message) => {
                let found = self.find(message.full_name());
                let message = found.ok_or_else(|| compile::bad("a message is missing"))?;
                if is_group {
                    FieldKind::Group(message)
                } else {
                    FieldKind::Message(message)
                }
            }
        })
    }

    fn enumeration(&mut self, of: &EnumDescriptor) -> usize {
        if let Some(&known) = self.enum_names.get(of.full_name()) {
            return known;
        }
        // In the order of the text; the pool's has several names for a number in another one.
        let values = of.enum_descriptor_proto().value.iter();
        let mut names: Vec<_> = values
            .map(|value| (value.number(), value.name().to_owned()))
            .collect();
        // Stable, so that of several names for a number the first stays, as everywhere else.
        names.sort_by_key(|(number, _)| *number);
        names.dedup_by_key(|(number, _)| *number);
        self.enums.push(ProtoEnum {
            names,
            is_closed: of.parent_file().syntax() == Syntax::Proto2,
            is_null: of.full_name() == "google.protobuf.NullValue",
        });
        let place = self.enums.len().saturating_sub(1);
        self.enum_names.insert(of.full_name().to_owned(), place);
        place
    }

    /// The message of a full name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Returns whether message indexes can name more than one message.
    pub(crate) fn has_several(&self) -> bool {
        match self.roots.as_slice() {
            [] => false,
            [only] => !only.nested.is_empty(),
            _ => true,
        }
    }

    /// The full name of the message that message indexes name; of none, that of the first one.
    pub(crate) fn named(&self, path: &[i32]) -> Option<&str> {
        Some(&self.at(self.indexed(path).ok()?).ok()?.name)
    }

    /// Returns whether it has a message of this full name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// # Errors
    /// `Malformed`, for a place that is none of this schema.
    #[inline]
    pub(super) fn at(&self, message: usize) -> Result<&ProtoMessage, Undecoded> {
        let found = self.messages.get(message);
        found.ok_or_else(|| Undecoded::new(Cause::Malformed, "a message is missing"))
    }

    #[inline]
    pub(super) fn enum_at(&self, place: usize) -> Result<&ProtoEnum, Undecoded> {
        let found = self.enums.get(place);
        found.ok_or_else(|| Undecoded::new(Cause::Malformed, "an enum is missing"))
    }

    /// Returns whether values are numbers of a closed enum.
    pub(super) fn has_closed(&self, kind: FieldKind) -> bool {
        let FieldKind::Enum(place) = kind else {
            return false;
        };
        self.enums.get(place).is_some_and(|of| of.is_closed)
    }

    /// Returns whether a closed enum lacks a number.
    #[inline]
    pub(super) fn is_foreign(&self, kind: FieldKind, raw: u64) -> bool {
        let FieldKind::Enum(place) = kind else {
            return false;
        };
        let Some(of) = self.enums.get(place) else {
            return false;
        };
        of.is_closed && of.name(low32(raw).cast_signed()).is_none()
    }

    /// The message that message indexes name; of none, the first one.
    ///
    /// # Errors
    /// `BadMessageIndex`
    pub(super) fn indexed(&self, path: &[i32]) -> Result<usize, Undecoded> {
        let path = if path.is_empty() { &[0] } else { path };
        let (mut trees, mut found) = (&self.roots, None);
        for &index in path {
            let tree = usize::try_from(index)
                .ok()
                .and_then(|index| trees.get(index));
            let tree = tree.ok_or_else(|| {
                let text = format_args!("the schema has no message at {path:?}");
                Undecoded::new(Cause::BadMessageIndex, text)
            })?;
            (trees, found) = (&tree.nested, Some(tree.message));
        }
        found.ok_or_else(|| Undecoded::new(Cause::BadMessageIndex, "no message index"))
    }
}

const fn label(is_map: bool, cardinality: Cardinality) -> Label {
    match cardinality {
        _ if is_map => Label::Map,
        Cardinality::Repeated => Label::List,
        _ => Label::Single,
    }
}

/// The meaning of a message that has the name and the fields of a well-known one.
fn well_known(message: &MessageDescriptor, fields: &[ProtoField]) -> Option<WellKnown> {
    let file = message.parent_file();
    if file.name() == "google/protobuf/wrappers.proto" {
        return Some(WellKnown::Wrapper);
    }
    if !file.name().starts_with("google/protobuf/") || fields.is_empty() {
        return None;
    }
    Some(match message.full_name() {
        "google.protobuf.Timestamp" => WellKnown::Timestamp,
        "google.protobuf.Duration" => WellKnown::Duration,
        "google.protobuf.FieldMask" => WellKnown::FieldMask,
        "google.protobuf.Any" => WellKnown::Any,
        "google.protobuf.Struct" => WellKnown::Struct,
        "google.protobuf.Value" => WellKnown::Value,
        "google.protobuf.ListValue" => WellKnown::ListValue,
        _ => return None,
    })
}
