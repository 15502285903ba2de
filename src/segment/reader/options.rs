//! What a reader leaves out, and what it checks.

use crate::compress::DecodeLimit;
use crate::segment::filter::HeaderBounds;
use crate::segment::skipping::OnCorrupt;

/// What to leave out, and what to check.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Compare every batch's checksum.
    pub check_crcs: bool,
    /// Control records too.
    pub include_control: bool,
    /// What headers have to say.
    pub headers: HeaderBounds,
    /// Whether to continue after damage.
    pub on_corrupt: OnCorrupt,
    /// The most one batch may decompress to.
    pub limit: DecodeLimit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            check_crcs: true,
            include_control: false,
            headers: HeaderBounds::default(),
            on_corrupt: OnCorrupt::Raise,
            limit: DecodeLimit::default(),
        }
    }
}
