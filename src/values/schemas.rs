//! Schemas, and the one that a payload is written under.
//!
//! They are those of a registry's topic, and those that the user gives. An id means a schema only together with the topic
//! and side of the record: every context of a registry has ids of its own.
//!
//! | rule | the schema has the id, and is |
//! |---|---|
//! | given | given by the user |
//! | subject | under `<topic>-<side>` in the default context, its newest version |
//! | context-subject | the same in a context that has a CONTEXT record |
//! | default-context | the first in the default context |
//! | other-context | the first in any context, where a registry would not look |
//! | hard-deleted | gone from the registry, but not from its topic |
//!
//! The first rule that finds one decides. Soft-deleted versions count; duplicates of an id, which a registry refuses
//! (`KafkaStoreMessageHandler`), never do.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::decoder::SchemaText;
use super::fault::{Cause, Undecoded};
use super::guid::Guid;
pub(crate) use super::guid::SchemaReference;
pub(crate) use super::registered::{
    DEFAULT_CONTEXT, Deletion, KeyFormat, RegisteredSchema, SchemaKind, Side, split_subject,
};

/// The rule that found a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FoundBy {
    Given,
    Subject,
    ContextSubject,
    DefaultContext,
    OtherContext,
    HardDeleted,
    Guid,
}

/// The id, GUID or topic that the user names a schema for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum GivenFor {
    /// Payloads with this id.
    Id(i64),
    /// Payloads with this GUID: Confluent's, or the UUID of a schema version of AWS Glue.
    Guid(Guid),
    /// Payloads of a topic, without any framing. `<topic>-key` and `<topic>-value` are for one side.
    Topic(String),
}

/// Index of a schema in its [`Schemas`].
pub(crate) type SchemaIndex = usize;

/// Schemas as they travel in plans.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SchemaSet {
    rows: Vec<RegisteredSchema>,
    contexts: Vec<String>,
    given: Vec<(GivenFor, SchemaIndex)>,
}

/// All schemas there are, with their look-ups.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "SchemaSet", into = "SchemaSet")]
pub(crate) struct Schemas {
    set: SchemaSet,
    given: HashMap<GivenFor, SchemaIndex>,
    by_id: HashMap<i64, Vec<SchemaIndex>>,
    by_guid: HashMap<Guid, Vec<SchemaIndex>>,
    /// By subject without its context.
    by_name: HashMap<String, Vec<SchemaIndex>>,
    /// The default one, those with a CONTEXT record, the others.
    contexts: Vec<String>,
    /// Contexts with a CONTEXT record, but for the default one.
    contexts_known: usize,
}

impl From<SchemaSet> for Schemas {
    fn from(set: SchemaSet) -> Self {
        let mut all = Self::new(set.rows, set.contexts);
        all.given = set.given.iter().cloned().collect();
        all.set.given = set.given;
        all
    }
}

impl From<Schemas> for SchemaSet {
    fn from(schemas: Schemas) -> Self {
        schemas.set
    }
}

impl Schemas {
    /// Creates the set of `rows`, in the order of their first records, and of the contexts that have a CONTEXT record, in
    /// the order in which they are searched.
    pub(crate) fn new(rows: Vec<RegisteredSchema>, contexts: Vec<String>) -> Self {
        let mut all = Self {
            contexts: vec![DEFAULT_CONTEXT.to_owned()],
            ..Self::default()
        };
        let known = contexts.iter().filter(|&each| each != DEFAULT_CONTEXT);
        all.contexts.extend(known.cloned());
        all.contexts_known = all.contexts.len().saturating_sub(1);
        all.set.contexts = contexts;
        let mut others: Vec<&str> = rows.iter().map(RegisteredSchema::context).collect();
        others.sort_unstable();
        others.dedup();
        let others = others
            .into_iter()
            .filter(|each| !all.contexts.iter().any(|known| known == each));
        let others: Vec<_> = others.map(str::to_owned).collect();
        all.contexts.extend(others);
        for row in rows {
            all.add(row);
        }
        all
    }

    /// Adds a schema; one of version 0 is found by its index alone.
    pub(crate) fn add(&mut self, row: RegisteredSchema) -> SchemaIndex {
        let index = self.set.rows.len();
        if row.duplicate_of.is_none() && row.version != 0 {
            if let Some(id) = row.id {
                self.by_id.entry(id).or_default().push(index);
            }
            if let Some(guid) = row.guid {
                self.by_guid.entry(guid).or_default().push(index);
            }
            let name = self.by_name.entry(row.name().to_owned());
            name.or_default().push(index);
        }
        self.set.rows.push(row);
        index
    }

