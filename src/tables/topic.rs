//! The internal topics, and how their records hold messages.
//!
//! | topic | key | value |
//! |---|---|---|
//! | `__consumer_offsets`, `__transaction_state`, `__share_group_state` | i16 kind, key message | i16 version, value message; null deletes |
//! | `__cluster_metadata`, `__remote_log_metadata` | none | uvarint 1, uvarint kind, uvarint version, message, and nothing after it |
//!
//! Other records, and those of a kind or version that the table does not have, are left undecoded.
//! Sources: `CoordinatorRecordSerde`, `AbstractApiMessageSerde`.

use super::decode::{DecodeFault, Root, Tree};
use super::json::{Style, put_message};
use super::messages::{Family, MessageSchema, RecordKind, Table};
use super::secrets;
use super::value::{Fields, Value};
use crate::error::Result;
use crate::format::cursor::get_i16;
use crate::format::file_name::CLUSTER_METADATA_TOPIC;
use crate::format::varint::get_uvarint;

/// First byte of a value in topics without keys.
pub(super) const FRAME_VERSION: u32 = 1;
/// The version in which every key is written.
pub(super) const KEY_VERSION: i16 = 0;
/// Bytes of a key's kind, and of a value's version.
const VERSION_BYTES: usize = 2;
/// The protocol type of consumers (`ConsumerProtocol.PROTOCOL_TYPE`).
const CONSUMER: &[u8] = b"consumer";
const KNOWN_KIND: &str = "a known kind of record";
const KNOWN_VERSION: &str = "a known version";

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

    pub(super) const fn family(self) -> Family {
        match self {
            Self::ConsumerOffsets => Family::Group,
            Self::TransactionState => Family::Transaction,
            Self::ShareGroupState => Family::Share,
            Self::ClusterMetadata => Family::Metadata,
            Self::RemoteLogMetadata => Family::Remote,
        }
    }

    /// Returns whether its records have keys.
    pub(crate) const fn is_keyed(self) -> bool {
        !matches!(self, Self::ClusterMetadata | Self::RemoteLogMetadata)
    }
}

/// Number of topics.
#[cfg(feature = "internal")]
pub const TOPICS: usize = Topic::ALL.len();

/// Decodes key and value of a record of one of the topics, secrets included, in both styles; for tests.
///
/// # Errors
/// `Internal` where the table of messages is broken.
#[cfg(feature = "internal")]
pub fn as_json(topic: usize, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
    let mut decoder = MessageDecoder::new()?;
    let mut said = Vec::new();
    if let Some(topic) = Topic::ALL.get(topic) {
        let record = decoder.decode(*topic, key, value);
        for part in [&record.key, &record.value] {
            if let RecordPart::Message(message) = part {
                let (mut json, mut expanded) = (Vec::new(), Vec::new());
                let secrets = Show {
                    embedded: false,
                    ..Show::ALL
                };
                message.put_json(secrets, &mut json);
                message.put_json(Show::ALL, &mut expanded);
                said.extend([json, expanded]);
            }
        }
    }
    Ok(said)
}

/// A key or a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordPart<'t> {
    /// There is none.
    Null,
    /// A message.
    Message(Decoded<'t>),
    /// Bytes that are none.
    Raw(DecodeFault),
}

impl<'t> RecordPart<'t> {
    /// Its fields, if it is a message.
    pub(crate) const fn fields(&self) -> Option<Fields<'t>> {
        match self {
            Self::Message(message) => Some(message.fields),
            _ => None,
        }
    }
}

/// Options of showing a message as JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Show {
    /// Salts, keys, values of sensitive configurations.
    pub(crate) secrets: bool,
    /// Decodes what members of a classic consumer group wrote, instead of showing bytes.
    pub(crate) embedded: bool,
}

impl Show {
    /// As `kafka-dump-log` does.
    pub(crate) const ALL: Self = Self {
        secrets: true,
        embedded: true,
    };
}

/// A message, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'t> {
    message: &'static MessageSchema,
    version: i16,
    /// Fields of the message.
    pub(crate) fields: Fields<'t>,
}

impl Decoded<'_> {
    /// The version in which it was written.
    pub(crate) const fn version(&self) -> i16 {
        self.version
    }

    /// Appends it as Kafka's JSON.
    pub(crate) fn put_json(&self, show: Show, to: &mut Vec<u8>) {
        let mut style = Style::default();
        if !show.secrets {
            style.hidden = secrets::hidden(&self.message.name, self.fields);
        }
        style.expand = show.embedded
            && self.message.name == "GroupMetadataValue"
            && matches!(self.fields.get("protocolType"), Value::Text(CONSUMER));
        put_message(self.fields, self.version, style, to);
    }
}

/// A record, as far as it could be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodedRecord<'t> {
    /// Its kind, if it is known.
    pub(crate) kind: Option<&'static RecordKind>,
    /// The key's version, which is the number of the kind; `None` in topics without keys.
    pub(crate) key_version: Option<i16>,
    /// The value's version; `None` for a null value, and where it cannot be known.
    pub(crate) value_version: Option<i16>,
    pub(crate) key: RecordPart<'t>,
    pub(crate) value: RecordPart<'t>,
}

