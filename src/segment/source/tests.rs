use super::*;
use crate::io::folder::DiskFolder;
use crate::segment::batches::CURRENT_MAGIC;
use std::io::Write;

/// The file of a segment that was deleted, so that it may be mapped.
const NAME: &str = "00000000000000000000.log.deleted";

/// Opens the file at `path`, which has that name.
fn open(path: &Path, size: u64, copied: bool, access: Access) -> Result<SegmentSource> {
    let folder = DiskFolder::at(path.parent().unwrap());
    if copied {
        return SegmentSource::open(&folder, NAME, size, access);
    }
    SegmentSource::map(ClosedName::of(&folder, NAME, None).unwrap(), size, access)
}

fn numbers() -> Vec<u8> {
    (0..1_000_000u32).flat_map(u32::to_be_bytes).collect()
}

#[test]
fn mapped_and_copied_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let data = numbers();
    std::fs::write(&path, &data).unwrap();
    for is_active in [false, true] {
        for access in [Access::Records, Access::Headers] {
            let mut source = open(&path, 3_999_990, is_active, access).unwrap();
            for (position, wanted) in [
                (0, 10),
                (5, 1_000_000),
                (262_140, 8),
                (3_999_980, 100),
                (3_999_990, 1),
                (9_000_000, 4),
                (1, 1),
            ] {
                let from = position.min(3_999_990);
                let end = (from + wanted).min(3_999_990);
                assert_eq!(
                    source.bytes(position as u64, wanted).unwrap(),
                    &data[from..end]
                );
            }
        }
    }
}

#[test]
fn an_active_file_may_shrink_and_grow_below_us() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, numbers()).unwrap();
    let mut source = open(&path, 4_000_000, true, Access::Records).unwrap();
    assert_eq!(source.bytes(0, 4).unwrap(), [0; 4]);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1_000_000).unwrap();
    assert_eq!(
        source.bytes(999_996, 100).unwrap(),
        249_999u32.to_be_bytes()
    );
    assert_eq!(source.len(), 1_000_000);
    assert!(source.bytes(2_000_000, 100).unwrap().is_empty());
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(&[1; 100]).unwrap();
    assert_eq!(source.bytes(999_996, 100).unwrap().len(), 4);
}

/// A file of large batches gives its headers without what lies between, one of small ones in large windows.
#[test]
fn a_walk_over_headers_copies_what_costs_least() {
    let pass = |sizes: &[usize]| {
        let mut walk = WindowSize::default();
        // In turn from the first: each size counts.
        sizes.iter().fold(None, |_, &size| Some(walk.observe(size)))
    };
    assert_eq!(pass(&[200]), Some(Access::Records));
    assert_eq!(pass(&[12_000]), Some(Access::SparseHeaders));
    assert_eq!(pass(&[12_000, 78, 78]), Some(Access::SparseHeaders));
    let small = [[12_000].as_slice(), &[200; 10]].concat();
    assert_eq!(pass(&small), Some(Access::Records));
    assert_eq!(
        pass(&[200, 200, 60_000, 60_000]),
        Some(Access::SparseHeaders)
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, numbers()).unwrap();
    let mut source = open(&path, 4_000_000, true, Access::Records).unwrap();
    source.expect(Access::SparseHeaders);
    assert_eq!(source.region(1_000_000, 61).unwrap().0.len(), 256);
    assert_eq!(
        source.bytes(1_000_000, 4).unwrap(),
        250_000u32.to_be_bytes()
    );
}

#[test]
fn windows_are_not_reused_while_something_points_into_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, numbers()).unwrap();
    let mut source = open(&path, 4_000_000, true, Access::Records).unwrap();
    let kept = source.region(0, 16).unwrap().0.clone();
    source.bytes(1_000_000, 16).unwrap();
    assert_eq!(&kept[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn checksums_in_pieces_are_those_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    for size in [5000, MAX_PIECE, MAX_PIECE + 1, 3 * MAX_PIECE + 100] {
        let mut data: Vec<u8> = numbers().into_iter().cycle().take(7 + size).collect();
        let batch = &mut data[7..];
        batch[8..12].copy_from_slice(&u32::try_from(size - 12).unwrap().to_be_bytes());
        for magic in [1, CURRENT_MAGIC] {
            batch[16] = magic;
            let header = BatchHeader::parse(batch).unwrap().unwrap();
            std::fs::write(&path, [&[0; 7], &*batch].concat()).unwrap();
            for copied in [false, true] {
                let checksum = |len| {
                    open(&path, len as u64, copied, Access::Records)
                        .unwrap()
                        .checksum(7, &header)
                        .unwrap()
                };
                assert_eq!(checksum(7 + size), Some(header.computed_crc(batch)));
                assert_eq!(checksum(6 + size), None);
            }
        }
    }
}

#[test]
fn zero_tails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let mut data = vec![0; 300_000];
    data[99] = 1;
    std::fs::write(&path, &data).unwrap();
    for is_active in [false, true] {
        let mut source = open(&path, 300_000, is_active, Access::Headers).unwrap();
        assert!(source.is_zero_from(100).unwrap());
        assert!(!source.is_zero_from(99).unwrap());
        assert!(source.is_zero_from(300_000).unwrap());
        assert!(source.is_zero(0..99).unwrap() && !source.is_zero(0..100).unwrap());
    }
}

/// A survey after damage reads the file that the reader has open, not one that has its name by now.
#[test]
fn a_second_walk_reads_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    for is_active in [false, true] {
        std::fs::write(&path, numbers()).unwrap();
        let source = open(&path, 4_000_000, is_active, Access::Records).unwrap();
        std::fs::remove_file(&path).unwrap();
        let again = source.as_file();
        let mut bytes = [0; 8];
        assert_eq!(again.read_at(&mut bytes, 3_999_996).unwrap(), 4);
        assert_eq!(bytes[..4], 999_999u32.to_be_bytes());
        assert_eq!(again.read_at(&mut bytes, 4_000_001).unwrap(), 0);
        assert_eq!((again.length().unwrap(), again.path()), (4_000_000, &*path));
    }
}

#[test]
fn longer_than_kafka_can_address() {
    let error = open(Path::new("x/y.log"), 1 << 31, true, Access::Records).unwrap_err();
    assert!(error.to_string().contains("segment size"), "{error}");
}
