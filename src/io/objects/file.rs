//! An object that is read: in windows, and ahead of its reader.
//!
//! | read | window |
//! |---|---|
//! | records | [`FIRST_WINDOW`], then [`WINDOW`], with [`AHEAD`] of them requested before they are needed |
//! | headers | [`SMALL_WINDOW`]; it doubles while the next read lies within [`MAX_GAP`] after the last window |
//! | any file but a `.log` | all of it, up to [`WINDOW`] |

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::request::{Attempt, Question};
use super::view::StoreView;
use crate::error::Result;
use crate::io::provider::{ObjectInfo, ObjectRange, ProviderError, ProviderErrorKind};
use crate::io::storage::ReadFile;
use crate::io::threads::lock;

/// First window of records.
const FIRST_WINDOW: u64 = 4 << 20;
/// Window of records.
const WINDOW: u64 = 8 << 20;
/// First window of headers.
const SMALL_WINDOW: u64 = 64 << 10;
/// Reads of at least so many bytes are of records.
const LARGE_READ: usize = 64 << 10;
/// A gap up to which one larger request is better than two.
const MAX_GAP: u64 = 1 << 20;
/// Windows that are requested ahead.
const AHEAD: usize = 3;
/// Windows that are kept.
const MAX_HELD: usize = 8;

/// An object open for reading.
#[derive(Debug)]
pub(super) struct ObjectFile {
    view: Arc<StoreView>,
    object: Arc<ObjectInfo>,
    path: PathBuf,
    /// A segment, which may be long and be read in part; other files are read whole.
    has_records: bool,
    windows: Mutex<Windows>,
}

#[derive(Debug, Default)]
struct Windows {
    held: VecDeque<ObjectWindow>,
    /// Length of the last window that was read without one before it, or doubled from it.
    step: u64,
    /// End of the window that was used last.
    end: u64,
    /// Position up to which the reader said that it will read.
    stop: Option<u64>,
}

#[derive(Debug)]
struct ObjectWindow {
    start: u64,
    length: u64,
    is_first: bool,
    bytes: WindowBytes,
}

enum WindowBytes {
    Coming(Attempt<Bytes>),
    Here(Bytes),
}

impl std::fmt::Debug for WindowBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Coming(_) => "Coming",
            Self::Here(_) => "Here",
        })
    }
}

impl ObjectWindow {
    const fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    const fn contains(&self, position: u64) -> bool {
        self.start <= position && position < self.end()
    }
}

impl ObjectFile {
    pub(super) fn new(view: &Arc<StoreView>, object: ObjectInfo) -> Self {
        Self {
            path: view.store.path_of(&object.key),
            has_records: [".log", ".log.deleted", ".log.swap", ".checkpoint"]
                .iter()
                .any(|end| object.key.ends_with(end)),
            view: Arc::clone(view),
            object: Arc::new(object),
            windows: Mutex::default(),
        }
    }

    /// The question for a range. An answer of another length is none.
    fn question(&self, start: u64, length: u64, is_first: bool) -> Question<Bytes> {
        let (provider, object) = (
            Arc::clone(&self.view.store.provider),
            Arc::clone(&self.object),
        );
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let range = ObjectRange {
            start,
            length,
            is_first,
        };
        Arc::new(move || {
            let bytes = provider.read(&object, range)?;
            let given = bytes.len();
            if given != length {
                let text = format!(
                    "the store gave {given} of {length} bytes: the answer was cut, or the object became shorter since \
                     it was listed"
                );
                let kind = ProviderErrorKind::Transient;
                return Err(ProviderError { kind, text });
            }
            Ok(bytes)
        })
    }

    fn begin(&self, start: u64, length: u64, is_first: bool) -> ObjectWindow {
        let question = self.question(start, length, is_first);
        let attempt = Attempt::start(&question, &self.view.counters);
        ObjectWindow {
            start,
            length,
            is_first,
            bytes: WindowBytes::Coming(attempt),
        }
    }

    /// Length of a new window at `position`, for a read of `wanted` bytes.
    fn length_of(&self, windows: &mut Windows, position: u64, wanted: usize) -> u64 {
        let size = self.object.size;
        let gap = position.checked_sub(windows.end);
        let goes_on = windows.end > 0 && gap.is_some_and(|gap| gap < MAX_GAP);
        windows.step = match (goes_on, wanted >= LARGE_READ) {
            (true, true) => WINDOW,
            (false, true) => FIRST_WINDOW,
            (true, false) => windows.step.saturating_mul(2).clamp(SMALL_WINDOW, WINDOW),
            (false, false) => SMALL_WINDOW,
        };
        let stop = windows.stop.unwrap_or(size).min(size);
        let rest = stop.saturating_sub(position);
        let length = if rest <= windows.step.saturating_mul(2) {
            // The end is read with it.
            rest
        } else {
            windows.step
        };
        let wanted = (wanted as u64).min(WINDOW);
        length.max(wanted).min(size.saturating_sub(position))
    }

