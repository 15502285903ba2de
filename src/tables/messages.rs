//! Kafka's message definitions: names, types and versions of all fields that are stored in its internal topics.
//!
//! They are data, in `messages.txt`, generated from the JSON in Kafka's jars by `tests/interop/messages.py`:
//!
//! ```text
//! group 1 OffsetCommitValue 0-4 4+       family, api key, name, versions, those in the flexible encoding
//!   offset int64                         a field: name, type
//!   leaderEpoch int32 3+ =-1             its versions, if not all; its default
//!   topicId uuid 4+ @0                   its tag
//!   members []struct                     an array of structures, whose fields are indented
//!     groupInstanceId string 3+ ? =null  may be null
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::node::Node;
use crate::error::{Error, Result};

/// The table itself.
const TEXT: &str = include_str!("messages.txt");
/// Spaces of one level of indentation.
const INDENT: usize = 2;

/// Writer of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// The group coordinator: `__consumer_offsets`.
    Group,
    /// The transaction coordinator: `__transaction_state`.
    Transaction,
    /// The share coordinator: `__share_group_state`.
    Share,
    /// The controller: `__cluster_metadata`.
    Metadata,
    /// Tiered storage: `__remote_log_metadata`.
    Remote,
    /// KRaft, into control records.
    Control,
    /// Members of consumer groups, into a group's metadata.
    Consumer,
}

/// Some consecutive versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    first: i16,
    last: i16,
}

impl Versions {
    const ALL: Self = Self {
        first: 0,
        last: i16::MAX,
    };
    const NONE: Self = Self { first: 1, last: 0 };

    /// Returns whether this is one of them.
    #[inline]
    pub(crate) const fn has(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// `3`, `1-2`, `4+` or `none`.
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let (first, last) = match text.strip_suffix('+') {
            Some(first) => (first.parse().ok()?, i16::MAX),
            None => match text.split_once('-') {
                Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
                None => (text.parse().ok()?, text.parse().ok()?),
            },
        };
        Some(Self { first, last })
    }
}

/// Type of a value, or of an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Struct,
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "uint16" => Self::Uint16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "struct" => Self::Struct,
            _ => return None,
        })
    }

    /// Bytes of every value, if all have as many.
    pub(crate) const fn width(self) -> Option<usize> {
        Some(match self {
            Self::Bool | Self::Int8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 => 4,
            Self::Int64 | Self::Float64 => 8,
            Self::Uuid => 16,
            Self::String | Self::Bytes | Self::Struct => return None,
        })
    }

    /// Value of a field that is absent and has no default.
    fn zero(self) -> Node<'static> {
        match self {
            Self::Bool => Node::Bool(false),
            Self::Float64 => Node::Float(0.0),
            Self::Uuid => Node::Uuid(&[0; 16]),
            Self::String => Node::Text(&[]),
            Self::Bytes => Node::Bytes(&[]),
            Self::Struct => Node::Absent,
            Self::Int8 | Self::Int16 | Self::Uint16 | Self::Int32 | Self::Int64 => Node::Int(0),
        }
    }
}

/// A field.
#[derive(Debug)]
pub(crate) struct MessageField {
    /// As in Kafka's JSON: `leaderEpoch`.
    pub(crate) name: String,
    /// `"leaderEpoch":`
    pub(crate) json_name: String,
    pub(crate) kind: Type,
    pub(crate) is_array: bool,
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    /// The tag, and in which versions it is tagged.
    pub(crate) tag: Option<(u32, Versions)>,
    /// Value if the field is absent.
    pub(crate) default: Node<'static>,
    /// Its own fields, if it is a structure or an array of structures.
    pub(crate) layout: FieldLayout,
}

