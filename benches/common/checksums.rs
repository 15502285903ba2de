//! The least that work over a whole segment can take.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kafkalog::internal::format::batch::BatchHeader;

const WINDOW: usize = 256 << 10;

/// Reads a file through a window, and compares the checksum of every batch in it; returns their sum.
pub(crate) fn checksums(path: &Path) -> u64 {
    let mut file = File::open(path).expect("the segment");
    let mut window = vec![0; WINDOW];
    let (mut held, mut sum) = (0, 0u64);
    loop {
        let read = file.read(window.get_mut(held..).unwrap_or_default());
        let read = read.expect("it reads");
        held += read;
        let mut at = 0;
        while let Some(rest) = window.get(at..held)
            && let Ok(Some(header)) = BatchHeader::parse(rest)
            && let Some(batch) = rest.get(..header.size)
        {
            assert_eq!(header.computed_crc(batch), header.crc);
            sum += u64::from(header.crc);
            at += header.size;
        }
        window.copy_within(at..held, 0);
        held -= at;
        if read == 0 {
            return sum;
        }
    }
}
