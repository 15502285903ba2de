//! Search: the records whose value, key or headers match a pattern.
//!
//! A chunk's records lie behind each other in the same bytes, and a field's bytes are contiguous. So the literals that
//! every match has ([`BytePattern::find_candidate`]) are looked for in the bytes of the whole chunk at once, across
//! fields and records. Only the record in which one begins is matched field by field, which also rejects what spans two
//! of them. A chunk in which none is found has no match.
//!
//! Records are located all the same ([`super::walk`]): damage is found as without a search.

mod pattern;

use std::sync::Arc;

use self::pattern::{BytePattern, PatternCache};
use super::RecordSlot;
use super::chunk::Chunk;
use crate::error::{Error, Result};

/// Parts of a record that are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchedFields {
    pub(crate) value: bool,
    pub(crate) key: bool,
    /// Names and values of them.
    pub(crate) headers: bool,
}

impl SearchedFields {
    fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self> {
        let mut fields = Self::default();
        for name in names {
            match name.as_ref() {
                "value" => fields.value = true,
                "key" => fields.key = true,
                "headers" => fields.headers = true,
                other => {
                    let text =
                        format!("search_in: expected value, key or headers, found '{other}'");
                    return Err(Error::InvalidArgument(text));
                }
            }
        }
        if fields == Self::default() {
            let text = "search_in: name at least one of value, key and headers";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        Ok(fields)
    }
}

/// Records that are wanted for what is in them.
#[derive(Debug)]
pub struct RecordSearch {
    /// Matched within a field, never across two.
    pattern: BytePattern,
    /// Records with a match in any of these are wanted. A field that is null has none.
    fields: SearchedFields,
    /// The others are wanted.
    is_inverted: bool,
}

impl RecordSearch {
    /// A search for a literal, or for a regular expression, in some of the fields `value`, `key` and `headers`.
    ///
    /// # Errors
    /// `InvalidArgument` for two patterns, one that cannot be parsed, and no or unknown fields.
    pub fn parse<S: AsRef<str>>(
        containing: Option<&[u8]>,
        matching: Option<&str>,
        search_in: &[S],
    ) -> Result<Option<Self>> {
        let pattern = match (containing, matching) {
            (None, None) => return Ok(None),
            (Some(bytes), None) => BytePattern::literal(bytes),
            (None, Some(expression)) => BytePattern::expression(expression)?,
            (Some(_), Some(_)) => {
                let text = "give one of containing and matching, not both";
                return Err(Error::InvalidArgument(text.to_owned()));
            }
        };
        Ok(Some(Self {
            pattern,
            fields: SearchedFields::parse(search_in)?,
            is_inverted: false,
        }))
    }

    /// Wants the records that do not match.
    #[must_use]
    pub fn inverted(mut self, is_inverted: bool) -> Self {
        self.is_inverted = is_inverted;
        self
    }

    /// The fields that are searched.
    pub(crate) const fn fields(&self) -> SearchedFields {
        self.fields
    }

    /// Inverts the search: records that do not match are wanted.
    pub(crate) const fn is_inverted(&self) -> bool {
        self.is_inverted
    }
}

/// Search with the memory for it, of one thread.
#[derive(Debug)]
pub(crate) struct Searcher {
    search: Arc<RecordSearch>,
    cache: PatternCache,
    /// Numbers of the records of a chunk that match.
    found: Vec<usize>,
}

impl Searcher {
    /// A search that has not begun.
    #[must_use]
    pub(crate) fn new(search: Arc<RecordSearch>) -> Self {
        Self {
            cache: search.pattern.cache(),
            search,
            found: Vec::new(),
        }
    }

    /// Drops the records that are not wanted from the chunk; returns how many.
    pub(crate) fn retain(&mut self, chunk: &mut Chunk) -> usize {
        self.find(chunk);
        let is_inverted = self.search.is_inverted;
        if self.found.is_empty() && !is_inverted {
            let dropped = chunk.slots().len();
            chunk.clear();
            return dropped;
        }
        let mut found = self.found.iter().copied().peekable();
        let mut row = 0usize;
        chunk.retain(|_| {
            let is_found = found.next_if_eq(&row).is_some();
            row = row.saturating_add(1);
            is_found != is_inverted
        })
    }

    /// Returns whether a field has a match; null has none.
    pub(crate) fn is_match(&mut self, field: Option<&[u8]>) -> bool {
        field.is_some_and(|field| self.search.pattern.is_match(&mut self.cache, field))
    }

    fn find(&mut self, chunk: &Chunk) {
        self.found.clear();
        let Some(bytes) = chunk.bytes() else {
            return;
        };
        let (bytes, mut records) = (bytes.as_slice(), chunk.slots());
        let Some(end) = records.last().map(|last| self.end_of(last, bytes)) else {
            return;
        };
        let pattern = &self.search.pattern;
        let mut row = 0usize;
        while let Some(first) = records.first() {
            let mut passed = 0usize;
            if pattern.has_candidates() {
                let Some(place) = pattern.find_candidate(bytes, start_of(first), end) else {
                    return;
                };
                // The last record that begins at or before it; what lies behind its fields belongs to none.
                if records.get(1).is_some_and(|next| start_of(next) <= place) {
                    passed = records
                        .partition_point(|record| start_of(record) <= place)
                        .saturating_sub(1);
                }
            }
            if let Some(record) = records.get(passed)
                && matches(&self.search, &mut self.cache, record, bytes)
            {
                self.found.push(row.saturating_add(passed));
            }
            let passed = passed.saturating_add(1);
            row = row.saturating_add(passed);
            records = records.get(passed..).unwrap_or_default();
        }
    }

    /// The end of the fields that are searched.
    fn end_of(&self, record: &RecordSlot, bytes: &[u8]) -> usize {
        let after =
            |start: u32, len: i32| place(start).saturating_add(place(len.max(0).unsigned_abs()));
        let fields = self.search.fields;
        if fields.headers && record.headers_count > 0 {
            let mut headers = record.headers(bytes);
            headers.by_ref().for_each(drop);
            headers.position()
        } else if fields.value {
            after(record.value_start, record.value_len)
        } else {
            after(record.key_start, record.key_len)
        }
    }
}

/// The place of a record's first field.
fn start_of(record: &RecordSlot) -> usize {
    place(record.key_start)
}

fn place(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Returns whether a field that is searched has a match.
fn matches(
    search: &RecordSearch,
    cache: &mut PatternCache,
    record: &RecordSlot,
    bytes: &[u8],
) -> bool {
    let RecordSearch {
        pattern, fields, ..
    } = search;
    let mut has_match =
        |field: Option<&[u8]>| field.is_some_and(|field| pattern.is_match(cache, field));
    (fields.value && has_match(record.value(bytes)))
        || (fields.key && has_match(record.key(bytes)))
        || (fields.headers
            && record.headers_count > 0
            && record
                .headers(bytes)
                .any(|header| has_match(Some(header.key)) || has_match(header.value)))
}

#[cfg(test)]
mod tests;