impl MessageField {
    /// Its tag in this version.
    #[inline]
    pub(crate) fn tag_in(&self, version: i16) -> Option<u32> {
        self.tag
            .and_then(|(tag, versions)| versions.has(version).then_some(tag))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (name, kind) = (words.next()?, words.next()?);
        let (kind, is_array) = match kind.strip_prefix("[]") {
            Some(element) => (Type::parse(element)?, true),
            None => (Type::parse(kind)?, false),
        };
        let mut field = Self {
            name: name.to_owned(),
            json_name: format!("\"{name}\":"),
            kind,
            is_array,
            versions: Versions::ALL,
            nullable: Versions::NONE,
            tag: None,
            default: if is_array {
                Node::Array { first: 0, len: 0 }
            } else {
                kind.zero()
            },
            layout: FieldLayout::default(),
        };
        for word in words {
            let versions = |text: &str, own: Versions| match text {
                "" => Some(own),
                text => Versions::parse(text),
            };
            if let Some(text) = word.strip_prefix('?') {
                field.nullable = versions(text, field.versions)?;
            } else if let Some(text) = word.strip_prefix('@') {
                let (tag, tagged) = text.split_once(':').unwrap_or((text, ""));
                field.tag = Some((tag.parse().ok()?, versions(tagged, field.versions)?));
            } else if let Some(text) = word.strip_prefix('=') {
                field.default = match text {
                    "null" => Node::Null,
                    "true" => Node::Bool(true),
                    "false" => Node::Bool(false),
                    number => Node::Int(number.parse().ok()?),
                };
            } else {
                field.versions = Versions::parse(word)?;
            }
        }
        Some(field)
    }
}

/// The fields of a structure, in order.
#[derive(Debug, Default)]
pub(crate) struct FieldLayout {
    pub(crate) fields: Vec<MessageField>,
}

