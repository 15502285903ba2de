//! A log printed in pieces by several threads; the text is that of one.
//!
//! The caller's thread goes from header to header to see where pieces end, and writes their text in order. A piece of
//! few bytes may give a lot of text if its records compressed well: a thread that reaches [`Limits::most_kept`] gives
//! up, and the caller's thread prints that piece to its end without keeping it.

use std::cell::Cell;
use std::ops::Range;

use super::Options;
use super::findings::DumpFindings;
use super::log::{BatchPrinter, Sequence, headline};
use super::target::{DumpTarget, OpenFile};
use super::text::{TextOutput, put};
use super::walk::frame_at;
use crate::error::Result;
use crate::io::threads::processors;
use crate::segment::source::{Access, SegmentSource, WindowSize};
use crate::tools::threads::in_order;
use crate::types::Position;

/// More threads are kept waiting by the one that writes.
const MAX_THREADS: usize = 4;
/// Pieces that a log must have before it is worth a thread.
const LEAST_PIECES: u64 = 8;

/// Limits of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of batches, of the last one all.
    size: u64,
    /// Bytes of text that are kept.
    most_kept: usize,
}

impl Default for Limits {
    /// With its text a piece stays in the second-level cache.
    fn default() -> Self {
        Self {
            size: 256 << 10,
            most_kept: 16 << 20,
        }
    }
}

impl Limits {
    /// Returns whether so many bytes of a log are worth several threads.
    pub(super) const fn are_worth_it(self, bytes: u64) -> bool {
        bytes >= self.size.saturating_mul(LEAST_PIECES)
    }
}

/// Batches of a log, and what was printed of them.
#[derive(Debug, Default)]
struct DumpedPiece {
    range: Range<Position>,
    text: Vec<u8>,
    sequence: Sequence,
    findings: DumpFindings,
    /// End of the last whole batch, or the error that ended printing; `None` if the text is too long.
    reached: Option<Result<Position>>,
}

/// The batches of a `.log` or `.checkpoint`, and their records if requested.
///
/// # Errors
/// `CorruptRecord`, `InvalidRecord`, `UnsupportedFormat` where the real tool dies, `InvalidArgument` for a name without
/// its numbers, `Io`.
pub(super) fn dump_log(
    target: &DumpTarget,
    options: &Options,
    text: &mut TextOutput<'_>,
    findings: &mut DumpFindings,
) -> Result<()> {
    headline(target, text)?;
    let file = OpenFile::open(&target.path)?;
    let end = options.max_bytes.unwrap_or(u64::MAX).min(file.size);
    let mut batches = BatchPrinter::new(target, options);
    batches.follow(-1);
    let limits = Limits::default();
    let reached = if limits.are_worth_it(end) {
        dump_in_pieces(&file, end, batches, limits, text, findings)?
    } else {
        let mut log = file.read(Access::Records)?;
        batches.dump(&mut log, 0..end, text, findings)?
    };
    let trailing = end.saturating_sub(reached);
    if trailing > 0 && options.max_bytes.is_none() {
        findings.damaged = true;
        put!(
            text,
            "Found ",
            trailing,
            " invalid bytes at the end of ",
            target.name.as_str()
        );
        text.end_line()?;
    }
    Ok(())
}