    /// Requests windows ahead, once a reader has moved from one to the next.
    fn read_ahead(&self, windows: &mut Windows, position: u64) {
        let stop = windows.stop.unwrap_or(u64::MAX).min(self.object.size);
        let ahead = |window: &&ObjectWindow| window.start > position;
        let mut count = windows.held.iter().filter(ahead).count();
        let mut next = windows
            .held
            .iter()
            .map(ObjectWindow::end)
            .max()
            .unwrap_or(position);
        while count < AHEAD && next < stop {
            let length = WINDOW.min(stop.saturating_sub(next));
            windows.held.push_back(self.begin(next, length, false));
            next = next.saturating_add(length);
            count = count.saturating_add(1);
        }
    }

    /// Bytes of one window from `position` on, for a read of `wanted` bytes; none at the end of the object.
    fn window(&self, windows: &mut Windows, position: u64, wanted: usize) -> io::Result<Bytes> {
        let held = windows
            .held
            .iter()
            .position(|window| window.contains(position));
        if held.is_none() {
            let is_whole = !self.has_records && self.object.size <= WINDOW;
            let (start, length) = if is_whole {
                (0, self.object.size)
            } else {
                (position, self.length_of(windows, position, wanted))
            };
            if start.saturating_add(length) <= position {
                return Ok(Bytes::new());
            }
            while windows.held.len() >= MAX_HELD {
                windows.held.pop_front();
            }
            let known = is_whole.then(|| self.view.small_file(&self.object.key));
            let window = match known.flatten() {
                Some(bytes) => ObjectWindow {
                    start,
                    length,
                    is_first: false,
                    bytes: WindowBytes::Here(bytes),
                },
                None => self.begin(start, length, windows.end == 0),
            };
            windows.held.push_back(window);
        }
        let goes_on = |at: usize| {
            let window = windows.held.get(at);
            window.is_some_and(|window| window.end() > windows.end)
        };
        let is_next = held.is_none_or(goes_on);
        if is_next && windows.step >= WINDOW {
            // The ones behind are not needed any more.
            windows.held.retain(|window| window.end() > position);
            self.read_ahead(windows, position);
        }
        let Some(window) = windows
            .held
            .iter_mut()
            .find(|window| window.contains(position))
        else {
            return Ok(Bytes::new());
        };
        windows.end = window.end();
        let bytes = self.arrive(window)?;
        let from = usize::try_from(position.saturating_sub(window.start)).unwrap_or(usize::MAX);
        Ok(bytes.slice(from.min(bytes.len())..))
    }

    /// Waits for a window's bytes.
    fn arrive(&self, window: &mut ObjectWindow) -> io::Result<Bytes> {
        let (start, length) = (window.start, window.length);
        let question = self.question(start, length, window.is_first);
        let coming = std::mem::replace(&mut window.bytes, WindowBytes::Here(Bytes::new()));
        let begun = match coming {
            WindowBytes::Here(bytes) => {
                window.bytes = WindowBytes::Here(bytes.clone());
                return Ok(bytes);
            }
            WindowBytes::Coming(attempt) => attempt,
        };
        let last = start.saturating_add(length).saturating_sub(1);
        let what = || format!("reading bytes {start} to {last}");
        match self.view.asking().ask(Some(begun), &question, &what) {
            Ok(bytes) => {
                self.view.counters.add_bytes(bytes.len());
                if length == self.object.size && !self.has_records {
                    self.view.keep_small(&self.object.key, &bytes);
                }
                window.bytes = WindowBytes::Here(bytes.clone());
                Ok(bytes)
            }
            Err(error) => {
                // A later read asks again.
                window.length = 0;
                Err(error)
            }
        }
    }
}

impl ReadFile for ObjectFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.object.size)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut windows = lock(&self.windows);
        let mut done = 0usize;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let from = position.saturating_add(done as u64);
            let bytes = self.window(&mut windows, from, rest.len())?;
            let count = bytes.len().min(rest.len());
            if count == 0 {
                break;
            }
            if let (Some(to), Some(from)) = (rest.get_mut(..count), bytes.get(..count)) {
                to.copy_from_slice(from);
            }
            done = done.saturating_add(count);
        }
        windows.held.retain(|window| window.length > 0);
        Ok(done)
    }

    fn share(&self, position: u64, wanted: usize) -> io::Result<Option<Bytes>> {
        let bytes = self.window(&mut lock(&self.windows), position, wanted)?;
        Ok((bytes.len() >= wanted).then_some(bytes))
    }

    fn stop_at(&self, position: Option<u64>) {
        lock(&self.windows).stop = position;
    }
}
