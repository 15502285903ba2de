//! The one error type. Every corruption has its place, the expected and the actual value.
//!
//! Low layers know only bytes, so they report positions relative to their input; each layer above adds its knowledge
//! with [`Error::at`] and [`Error::shift`].

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};

use crate::types::{Offset, Position};

mod damaged;
mod fault;
mod refusal;

pub(crate) use self::damaged::DamagedRange;
use self::fault::InternalFault;
pub use self::fault::{Fault, FaultKind, Location};
pub use self::refusal::{ProducerFault, ProducerRule, Refusal};

/// `std::result::Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// All errors, by the exception that each becomes in Python.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of a `.log` contradict their checksum, their structure or their neighbours.
    CorruptRecord(Box<Fault>),
    /// An index, snapshot or checkpoint that was read directly is corrupt.
    CorruptIndex(Box<Fault>),
    /// A batch is whole, yet its records break the format (Kafka's `InvalidRecordException`).
    InvalidRecord(Box<Fault>),
    /// An append that its producer's state forbids; nothing was written.
    ProducerRefused(Box<ProducerFault>),
    /// A magic, codec or version this build does not know.
    UnsupportedFormat(Box<Fault>),
    /// An offset below the log start or beyond the log end.
    OffsetOutOfRange {
        /// The partition folder.
        path: PathBuf,
        /// The requested offset.
        offset: Offset,
        /// The first offset that may be read.
        log_start_offset: Offset,
        /// The next offset to be written.
        log_end_offset: Offset,
    },
    /// The log refused an append; its content is unchanged.
    Refused {
        /// The refusal, for programs.
        refusal: Refusal,
        /// The refusal, for people.
        message: String,
        /// The partition folder, where one is known.
        path: Option<PathBuf>,
        /// The offset of the record or batch, where one is known.
        offset: Option<Offset>,
    },
    /// Another process holds the log dir's `.lock`.
    LogLocked {
        /// The lock file.
        path: PathBuf,
    },
    /// The same partition lies in two log dirs.
    DuplicatePartition {
        /// `topic-partition`.
        partition: String,
        /// The folder where it was seen first.
        first: PathBuf,
        /// The folder where it was seen again.
        second: PathBuf,
    },
    /// A topic or partition that was named does not exist in the log dirs.
    UnknownTopicOrPartition(String),
    /// The operating system reported an error.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The caller's arguments are invalid.
    InvalidArgument(String),
    /// There is not enough memory; the data is not at fault.
    OutOfMemory {
        /// The file, where one is known.
        path: Option<PathBuf>,
        /// Bytes that were requested.
        bytes: usize,
    },
    /// A bug in this crate ([`Error::internal`]); the message asks for a report.
    Internal(Box<InternalFault>),
    /// The caller cancelled the operation.
    Interrupted,
}

