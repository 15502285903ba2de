//! Decodes messages, by the table of [`super::messages`], as Kafka's generated classes read them
//! (`MessageDataGenerator`).
//!
//! | | plain encoding | flexible encoding (KIP-482) |
//! |---|---|---|
//! | string | i16 length | uvarint length + 1 |
//! | bytes, array | i32 length | uvarint length + 1 |
//! | null | length -1 | 0 |
//! | structure that may be null | i8, below 0 for null | the same; tagged: uvarint, 0 for null |
//! | end of a structure | | uvarint count of: uvarint tag, uvarint size, value |
//!
//! Integers are big-endian; an id has 16 bytes. Tags that a version does not know are skipped. A length is checked
//! against the remaining bytes before it is used. Bytes after a message are ignored.

use super::messages::{FieldLayout, MessageField, MessageSchema, Type};
use super::node::Node;
use super::value::{Fields, Value, fixed};
use crate::format::cursor::bytes;
use crate::format::varint::get_uvarint;

/// The longest string (`Short.MAX_VALUE`).
const MAX_STRING: usize = 0x7fff;

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodeFault {
    /// Expected content.
    pub(crate) expected: &'static str,
    /// Position in the bytes of the message.
    pub(crate) at: usize,
}

impl DecodeFault {
    /// The same, with `bytes` more before it.
    pub(crate) const fn after(mut self, bytes: usize) -> Self {
        self.at = self.at.saturating_add(bytes);
        self
    }
}

type MessageResult<T> = std::result::Result<T, DecodeFault>;

/// The place of a message's first field among the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    layout: &'static FieldLayout,
    first: usize,
}

/// Messages that were read, as nodes; its memory serves one record after the other.
#[derive(Debug, Default)]
pub(crate) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    /// Forgets what was read.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// A message that was read.
    pub(crate) fn fields(&self, root: Root) -> Fields<'_> {
        Fields::new(root.layout, &self.nodes, root.first)
    }

    /// Reads one version of a message from the start of `raw`, and says where it ends.
    ///
    /// # Errors
    /// What is not as it should be. Nodes of it may be left.
    pub(crate) fn read(
        &mut self,
        message: &'static MessageSchema,
        version: i16,
        raw: &'a [u8],
    ) -> MessageResult<(Root, usize)> {
        let mut reader = Reader {
            raw,
            at: 0,
            version,
            is_flexible: message.flexible.has(version),
            nodes: &mut self.nodes,
        };
        let first = reader.structure(&message.layout)?;
        let layout = &message.layout;
        Ok((Root { layout, first }, reader.at))
    }
}

struct Reader<'a, 'n> {
    raw: &'a [u8],
    at: usize,
    version: i16,
    is_flexible: bool,
    nodes: &'n mut Vec<Node<'a>>,
}

