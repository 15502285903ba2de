//! Selection of candidates by the options, and checks that the topics and partitions they name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;

use super::candidate::Candidate;
use super::options::{ByPartition, Ending, Partitions, PlanOptions, Starting, Timestamp};
use crate::error::{Error, Result};
use crate::format::file_name::{FolderName, FolderState, INTERNAL_TOPIC_PREFIX};
use crate::io::storage::Folder;
use crate::types::TopicPartition;

/// Number of names that an error lists.
const NAMES_LISTED: usize = 20;

/// Selects the candidates that the options choose.
pub(super) struct Chooser<'a> {
    options: &'a PlanOptions,
    pattern: Option<Regex>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(options: &'a PlanOptions) -> Result<Self> {
        let compiled = options.topic_pattern.as_ref().map(|pattern| {
            // The whole name must match, as with Java's `Matcher.matches`.
            Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
                // It draws the place over several lines; the last one says what is wrong.
                let drawn = error.to_string();
                let reason = drawn.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                Error::InvalidArgument(format!("topic pattern {pattern:?}: {reason}"))
            })
        });
        Ok(Self {
            options,
            pattern: compiled.transpose()?,
        })
    }

    /// The topics that must exist.
    fn named(&self) -> BTreeSet<&str> {
        let listed = self.options.topics.iter().flatten().map(String::as_str);
        let by_topic = match &self.options.partitions {
            Partitions::ByTopic(map) => Some(map.keys().map(String::as_str)),
            _ => None,
        };
        listed.chain(by_topic.into_iter().flatten()).collect()
    }

    pub(super) fn takes(&self, candidate: &Candidate) -> bool {
        let TopicPartition { topic, partition } = candidate.partition();
        let listed = self.options.topics.as_ref().map(|t| t.contains(topic));
        let matched = self.pattern.as_ref().map(|p| p.is_match(topic));
        let (by_topic, number) = match &self.options.partitions {
            Partitions::All => (None, true),
            Partitions::Numbers(numbers) => (None, numbers.contains(partition)),
            Partitions::ByTopic(map) => (
                Some(map.contains_key(topic)),
                map.get(topic).is_some_and(|n| n.contains(partition)),
            ),
        };
        let by_name = match (listed, matched) {
            (None, None) => {
                by_topic == Some(true)
                    || candidate.is_named
                    || !topic.starts_with(INTERNAL_TOPIC_PREFIX)
            }
            (listed, matched) => listed.unwrap_or(false) || matched.unwrap_or(false),
        };
        by_name && number
    }

    /// Checks that what was named exists.
    pub(super) fn check_named_exist(
        &self,
        candidates: &[Candidate],
        chosen: &[&Candidate],
        roots: &[Folder],
    ) -> Result<()> {
        let topics: BTreeSet<&str> = candidates
            .iter()
            .map(|c| c.partition().topic.as_str())
            .collect();
        if let Some(topic) = self.named().into_iter().find(|t| !topics.contains(t)) {
            let there = topics.iter().map(ToString::to_string);
            let found = listed(there.chain(roots.iter().flat_map(topics_not_listed)));
            let text = format!("no topic {topic:?} in these logs; found: {found}");
            return Err(Error::UnknownTopicOrPartition(text));
        }
        let partitions_there: BTreeSet<&TopicPartition> =
            chosen.iter().map(|c| c.partition()).collect();
        let numbers_there: BTreeSet<i32> = partitions_there.iter().map(|p| p.partition).collect();
        let missing = match &self.options.partitions {
            Partitions::All => None,
            Partitions::Numbers(numbers) => numbers
                .iter()
                .find(|n| !numbers_there.contains(n))
                .map(ToString::to_string),
            Partitions::ByTopic(map) => map
                .iter()
                .flat_map(|(topic, numbers)| {
                    numbers.iter().map(move |&n| TopicPartition::new(topic, n))
                })
                .find(|wanted| !partitions_there.contains(wanted))
                .map(|wanted| wanted.to_string()),
        };
        let Some(missing) = missing else {
            return Ok(());
        };
        if candidates
            .iter()
            .any(|c| c.partition().to_string() == missing)
        {
            let text = format!("partition {missing} belongs to a topic that is not selected");
            return Err(Error::InvalidArgument(text));
        }
        let named = self.named();
        let there = candidates
            .iter()
            .filter(|c| named.is_empty() || named.contains(c.partition().topic.as_str()))
            .map(|c| c.partition().to_string());
        let text = format!(
            "no partition {missing} in these logs; found: {}",
            listed(there)
        );
        Err(Error::UnknownTopicOrPartition(text))
    }
}

/// The topics in a log dir in a store, of which only the folders of the topics that were asked for were listed.
fn topics_not_listed(root: &Folder) -> Vec<String> {
    let Some(root) = root.names_only() else {
        return Vec::new();
    };
    let Ok(entries) = root.entries() else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| FolderName::parse(entry.ok()?.name()?));
    names
        .filter(|name| name.state == FolderState::Live)
        .map(|name| name.topic_partition.topic)
        .collect()
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(NAMES_LISTED);
    let first: Vec<String> = names.into_iter().take(NAMES_LISTED).collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

pub(super) fn no_duplicates(chosen: &[&Candidate]) -> Result<()> {
    let mut seen: BTreeMap<&TopicPartition, &Path> = BTreeMap::new();
    for candidate in chosen {
        if candidate.name.state != FolderState::Live {
            continue;
        }
        if let Some(first) = seen.insert(candidate.partition(), candidate.folder.path()) {
            return Err(Error::DuplicatePartition {
                partition: candidate.partition().to_string(),
                first: first.to_path_buf(),
                second: candidate.folder.path().to_path_buf(),
            });
        }
    }
    Ok(())
}

fn by_time(bound: Option<&Timestamp>) -> Option<&ByPartition> {
    match bound {
        Some(Timestamp::ByPartition(map)) => Some(map),
        _ => None,
    }
}

/// A bound for a partition that is not read is a mistake.
pub(super) fn name_only_chosen(options: &PlanOptions, chosen: &[&Candidate]) -> Result<()> {
    let starting = match &options.starting_offsets {
        Starting::Offsets(map) => Some(map),
        _ => None,
    };
    let ending = match &options.ending_offsets {
        Ending::Offsets(map) => Some(map),
        _ => None,
    };
    let bounds = [
        ("starting offsets", starting),
        ("ending offsets", ending),
        (
            "starting timestamps",
            by_time(options.starting_timestamp.as_ref()),
        ),
        (
            "ending timestamps",
            by_time(options.ending_timestamp.as_ref()),
        ),
    ];
    let there: BTreeSet<&TopicPartition> = chosen.iter().map(|c| c.partition()).collect();
    for (what, map) in bounds {
        let mut names = map.into_iter().flat_map(BTreeMap::keys);
        if let Some(wrong) = names.find(|name| !there.contains(name)) {
            let there = listed(there.iter().map(ToString::to_string));
            let text = format!("{what} name {wrong}, which is not read; selected are: {there}");
            return Err(Error::InvalidArgument(text));
        }
    }
    Ok(())
}