impl Error {
    #[cold]
    fn fault_without_position(
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Box<Fault> {
        let mut fault = Self::fault(what, 0, expected, found);
        fault.location.position = None;
        fault
    }

    #[cold]
    fn fault(
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Box<Fault> {
        Box::new(Fault {
            location: Location {
                position: Some(position),
                ..Location::default()
            },
            kind: FaultKind::Other,
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        })
    }

    /// [`Error::CorruptRecord`] at a position relative to the given bytes.
    #[cold]
    pub fn corrupt(
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::CorruptRecord(Self::fault(what, position, expected, found))
    }

    /// [`Error::corrupt`] of a kind, in one call: readers make these checks for every batch.
    #[cold]
    pub(crate) fn corrupt_of(
        kind: FaultKind,
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::corrupt(what, position, expected, found).of_kind(kind)
    }

    /// [`Error::CorruptIndex`] at a position in the file.
    #[cold]
    pub fn corrupt_index(
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::CorruptIndex(Self::fault(what, position, expected, found))
    }

    /// [`Error::CorruptIndex`] about a line of a text file, which has no position.
    #[cold]
    pub fn corrupt_line(
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::CorruptIndex(Self::fault_without_position(what, expected, found))
    }

    /// [`Error::InvalidRecord`] at a position relative to the given bytes.
    #[cold]
    pub fn invalid(
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::InvalidRecord(Self::fault(what, position, expected, found))
    }

    /// [`Error::InvalidRecord`] about records that have no place in a file yet.
    #[cold]
    pub fn unplaced(
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::InvalidRecord(Self::fault_without_position(what, expected, found))
    }

    /// [`Error::UnsupportedFormat`] at a position relative to the given bytes.
    #[cold]
    pub fn unsupported(
        what: &'static str,
        position: Position,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::UnsupportedFormat(Self::fault(what, position, expected, found))
    }

    /// [`Error::Refused`].
    #[cold]
    pub fn refused(refusal: Refusal, message: impl Into<String>) -> Self {
        Self::Refused {
            refusal,
            message: message.into(),
            path: None,
            offset: None,
        }
    }

    /// [`Error::Internal`] at the caller's line, for states that only a bug in this crate can cause. Give the expected
    /// and the actual value. A debug build panics, so that no test misses it.
    #[cold]
    #[must_use]
    #[track_caller]
    pub fn internal(message: impl fmt::Display) -> Self {
        let error = Self::Internal(Box::new(InternalFault {
            path: None,
            message: message.to_string(),
            source: Some(panic::Location::caller()),
        }));
        debug_assert!(false, "{error}");
        error
    }

    /// [`Error::Internal`] for a panic that was caught, with its payload.
    #[cold]
    #[must_use]
    pub fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Internal(Box::new(InternalFault {
            path: None,
            message: format!("panic: {}", text.unwrap_or("no message")),
            source: None,
        }))
    }

    /// [`Error::OutOfMemory`] of no file yet.
    #[cold]
    #[must_use]
    pub const fn no_memory(bytes: usize) -> Self {
        Self::OutOfMemory { path: None, bytes }
    }

    /// There was no memory, for the data or for the system's own needs.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::OutOfMemory,
            _ => false,
        }
    }

    /// Returns whether files that have changed since may be the reason.
    #[must_use]
    pub fn is_of_the_files(&self) -> bool {
        !matches!(self, Self::Interrupted | Self::Internal(_)) && !self.is_out_of_memory()
    }

    /// Returns whether the operating system does not permit it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The reason for which the log refused, if this is a refusal.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }

    /// [`Error::Io`] for a path; shaped for `map_err`. A read that the caller cancelled is [`Error::Interrupted`]: the
    /// operating system's interruptions do not get here. Damage in a store is an error about bytes, as on a disk.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => match DamagedRange::met(&source) {
                Some(damaged) => damaged.to_error().at(&path),
                None => Self::Io { path, source },
            },
        }
    }

    /// A broker has replaced or removed a file since the log was opened: the log must be opened again.
    pub fn replaced(path: impl Into<PathBuf>) -> Self {
        let what = "a broker has replaced or removed this file since the log was opened; open the log again";
        Self::io(path)(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// The fault inside, if this error is about bytes.
    #[must_use]
    pub fn as_fault(&self) -> Option<&Fault> {
        match self {
            Self::CorruptRecord(f)
            | Self::CorruptIndex(f)
            | Self::InvalidRecord(f)
            | Self::UnsupportedFormat(f) => Some(f),
            _ => None,
        }
    }

    /// The kind of the fault inside.
    #[must_use]
    pub(crate) fn fault_kind(&self) -> FaultKind {
        self.as_fault().map_or(FaultKind::Other, |fault| fault.kind)
    }

    /// Says which kind of fault it is.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn of_kind(mut self, kind: FaultKind) -> Self {
        if let Some(fault) = self.as_fault_mut() {
            fault.kind = kind;
        }
        self
    }

    fn as_fault_mut(&mut self) -> Option<&mut Fault> {
        match self {
            Self::CorruptRecord(f)
            | Self::CorruptIndex(f)
            | Self::InvalidRecord(f)
            | Self::UnsupportedFormat(f) => Some(f),
            _ => None,
        }
    }

    /// Names the file, unless a lower layer knew it.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        let known = match &mut self {
            Self::CorruptRecord(fault)
            | Self::CorruptIndex(fault)
            | Self::InvalidRecord(fault)
            | Self::UnsupportedFormat(fault) => &mut fault.location.path,
            Self::Refused { path, .. } | Self::OutOfMemory { path, .. } => path,
            Self::ProducerRefused(fault) => &mut fault.path,
            Self::Internal(fault) => &mut fault.path,
            _ => return self,
        };
        known.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Adds what to do about it to the message, where there is one to add to.
    #[must_use]
    pub(crate) fn hinted(mut self, hint: &str) -> Self {
        match &mut self {
            Self::CorruptRecord(fault)
            | Self::CorruptIndex(fault)
            | Self::InvalidRecord(fault)
            | Self::UnsupportedFormat(fault) => fault.found.push_str(hint),
            Self::ProducerRefused(fault) => fault.found.push_str(hint),
            Self::InvalidArgument(text) | Self::Refused { message: text, .. } => {
                text.push_str(hint);
            }
            _ => {}
        }
        self
    }

    /// Names the file in `to` instead of its copy in `from`.
    #[must_use]
    pub(crate) fn moved(mut self, from: &Path, to: &Path) -> Self {
        if let Some(path) = self
            .as_fault_mut()
            .and_then(|fault| fault.location.path.as_mut())
            && let Ok(name) = path.strip_prefix(from)
        {
            *path = to.join(name);
        }
        self
    }

    /// Names the offset of the batch or record, unless a lower layer knew it.
    #[must_use]
    pub fn for_offset(mut self, offset: Offset) -> Self {
        if let Some(fault) = self.as_fault_mut() {
            fault.location.offset.get_or_insert(offset);
        } else if let Self::Refused { offset: known, .. } = &mut self {
            known.get_or_insert(offset);
        }
        self
    }

    /// The fault inside, if its position counts from the bytes that were looked at: one that names a file counts from
    /// the file's begin.
    fn as_relative_mut(&mut self) -> Option<&mut Fault> {
        self.as_fault_mut()
            .filter(|fault| fault.location.path.is_none())
    }

    /// Moves a relative position by where its bytes begin.
    #[must_use]
    pub fn shift(mut self, by: Position) -> Self {
        if let Some(position) = self
            .as_relative_mut()
            .and_then(|fault| fault.location.position.as_mut())
        {
            *position = position.saturating_add(by);
        }
        self
    }

    /// Replaces the position: for a fault inside a decompressed block, whose own
    /// positions mean nothing in the file; `what` still says it is inside.
    #[must_use]
    pub fn inside(mut self, batch_position: Position) -> Self {
        if let Some(fault) = self.as_relative_mut()
            && let Some(position) = fault.location.position.replace(batch_position)
        {
            fault.found = format!(
                "{} (byte {position} of the decompressed records)",
                fault.found
            );
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CorruptRecord(fault)
            | Self::CorruptIndex(fault)
            | Self::InvalidRecord(fault)
            | Self::UnsupportedFormat(fault) => fault.fmt(f),
            Self::ProducerRefused(fault) => fault.fmt(f),
            Self::OffsetOutOfRange {
                path,
                offset,
                log_start_offset,
                log_end_offset,
            } => write!(
                f,
                "{}: offset {offset} is out of range: expected {log_start_offset} to {log_end_offset}",
                path.display()
            ),
            Self::Refused {
                refusal,
                message,
                path,
                offset,
            } => {
                fault::prefix(f, path.as_deref())?;
                write!(f, "{refusal:?}: {message}")?;
                match offset {
                    Some(offset) => write!(f, " (offset {offset})"),
                    None => Ok(()),
                }
            }
            Self::LogLocked { path } => {
                write!(f, "{}: another writer holds this lock", path.display())
            }
            Self::DuplicatePartition {
                partition,
                first,
                second,
            } => {
                write!(
                    f,
                    "partition {partition} is in two folders, {} and {}; name the path of one of them, or leave out one log dir",
                    first.display(),
                    second.display()
                )
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::InvalidArgument(text) | Self::UnknownTopicOrPartition(text) => f.write_str(text),
            Self::OutOfMemory { path, bytes } => {
                fault::prefix(f, path.as_deref())?;
                write!(f, "no memory for {bytes} bytes more")
            }
            Self::Internal(fault) => fault.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The message of the internal error that `run` meets: a panic in a debug build, an `Err` in a release build.
#[cfg(test)]
pub(crate) fn internal_message<T: fmt::Debug>(
    run: impl FnOnce() -> Result<T> + panic::UnwindSafe,
) -> String {
    match panic::catch_unwind(run) {
        Ok(Err(Error::Internal(fault))) => fault.to_string(),
        Ok(other) => panic!("no internal error: {other:?}"),
        Err(payload) => *payload.downcast::<String>().unwrap(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_error_names_its_source_line_and_asks_for_a_report() {
        let line = line!() + 1;
        let message = internal_message::<()>(|| Err(Error::internal("expected 12, found 14")));
        let version = env!("CARGO_PKG_VERSION");
        let report = format!("this is a bug in kafkalog {version}, please report it");
        let source = format!("{}:{line}", file!());
        assert_eq!(
            message,
            format!("internal error: expected 12, found 14 ({source}); {report}")
        );

        let payload = panic::catch_unwind(|| panic!("at {}", 3)).unwrap_err();
        let error = Error::panicked(payload.as_ref()).at(Path::new("/d/t-0/0.log"));
        assert_eq!(
            error.to_string(),
            format!("/d/t-0/0.log: internal error: panic: at 3; {report}")
        );
    }

    #[test]
    fn a_fault_says_file_byte_expected_and_found() {
        let error = Error::corrupt("crc", 17, "0x1", "0x2")
            .shift(1000)
            .at(Path::new("/d/t-0/0.log"))
            .for_offset(42);
        assert_eq!(
            error.to_string(),
            "/d/t-0/0.log: byte 1017: offset 42: crc: expected 0x1, found 0x2"
        );
    }

    #[test]
    fn the_lowest_layer_that_knows_wins() {
        let error = Error::corrupt("crc", 0, 1, 2)
            .at(Path::new("a"))
            .at(Path::new("b"))
            .shift(5)
            .for_offset(1)
            .for_offset(2);
        let location = &error.as_fault().unwrap().location;
        assert_eq!(
            (location.path.as_deref(), location.offset),
            (Some(Path::new("a")), Some(1))
        );
    }
}