impl<'a> Reader<'a, '_> {
    const fn fault(&self, expected: &'static str) -> DecodeFault {
        DecodeFault {
            expected,
            at: self.at,
        }
    }

    fn take<const N: usize>(&mut self) -> MessageResult<&'a [u8; N]> {
        let taken = bytes::<N>(self.raw, self.at).ok_or_else(|| self.fault("more bytes"))?;
        self.at = self.at.saturating_add(N);
        Ok(taken)
    }

    fn slice(&mut self, len: usize) -> MessageResult<&'a [u8]> {
        let end = self.at.saturating_add(len);
        let slice = self.raw.get(self.at..end);
        let slice = slice.ok_or_else(|| self.fault("more bytes"))?;
        self.at = end;
        Ok(slice)
    }

    fn uvarint(&mut self) -> MessageResult<u32> {
        let read = get_uvarint(self.raw, &mut self.at);
        read.ok_or_else(|| self.fault("an unsigned varint"))
    }

    /// The length of bytes or an array, `None` for null.
    fn length(&mut self) -> MessageResult<Option<usize>> {
        let length = if self.is_flexible {
            let length = self.uvarint()?.cast_signed();
            length.wrapping_sub(1)
        } else {
            i32::from_be_bytes(*self.take()?)
        };
        Ok(usize::try_from(length).ok())
    }

    fn string(&mut self) -> MessageResult<Option<&'a [u8]>> {
        let length = if self.is_flexible {
            self.length()?
        } else {
            usize::try_from(i16::from_be_bytes(*self.take()?)).ok()
        };
        match length {
            Some(length) if length > MAX_STRING => {
                Err(self.fault("a string of at most 32767 bytes"))
            }
            Some(length) => self.slice(length).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a structure; returns the node of its first field.
    fn structure(&mut self, layout: &'static FieldLayout) -> MessageResult<usize> {
        let first = self.nodes.len();
        let end = first.saturating_add(layout.fields.len());
        self.nodes.resize(end, Node::Absent);
        for (n, field) in layout.fields.iter().enumerate() {
            if field.versions.has(self.version) && field.tag_in(self.version).is_none() {
                let node = self.field(field)?;
                self.set(first.saturating_add(n), node);
            }
        }
        if !self.is_flexible {
            return Ok(first);
        }
        let tags = self.uvarint()?.cast_signed();
        for _ in 0..tags {
            let (tag, size) = (self.uvarint()?, self.uvarint()?);
            let known = layout.fields.iter().position(|field| {
                field.versions.has(self.version) && field.tag_in(self.version) == Some(tag)
            });
            match known.and_then(|n| Some((n, layout.fields.get(n)?))) {
                Some((n, field)) => {
                    // As Kafka: its size is not examined.
                    let node = self.field(field)?;
                    self.set(first.saturating_add(n), node);
                }
                None => {
                    self.slice(size as usize)?;
                }
            }
        }
        Ok(first)
    }

    fn set(&mut self, at: usize, node: Node<'a>) {
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }

    fn field(&mut self, field: &'static MessageField) -> MessageResult<Node<'a>> {
        let node = if field.is_array {
            match self.length()? {
                Some(len) => Some(self.array(field, len)?),
                None => None,
            }
        } else {
            match field.kind {
                Type::String => self.string()?.map(Node::Text),
                Type::Bytes => match self.length()? {
                    Some(len) => Some(Node::Bytes(self.slice(len)?)),
                    None => None,
                },
                Type::Struct => {
                    let is_null = field.nullable.has(self.version)
                        && if field.tag_in(self.version).is_some() {
                            self.uvarint()?.cast_signed() <= 0
                        } else {
                            i8::from_be_bytes(*self.take()?) < 0
                        };
                    if is_null {
                        None
                    } else {
                        let first = self.structure(&field.layout)?;
                        Some(Node::Struct(self.place(first)?))
                    }
                }
                Type::Uuid => Some(Node::Uuid(self.take()?)),
                kind => Some(self.number(kind)?),
            }
        };
        match node {
            Some(node) => Ok(node),
            None if field.nullable.has(self.version) => Ok(Node::Null),
            None => Err(self.fault("a value that is not null")),
        }
    }

    fn number(&mut self, kind: Type) -> MessageResult<Node<'a>> {
        let raw = self.slice(kind.width().unwrap_or_default())?;
        Ok(match fixed(kind, raw) {
            Some(Value::Bool(value)) => Node::Bool(value),
            Some(Value::Int(value)) => Node::Int(value),
            Some(Value::Float(value)) => Node::Float(value),
            _ => Node::Absent,
        })
    }

    fn array(&mut self, field: &'static MessageField, len: usize) -> MessageResult<Node<'a>> {
        if len > self.raw.len().saturating_sub(self.at) {
            return Err(self.fault("no more elements than bytes"));
        }
        if let Some(width) = field.kind.width() {
            return Ok(Node::Fixed(self.slice(len.saturating_mul(width))?));
        }
        let first = self.place(self.nodes.len())?;
        for _ in 0..len {
            let at = self.nodes.len();
            self.nodes.push(Node::Null);
            let node = match field.kind {
                Type::String => self.string()?.map(Node::Text),
                Type::Struct => {
                    self.structure(&field.layout)?;
                    Some(Node::Next(self.place(self.nodes.len())?))
                }
                _ => match self.length()? {
                    Some(len) => Some(Node::Bytes(self.slice(len)?)),
                    None => None,
                },
            };
            let node = node.ok_or_else(|| self.fault("an element that is not null"))?;
            self.set(at, node);
        }
        let len = self.place(len)?;
        Ok(Node::Array { first, len })
    }

    /// A place among the nodes, or a number of them.
    fn place(&self, at: usize) -> MessageResult<u32> {
        u32::try_from(at).map_err(|_| self.fault("at most 2^32 values"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::uuid::Uuid;
    use crate::tables::messages::{Family, Table};
    use crate::tables::topic::{MessageDecoder, RecordPart, Topic};

    fn value_of(family: Family, api_key: i16) -> &'static MessageSchema {
        &Table::get().unwrap().kind(family, api_key).unwrap().value
    }

    /// A member with nested arrays and tags, byte by byte as KIP-482 has it.
    fn member() -> Vec<u8> {
        let mut raw = vec![0, 0, 0, 3, 0, 0, 0, 2, 1];
        // assignedPartitions: one, with a tag of its own and one that is unknown.
        raw.push(2);
        raw.extend([7; 16]);
        raw.extend([3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        raw.extend([2, 0, 5, 2, 0, 0, 0, 9, 77, 1, 0]);
        // partitionsPendingRevocation: none; no tags.
        raw.extend([1, 0]);
        raw
    }

    #[test]
    fn values_by_name() {
        let raw = member();
        let mut tree = Tree::default();
        let (root, end) = tree.read(value_of(Family::Group, 8), 0, &raw).unwrap();
        assert_eq!(end, raw.len());
        let fields = tree.fields(root);
        assert_eq!(fields.get("memberEpoch").narrow::<i32>(), Some(3));
        assert_eq!(fields.get("state").int(), Some(1));
        assert!(fields.get("no such field").is_null());
        assert_eq!(fields.get("partitionsPendingRevocation").items().count(), 0);
        let assigned: Vec<_> = fields.get("assignedPartitions").items().collect();
        let [one] = assigned.as_slice() else {
            panic!("{assigned:?}");
        };
        let one = one.fields().unwrap();
        let id = u128::from_be_bytes([7; 16]);
        assert_eq!(one.get("topicId").uuid(), Some(Uuid(id)));
        let ints = |name: &str| one.get(name).items().map(|v| v.int()).collect::<Vec<_>>();
        assert_eq!(ints("partitions"), [Some(1), Some(-1)]);
        assert_eq!(ints("assignmentEpochs"), [Some(9)]);
        // What has no such type.
        let state = fields.get("state");
        assert!(state.text().is_none() && state.bytes().is_none() && state.bool().is_none());
        assert!(
            !matches!(state, Value::Float(_)) && state.uuid().is_none() && state.fields().is_none()
        );
        assert_eq!((state.narrow::<u8>(), state.items().count()), (Some(1), 0));
    }

    #[test]
    fn what_a_version_does_not_have_is_its_default() {
        let value = [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let key = [0, 1, 0, 1, b'g', 0, 0, 0, 0, 0, 2];
        let mut decoder = MessageDecoder::new().unwrap();
        let record = decoder.decode(Topic::ConsumerOffsets, Some(&key), Some(&value));
        assert_eq!(record.name(), Some("OffsetCommit"));
        let (key, value) = (record.key.fields().unwrap(), record.value.fields().unwrap());
        assert_eq!(key.get("group").text().as_deref(), Some("g"));
        assert_eq!(value.get("offset").int(), Some(5));
        assert_eq!(value.get("leaderEpoch").int(), Some(-1));
        assert_eq!(value.get("topicId").uuid(), Some(Uuid::ZERO));
        // As Java reads it.
        assert_eq!(value.get("metadata").text().as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn cut_off_anywhere_it_is_no_message() {
        let raw = member();
        for end in 0..raw.len() {
            let mut tree = Tree::default();
            let cut = raw.get(..end).unwrap();
            let fault = tree.read(value_of(Family::Group, 8), 0, cut).unwrap_err();
            assert!(fault.at <= end, "{fault:?}");
        }
    }

    /// Memory follows the bytes, whatever length they state.
    #[test]
    fn lengths_that_lie() {
        // members: 2^31 - 1 of them, in the version without tags.
        let many = [
            &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            &[0x7f, 0xff, 0xff, 0xff][..],
        ];
        let mut tree = Tree::default();
        let fault = tree.read(value_of(Family::Group, 2), 0, &many.concat());
        assert_eq!(fault.unwrap_err().expected, "no more elements than bytes");
        // As many structures as bytes are left, none of which is whole.
        let mut raw = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        raw.extend(std::iter::repeat_n(0xff, 1 << 16));
        let mut tree = Tree::default();
        assert!(tree.read(value_of(Family::Group, 2), 0, &raw).is_err());
        assert!(tree.nodes.capacity() < 1000, "{}", tree.nodes.capacity());
        // Null where it may not be, and a string longer than Kafka's.
        let mut tree = Tree::default();
        let fault = tree.read(value_of(Family::Group, 2), 0, &[0xff, 0xff]);
        assert_eq!(fault.unwrap_err().expected, "a value that is not null");
        let long = [0x81, 0x80, 0x02];
        let fault = tree.read(value_of(Family::Metadata, 2), 0, &long);
        assert_eq!(
            fault.unwrap_err().expected,
            "a string of at most 32767 bytes"
        );
    }

    #[test]
    fn numbers_with_fractions_flags_and_bytes() {
        let quota = [&[1, 1, 2, b'k'], &1.5f64.to_be_bytes()[..], &[1, 0]].concat();
        let framed = [&[1, 14, 0], &quota[1..]].concat();
        let mut decoder = MessageDecoder::new().unwrap();
        let record = decoder.decode(Topic::ClusterMetadata, None, Some(&framed));
        let fields = record.value.fields().unwrap();
        assert!(matches!(fields.get("value"), Value::Float(1.5)));
        assert_eq!(fields.get("remove").bool(), Some(true));
        let scram = [1, 11, 0, 2, b'u', 1, 3, 1, 2, 1, 1, 0, 0, 0x10, 0, 0];
        let record = decoder.decode(Topic::ClusterMetadata, None, Some(&scram));
        let salt = record.value.fields().unwrap().get("salt").bytes();
        assert_eq!(salt, Some(&[1, 2][..]));
        assert!(matches!(record.key, RecordPart::Null));
        assert!(Table::get().unwrap().data("VotersRecord").is_ok());
    }
}