impl FieldLayout {
    /// The structure `depth` levels below this one that was begun last.
    fn last(&mut self, depth: usize) -> Option<&mut Self> {
        (0..depth).try_fold(self, |layout, _| {
            Some(&mut layout.fields.last_mut()?.layout)
        })
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct MessageSchema {
    /// Kafka's name for it.
    pub(crate) name: String,
    /// The versions there are.
    pub(crate) valid: Versions,
    /// Those in the flexible encoding (KIP-482).
    pub(crate) flexible: Versions,
    pub(crate) layout: FieldLayout,
}

/// Message that a coordinator or the controller writes as one record.
#[derive(Debug)]
pub(crate) struct RecordKind {
    /// Kafka's name of the record: `OffsetCommit`, or `TOPIC_RECORD` where records have no keys.
    pub(crate) name: String,
    /// The key; `None` where records have none.
    pub(crate) key: Option<MessageSchema>,
    pub(crate) value: MessageSchema,
}

/// All messages.
#[derive(Debug, Default)]
pub(crate) struct Table {
    kinds: BTreeMap<(Family, i16), RecordKind>,
    data: BTreeMap<String, MessageSchema>,
}

static TABLE: LazyLock<std::result::Result<Table, String>> = LazyLock::new(|| Table::parse(TEXT));

impl Table {
    /// The table.
    ///
    /// # Errors
    /// `Internal` where its text is broken, which a test rules out.
    pub(crate) fn get() -> Result<&'static Self> {
        TABLE.as_ref().map_err(Error::internal)
    }

    /// The kind of record that a family writes under this number.
    #[inline]
    pub(crate) fn kind(&self, family: Family, api_key: i16) -> Option<&RecordKind> {
        self.kinds.get(&(family, api_key))
    }

    /// The kind of record of this name that a family writes, with its number.
    pub(crate) fn named(&self, family: Family, name: &str) -> Option<(i16, &RecordKind)> {
        let mut kinds = self.kinds.iter().filter(|((of, _), _)| *of == family);
        kinds
            .find(|(_, kind)| kind.name == name)
            .map(|(&(_, api_key), kind)| (api_key, kind))
    }

    /// A message that is no record of a topic, by Kafka's name.
    ///
    /// # Errors
    /// `Internal` where there is none.
    pub(crate) fn data(&self, name: &str) -> Result<&MessageSchema> {
        let found = self.data.get(name);
        found.ok_or_else(|| Error::internal(format_args!("no message {name}")))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut table = Self::default();
        let mut keys: BTreeMap<(Family, i16), MessageSchema> = BTreeMap::new();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        for block in lines.chunk_by(|_, line| line.starts_with(' ')) {
            let fault = || format!("messages.txt: {}", block.join("\n"));
            let (family, api_key, message) = parse_message(block).ok_or_else(fault)?;
            let Some(api_key) = api_key else {
                table.data.insert(message.name.clone(), message);
                continue;
            };
            let place = (family, api_key);
            if message.name.ends_with("Key") {
                keys.insert(place, message);
                continue;
            }
            let (name, key) = if let Some(name) = message.name.strip_suffix("Value") {
                // The table has a kind's key before its value.
                (
                    name.to_owned(),
                    Some(keys.remove(&place).ok_or_else(fault)?),
                )
            } else {
                (upper_snake(&message.name), None)
            };
            let kind = RecordKind {
                name,
                key,
                value: message,
            };
            if table.kinds.insert(place, kind).is_some() {
                return Err(fault());
            }
        }
        Ok(table)
    }
}

/// A message's first line, and its fields.
fn parse_message(block: &[&str]) -> Option<(Family, Option<i16>, MessageSchema)> {
    let (head, fields) = block.split_first()?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let [family, api_key, name, valid, flexible] = *words.as_slice() else {
        return None;
    };
    let family = match family {
        "group" => Family::Group,
        "transaction" => Family::Transaction,
        "share" => Family::Share,
        "metadata" => Family::Metadata,
        "remote" => Family::Remote,
        "control" => Family::Control,
        "consumer" => Family::Consumer,
        _ => return None,
    };
    let api_key = match api_key {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    let mut message = MessageSchema {
        name: name.to_owned(),
        valid: Versions::parse(valid)?,
        flexible: Versions::parse(flexible)?,
        layout: FieldLayout::default(),
    };
    for line in fields {
        let depth = line.len().checked_sub(line.trim_start().len())? / INDENT;
        let layout = message.layout.last(depth.checked_sub(1)?)?;
        layout.fields.push(MessageField::parse(line)?);
    }
    Some((family, api_key, message))
}

/// `TOPIC_RECORD` of `TopicRecord`, as Kafka's generator spells the constants of `MetadataRecordType`.
fn upper_snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len().saturating_mul(2));
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_uppercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_parses_and_has_what_kafka_writes() {
        let table = Table::parse(TEXT).unwrap();
        let name = |family, key| table.kind(family, key).map(|kind| kind.name.as_str());
        assert_eq!(name(Family::Group, 0), Some("LegacyOffsetCommit"));
        assert_eq!(name(Family::Group, 1), Some("OffsetCommit"));
        assert_eq!(name(Family::Group, 23), Some("StreamsGroupTopology"));
        // Not given to anything.
        assert_eq!(name(Family::Group, 9), None);
        assert_eq!(name(Family::Group, 18), None);
        assert_eq!(name(Family::Transaction, 0), Some("TransactionLog"));
        assert_eq!(name(Family::Share, 1), Some("ShareUpdate"));
        assert_eq!(name(Family::Metadata, 2), Some("TOPIC_RECORD"));
        assert_eq!(name(Family::Metadata, 20), Some("NO_OP_RECORD"));
        let remote = name(Family::Remote, 0);
        assert_eq!(remote, Some("REMOTE_LOG_SEGMENT_METADATA_RECORD"));
        assert!(table.data("VotersRecord").is_ok());
        for kind in table.kinds.values() {
            let keyed = kind.value.name.ends_with("Value");
            assert_eq!(kind.key.is_some(), keyed, "{}", kind.name);
        }
    }

    #[test]
    fn a_field_with_everything() {
        let field = MessageField::parse("  elr []int32 2-3 ?3 @1:3 =null").unwrap();
        assert_eq!((field.name.as_str(), field.is_array), ("elr", true));
        assert!(!field.versions.has(1) && field.versions.has(2) && !field.versions.has(4));
        assert!(!field.nullable.has(2) && field.nullable.has(3));
        assert_eq!((field.tag_in(2), field.tag_in(3)), (None, Some(1)));
        assert_eq!(field.default, Node::Null);
        for broken in ["x", "x int33", "x int32 a", "x int32 @b", "x int32 =c"] {
            assert!(MessageField::parse(broken).is_none(), "{broken}");
        }
        assert!(Table::parse("group 1 OffsetCommitValue 0 none").is_err());
        assert!(Table::parse("group 1 X 0 none\n    too int32").is_err());
    }
}
