//! Findings that are printed at the end, on the error stream (`DumpLogSegments.main`, `TimeIndexDumpErrors`).
//!
//! Kafka's tool keeps them in hash maps by absolute path and prints them in the maps' order, which is reproduced here
//! by the same hash.

use std::io::{self, Write};

use crate::format::varint::{get_varlong, put_varlong};
use crate::types::{Offset, TimestampMs};

/// Two numbers that should have agreed.
type Mismatch = (i64, i64);

/// Findings of one kind, by file in the order of their first.
#[derive(Debug)]
struct ByFile<T> {
    files: Vec<(String, T)>,
    /// As many as `java.util.HashMap` would have.
    buckets: usize,
}

impl<T> Default for ByFile<T> {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            buckets: 16,
        }
    }
}

impl<T: Default> ByFile<T> {
    fn add(&mut self, file: &str, add: impl FnOnce(&mut T)) {
        // `HashMap.computeIfAbsent` grows a table that is too full when it is next called.
        if self.files.len() > self.buckets.saturating_mul(3) / 4 {
            self.buckets = self.buckets.saturating_mul(2);
        }
        // The current file is the last one, unless it was named twice.
        let at = match self.files.last() {
            Some((name, _)) if name == file => self.files.len().checked_sub(1),
            _ => self.files.iter().position(|(name, _)| name == file),
        };
        if let Some((_, found)) = at.and_then(|at| self.files.get_mut(at)) {
            add(found);
        } else {
            let mut found = T::default();
            add(&mut found);
            self.files.push((file.to_owned(), found));
        }
    }

    /// In the order in which a `java.util.HashMap` goes through the names.
    fn in_javas_order(&self) -> Vec<&(String, T)> {
        let mask = u32::try_from(self.buckets.saturating_sub(1)).unwrap_or(u32::MAX);
        // `computeIfAbsent` puts what is new at the head of its bucket.
        let mut files: Vec<&(String, T)> = self.files.iter().rev().collect();
        files.sort_by_key(|(name, _)| bucket_hash(name) & mask);
        files
    }
}

/// `String.hashCode`, spread as `HashMap` does.
fn bucket_hash(name: &str) -> u32 {
    let hash = name.encode_utf16().fold(0u32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(unit))
    });
    hash ^ (hash >> 16)
}

/// Pairs of offsets as differences, a few bytes each: a compacted log has as many gaps as records.
#[derive(Debug, Default)]
struct Gaps {
    bytes: Vec<u8>,
    last: Offset,
    unordered: bool,
}

impl Gaps {
    fn push(&mut self, from: Offset, to: Offset) {
        self.unordered |= !self.bytes.is_empty() && from <= self.last;
        put_varlong(from.wrapping_sub(self.last), &mut self.bytes);
        put_varlong(to.wrapping_sub(from), &mut self.bytes);
        self.last = from;
    }

    fn pairs(&self) -> impl Iterator<Item = Mismatch> {
        let (mut at, mut last) = (0, 0i64);
        std::iter::from_fn(move || {
            let from = last.wrapping_add(get_varlong(&self.bytes, &mut at)?);
            let to = from.wrapping_add(get_varlong(&self.bytes, &mut at)?);
            last = from;
            Some((from, to))
        })
    }
}

/// Everything found so far.
#[derive(Debug, Default)]
pub(super) struct DumpFindings {
    index_mismatches: ByFile<Vec<Mismatch>>,
    time_mismatches: ByFile<Vec<Mismatch>>,
    out_of_order: ByFile<Vec<Mismatch>>,
    not_found: ByFile<Vec<Mismatch>>,
    gaps: ByFile<Gaps>,
    /// Something says that the data is damaged.
    pub(super) damaged: bool,
}

impl DumpFindings {
    /// An index entry's batch ends with another offset.
    pub(super) fn index_mismatch(&mut self, file: &str, index: Offset, log: Offset) {
        self.damaged = true;
        self.index_mismatches.add(file, |f| f.push((index, log)));
    }

    /// A time entry's batch has another largest timestamp.
    pub(super) fn time_mismatch(&mut self, file: &str, index: TimestampMs, log: TimestampMs) {
        self.damaged = true;
        self.time_mismatches.add(file, |f| f.push((index, log)));
    }

    /// A time entry is not later than the one before.
    pub(super) fn out_of_order(&mut self, file: &str, time: TimestampMs, previous: TimestampMs) {
        self.damaged = true;
        self.out_of_order.add(file, |f| f.push((time, previous)));
    }

    /// A time entry's offset ends no batch; `log` is what was found in its place, -1 nothing.
    pub(super) fn not_found(&mut self, file: &str, index: Offset, log: Offset) {
        self.damaged = true;
        self.not_found.add(file, |f| f.push((index, log)));
    }

    /// A record does not follow the one before it. A gap is what compaction and a log's start leave; a step back is
    /// damage.
    pub(super) fn gap(&mut self, file: &str, from: Offset, to: Offset) {
        self.damaged |= to <= from;
        self.gaps.add(file, |f| f.push(from, to));
    }

