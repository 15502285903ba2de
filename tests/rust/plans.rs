//! From topics and bounds to files and positions.