impl DecodedRecord<'_> {
    /// Kafka's name of its kind: `OffsetCommit`, `TOPIC_RECORD`.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.kind.map(|kind| kind.name.as_str())
    }
}

/// Decodes records; its memory serves one after the other.
#[derive(Debug)]
pub(crate) struct MessageDecoder<'a> {
    table: &'static Table,
    tree: Tree<'a>,
}

impl DecodeFault {
    /// Returns whether a newer Kafka may have written it: the kind of record or its version is not known.
    pub(crate) fn is_of_newer(&self) -> bool {
        [KNOWN_KIND, KNOWN_VERSION].contains(&self.expected)
    }
}

const fn fault(expected: &'static str, at: usize) -> DecodeFault {
    DecodeFault { expected, at }
}

/// A part that should not be there, or cannot be read.
fn unread(raw: Option<&[u8]>, expected: &'static str) -> Read {
    raw.map_or(Read::Null, |_| Read::Raw(fault(expected, 0)))
}

/// A part before its nodes can be lent.
enum Read {
    Null,
    Message(&'static MessageSchema, i16, Root),
    Raw(DecodeFault),
}

impl<'a> MessageDecoder<'a> {
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
    ) -> DecodedRecord<'_> {
        self.tree.clear();
        let mut record = DecodedRecord {
            kind: None,
            key_version: None,
            value_version: None,
            key: RecordPart::Null,
            value: RecordPart::Null,
        };
        let (key, value) = if topic.is_keyed() {
            self.keyed(topic, key, value, &mut record)
        } else {
            let framed = value.map(|value| {
                self.framed(topic, value, &mut record)
                    .unwrap_or_else(Read::Raw)
            });
            (unread(key, "no key"), framed.unwrap_or(Read::Null))
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
        record: &mut DecodedRecord<'_>,
    ) -> (Read, Read) {
        record.key_version = key.and_then(|key| get_i16(key, 0));
        record.kind = record
            .key_version
            .and_then(|number| self.table.kind(topic.family(), number));
        let Some(kind) = record.kind else {
            return (unread(key, KNOWN_KIND), unread(value, KNOWN_KIND));
        };
        let read_key = match (key, &kind.key) {
            (Some(raw), Some(message)) => self.read(message, KEY_VERSION, raw),
            (raw, _) => unread(raw, "no key"),
        };
        let Some(raw) = value else {
            return (read_key, Read::Null);
        };
        record.value_version = get_i16(raw, 0);
        let read_value = match record.value_version {
            Some(version) => self.read(&kind.value, version, raw),
            None => Read::Raw(fault("a version", 0)),
        };
        (read_key, read_value)
    }

    /// A message after its version; more bytes may follow, as for Kafka.
    fn read(&mut self, message: &'static MessageSchema, version: i16, raw: &'a [u8]) -> Read {
        if !message.valid.has(version) {
            return Read::Raw(fault(KNOWN_VERSION, 0));
        }
        let bytes = raw.get(VERSION_BYTES..).unwrap_or_default();
        match self.tree.read(message, version, bytes) {
            Ok((root, _)) => Read::Message(message, version, root),
            Err(fault) => Read::Raw(fault.after(VERSION_BYTES)),
        }
    }

    fn framed(
        &mut self,
        topic: Topic,
        raw: &'a [u8],
        record: &mut DecodedRecord<'_>,
    ) -> std::result::Result<Read, DecodeFault> {
        let mut at = 0;
        let mut next = |expected| {
            let read = get_uvarint(raw, &mut at);
            read.map(|number| (number, at))
                .ok_or_else(|| fault(expected, at))
        };
        if next("the version of a frame")?.0 != FRAME_VERSION {
            return Err(fault("frame version 1", 0));
        }
        let (number, _) = next("a kind of record")?;
        let number = i16::try_from(number).map_err(|_| fault(KNOWN_KIND, 1))?;
        let kind = self.table.kind(topic.family(), number);
        let kind = kind.ok_or_else(|| fault(KNOWN_KIND, 1))?;
        record.kind = Some(kind);
        let (version, start) = next("a version")?;
        let version = i16::try_from(version).map_err(|_| fault(KNOWN_VERSION, 2))?;
        record.value_version = Some(version);
        if !kind.value.valid.has(version) {
            return Err(fault(KNOWN_VERSION, 2));
        }
        let bytes = raw.get(start..).unwrap_or_default();
        let read = self.tree.read(&kind.value, version, bytes);
        let (root, end) = read.map_err(|fault| fault.after(start))?;
        if end == bytes.len() {
            Ok(Read::Message(&kind.value, version, root))
        } else {
            Err(fault("the end", start.saturating_add(end)))
        }
    }

    fn lend(&self, read: &Read) -> RecordPart<'_> {
        match *read {
            Read::Null => RecordPart::Null,
            Read::Raw(fault) => RecordPart::Raw(fault),
            Read::Message(message, version, root) => RecordPart::Message(Decoded {
                message,
                version,
                fields: self.tree.fields(root),
            }),
        }
    }
}
