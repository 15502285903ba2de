//! Schemas: the topic of a schema registry, `_schemas`, replayed as the registry replays it (`KafkaStore`,
//! `KafkaStoreMessageHandler`).
//!
//! | record | effect |
//! |---|---|
//! | SCHEMA | sets a version of a subject; with `deleted`, softly deletes it |
//! | a SCHEMA of an id that has another text in its context | none: the first one keeps the id |
//! | SCHEMA without a value | deletes a version for good |
//! | DELETE_SUBJECT | softly deletes the versions of a subject up to one |
//! | CLEAR_SUBJECT | deletes its softly deleted versions for good |
//! | CONTEXT | a context is searched for ids, or no longer |
//! | CONFIG, MODE, NOOP and others | none |
//!
//! A version is known by its subject and number, not by the bytes of its key: registries have written other orders of
//! fields, and compaction keeps one record of each. What was deleted for good is still listed while its record is there.
//! A record that is no JSON, or lacks what it needs, is left out, as the registry does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::value::RawValue;

use super::entries::{RawRecord, TableRecords};
use super::json::{BASE64, put_string};
use super::metadata_state::{AllRefused, RefusedRecord};
use crate::error::Result;
use crate::scan::lost::LostRange;
use crate::scan::plan::{PlanOptions, Starting, plan_scan};
use crate::scan::range::PartitionRange;
use crate::segment::reader::ReadOptions;
use crate::segment::skipping::OnCorrupt;
use crate::values::guid::Guid;
use crate::values::schemas::{
    Deletion, KeyFormat, RegisteredSchema, SchemaKind, SchemaReference, Schemas,
};

/// A replayed topic.
#[derive(Debug, Default)]
pub(crate) struct ReplayedSchemas {
    pub(crate) schemas: Schemas,
    /// Every change, in the order of the records, if they were asked for.
    pub(crate) history: Vec<RegisteredSchema>,
    /// Ids that have several texts.
    pub(crate) duplicates: Vec<String>,
    /// Records that a registry leaves out.
    pub(crate) refused: AllRefused,
    /// Ranges that were skipped as damaged.
    pub(crate) lost: Vec<LostRange>,
}

/// Plans to read `topic` below `paths`; where it may be missing, there may be nothing to read.
///
/// # Errors
/// As [`plan_scan`].
pub(crate) fn plan(
    paths: &[PathBuf],
    topic: &str,
    on_corrupt: OnCorrupt,
    allow_missing: bool,
) -> Result<Vec<PartitionRange>> {
    let options = PlanOptions {
        topics: Some([topic.to_owned()].into()),
        starting_offsets: Starting::Oldest,
        on_corrupt,
        allow_missing,
        ..PlanOptions::default()
    };
    plan_scan(paths, &options)
}

/// Replays planned ranges.
///
/// # Errors
/// Faults of reading; never of a record's content.
pub(crate) fn replay(
    ranges: Vec<PartitionRange>,
    on_corrupt: OnCorrupt,
    with_history: bool,
) -> Result<ReplayedSchemas> {
    let options = ReadOptions {
        on_corrupt,
        ..ReadOptions::default()
    };
    let mut entries = TableRecords::new(ranges, options);
    let mut state = SchemaState {
        history: with_history.then(Vec::new),
        ..SchemaState::default()
    };
    let mut refused = AllRefused::default();
    while entries.advance()? {
        let mut records = 0usize;
        let context = entries.context();
        for entry in entries.iter() {
            if let Err(reason) = state.apply(&entry) {
                refused.add(RefusedRecord {
                    segment: Arc::clone(&context.segment),
                    offset: entry.offset,
                    reason: format!("{}-{}: {reason}", context.topic, context.partition),
                    is_unknown: false,
                });
            }
            records = records.saturating_add(1);
        }
        entries.consume(records);
    }
    let contexts = state.contexts.into_iter().map(|(_, context)| context);
    let mut seen = BTreeSet::new();
    let contexts = contexts.filter(|context| seen.insert(context.clone()));
    Ok(ReplayedSchemas {
        schemas: Schemas::new(state.rows, contexts.collect()),
        history: state.history.unwrap_or_default(),
        duplicates: state.duplicates,
        refused,
        lost: entries.take_lost(),
    })
}

/// The fields of a JSON object, each as its text; of several by one name the last.
type Members<'a> = HashMap<String, &'a RawValue>;

fn field<'a, T: serde::Deserialize<'a>>(of: &Members<'a>, name: &str) -> Option<T> {
    serde_json::from_str(of.get(name)?.get()).ok()
}

/// The text of a member that is neither absent nor null.
fn json_of(of: &Members<'_>, name: &str) -> Option<String> {
    let text = of.get(name)?.get();
    (text != "null").then(|| text.to_owned())
}

