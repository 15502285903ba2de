//! Objects in a store such as S3, as the code above this crate provides them.
//!
//! A provider answers one request at a time and does no more: limits, retries, time-outs and reading ahead are those of
//! [`super::objects`]. Keys are relative to the root that it was mounted at, such as a bucket.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::DamagedRange;
use crate::types::TimestampMs;

/// One object, as a listing gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectInfo {
    /// Its whole key.
    pub key: String,
    /// Its length.
    pub size: u64,
    /// Its modification time.
    pub modified_ms: TimestampMs,
    /// Text that changes with its content, such as an `ETag`, if the store has one.
    pub version: Option<Arc<str>>,
}

/// Objects below a prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectListing {
    /// The objects, in any order.
    pub objects: Vec<ObjectInfo>,
    /// Keys of the folders that were not entered, without a slash at the end.
    pub folders: Vec<String>,
    /// Number of requests that it took.
    pub requests: u64,
}

/// A range of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRange {
    /// The first byte.
    pub start: u64,
    /// Number of bytes.
    pub length: usize,
    /// The first range that a reader asks for: a store that cannot pin each read compares the object now.
    pub is_first: bool,
}

/// Reason for which a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderErrorKind {
    /// There is no such object or bucket.
    Missing,
    /// The store refused the request or the credentials.
    Denied,
    /// The object is another one than was listed.
    Changed,
    /// Another try may succeed: the store is busy, or the connection broke.
    Transient,
    /// The store has the object, but no bytes can be made of it.
    Damaged(DamagedRange),
    /// Anything else.
    Other,
}

/// Failure of one request.
#[derive(Clone, Debug)]
pub(crate) struct ProviderError {
    /// Kind, by which it is tried again or reported.
    pub kind: ProviderErrorKind,
    /// One line for people, without secrets.
    pub text: String,
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `std::result::Result` with [`ProviderError`].
pub(crate) type Provided<T> = Result<T, ProviderError>;

/// A store of objects. It is called on threads of their own, several at a time.
pub(crate) trait Provider: fmt::Debug + Send + Sync {
    /// Lists the objects whose keys begin with `prefix`, which is empty or ends with a slash: all of them, or only those
    /// without a further slash, and the folders beside them.
    ///
    /// # Errors
    /// Those of the store. A prefix without objects is an empty listing.
    fn list(&self, prefix: &str, recursive: bool) -> Provided<ObjectListing>;

    /// Describes one object; `None` if there is none.
    ///
    /// # Errors
    /// Those of the store.
    fn stat(&self, key: &str) -> Provided<Option<ObjectInfo>>;

    /// Reads a range; fewer bytes only if the store gave fewer, which the caller checks.
    ///
    /// # Errors
    /// Those of the store; `Changed` if the object is not the one described.
    fn read(&self, object: &ObjectInfo, range: ObjectRange) -> Provided<Bytes>;

    /// Waits in a way that does not keep the provider's own threads from working.
    fn wait(&self, wait: &mut (dyn FnMut() + Send)) {
        wait();
    }
}
