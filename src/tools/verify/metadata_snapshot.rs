//! `.checkpoint`, a snapshot of the metadata log (KIP-630): batches as in a `.log`, the first one a control batch with
//! SNAPSHOT_HEADER, the last one with SNAPSHOT_FOOTER.

use std::path::Path;

use super::finding::{BATCH_LEVEL, Finding, Findings, METADATA_SNAPSHOT, Severity, UNREADABLE};
use super::log::{self, CompanionFile, Reading};
use super::pool::VerifyPool;
use super::records::BatchCheck;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::ControlType;
use crate::format::record::Record;
use crate::io::storage::Folder;
use crate::records::control::MAX_CONTROL_BATCH;
use crate::segment::LogSegment;
use crate::segment::source::SegmentSource;
use crate::types::Position;

/// Suffix of the names (`Snapshots`).
pub(super) const SUFFIX: &str = ".checkpoint";
/// The records a controller starts from, up to 4.3.
pub(super) const BOOTSTRAP: &str = "bootstrap.checkpoint";

/// Returns whether a name is that of a snapshot: 20 digits of the end offset, a dash, 10 of the epoch.
#[must_use]
pub(super) fn is_name(name: &str) -> bool {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let stem = name.strip_suffix(SUFFIX);
    let parts = stem.and_then(|stem| stem.split_once('-'));
    parts.is_some_and(|(offset, epoch)| digits(offset, 20) && digits(epoch, 10))
}

/// The first and the last control record.
#[derive(Debug, Default)]
struct ControlRecords {
    first: Option<ControlType>,
    last: Option<ControlType>,
    is_begun: bool,
    is_damaged: bool,
}

impl CompanionFile for ControlRecords {
    fn batch(
        &mut self,
        position: Position,
        header: &BatchHeader,
        source: &mut SegmentSource,
        _findings: &mut Findings,
    ) -> Result<()> {
        let kinds = if header.is_control() && !header.is_legacy() {
            kinds(
                source.bytes(position, header.size.min(MAX_CONTROL_BATCH))?,
                header,
            )
        } else {
            None
        };
        if !self.is_begun {
            self.first = kinds.map(|(first, _)| first);
        }
        self.last = kinds.map(|(_, last)| last);
        self.is_begun = true;
        Ok(())
    }

    fn lost(&mut self, _: (Position, Position)) {
        self.is_damaged = true;
    }

    fn end(&mut self, _: Position, summary: &Summary, _: &mut Findings) {
        self.is_damaged |= summary.is_damaged;
    }
}

/// The kinds of the first and the last record of a control batch.
fn kinds(batch: &[u8], header: &BatchHeader) -> Option<(ControlType, ControlType)> {
    let (mut at, mut found) = (RECORD_BATCH_OVERHEAD, None);
    for _ in 0..header.records_count.unwrap_or_default() {
        let record = Record::parse(batch, at).ok()?;
        let kind = ControlType::parse(record.key.of(batch).unwrap_or_default()).ok()?;
        found = Some((found.map_or(kind, |(first, _)| first), kind));
        at = record.end;
    }
    found
}

/// Verifies a snapshot in `folder`.
///
/// # Errors
/// As [`log::check`].
pub(super) fn check(
    folder: &Path,
    name: &str,
    reading: Reading,
    threads: (&VerifyPool, &mut BatchCheck),
    findings: &mut Findings,
) -> Result<()> {
    let path = folder.join(name);
    let files = Folder::at(folder);
    let size = match files.stat(name) {
        Ok(stat) => stat.length,
        Err(error) if error.is_of_the_files() => {
            findings.add(Finding::of_error(UNREADABLE, &path, &error));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let segment = LogSegment::named(files, name.to_owned(), 0, size, 0);
    let mut frame = ControlRecords::default();
    let mut of_batches = Findings::default();
    log::check(
        &segment,
        reading,
        &mut [&mut frame],
        threads,
        &mut of_batches,
    )?;
    // What helps with a log's segment is useless here.
    for finding in of_batches.finish() {
        let is_readable = finding.code.severity < Severity::Error;
        let kept = [UNREADABLE, BATCH_LEVEL].contains(&finding.code);
        let code = if is_readable || kept {
            finding.code
        } else {
            METADATA_SNAPSHOT
        };
        findings.add(Finding { code, ..finding });
    }
    if frame.is_damaged {
        return Ok(());
    }
    let expected = [
        ("first record", ControlType::SnapshotHeader, frame.first),
        ("last record", ControlType::SnapshotFooter, frame.last),
    ];
    for (what, kind, found) in expected {
        if found != Some(kind) {
            let found = found.map_or("none", ControlType::name);
            let message = format!("{what}: expected {kind}, found {found}");
            findings.add(Finding::new(METADATA_SNAPSHOT, &path, message));
        }
    }
    Ok(())
}