/// The key's bytes as a registry of today writes them.
fn canonical_key(subject: &str, version: i32) -> Vec<u8> {
    let mut key = br#"{"keytype":"SCHEMA","subject":"#.to_vec();
    put_string(subject.as_bytes(), &mut key);
    key.extend_from_slice(format!(r#","version":{version},"magic":1}}"#).as_bytes());
    key
}

/// The schemas as they are now.
#[derive(Debug, Default)]
struct SchemaState {
    rows: Vec<RegisteredSchema>,
    /// Those that a registry holds, by subject and version.
    held: HashMap<String, BTreeMap<i32, usize>>,
    /// Those by context and id. All have the same text.
    owners: HashMap<(String, i64), Vec<usize>>,
    /// Rows whose id has another text, by subject and version.
    refused: HashMap<(String, i32), Vec<usize>>,
    /// Tenants and contexts.
    contexts: BTreeSet<(String, String)>,
    duplicates: Vec<String>,
    history: Option<Vec<RegisteredSchema>>,
}

impl SchemaState {
    /// Applies a record.
    ///
    /// # Errors
    /// Why a registry leaves it out.
    fn apply(&mut self, entry: &RawRecord<'_>) -> std::result::Result<(), &'static str> {
        const NO_KEY: &str = "a key that is no JSON object with a keytype";
        let key = entry.key.unwrap_or_default();
        let members: Members<'_> = serde_json::from_slice(key).map_err(|_| NO_KEY)?;
        let kind: String = field(&members, "keytype").ok_or(NO_KEY)?;
        let value: Option<Members<'_>> = match entry.value {
            None => None,
            Some(json) => {
                serde_json::from_slice(json).map_err(|_| "a value that is no JSON object")?
            }
        };
        match (&*kind, value) {
            ("SCHEMA", value) => {
                const NO_PLACE: &str = "a schema without a subject and a version";
                let subject: String = field(&members, "subject").ok_or(NO_PLACE)?;
                let version = field(&members, "version").ok_or(NO_PLACE)?;
                // `SchemaKey` takes 0 and 1.
                if !matches!(field(&members, "magic"), None | Some(0 | 1)) {
                    return Err("a schema whose key has a magic other than 0 and 1");
                }
                match value {
                    None => self.remove(&subject, version, entry),
                    Some(value) => self.put(subject, version, &value, entry)?,
                }
            }
            ("DELETE_SUBJECT", Some(value)) => {
                let to = field(&value, "version").zip(field(&value, "subject"));
                let (last, subject): (i32, String) =
                    to.ok_or("a deletion without a subject and a version")?;
                self.delete_subject(&subject, last, entry);
            }
            ("CLEAR_SUBJECT", Some(value)) => {
                let subject: String =
                    field(&value, "subject").ok_or("a deletion without a subject")?;
                let all = self.held.get(&subject).into_iter().flatten();
                let is_soft = |index: usize| {
                    let row = self.rows.get(index);
                    row.is_some_and(|row| row.deleted == Deletion::Soft)
                };
                let gone = all
                    .filter(|&(_, &index)| is_soft(index))
                    .map(|(&version, _)| version);
                for version in gone.collect::<Vec<_>>() {
                    self.remove(&subject, version, entry);
                }
            }
            ("CONTEXT", value) => {
                let context = field(&members, "context").ok_or("a context without a name")?;
                let place = (field(&members, "tenant").unwrap_or_default(), context);
                if value.is_some() {
                    self.contexts.insert(place);
                } else {
                    self.contexts.remove(&place);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn put(
        &mut self,
        subject: String,
        version: i32,
        value: &Members<'_>,
        entry: &RawRecord<'_>,
    ) -> std::result::Result<(), &'static str> {
        let id: i64 = field(value, "id").ok_or("a schema without an id")?;
        let text: Arc<str> = field::<String>(value, "schema")
            .ok_or("a schema without a text")?
            .into();
        let references: Vec<SchemaReference> = match json_of(value, "references") {
            Some(json) => {
                serde_json::from_str(&json).map_err(|_| "a schema with broken references")?
            }
            None => Vec::new(),
        };
        let (metadata, rule_set) = (json_of(value, "metadata"), json_of(value, "ruleSet"));
        let stored = field::<String>(value, "md5").and_then(|md5| BASE64.decode(md5).ok());
        let stored = stored.and_then(|md5| md5.try_into().ok()).map(Guid);
        let is_canonical = entry
            .key
            .is_some_and(|key| key == canonical_key(&subject, version));
        let row = RegisteredSchema {
            guid: Some(stored.unwrap_or_else(|| {
                Guid::of(&text, &references, metadata.as_deref(), rule_set.as_deref())
            })),
            kind: SchemaKind::of(field::<String>(value, "schemaType").as_deref()),
            id: Some(id),
            version,
            text,
            references,
            imports: Vec::new(),
            metadata,
            rule_set,
            deleted: if field(value, "deleted") == Some(true) {
                Deletion::Soft
            } else {
                Deletion::No
            },
            duplicate_of: None,
            key_format: if is_canonical {
                KeyFormat::Canonical
            } else {
                KeyFormat::Old
            },
            log_offset: entry.offset,
            log_timestamp: entry.timestamp,
            subject,
        };
        if let Some(history) = &mut self.history {
            history.push(row.clone());
        }
        self.hold(row, id);
        Ok(())
    }

    fn hold(&mut self, mut row: RegisteredSchema, id: i64) {
        let new = self.rows.len();
        let is_same = |other: &RegisteredSchema| other.id == row.id && other.text == row.text;
        let held = self
            .held
            .get(&row.subject)
            .and_then(|all| all.get(&row.version));
        let held = held
            .copied()
            .and_then(|index| Some((index, self.rows.get(index)?)));
        if let Some((index, _)) = held.filter(|(_, held)| is_same(held)) {
            self.set(index, row);
            return;
        }
        let owner_key = (row.context().to_owned(), id);
        let owners = self.owners.entry(owner_key).or_default();
        let first = owners
            .first()
            .and_then(|&index| Some((index, self.rows.get(index)?)));
        if let Some((index, first)) = first.filter(|(_, first)| first.text != row.text) {
            row.duplicate_of = Some(index);
            let place = (row.subject.clone(), row.version);
            let known = self.refused.entry(place).or_default();
            let again = known
                .iter()
                .find(|&&index| self.rows.get(index).is_some_and(is_same));
            if let Some(&again) = again {
                self.set(again, row);
                return;
            }
            self.duplicates.push(format!(
                "offset {}: {} version {} has id {id}, which is that of another schema, {} version {}: records of id \
                 {id} are decoded by the latter",
                row.log_offset, row.subject, row.version, first.subject, first.version
            ));
            known.push(new);
            self.rows.push(row);
            return;
        }
        owners.push(new);
        let held = held.map(|(index, _)| index);
        let places = self.held.entry(row.subject.clone()).or_default();
        places.insert(row.version, new);
        self.rows.push(row);
        // Another id or text was under this version, which the registry no longer has.
        if let Some(held) = held {
            self.forget(held);
        }
    }

    fn set(&mut self, index: usize, row: RegisteredSchema) {
        if let Some(place) = self.rows.get_mut(index) {
            *place = row;
        }
    }

    /// The row is only in the log from now on.
    fn forget(&mut self, index: usize) {
        let Some(row) = self.rows.get_mut(index) else {
            return;
        };
        row.deleted = Deletion::Hard;
        let key = row.id.map(|id| (row.context().to_owned(), id));
        if let Some(owners) = key.and_then(|key| self.owners.get_mut(&key)) {
            owners.retain(|&owner| owner != index);
        }
    }

    fn remove(&mut self, subject: &str, version: i32, entry: &RawRecord<'_>) {
        let held = self
            .held
            .get_mut(subject)
            .and_then(|all| all.remove(&version));
        let refused = self
            .refused
            .remove(&(subject.to_owned(), version))
            .unwrap_or_default();
        let known = held.or_else(|| refused.last().copied());
        self.note(known, subject, version, Deletion::Hard, entry);
        for index in held.into_iter().chain(refused) {
            self.forget(index);
        }
    }

    fn delete_subject(&mut self, subject: &str, last: i32, entry: &RawRecord<'_>) {
        let all = self.held.get(subject).into_iter();
        let all = all
            .flat_map(|all| all.range(..=last))
            .map(|(&version, &index)| (version, index));
        for (version, index) in all.collect::<Vec<_>>() {
            let row = self.rows.get_mut(index);
            if let Some(row) = row.filter(|row| row.deleted == Deletion::No) {
                row.deleted = Deletion::Soft;
                self.note(Some(index), subject, version, Deletion::Soft, entry);
            }
        }
    }

    /// Adds a deletion to the history.
    fn note(
        &mut self,
        row: Option<usize>,
        subject: &str,
        version: i32,
        deleted: Deletion,
        entry: &RawRecord<'_>,
    ) {
        let Some(history) = &mut self.history else {
            return;
        };
        let known = row.and_then(|index| self.rows.get(index)).cloned();
        let row = known.unwrap_or_else(|| RegisteredSchema {
            version,
            guid: None,
            ..RegisteredSchema::given(subject.to_owned(), SchemaKind::Avro, "")
        });
        history.push(RegisteredSchema {
            deleted,
            log_offset: entry.offset,
            log_timestamp: entry.timestamp,
            ..row
        });
    }
}