    /// Adds a schema that the user gives; it comes before those of a registry.
    pub(crate) fn give(
        &mut self,
        to: GivenFor,
        kind: SchemaKind,
        text: &str,
        imports: Vec<(String, String)>,
    ) {
        let subject = match &to {
            GivenFor::Topic(topic) => topic.clone(),
            GivenFor::Id(_) | GivenFor::Guid(_) => String::new(),
        };
        let mut row = RegisteredSchema::given(subject, kind, text);
        row.imports = imports;
        match to {
            GivenFor::Id(id) => row.id = Some(id),
            GivenFor::Guid(guid) => row.guid = Some(guid),
            GivenFor::Topic(_) => {}
        }
        let index = self.add(row);
        self.given.insert(to.clone(), index);
        self.set.given.push((to, index));
    }

    /// The schema with the highest id that the user gave; of GUIDs, which have no order, the last one.
    pub(crate) fn last_given(&self) -> Option<SchemaIndex> {
        let given = self.set.given.iter();
        let ids = given.clone().filter_map(|(to, index)| match to {
            GivenFor::Id(id) => Some((*id, *index)),
            GivenFor::Guid(_) | GivenFor::Topic(_) => None,
        });
        let mut guids = given.filter(|(to, _)| matches!(to, GivenFor::Guid(_)));
        let by_id = ids.max().map(|(_, index)| index);
        by_id.or_else(|| guids.next_back().map(|(_, index)| *index))
    }

    /// All of them, in the order of their first records.
    pub(crate) fn rows(&self) -> &[RegisteredSchema] {
        &self.set.rows
    }

    /// The schema at `index`.
    pub(crate) fn get(&self, index: SchemaIndex) -> Option<&RegisteredSchema> {
        self.set.rows.get(index)
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.set.rows.is_empty()
    }

    /// Returns whether the user gave any by an id or GUID: payloads may then be framed as by Apicurio or AWS Glue.
    pub(crate) fn has_given_ids(&self) -> bool {
        self.given
            .keys()
            .any(|to| !matches!(to, GivenFor::Topic(_)))
    }

    /// The schema that the user gave for unframed payloads of this side of a topic.
    pub(crate) fn given_for(&self, topic: &str, side: Side) -> Option<SchemaIndex> {
        let names = [side.subject(topic), topic.to_owned()];
        let mut found = names
            .into_iter()
            .map(|name| self.given.get(&GivenFor::Topic(name)));
        found.find_map(Option::<&SchemaIndex>::copied)
    }

    /// The schema of an id in records of this topic, and how it was found.
    pub(crate) fn by_id(&self, id: i64, topic: &str, side: Side) -> Option<(SchemaIndex, FoundBy)> {
        if let Some(&index) = self.given.get(&GivenFor::Id(id)) {
            return Some((index, FoundBy::Given));
        }
        let subject = side.subject(topic);
        let rows = || {
            let all = self.by_id.get(&id).into_iter().flatten();
            all.filter_map(|&index| Some((index, self.get(index)?)))
        };
        let held = || rows().filter(|(_, row)| row.is_held());
        let own = |context: &String| {
            let is_own = |row: &RegisteredSchema| row.context() == context && row.name() == subject;
            let own = held().filter(|(_, row)| is_own(row));
            newest_of(own)
        };
        let (default, known) = self.contexts.split_first()?;
        let is_default =
            |(_, row): &(SchemaIndex, &RegisteredSchema)| row.context() == DEFAULT_CONTEXT;
        let first = |found: Option<(SchemaIndex, _)>, by| found.map(|(index, _)| (index, by));
        (own(default).map(|index| (index, FoundBy::Subject)))
            .or_else(|| {
                let mut known = known.iter().take(self.contexts_known);
                known
                    .find_map(own)
                    .map(|index| (index, FoundBy::ContextSubject))
            })
            .or_else(|| first(held().find(is_default), FoundBy::DefaultContext))
            .or_else(|| first(held().next(), FoundBy::OtherContext))
            .or_else(|| first(rows().find(is_default), FoundBy::HardDeleted))
            .or_else(|| first(rows().next(), FoundBy::HardDeleted))
    }

    /// The schema of a GUID in records of this topic, and how it was found: rather one that is not deleted, of the
    /// topic's subject, in the default context.
    pub(crate) fn by_guid(
        &self,
        guid: Guid,
        topic: &str,
        side: Side,
    ) -> Option<(SchemaIndex, FoundBy)> {
        if let Some(&index) = self.given.get(&GivenFor::Guid(guid)) {
            return Some((index, FoundBy::Given));
        }
        let subject = side.subject(topic);
        let all = self.by_guid.get(&guid).into_iter().flatten();
        let all = all.filter_map(|&index| Some((index, self.get(index)?)));
        let (index, row) = all.min_by_key(|(_, row)| {
            let is_default = row.context() == DEFAULT_CONTEXT;
            (!row.is_held(), row.name() != subject, !is_default)
        })?;
        let by = if row.is_held() {
            FoundBy::Guid
        } else {
            FoundBy::HardDeleted
        };
        Some((index, by))
    }