    /// Adds what was found in a later part of a log.
    pub(super) fn join_log(&mut self, file: &str, later: &Self) {
        self.damaged |= later.damaged;
        for (_, gaps) in &later.gaps.files {
            for (from, to) in gaps.pairs() {
                self.gap(file, from, to);
            }
        }
    }

    /// Writes them all, in Kafka's words and order.
    pub(super) fn report(&self, err: &mut dyn Write) -> io::Result<()> {
        for (file, found) in self.index_mismatches.in_javas_order() {
            writeln!(err, "Mismatches in :{file}")?;
            for (index, log) in sorted(found.iter().copied()).into_iter().rev() {
                writeln!(err, "  Index offset: {index}, log offset: {log}")?;
            }
        }
        for (file, found) in self.time_mismatches.in_javas_order() {
            writeln!(err, "Found timestamp mismatch in :{file}")?;
            for (index, log) in found {
                writeln!(err, "  Index timestamp: {index}, log timestamp: {log}")?;
            }
        }
        for (file, found) in self.out_of_order.in_javas_order() {
            writeln!(err, "Found out of order timestamp in :{file}")?;
            for (time, previous) in found {
                writeln!(
                    err,
                    "  Index timestamp: {time}, Previously indexed timestamp: {previous}"
                )?;
            }
        }
        for (file, found) in self.not_found.in_javas_order() {
            writeln!(
                err,
                "The following indexed offsets are not found in :{file}"
            )?;
            for (index, log) in found {
                writeln!(err, "Indexed offset: {index}, found log offset: {log}")?;
            }
        }
        for (file, found) in self.gaps.in_javas_order() {
            writeln!(err, "Non-consecutive offsets in {file}")?;
            if found.unordered {
                for (from, to) in sorted(found.pairs()) {
                    writeln!(err, "  {from} is followed by {to}")?;
                }
            } else {
                for (from, to) in found.pairs() {
                    writeln!(err, "  {from} is followed by {to}")?;
                }
            }
        }
        Ok(())
    }
}

/// As a `TreeMap` would hold them: by the first number, the last one put in stays.
fn sorted(pairs: impl Iterator<Item = Mismatch>) -> Vec<Mismatch> {
    let mut pairs: Vec<Mismatch> = pairs.collect();
    pairs.sort_by_key(|pair| pair.0);
    pairs.reverse();
    // A stable sort reversed: of equal keys the last put in comes first, and stays.
    pairs.dedup_by_key(|pair| pair.0);
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: &DumpFindings) -> String {
        let mut err = Vec::new();
        findings.report(&mut err).unwrap();
        String::from_utf8(err).unwrap()
    }

    #[test]
    fn pairs_come_sorted_and_the_last_of_a_kind_stays() {
        let mut findings = DumpFindings::default();
        findings.index_mismatch("/a", 5, 1);
        findings.index_mismatch("/a", 7, 2);
        findings.index_mismatch("/a", 5, 3);
        findings.gap("/b", -1, 4);
        findings.gap("/b", 9, 3);
        findings.gap("/b", -1, 6);
        assert!(findings.damaged);
        assert_eq!(
            report(&findings),
            "Mismatches in :/a\n  Index offset: 7, log offset: 2\n  Index offset: 5, log offset: 3\n\
             Non-consecutive offsets in /b\n  -1 is followed by 6\n  9 is followed by 3\n"
        );
    }

    /// Order in which OpenJDK 17's `HashMap.forEach` returns these names: 16, 32 and 64 buckets.
    #[test]
    fn files_come_in_javas_order() {
        for (count, times, expected) in [
            (5, 1, "1 0 4 3 2"),
            // Thirteen are too many for 16 buckets, which shows at the next call only.
            (13, 1, "6 1 10 0 7 9 8 4 3 2 12 11 5"),
            (13, 2, "6 7 8 4 2 11 5 1 10 0 9 3 12"),
            (14, 1, "6 7 8 4 2 11 5 1 10 0 13 9 3 12"),
            (
                30,
                2,
                "2 11 1 10 0 27 23 20 18 13 9 3 12 28 25 22 6 15 16 26 21 19 7 29 24 8 17 4 14 5",
            ),
        ] {
            let mut findings = ByFile::<()>::default();
            for n in 0..count {
                for _ in 0..times {
                    findings.add(&format!("/data/t-{}/{:020}.log", n % 3, n * 1000), |()| ());
                }
            }
            let order: Vec<String> = findings
                .in_javas_order()
                .iter()
                .map(|(name, ())| {
                    let number = name.rsplit('/').next().unwrap().trim_end_matches(".log");
                    (number.parse::<u64>().unwrap() / 1000).to_string()
                })
                .collect();
            assert_eq!(order.join(" "), expected);
        }
    }

    #[test]
    fn a_gap_alone_is_no_damage() {
        let mut findings = DumpFindings::default();
        findings.gap("/b", -1, 4);
        findings.gap("/b", 9, 12);
        assert!(!findings.damaged);
        assert_eq!(
            report(&findings),
            "Non-consecutive offsets in /b\n  -1 is followed by 4\n  9 is followed by 12\n"
        );
    }
}
