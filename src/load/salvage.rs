//! Keeps every batch that is whole and in order, if Kafka would not load the log or would discard batches.
//!
//! Before loading, the `.log` files in the plan are reduced to such batches, under the names they need, and other files
//! that keep Kafka from loading are set aside. Then the log is loaded as after an unclean stop with nothing flushed:
//! indexes, snapshots and epochs are rebuilt from the batches, by Kafka's own rules.
//!
//! [`Resync`](crate::segment::resync) decides which batches those are, as for reading past damage and for `verify`. Of
//! these, a batch whose records cannot be decoded is left out as well ([`decoding`]): what is kept can be read. So is
//! one of a magic above 2, which Kafka walks over but no reader decodes, and a batch without a transaction by a
//! producer that has one open: Kafka loads no log that holds both.

use std::collections::BTreeMap;
use std::sync::Arc;

use self::whole::{BatchesBetween, KeptBatches, LogFile, SalvagedSegment};
use super::loader::{Loader, is_index, txn_index_is_sound};
use super::note::Note;
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_epochs, parse_partition_metadata,
};
use crate::format::entry::index_room;
use crate::format::file_name::{FileKind, FileName, FileState, leading_offset};
use crate::io::overlay::content::{ByteSource, Content};
use crate::io::storage::{ReadFolder as _, Storage as _};
use crate::log::dir::text_limit;
use crate::log::epochs::LeaderEpochs;
use crate::log::swaps::{CountedLog, choose};
use crate::segment::resync::Lost;
use crate::segment::source::MAX_SEGMENT_SIZE;
use crate::segment::transactions::OpenTransactions;
use crate::types::Offset;

mod decoding;
mod whole;

/// Ranges of one `.log` that are named; beyond, their bytes are only counted.
const MOST_NAMED: usize = 10_000;
/// Suffix that is given to files with which Kafka does not start.
const UNREAD: &str = ".unread";