    /// The reader schema of a topic by default: the one that was given, or the newest version of its subject that is not
    /// deleted, in the first context that has one.
    pub(crate) fn newest(&self, topic: &str, side: Side) -> Option<SchemaIndex> {
        self.given_for(topic, side).or_else(|| {
            let subject = side.subject(topic);
            self.in_contexts(&subject, |row| row.deleted == Deletion::No)
        })
    }

    /// A version of a topic's subject, deleted or not.
    pub(crate) fn version(&self, topic: &str, side: Side, version: i32) -> Option<SchemaIndex> {
        let subject = side.subject(topic);
        let is_it = |row: &RegisteredSchema| row.version == version;
        self.in_contexts(&subject, |row| is_it(row) && row.is_held())
            .or_else(|| self.in_contexts(&subject, is_it))
    }

    fn in_contexts(
        &self,
        name: &str,
        is_it: impl Fn(&RegisteredSchema) -> bool,
    ) -> Option<SchemaIndex> {
        let named = || {
            let all = self.by_name.get(name).into_iter().flatten();
            all.filter_map(|&index| Some((index, self.get(index)?)))
        };
        self.contexts.iter().find_map(|context| {
            newest_of(named().filter(|(_, row)| row.context() == context && is_it(row)))
        })
    }

    /// The schema that `reference` names, in a schema of this context. It may be deleted.
    fn referred(&self, context: &str, reference: &SchemaReference) -> Option<SchemaIndex> {
        let (own, name) = split_subject(&reference.subject);
        let context = if name.len() == reference.subject.len() {
            context
        } else {
            own
        };
        let all = self.by_name.get(name)?.iter();
        let rows = all.filter_map(|&index| Some((index, self.get(index)?)));
        let rows = rows.filter(|(_, row)| row.context() == context);
        if reference.version < 1 {
            return newest_of(rows.filter(|(_, row)| row.deleted == Deletion::No));
        }
        let rows = rows.filter(|(_, row)| row.version == reference.version);
        let last = rows.max_by_key(|(index, row)| (row.is_held(), *index));
        last.map(|(index, _)| index)
    }

    /// The text of a schema, with those that it refers to, through others too.
    ///
    /// # Errors
    /// `BadSchema` where one of them is in no log, or needs itself.
    pub(crate) fn text(&self, index: SchemaIndex) -> Result<SchemaText<'_>, Undecoded> {
        let bad = |what: String| Undecoded::new(Cause::BadSchema, what);
        let schema = self
            .get(index)
            .ok_or_else(|| bad("no such schema".to_owned()))?;
        let imports = schema.imports.iter();
        let mut found = SchemaText {
            text: &schema.text,
            references: imports.map(|(name, text)| (&**name, &**text)).collect(),
        };
        // Depth first, without recursion: chains may be as long as the log.
        let mut listed: HashSet<(&str, SchemaIndex)> = HashSet::new();
        let (mut whole, mut open) = (HashSet::new(), HashSet::from([index]));
        let mut path = vec![(schema, index, schema.references.iter(), "")];
        while let Some((row, at, references, name)) = path.last_mut() {
            let Some(reference) = references.next() else {
                let (row, at, name) = (*row, *at, *name);
                path.pop();
                open.remove(&at);
                whole.insert(at);
                if !path.is_empty() && listed.insert((name, at)) {
                    found.references.push((name, &row.text));
                }
                continue;
            };
            let SchemaReference {
                name,
                subject,
                version,
            } = reference;
            let to = self.referred(row.context(), reference);
            let to = to.and_then(|to| Some((to, self.get(to)?)));
            let Some((to, its)) = to else {
                return Err(bad(format!(
                    "{row} refers to {subject} version {version} as {name:?}, which is not in the registry's topic"
                )));
            };
            if whole.contains(&to) {
                if listed.insert((name, to)) {
                    found.references.push((name, &its.text));
                }
            } else if open.insert(to) {
                path.push((its, to, its.references.iter(), name));
            } else {
                return Err(bad(format!("{row} and {its} refer to each other")));
            }
        }
        Ok(found)
    }
}

/// The highest version, of several the first.
fn newest_of<'a>(
    rows: impl Iterator<Item = (SchemaIndex, &'a RegisteredSchema)>,
) -> Option<SchemaIndex> {
    let newest = rows.min_by_key(|(_, row)| std::cmp::Reverse(row.version));
    newest.map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
