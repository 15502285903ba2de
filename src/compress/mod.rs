//! The codecs of a batch's records, under a limit.
