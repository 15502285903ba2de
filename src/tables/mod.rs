//! Kafka's internal topics, decoded: every record of `__consumer_offsets`, `__transaction_state`,
//! `__share_group_state`, `__cluster_metadata` and `__remote_log_metadata`.
//!
//! | module | what |
//! |---|---|
//! | [`messages`] | the table of messages: names, types, versions |
//! | [`decode`] | bytes to values, by the table |
//! | [`encode`] | JSON to bytes, the inverse |
//! | [`node`], [`value`] | values in a tree, looked up by name |
//! | [`json`] | values as Kafka's JSON |
//! | [`secrets`] | secrets, which are hidden |
//! | [`topic`] | how the records of each topic hold messages |
//! | [`new_record`] | records made of messages, the inverse |
//! | [`new_snapshot`] | a snapshot of the metadata log from such records |
//! | [`metadata_log`] | selection of the snapshot from which a metadata log is replayed |
//! | [`metadata_state`] | the records that can be applied |
//! | [`topics_image`] | topics and partitions, as a metadata log has them |
//! | [`coverage`] | partitions of an internal topic that are present, out of how many |
//! | [`plan`] | the files to read |
//! | [`entries`] | their records, as bytes |
//! | [`reader`] | their records, decoded, as Arrow |
//! | [`offsets`] | committed offsets, replayed |
//! | [`offset_rows`] | those as Arrow |
//! | [`producers`] | producers by partition, which no internal topic holds |
//! | [`open_transactions`] | open transactions, and their state at the coordinators |
//! | [`schemas`] | schemas of a registry, which keeps them in a topic of its own, replayed |
//! | [`schema_rows`] | those as Arrow |
//!
//! # For tables with columns of their own
//! [`plan::plan`] finds the files, [`entries::TableRecords`] reads records with their batches,
//! [`topic::MessageDecoder`] decodes one at a time, and [`value::Fields::get`] gives a field by its name in Kafka's
//! JSON, or its default:
//!
//! ```text
//! let mut entries = Entries::new(plan(paths, Some(&topics))?, ReadOptions::default());
//! while entries.advance()? {
//!     let Some(topic) = entries.topic() else { continue };
//!     let mut decoder = Decoder::new()?;
//!     let mut records = 0;
//!     for entry in entries.iter() {                  // entry.header, .offset, .timestamp, .key, .value
//!         let record = decoder.decode(topic, entry.key, entry.value);
//!         if let (Some("OffsetCommit"), Some(key)) = (record.name(), record.key.fields()) {
//!             let group = key.get("group").text();                         // Option<Cow<str>>
//!             let partition = key.get("partition").narrow::<i32>();        // Option<i32>
//!             let offset = record.value.fields().map(|value| value.get("offset").int());  // None: a tombstone
//!         }
//!         if let (Some("GroupMetadata"), Some(value)) = (record.name(), record.value.fields()) {
//!             for member in value.get("members").items().filter_map(|member| member.fields()) {
//!                 let id = member.get("memberId").text();
//!             }
//!         }
//!         records += 1;
//!     }
//!     entries.consume(records);
//! }
//! ```

pub(crate) mod coverage;
pub(crate) mod decode;
mod encode;
pub(crate) mod entries;
pub(crate) mod json;
pub(crate) mod messages;
mod metadata_end;
pub(crate) mod metadata_log;
pub(crate) mod metadata_state;
pub(crate) mod new_record;
pub(crate) mod new_snapshot;
pub(crate) mod node;
pub(crate) mod offset_rows;
pub(crate) mod offsets;
pub(crate) mod open_transactions;
pub(crate) mod plan;
pub(crate) mod producers;
pub(crate) mod reader;
pub(crate) mod schema_rows;
pub(crate) mod schemas;
mod secrets;
pub(crate) mod topic;
pub(crate) mod topics_image;
pub(crate) mod value;