/// Prints the batches of `file` up to `end` in pieces; returns where the last one ended.
///
/// # Errors
/// As [`dump_log`].
fn dump_in_pieces(
    file: &OpenFile,
    end: Position,
    mut batches: BatchPrinter<'_>,
    limits: Limits,
    text: &mut TextOutput<'_>,
    findings: &mut DumpFindings,
) -> Result<Position> {
    let worker = |_| Ok((file.read(Access::Records)?, batches.another()));
    let mut workers: Vec<(SegmentSource, BatchPrinter<'_>)> = (0..processors().min(MAX_THREADS))
        .map(worker)
        .collect::<Result<_>>()?;
    let mut ranges = PieceRanges::of(file, end, limits.size)?;
    // Where a file became shorter, the pieces after that are nothing.
    let (reached, has_ended) = (Cell::new(0), Cell::new(false));
    in_order(
        &mut workers,
        |(log, batches), piece: &mut DumpedPiece| {
            piece.print(log, batches, limits.most_kept);
            Ok(())
        },
        |spare: Option<DumpedPiece>| {
            let range = ranges.next().filter(|_| !has_ended.get());
            Ok(range.map(|range| DumpedPiece {
                range,
                ..spare.unwrap_or_default()
            }))
        },
        |piece| {
            if has_ended.get() {
                return Ok(());
            }
            let ended = if let Some(ended) = piece.reached.take() {
                text.write(&piece.text)?;
                batches.join(piece.sequence, findings);
                findings.join_log(&batches.target.absolute, &piece.findings);
                ended?
            } else {
                let mut log = file.read(Access::Records)?;
                batches.dump(&mut log, piece.range.clone(), text, findings)?
            };
            has_ended.set(ended < piece.range.end);
            reached.set(ended);
            Ok(())
        },
    )?;
    Ok(reached.get())
}

impl DumpedPiece {
    /// Prints the batches into its own memory.
    fn print(&mut self, log: &mut SegmentSource, batches: &mut BatchPrinter<'_>, most_kept: usize) {
        let mut buffer = std::mem::take(&mut self.text);
        buffer.clear();
        let mut text = TextOutput::kept(buffer, most_kept);
        self.findings = DumpFindings::default();
        let printed = batches.dump(log, self.range.clone(), &mut text, &mut self.findings);
        self.sequence = batches.take_sequence();
        if text.is_closed() {
            // Its memory is given back: one line may have made it very large.
            self.reached = None;
        } else {
            self.reached = Some(printed);
            self.text = text.into_buffer();
        }
    }
}

/// Ranges of the pieces of a log.
struct PieceRanges {
    log: SegmentSource,
    walk: WindowSize,
    position: Position,
    end: Position,
    size: u64,
}

impl PieceRanges {
    fn of(file: &OpenFile, end: Position, size: u64) -> Result<Self> {
        Ok(Self {
            log: file.read(Access::Records)?,
            walk: WindowSize::default(),
            position: 0,
            end,
            size,
        })
    }
}

impl Iterator for PieceRanges {
    type Item = Range<Position>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.position;
        if start >= self.end {
            return None;
        }
        while self.position.saturating_sub(start) < self.size {
            let Ok(Some(frame)) = frame_at(&mut self.log, self.position, self.end) else {
                // The thread that prints the piece meets the same error and reports it.
                self.position = self.end;
                break;
            };
            self.position = self.position.saturating_add(frame.size as u64);
            self.log.expect(self.walk.observe(frame.size));
        }
        Some(start..self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Text, the findings for the end, and how it ended.
    type Dumped = (String, String, String);

    /// Dumps a file, in pieces or by one thread.
    fn dumped(path: &Path, options: &Options, limits: Option<Limits>) -> Dumped {
        let target = DumpTarget::new(path);
        let file = OpenFile::open(path).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut findings = DumpFindings::default();
        let mut text = TextOutput::new(&mut out);
        let mut batches = BatchPrinter::new(&target, options);
        batches.follow(-1);
        let end = options.max_bytes.unwrap_or(u64::MAX).min(file.size);
        let ended = if let Some(limits) = limits {
            dump_in_pieces(&file, end, batches, limits, &mut text, &mut findings)
        } else {
            let mut log = file.read(Access::Records).unwrap();
            batches.dump(&mut log, 0..end, &mut text, &mut findings)
        };
        text.flush().unwrap();
        findings.report(&mut err).unwrap();
        let damaged = findings.damaged;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(&out), text(&err), format!("{damaged} {ended:?}"))
    }

    /// The logs that Kafka wrote for the tests.
    fn golden() -> Vec<PathBuf> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")];
        let mut logs = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|suffix| suffix == "log")
                    && path.metadata().unwrap().len() > 100
                {
                    logs.push(path);
                }
            }
        }
        logs.sort();
        assert!(logs.len() > 200, "{} logs", logs.len());
        logs
    }

    /// In pieces of one batch, of a few, and where hardly any text is kept.
    #[test]
    fn pieces_are_printed_as_one_thread_prints_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (mut errors, mut gaps) = (0, 0);
        for log in golden().iter().step_by(10) {
            let bytes = std::fs::read(log).unwrap();
            let path = folder.path().join(log.file_name().unwrap());
            // Whole, cut off, with a changed byte, and with a length that leads nowhere.
            for damage in 0..4 {
                let mut bytes = bytes.clone();
                let middle = bytes.len() / 2;
                match damage {
                    0 => {}
                    1 => bytes.truncate(middle),
                    2 => bytes[middle] ^= 0x40,
                    _ => bytes[8] = 0x7f,
                }
                std::fs::write(&path, &bytes).unwrap();
                for print_data_log in [true].into_iter().chain((damage == 0).then_some(false)) {
                    let options = Options {
                        print_data_log,
                        ..Options::default()
                    };
                    let expected = dumped(&path, &options, None);
                    errors += usize::from(expected.2.contains("Err"));
                    gaps += expected.1.lines().count();
                    for (size, most_kept) in [(1, 1 << 20), (3000, 1 << 20), (3000, 700)] {
                        let limits = Limits { size, most_kept };
                        let found = dumped(&path, &options, Some(limits));
                        assert_eq!(found, expected, "{log:?} {damage} {limits:?}");
                    }
                }
            }
        }
        assert!(errors > 5 && gaps > 20, "{errors} errors, {gaps} gaps");
    }
}
