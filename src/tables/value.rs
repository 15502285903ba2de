//! A decoded message: its values in a tree, looked up by name.
//!
//! The tree is a list of [`Node`]s. A structure has one for each field of its layout, in order; a value that does not
//! fit into a node (a structure, the elements of an array) is stored further on, and the node has its index. Text,
//! bytes and arrays of numbers stay in the record's bytes. Memory therefore grows with the bytes that were read, never
//! with a length stated in them.

use std::borrow::Cow;

use super::messages::{FieldLayout, MessageField, Type};
use super::node::Node;
use crate::format::cursor::{bytes, get_i8, get_i16, get_i32, get_i64};
use crate::format::text::put_text;
use crate::format::uuid::Uuid;

/// Value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Uuid(Uuid),
    /// UTF-8, as far as it was written as such.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(List<'a>),
    Fields(Fields<'a>),
}

impl<'a> Value<'a> {
    /// Returns whether it is null.
    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// An integer of any width.
    pub(crate) const fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// An integer, if it fits.
    pub(crate) fn narrow<T: TryFrom<i64>>(&self) -> Option<T> {
        self.int().and_then(|value| T::try_from(value).ok())
    }

    /// A flag.
    pub(crate) const fn bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// An id.
    pub(crate) const fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(value) => Some(*value),
            _ => None,
        }
    }

    /// Text, as Java reads it.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        let Self::Text(raw) = *self else {
            return None;
        };
        Some(std::str::from_utf8(raw).map_or_else(
            |_| {
                let mut text = Vec::with_capacity(raw.len());
                put_text(raw, &mut text);
                Cow::Owned(String::from_utf8_lossy(&text).into_owned())
            },
            Cow::Borrowed,
        ))
    }

    /// Bytes.
    pub(crate) const fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The elements of an array; none of null.
    pub(crate) fn items(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let list = match self {
            Self::List(list) => Some(*list),
            _ => None,
        };
        list.into_iter().flatten()
    }

    /// A structure's fields.
    pub(crate) const fn fields(&self) -> Option<Fields<'a>> {
        match self {
            Self::Fields(fields) => Some(*fields),
            _ => None,
        }
    }
}

/// A structure: a message, or one inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    layout: &'static FieldLayout,
    nodes: &'a [Node<'a>],
    first: usize,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(
        layout: &'static FieldLayout,
        nodes: &'a [Node<'a>],
        first: usize,
    ) -> Self {
        Self {
            layout,
            nodes,
            first,
        }
    }

    /// Returns a field's value, by its name in Kafka's JSON (`leaderEpoch`); its default if the record does not give
    /// it, null if there is no such field.
    pub(crate) fn get(&self, name: &str) -> Value<'a> {
        let mut fields = self.each();
        fields
            .find(|(field, _)| field.name == name)
            .map_or(Value::Null, |(field, node)| self.value(field, node))
    }

    /// Every field of the layout with its node.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static MessageField, Node<'a>)> + use<'a> {
        let nodes = self.nodes.get(self.first..).unwrap_or_default();
        self.layout.fields.iter().zip(nodes.iter().copied())
    }

    /// Value of a node of this structure.
    pub(super) fn value(&self, field: &'static MessageField, node: Node<'a>) -> Value<'a> {
        let list = |first: u32, len: u32, fixed: &'a [u8]| {
            Value::List(List {
                field,
                nodes: self.nodes,
                at: first as usize,
                left: len as usize,
                fixed,
            })
        };
        match node {
            Node::Absent if field.default == Node::Absent => Value::Null,
            Node::Absent => self.value(field, field.default),
            Node::Null | Node::Next(_) => Value::Null,
            Node::Bool(value) => Value::Bool(value),
            Node::Int(value) => Value::Int(value),
            Node::Float(value) => Value::Float(value),
            Node::Uuid(value) => Value::Uuid(Uuid(u128::from_be_bytes(*value))),
            Node::Text(value) => Value::Text(value),
            Node::Bytes(value) => Value::Bytes(value),
            Node::Fixed(fixed) => list(0, 0, fixed),
            Node::Array { first, len } => list(first, len, &[]),
            Node::Struct(first) => {
                Value::Fields(Self::new(&field.layout, self.nodes, first as usize))
            }
        }
    }
}

/// The elements of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    field: &'static MessageField,
    nodes: &'a [Node<'a>],
    at: usize,
    left: usize,
    /// Those of one width that are left.
    fixed: &'a [u8],
}

impl<'a> IntoIterator for List<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        Elements(self)
    }
}

/// The elements of an array, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a>(List<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.0.take()
    }
}

impl<'a> List<'a> {
    /// Takes the first element off.
    fn take(&mut self) -> Option<Value<'a>> {
        if !self.fixed.is_empty() {
            let (value, rest) = self.fixed.split_at_checked(self.field.kind.width()?)?;
            self.fixed = rest;
            return fixed(self.field.kind, value);
        }
        self.left = self.left.checked_sub(1)?;
        match self.nodes.get(self.at)? {
            Node::Next(next) => {
                let first = self.at.saturating_add(1);
                self.at = *next as usize;
                let layout = &self.field.layout;
                Some(Value::Fields(Fields::new(layout, self.nodes, first)))
            }
            node => {
                self.at = self.at.saturating_add(1);
                Some(match *node {
                    Node::Text(value) => Value::Text(value),
                    Node::Bytes(value) => Value::Bytes(value),
                    _ => Value::Null,
                })
            }
        }
    }
}

/// A value of a fixed width, at the start of `raw`.
pub(super) fn fixed(kind: Type, raw: &[u8]) -> Option<Value<'_>> {
    Some(match kind {
        Type::Bool => Value::Bool(*raw.first()? != 0),
        Type::Int8 => Value::Int(get_i8(raw, 0)?.into()),
        Type::Int16 => Value::Int(get_i16(raw, 0)?.into()),
        Type::Uint16 => Value::Int(u16::from_be_bytes(*bytes(raw, 0)?).into()),
        Type::Int32 => Value::Int(get_i32(raw, 0)?.into()),
        Type::Int64 => Value::Int(get_i64(raw, 0)?),
        Type::Float64 => Value::Float(f64::from_be_bytes(*bytes(raw, 0)?)),
        Type::Uuid => Value::Uuid(Uuid(u128::from_be_bytes(*bytes::<16>(raw, 0)?))),
        Type::String | Type::Bytes | Type::Struct => return None,
    })
}
