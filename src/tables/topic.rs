//! The internal topics, and how their records hold messages.
//!
//! | topic | key | value |
//! |---|---|---|
//! | `__consumer_offsets`, `__transaction_state`, `__share_group_state` | i16 kind, key message | i16 version, value message; null deletes |
//! | `__cluster_metadata`, `__remote_log_metadata` | none | uvarint 1, uvarint kind, uvarint version, message, and nothing after it |
//!
//! What is no such record, or of a kind or version that the table does not have, stays as it is.
//! Sources: `CoordinatorRecordSerde`, `AbstractApiMessageSerde`.

use super::decode::{Root, Tree};
use super::json::put_message;
use super::messages::{Family, Kind, Message, Table};
use super::secrets;
use super::value::Fields;
use crate::error::Result;
use crate::format::cursor::get_i16;
use crate::format::file_name::CLUSTER_METADATA_TOPIC;
use crate::format::varint::get_uvarint;

/// What a value begins with in topics without keys.
const FRAME_VERSION: u32 = 1;
/// The version in which every key is written.
const KEY_VERSION: i16 = 0;

/// An internal topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Of the group coordinator.
    ConsumerOffsets,
    /// Of the transaction coordinator.
    TransactionState,
    /// Of the share coordinator.
    ShareGroupState,
    /// Of the controllers.
    ClusterMetadata,
    /// Of tiered storage.
    RemoteLogMetadata,
}

impl Topic {
    /// All, by name.
    pub(crate) const ALL: [Self; 5] = [
        Self::ClusterMetadata,
        Self::ConsumerOffsets,
        Self::RemoteLogMetadata,
        Self::ShareGroupState,
        Self::TransactionState,
    ];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ConsumerOffsets => "__consumer_offsets",
            Self::TransactionState => "__transaction_state",
            Self::ShareGroupState => "__share_group_state",
            Self::ClusterMetadata => CLUSTER_METADATA_TOPIC,
            Self::RemoteLogMetadata => "__remote_log_metadata",
        }
    }

    /// The one of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    const fn family(self) -> Family {
        match self {
            Self::ConsumerOffsets => Family::Group,
            Self::TransactionState => Family::Transaction,
            Self::ShareGroupState => Family::Share,
            Self::ClusterMetadata => Family::Metadata,
            Self::RemoteLogMetadata => Family::Remote,
        }
    }

    /// Whether its records have keys.
    pub(crate) const fn is_keyed(self) -> bool {
        !matches!(self, Self::ClusterMetadata | Self::RemoteLogMetadata)
    }
}

/// A key or a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'t> {
    /// There is none.
    Null,
    /// A message.
    Message(Decoded<'t>),
    /// Bytes that are none.
    Raw,
}

impl<'t> Part<'t> {
    /// Its fields, if it is a message.
    pub(crate) const fn fields(&self) -> Option<Fields<'t>> {
        match self {
            Self::Message(message) => Some(message.fields),
            _ => None,
        }
    }
}

/// A message, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'t> {
    message: &'static Message,
    version: i16,
    /// What it says.
    pub(crate) fields: Fields<'t>,
}

impl Decoded<'_> {
    /// Appends it as Kafka's JSON, secrets only where they are asked for.
    pub(crate) fn put_json(&self, secrets: bool, to: &mut Vec<u8>) {
        let hidden = if secrets {
            &[]
        } else {
            secrets::hidden(&self.message.name, self.fields)
        };
        put_message(self.fields, self.version, hidden, to);
    }
}

/// A record, as far as it could be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'t> {
    /// Its kind, if it is known.
    pub(crate) kind: Option<&'static Kind>,
    /// The key's version, which is the number of the kind; `None` in topics without keys.
    pub(crate) key_version: Option<i16>,
    /// The value's version; `None` for a null value, and where it cannot be known.
    pub(crate) value_version: Option<i16>,
    pub(crate) key: Part<'t>,
    pub(crate) value: Part<'t>,
}

