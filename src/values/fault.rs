//! Reasons for which a payload has no value.

use std::fmt::{self, Display};

/// The kind of a fault in a payload, in its schema, or in both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// No known framing.
    NotFramed,
    /// No schema has this id or GUID.
    UnknownId,
    /// A schema header that is no id and no GUID.
    BadHeader,
    /// The schema's text cannot be used.
    BadSchema,
    /// The payload ends within the value.
    Truncated,
    /// Bytes are left after the value.
    TrailingBytes,
    /// Text that is not UTF-8.
    InvalidUtf8,
    /// A branch, symbol, boolean, length, varint or nesting that the format does not allow.
    Malformed,
    /// Protobuf message indexes that name no message.
    BadMessageIndex,
    /// Text that is not JSON.
    InvalidJson,
    /// The reader schema cannot read what the writer schema wrote.
    Incompatible,
    /// The reader schema has no message of this name.
    NoSuchMessage,
    /// The reader schema is of another format.
    OtherSchemaType,
    /// The value takes more memory than a batch may.
    TooLarge,
}

impl Cause {
    /// The name in `valueError`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotFramed => "not_framed",
            Self::UnknownId => "unknown_id",
            Self::BadHeader => "bad_header",
            Self::BadSchema => "bad_schema",
            Self::Truncated => "truncated",
            Self::TrailingBytes => "trailing_bytes",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Malformed => "malformed",
            Self::BadMessageIndex => "bad_message_index",
            Self::InvalidJson => "invalid_json",
            Self::Incompatible => "incompatible",
            Self::NoSuchMessage => "no_such_message",
            Self::OtherSchemaType => "other_schema_type",
            Self::TooLarge => "too_large",
        }
    }
}

/// The reason why a payload was not decoded.
///
/// One pointer, so that the results of hot loops stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undecoded(Box<UndecodedReason>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct UndecodedReason {
    cause: Cause,
    /// Byte in the payload, where the fault has one.
    position: Option<usize>,
    text: String,
}

impl Undecoded {
    /// A fault without a place in the payload.
    #[cold]
    pub(crate) fn new(cause: Cause, text: impl Display) -> Self {
        Self::of(cause, None, &text)
    }

    /// A fault at this byte of what is decoded.
    #[cold]
    pub(crate) fn at(cause: Cause, position: usize, text: impl Display) -> Self {
        Self::of(cause, Some(position), &text)
    }

    fn of(cause: Cause, position: Option<usize>, text: &dyn Display) -> Self {
        Self(Box::new(UndecodedReason {
            cause,
            position,
            text: text.to_string(),
        }))
    }

    pub(crate) fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Moves the position by the bytes of the payload before what was decoded.
    #[must_use]
    pub(crate) fn after(mut self, bytes: usize) -> Self {
        let reason = &mut *self.0;
        reason.position = reason.position.map(|at| at.saturating_add(bytes));
        self
    }
}

impl Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndecodedReason {
            cause,
            position,
            text,
        } = &*self.0;
        write!(f, "{}", cause.name())?;
        if let Some(position) = position {
            write!(f, " at byte {position}")?;
        }
        write!(f, ": {text}")
    }
}