impl Loader<'_> {
    /// Makes the folder under plan one that Kafka loads without losing a batch.
    pub(super) fn salvage(&mut self) -> Result<()> {
        self.set_aside_names()?;
        self.set_aside_texts()?;
        self.discard_broken_indexes()?;
        self.discard_offset_and_time_indexes();
        self.remove_temporary_files()?;
        self.judge_swaps()?;
        self.swap_in(0..0)?;
        let logs = self.log_files()?;
        let mut floor = 0;
        let mut open = OpenTransactions::default();
        let mut made = Vec::new();
        for (at, log) in logs.iter().enumerate() {
            let later = logs.get(at.saturating_add(1)..).unwrap_or_default();
            // What claims the same place only adds to this one.
            let beside = later.partition_point(|next| next.base_offset <= log.base_offset);
            let ceiling = ceiling(later.get(beside..).unwrap_or_default());
            let batches = BatchesBetween {
                file: self.folder.open(&log.name)?,
                length: log.content.length(),
                floor,
                ceiling,
                base_offset: log.base_offset,
            };
            let room = index_room(self.config.segment_index_bytes);
            let settings = (self.settings.index_interval_bytes, room);
            let (kept, pieces) = batches.keep(log, &mut open, settings)?;
            self.note_lost(log, &kept);
            floor = kept.end;
            made.push(pieces);
        }
        // From the last to the first: a name that a segment gives up is free by the time another one takes it.
        for (log, pieces) in logs.iter().zip(made).rev() {
            self.replace(log, &pieces)?;
        }
        // Snapshots of what is lost go when the first segment is recovered, as all after its base do then.
        Ok(())
    }

    fn note_lost(&mut self, log: &LogFile, kept: &KeptBatches) {
        if kept.lost.is_empty() {
            return;
        }
        let named = kept.lost.iter().take(MOST_NAMED);
        self.notes.extend(named.map(|&lost| Note::LeftOut {
            name: log.name.clone(),
            lost,
        }));
        self.notes.push(Note::Salvaged {
            base_offset: log.base_offset,
            batches: kept.batches,
            lost: kept.lost.iter().map(Lost::bytes).sum(),
        });
    }

    fn set_aside(&mut self, name: &str, reason: &str) -> Result<()> {
        self.folder.rename(name, &format!("{name}{UNREAD}"))?;
        self.notes.push(Note::SetAside {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
        Ok(())
    }

    /// Files whose names Kafka cannot read an offset from.
    fn set_aside_names(&mut self) -> Result<()> {
        let names = self.folder.names();
        let cleaned = FileState::Cleaned.suffix();
        for name in names {
            let ends = [
                cleaned,
                FileState::Swap.suffix(),
                FileKind::Snapshot.suffix(),
            ];
            let is_read = is_index(&name) || ends.iter().any(|end| name.ends_with(end));
            if is_read && leading_offset(&name).is_none() {
                self.set_aside(&name, "its name does not begin with an offset")?;
            }
        }
        Ok(())
    }

    /// Indexes that Kafka cannot even open; all of them are rebuilt.
    pub(super) fn discard_broken_indexes(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        for name in folder.names().into_iter().filter(|name| is_index(name)) {
            let opens = if name.ends_with(FileKind::TxnIndex.suffix()) {
                match txn_index_is_sound(&folder, &name, Offset::MIN) {
                    Err(error @ Error::Io { .. }) => return Err(error),
                    sound => sound.is_ok(),
                }
            } else {
                folder.length(&name) <= MAX_SEGMENT_SIZE
            };
            if !opens {
                folder.delete(&name);
            }
        }
        Ok(())
    }

    /// The loader looks for a batch where an index says, before it rebuilds the index.
    fn discard_offset_and_time_indexes(&self) {
        let ends = [FileKind::OffsetIndex, FileKind::TimeIndex].map(FileKind::suffix);
        for name in self.folder.names() {
            if ends.iter().any(|end| name.ends_with(end)) {
                self.folder.delete(&name);
            }
        }
    }

    /// Text files that Kafka refuses. The epochs are rebuilt from the batches.
    fn set_aside_texts(&mut self) -> Result<()> {
        self.set_aside_text(LEADER_EPOCH_CHECKPOINT, |text| {
            LeaderEpochs::in_memory(&parse_epochs(text)?).map(drop)
        })?;
        self.set_aside_text(PARTITION_METADATA, |text| {
            parse_partition_metadata(text).map(drop)
        })
    }

    fn set_aside_text(
        &mut self,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let folder = self.folder.clone();
        if !folder.contains(name) {
            return Ok(());
        }
        let text = folder.read(name, text_limit(name));
        match text.and_then(|text| parse(&text)) {
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                let error = error.at(&folder.path_of(name));
                self.set_aside(name, &error.to_string())?;
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Swaps take the place of live logs as for reading ([`choose`]); of both, what does not count goes. Indexes of
    /// swaps are rebuilt anyway.
    fn judge_swaps(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        let (mut swaps, mut lives): (Vec<CountedLog>, Vec<CountedLog>) = (Vec::new(), Vec::new());
        for name in folder.names() {
            let live = name.strip_suffix(FileState::Swap.suffix());
            if live.is_some_and(is_index) {
                folder.delete(&name);
            }
            match FileName::parse(&name) {
                Some(parsed) if parsed.kind != FileKind::Log => {}
                Some(parsed) if parsed.state == FileState::Swap => {
                    swaps.push((parsed, folder.length(&name)));
                }
                Some(parsed) if parsed.state == FileState::Live => {
                    lives.push((parsed, folder.length(&name)));
                }
                // One of an unread name would come over another.
                None if live.is_some_and(|live| folder.contains(live)) => {
                    self.set_aside(&name, "what it was made from is still there")?;
                }
                _ => {}
            }
        }
        let chosen: BTreeMap<_, _> = choose(&folder, &swaps, &lives)?.into_iter().collect();
        for (gone, _) in lives.iter().filter(|(name, _)| !chosen.contains_key(name)) {
            for name in folder.names() {
                let is_its = |other: FileName| other.offset == gone.offset;
                if FileName::parse(&name).is_some_and(|n| is_its(n) && n.state != FileState::Swap) {
                    folder.delete(&name);
                }
            }
        }
        for (swap, length) in swaps {
            let name = swap.to_string();
            match chosen.get(&swap) {
                Some(counted) if *counted < length => folder.set_length(&name, *counted),
                Some(_) => {}
                None => {
                    folder.delete(&name);
                    let reason = "it lacks batches of what it was made from, which is still there";
                    self.notes.push(Note::SetAside {
                        name,
                        reason: reason.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The `.log` files, in the order of their batches.
    fn log_files(&self) -> Result<Vec<LogFile>> {
        let folder = self.folder.clone();
        let mut logs = Vec::new();
        for name in folder.names() {
            let Some(content) = folder
                .get(&name)
                .filter(|_| name.ends_with(FileKind::Log.suffix()))
            else {
                continue;
            };
            let named = leading_offset(&name).filter(|&offset| offset >= 0);
            // Without a name, any offset is near.
            let near = named.unwrap_or(Offset::MAX);
            let batches = BatchesBetween::all(folder.open(&name)?, content.length(), near);
            let first = batches.first()?;
            logs.push(LogFile {
                base_offset: named.or(first).unwrap_or(Offset::MAX),
                first_offset: first,
                content: content.clone(),
                name,
            });
        }
        // Of two that claim the same place, the one that Kafka reads comes first, unless nothing of it is left.
        logs.sort_by_key(|log| {
            let is_padded = FileName::parse(&log.name).is_some();
            (log.base_offset, log.first_offset.is_none(), !is_padded)
        });
        Ok(logs)
    }

    /// Puts the pieces in the place of the `.log` they come from, by the steps of a swap, which a crash may fall
    /// between.
    fn replace(&mut self, log: &LogFile, pieces: &[SalvagedSegment]) -> Result<()> {
        let folder = self.folder.clone();
        let live = |base| FileName::new(base, FileKind::Log).to_string();
        let length = log.content.length();
        if let [piece] = pieces
            && live(piece.base_offset) == log.name
        {
            let end = match piece.parts.as_slice() {
                [] => Some(0),
                [(0, end)] => Some(*end),
                _ => None,
            };
            if let Some(end) = end {
                if end < length {
                    folder.set_length(&log.name, end);
                }
                return Ok(());
            }
        }
        let state = |base, state| {
            let name = FileName {
                offset: base,
                kind: FileKind::Log,
                state,
            };
            name.to_string()
        };
        let origin: Arc<str> = match log.content.source() {
            ByteSource::Base { name, .. } => Arc::clone(name),
            _ => log.name.as_str().into(),
        };
        for piece in pieces {
            let name = live(piece.base_offset);
            if name != log.name && folder.contains(&name) {
                let expected = "no other segment of the name its batches need";
                let error = Error::corrupt_index("file name", 0, expected, &name);
                return Err(error.at(&folder.path_of(&log.name)));
            }
            let content = Content::parts(&origin, piece.parts.clone());
            folder.write(&state(piece.base_offset, FileState::Cleaned), content)?;
        }
        for piece in pieces.iter().rev() {
            let from = state(piece.base_offset, FileState::Cleaned);
            folder.rename(&from, &state(piece.base_offset, FileState::Swap))?;
        }
        folder.delete(&log.name);
        for piece in pieces {
            let from = state(piece.base_offset, FileState::Swap);
            folder.rename(&from, &live(piece.base_offset))?;
        }
        Ok(())
    }
}

/// Upper bound for the batches before: the offset at which those of the following files begin.
fn ceiling(later: &[LogFile]) -> Offset {
    for (at, next) in later.iter().enumerate() {
        let beyond = later.get(at.saturating_add(1));
        let beyond = beyond.map_or(Offset::MAX, |log| log.base_offset);
        match next.first_offset {
            // A name may lie below its first batch.
            Some(first) if first < beyond => return next.base_offset.max(first),
            // Nothing of it will be kept: a crash fell between the steps of a swap, and what follows has its batches.
            Some(_) => {}
            // Nothing was there that could be lost, and where the log continues others say.
            None if next.content.length() == 0
                && later.iter().skip(at).any(|log| log.first_offset.is_some()) => {}
            None => return next.base_offset,
        }
    }
    Offset::MAX
}