impl Record<'_> {
    /// Kafka's name of its kind: `OffsetCommit`, `TOPIC_RECORD`.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.kind.map(|kind| kind.name.as_str())
    }
}

/// Decodes records; its memory serves one after the other.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    table: &'static Table,
    tree: Tree<'a>,
}

/// A part before its nodes can be lent.
enum Read {
    Null,
    Message(&'static Message, i16, Root),
    Raw,
}

impl<'a> Decoder<'a> {
    /// A new one.
    ///
    /// # Errors
    /// `Internal` where the table of messages is broken.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: Table::get()?,
            tree: Tree::default(),
        })
    }

    /// Decodes a record of `topic`.
    pub(crate) fn decode(
        &mut self,
        topic: Topic,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
    ) -> Record<'_> {
        self.tree.clear();
        let mut record = Record {
            kind: None,
            key_version: None,
            value_version: None,
            key: Part::Null,
            value: Part::Null,
        };
        let (key, value) = if topic.is_keyed() {
            self.keyed(topic, key, value, &mut record)
        } else {
            let framed =
                value.map(|value| self.framed(topic, value, &mut record).unwrap_or(Read::Raw));
            (
                key.map_or(Read::Null, |_| Read::Raw),
                framed.unwrap_or(Read::Null),
            )
        };
        record.key = self.lend(&key);
        record.value = self.lend(&value);
        record
    }

    fn keyed(
        &mut self,
        topic: Topic,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        record: &mut Record<'_>,
    ) -> (Read, Read) {
        record.key_version = key.and_then(|key| get_i16(key, 0));
        record.kind = record
            .key_version
            .and_then(|number| self.table.kind(topic.family(), number));
        let unread = |raw: Option<&'a [u8]>| raw.map_or(Read::Null, |_| Read::Raw);
        let Some(kind) = record.kind else {
            return (unread(key), unread(value));
        };
        let read_key = match (key, &kind.key) {
            (Some(raw), Some(message)) => self.read(message, KEY_VERSION, raw, 2),
            (raw, _) => unread(raw),
        };
        let Some(raw) = value else {
            return (read_key, Read::Null);
        };
        record.value_version = get_i16(raw, 0);
        let read_value = match record.value_version {
            Some(version) => self.read(&kind.value, version, raw, 2),
            None => Read::Raw,
        };
        (read_key, read_value)
    }

    /// A message of a known version behind `skipped` bytes; more bytes may follow, as for Kafka.
    fn read(
        &mut self,
        message: &'static Message,
        version: i16,
        raw: &'a [u8],
        skipped: usize,
    ) -> Read {
        if !message.valid.has(version) {
            return Read::Raw;
        }
        let bytes = raw.get(skipped..).unwrap_or_default();
        match self.tree.read(message, version, bytes) {
            Ok((root, _)) => Read::Message(message, version, root),
            Err(_) => Read::Raw,
        }
    }

    fn framed(&mut self, topic: Topic, raw: &'a [u8], record: &mut Record<'_>) -> Option<Read> {
        let mut at = 0;
        if get_uvarint(raw, &mut at)? != FRAME_VERSION {
            return None;
        }
        let api_key = i16::try_from(get_uvarint(raw, &mut at)?).ok()?;
        let kind = self.table.kind(topic.family(), api_key)?;
        record.kind = Some(kind);
        let version = i16::try_from(get_uvarint(raw, &mut at)?).ok()?;
        record.value_version = Some(version);
        if !kind.value.valid.has(version) {
            return None;
        }
        let bytes = raw.get(at..)?;
        let (root, end) = self.tree.read(&kind.value, version, bytes).ok()?;
        (end == bytes.len()).then_some(Read::Message(&kind.value, version, root))
    }

    fn lend(&self, read: &Read) -> Part<'_> {
        match *read {
            Read::Null => Part::Null,
            Read::Raw => Part::Raw,
            Read::Message(message, version, root) => Part::Message(Decoded {
                message,
                version,
                fields: self.tree.fields(root),
            }),
        }
    }
}
