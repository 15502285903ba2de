//! Options of a reader: the records that it leaves out, and the checks that it makes.

use crate::compress::DecodeLimit;
use crate::segment::filter::HeaderBounds;
use crate::segment::skipping::OnCorrupt;

/// Options of a reader: the records to leave out, and the checks to make.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Compare every batch's checksum.
    pub check_crcs: bool,
    /// Control records too.
    pub include_control: bool,
    /// Conditions on headers.
    pub headers: HeaderBounds,
    /// Action on damage.
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
