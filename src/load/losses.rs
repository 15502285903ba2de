//! Losses that loading would cause, found in its result.
//!
//! Indexes, checkpoints, markers and leftovers are hints. Kafka's loader trusts them more than batches, and cuts off
//! everything after a damaged batch. The result of a loading is compared with the original `.log` files: the whole
//! batches in bytes that the result lacks are counted ([`Resync`]). Unchanged files are not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use self::leftover::{Live, Replacement};
use super::loaded::LoadedLog;
use super::loader::Loader;
use super::loss::{Loss, behind_damage};
use super::note::Note;
use super::plan::Plan;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName, FileState, leading_offset};
use crate::io::overlay::content::ByteSource;
use crate::io::storage::{ReadFile, ReadFolder as _};
use crate::segment::resync::{Resync, ResyncItem};
use crate::types::{Offset, Position};

mod leftover;

/// The losses of one loading, those of one reason together.
#[derive(Debug, Default)]
struct Losses(Vec<Loss>);

impl Losses {
    fn add(&mut self, name: &str, batch: (Position, &BatchHeader), reason: &str) {
        let (position, header) = batch;
        let known = self.0.iter().position(|loss| loss.reason == reason);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            let loss = Loss::new(name, position, header, reason.to_owned());
            self.0.push(loss);
        }
        if let Some(loss) = self.0.get_mut(at) {
            loss.count(header);
        }
    }
}

/// Parts of a file that were there before and have a place in the result.
type KeptRanges = BTreeMap<Arc<str>, Vec<(u64, u64)>>;

