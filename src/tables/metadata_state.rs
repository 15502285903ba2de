//! State of a metadata log, as far as it is needed to tell which of its records can be applied.
//!
//! | record | is refused (class of Kafka) |
//! |---|---|
//! | of an unknown type or version, or cut off | always (`MetadataRecordSerde`) |
//! | about an unknown topic or partition | `TopicsDelta`, `TopicDelta` |
//! | that creates a topic by a name that is illegal or taken, or a partition below 0 | a controller writes none |
//! | about a broker that is not registered, or under another epoch | `ClusterDelta.getBrokerOrThrow` |
//! | that removes an unknown ACL | `AclsDelta` |
//! | that begins a metadata transaction in another one, or ends none | `MetadataBatchLoader` |
//!
//! Records of a metadata transaction (KIP-866) count at its end, or never.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::entries::RawRecord;
use super::topic::{MessageDecoder, RecordPart, Topic};
use super::topics_image::{ABOUT_TOPICS, TopicChange, TopicsImage};
use super::value::Fields;
use crate::error::Result;
use crate::format::uuid::Uuid;
use crate::format::varint::get_uvarint;
use crate::types::Offset;

/// Most records that are named; of the others only their number is known.
const MOST_NAMED: usize = 1000;

/// A record that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedRecord {
    /// The file.
    pub(crate) segment: Arc<str>,
    pub(crate) offset: Offset,
    /// Description of the record, and the reason.
    pub(crate) reason: String,
    /// A newer Kafka than this build knows may have written it.
    pub(crate) is_unknown: bool,
}

impl fmt::Display for RefusedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offset {}: {}",
            self.segment, self.offset, self.reason
        )
    }
}

/// Records that cannot be applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllRefused {
    /// The first of them.
    pub(crate) named: Vec<RefusedRecord>,
    /// Number of records.
    pub(crate) count: u64,
    /// Offsets of the records, by file.
    places: HashMap<Arc<str>, HashSet<Offset>>,
}

impl AllRefused {
    /// Adds one.
    pub(super) fn add(&mut self, refused: RefusedRecord) {
        self.count = self.count.saturating_add(1);
        let places = self.places.entry(Arc::clone(&refused.segment)).or_default();
        places.insert(refused.offset);
        if self.named.len() < MOST_NAMED {
            self.named.push(refused);
        }
    }

    /// Returns whether this one is among them.
    pub(crate) fn has(&self, segment: &str, offset: Offset) -> bool {
        self.places
            .get(segment)
            .is_some_and(|offsets| offsets.contains(&offset))
    }
}

/// Effect of a record.
#[derive(Debug)]
enum ImageChange {
    Topics(TopicChange),
    Register(i32, i64),
    /// A broker with this epoch changes.
    Broker(i32, i64),
    Unregister(i32),
    Acl(Uuid),
    RemoveAcl(Uuid),
}

impl ImageChange {
    /// `None` where it is about something that may not be there, or that nothing depends on.
    fn of(record: &str, fields: Fields<'_>) -> Option<Self> {
        let number = |name| fields.get(name).narrow::<i32>();
        let epoch = |name| fields.get(name).int();
        Some(match record {
            "REGISTER_BROKER_RECORD" => Self::Register(number("brokerId")?, epoch("brokerEpoch")?),
            "BROKER_REGISTRATION_CHANGE_RECORD" => {
                Self::Broker(number("brokerId")?, epoch("brokerEpoch")?)
            }
            "FENCE_BROKER_RECORD" | "UNFENCE_BROKER_RECORD" => {
                Self::Broker(number("id")?, epoch("epoch")?)
            }
            // It is not compared with the epoch (`ClusterDelta.replay`).
            "UNREGISTER_BROKER_RECORD" => Self::Unregister(number("brokerId")?),
            "ACCESS_CONTROL_ENTRY_RECORD" => Self::Acl(fields.get("id").uuid()?),
            "REMOVE_ACCESS_CONTROL_ENTRY_RECORD" => Self::RemoveAcl(fields.get("id").uuid()?),
            name => Self::Topics(TopicChange::of(name, fields)?),
        })
    }
}

/// A record of a metadata transaction that has not ended.
#[derive(Debug)]
struct HeldRecord {
    name: &'static str,
    segment: Arc<str>,
    offset: Offset,
    change: ImageChange,
}