impl Loader<'_> {
    /// The plan, with what would go.
    pub(super) fn into_plan_with_losses(mut self, outcome: Result<LoadedLog>) -> Result<Plan> {
        let losses = match &outcome {
            Ok(log) => self.losses(log)?,
            Err(_) => Vec::new(),
        };
        self.notes.extend(losses.iter().cloned().map(Note::Lost));
        let mut plan = self.into_plan(outcome);
        plan.losses = losses;
        Ok(plan)
    }

    /// Whole batches of the `.log` files that have no place in what was loaded.
    fn losses(&mut self, log: &LoadedLog) -> Result<Vec<Loss>> {
        let mut losses = Losses::default();
        let kept = self.kept();
        let end = FileKind::Log.suffix();
        let swap = format!("{end}{}", FileState::Swap.suffix());
        for (name, length) in self.folder.before() {
            let is_log = name.ends_with(end) || name.ends_with(&swap);
            let parts = kept.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            if is_log && !covers(parts, length) {
                self.count_missing(&name, length, parts, &mut losses)?;
            }
        }
        self.count_overlapped(&mut losses)?;
        self.count_hidden(log.log_end_offset, &mut losses)?;
        Ok(losses.0)
    }

    /// Counts batches that are not read, as the next segment, which was a leftover or follows one, begins below them.
    fn count_overlapped(&self, losses: &mut Losses) -> Result<()> {
        let lives = Live::all(&self.folder);
        for (live, next) in lives.iter().zip(lives.iter().skip(1)) {
            if !live.is_swap() && !next.is_swap() {
                continue;
            }
            let reason = format!("in {}, across the base of {}", live.source, next.source);
            let mut held = Replacement::by(next, &self.folder)?;
            let first = next.walk(&self.folder)?.first_whole()?;
            // Nothing before a segment that goes back is read, either.
            let goes_back = first.is_some_and(|first| first.base_offset < next.base_offset);
            let mut walk = live.walk(&self.folder)?;
            while let Some(step) = walk.next_step()? {
                let ResyncItem::Batch(position, header) = step else {
                    continue;
                };
                let is_beyond = header.last_offset() >= next.base_offset;
                if goes_back || (is_beyond && !held.holds(&header)?) {
                    losses.add(&live.source, (position, &header), &reason);
                }
            }
        }
        Ok(())
    }

    /// Bytes of the original files that are now in live `.log` files.
    fn kept(&self) -> KeptRanges {
        let mut kept = KeptRanges::new();
        for (name, content) in self.folder.files() {
            let is_live = FileName::parse(&name)
                .is_some_and(|name| (name.kind, name.state) == (FileKind::Log, FileState::Live));
            match content.source() {
                ByteSource::Base { name, from } if is_live => {
                    let parts = kept.entry(Arc::clone(name)).or_default();
                    parts.push((*from, from.saturating_add(content.kept())));
                }
                ByteSource::Parts { name, parts } if is_live => {
                    let ends = parts
                        .iter()
                        .map(|(at, length)| (*at, at.saturating_add(*length)));
                    kept.entry(Arc::clone(name)).or_default().extend(ends);
                }
                _ => {}
            }
        }
        for parts in kept.values_mut() {
            parts.sort_unstable();
        }
        kept
    }

    fn count_missing(
        &self,
        name: &str,
        length: u64,
        kept: &[(u64, u64)],
        losses: &mut Losses,
    ) -> Result<()> {
        let file = self.folder.origins().open(name)?;
        let base = leading_offset(name).unwrap_or_default();
        let mut replacement = Replacement::of(&self.folder, name)?;
        let reason = self.reason(name, kept, replacement.as_ref().map(Replacement::name));
        let mut walk = walk_all(file, length, base)?;
        while let Some(step) = walk.next_step()? {
            let ResyncItem::Batch(position, header) = step else {
                continue;
            };
            let is_kept = kept
                .iter()
                .any(|(from, to)| (*from..*to).contains(&position));
            if is_kept {
                continue;
            }
            let is_held = match &mut replacement {
                Some(replacement) => replacement.holds(&header)?,
                None => false,
            };
            if !is_held {
                losses.add(name, (position, &header), &reason);
            }
        }
        Ok(())
    }

    /// Place of the batches of a file that are lost, and the cause.
    fn reason(&self, name: &str, kept: &[(u64, u64)], replacement: Option<&str>) -> String {
        if let Some(by) = replacement {
            return format!("in {name}, which {by} would replace without containing them");
        }
        if FileName::parse(name).is_none() {
            return format!(
                "in {name}, which Kafka does not read: its name is not padded to 20 digits"
            );
        }
        let base = leading_offset(name);
        let of_file = self.notes.iter().find_map(|note| match note {
            Note::Deleted {
                base_offset,
                reason,
                ..
            } if Some(*base_offset) == base => Some(reason.clone()),
            Note::Dropped {
                base_offset,
                reason,
                ..
            } if Some(*base_offset) == base => Some(format!(
                "in segment {base_offset}, whose offsets go back: {reason}"
            )),
            Note::Recovered {
                base_offset,
                truncated: 1..,
                ..
            } if Some(*base_offset) == base => {
                let cut = kept.last().map_or(0, |(_, to)| *to);
                Some(behind_damage(*base_offset, cut))
            }
            _ => None,
        });
        of_file.unwrap_or_else(|| format!("in {name}, which loading would remove"))
    }

    /// Counts batches of the active segment after the log end, to which an unsound index has led.
    fn count_hidden(&mut self, log_end: Offset, losses: &mut Losses) -> Result<()> {
        let Some(active) = self.segments.active_mut() else {
            return Ok(());
        };
        if active.ends_whole(log_end)? {
            return Ok(());
        }
        let (base, name) = (active.base_offset(), active.name(FileKind::Log));
        let reason = format!("beyond offset {log_end}, where the offset index would end the log");
        let mut walk = walk_all(self.folder.open(&name)?, self.folder.length(&name), base)?;
        while let Some(step) = walk.next_step()? {
            match step {
                ResyncItem::Batch(position, header) if header.last_offset() >= log_end => {
                    losses.add(&name, (position, &header), &reason);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether bytes follow the last whole batch of the active segment.
    pub(super) fn is_torn(&mut self, log: &LoadedLog) -> Result<bool> {
        match self.segments.active_mut() {
            Some(active) => Ok(!active.ends_whole(log.log_end_offset)?),
            None => Ok(false),
        }
    }
}

/// Walks all batches of a `.log`, whatever their offsets.
fn walk_all(file: Arc<dyn ReadFile>, length: u64, base: Offset) -> Result<Resync> {
    Resync::within(file, length, (0, Offset::MAX.saturating_sub(1)), base)
}

fn covers(parts: &[(u64, u64)], length: u64) -> bool {
    let mut end = 0;
    for (from, to) in parts {
        if *from > end {
            return false;
        }
        end = end.max(*to);
    }
    end >= length
}