/// The state after some records.
#[derive(Debug, Default)]
pub(crate) struct MetadataState {
    pub(crate) topics: TopicsImage,
    /// Epochs by broker.
    brokers: BTreeMap<i32, i64>,
    acls: BTreeSet<Uuid>,
    open: Option<Vec<HeldRecord>>,
    pub(crate) refused: AllRefused,
    /// A record about topics could not be decoded: what they are is not known.
    pub(crate) has_lost_topics: bool,
}

impl MetadataState {
    /// Takes a record.
    ///
    /// # Errors
    /// `Internal` where the table of messages is broken.
    pub(crate) fn take(&mut self, entry: &RawRecord<'_>, segment: &Arc<str>) -> Result<()> {
        let mut decoder = MessageDecoder::new()?;
        let record = decoder.decode(Topic::ClusterMetadata, entry.key, entry.value);
        let name = record.name();
        let refuse = |reason: String, is_unknown| RefusedRecord {
            segment: Arc::clone(segment),
            offset: entry.offset,
            reason: match name {
                Some(name) => format!("{name}: {reason}"),
                None => reason,
            },
            is_unknown,
        };
        let (Some(name), RecordPart::Message(message)) = (name, &record.value) else {
            self.has_lost_topics |= name.is_some_and(|name| ABOUT_TOPICS.contains(&name));
            let (reason, is_unknown) = match &record.value {
                RecordPart::Raw(fault) if fault.is_of_newer() => {
                    let kind = entry
                        .value
                        .and_then(kind_of)
                        .map_or_else(String::new, |kind| format!("record type {kind}: "));
                    let version = record.value_version;
                    let shown = match (name, version) {
                        (Some(_), Some(version)) => format!("version {version}"),
                        _ => format!("{kind}it"),
                    };
                    (
                        format!("{shown} is not known to Kafka 4.4 and earlier"),
                        true,
                    )
                }
                RecordPart::Raw(fault) => {
                    let (expected, at) = (fault.expected, fault.at);
                    (
                        format!("byte {at} of the value: expected {expected}"),
                        false,
                    )
                }
                RecordPart::Null | RecordPart::Message(_) => {
                    ("expected a value, found none".into(), false)
                }
            };
            self.refused.add(refuse(reason, is_unknown));
            return Ok(());
        };
        match (name, self.open.is_some()) {
            ("BEGIN_TRANSACTION_RECORD", false) => self.open = Some(Vec::new()),
            ("BEGIN_TRANSACTION_RECORD", true) => {
                let reason = "the transaction before has not ended".to_owned();
                self.refused.add(refuse(reason, false));
            }
            ("ABORT_TRANSACTION_RECORD", true) => self.open = None,
            ("END_TRANSACTION_RECORD", true) => {
                for held in self.open.take().unwrap_or_default() {
                    self.apply(held);
                }
            }
            ("END_TRANSACTION_RECORD" | "ABORT_TRANSACTION_RECORD", false) => {
                let refused = refuse("no transaction is open".to_owned(), false);
                self.refused.add(refused);
            }
            (name, _) => {
                if let Some(change) = ImageChange::of(name, message.fields) {
                    let held = HeldRecord {
                        name,
                        segment: Arc::clone(segment),
                        offset: entry.offset,
                        change,
                    };
                    match &mut self.open {
                        Some(open) => open.push(held),
                        None => self.apply(held),
                    }
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, held: HeldRecord) {
        let applied = match held.change {
            ImageChange::Topics(change) => self.topics.apply(change),
            ImageChange::Register(broker, epoch) => {
                self.brokers.insert(broker, epoch);
                Ok(())
            }
            ImageChange::Broker(broker, epoch) => match self.brokers.get(&broker) {
                None => Err(format!("no broker {broker} is registered")),
                Some(&known) if known != epoch => Err(format!(
                    "epoch of broker {broker}: expected {known}, found {epoch}"
                )),
                Some(_) => Ok(()),
            },
            ImageChange::Unregister(broker) => {
                self.brokers.remove(&broker);
                Ok(())
            }
            ImageChange::Acl(id) => {
                self.acls.insert(id);
                Ok(())
            }
            ImageChange::RemoveAcl(id) if self.acls.remove(&id) => Ok(()),
            ImageChange::RemoveAcl(id) => Err(format!("no ACL has the id {id}")),
        };
        if let Err(reason) = applied {
            self.refused.add(RefusedRecord {
                segment: held.segment,
                offset: held.offset,
                reason: format!("{}: {reason}", held.name),
                is_unknown: false,
            });
        }
    }
}

/// The number of the record's type, after the version of the frame.
fn kind_of(value: &[u8]) -> Option<u32> {
    let mut at = 0;
    get_uvarint(value, &mut at)?;
    get_uvarint(value, &mut at)
}
