//! Batches in files that no running broker has: swaps, splits, two files of the same offsets.

use std::sync::Arc;

use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::tools::recover::{OnLoss, RecoverySettings, recover};

use super::{NOW_MS, all_whole, alone, assert_loads, base, bytes_of, salvage};
use crate::common::{one_record, seal};
use crate::log_cases::{self, logs};
use crate::recovery::After;

/// The state of a log that is salvaged by renaming 23.log to what its first batch is, if the machine goes down before
/// 23.log is deleted: nothing of it is needed any more, and its name must cost no batch of the segment before.
#[test]
fn a_crash_after_a_swap_costs_no_batch() {
    let work = log_cases::work_folder();
    log_cases::copy(&base(), work.path());
    let folder = work.path().join("orders-0");
    let before = logs(&folder);
    let name = |offset: i64| format!("{offset:020}.log");
    std::fs::copy(folder.join(name(24)), folder.join(name(23))).unwrap();
    let last = all_whole(&before[&name(17)]).pop().unwrap();
    assert_eq!(last.first, 23);
    salvage(&folder, "renamed");
    assert_eq!(logs(&folder), before);
}

/// Indexes name offsets up to 2^31 - 1 above a segment's base: what lies further on is a segment of its own, also where
/// the damage between makes the pieces ones that loading cannot split.
#[test]
fn offsets_too_far_for_one_segment() {
    let (near, far) = (i64::from(i32::MAX), i64::from(i32::MAX) + 1);
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    std::fs::create_dir_all(&folder).unwrap();
    let path = |base: i64| folder.join(format!("{base:020}.log"));
    let batches = [0, 7, near, far, far + near].map(|offset| one_record(offset, 0, NOW_MS));
    let damaged = batches.join(&[0xee; 30][..]);
    std::fs::write(path(0), damaged).unwrap();
    salvage(&folder, "far");
    let read = |base| std::fs::read(path(base)).unwrap();
    assert_eq!(logs(&folder).len(), 2);
    assert_eq!(read(0), batches[..3].concat());
    assert_eq!(read(far), batches[3..].concat());
    assert_loads(&folder, "far");
}

/// Kafka deletes every `.swap` that does not lie below all `.cleaned` files, to split again (`LogLoader`): so the
/// highest file becomes a swap first.
#[test]
fn a_crash_at_any_step_of_a_split_costs_no_batch() {
    let far = i64::from(i32::MAX) + 1;
    let batches = [0, 7, far, far + 3, 2 * far].map(|offset| one_record(offset, 0, NOW_MS));
    let mut steps = 0;
    for allowed in 0.. {
        let work = log_cases::work_folder();
        let folder = work.path().join("orders-0");
        std::fs::create_dir_all(&folder).unwrap();
        let damaged = batches.join(&[0xee; 30][..]);
        std::fs::write(folder.join(format!("{:020}.log", 0)), damaged).unwrap();
        let salvage_with = |disk| {
            let options = RecoverySettings {
                on_loss: OnLoss::Salvage,
                clean: Some(false),
                disk,
                ..RecoverySettings::at(NOW_MS)
            };
            recover(&folder, &options)
        };
        let is_over = salvage_with(Disk::with_faults(Arc::new(After::new(allowed)))).is_ok();
        salvage_with(Disk::default()).unwrap();
        let kept: Vec<Vec<u8>> = logs(&folder).into_values().collect();
        let expected = [&batches[..2], &batches[2..4], &batches[4..]].map(<[_]>::concat);
        assert_eq!(kept, expected, "{allowed}");
        assert_loads(&folder, "split");
        steps = allowed;
        if is_over {
            break;
        }
    }
    assert!(steps > 20, "{steps}");
}

/// A damaged swap is removed only if its sources still exist.
#[test]
fn a_damaged_swap_is_all_there_is() {
    let work = log_cases::work_folder();
    let (folder, path, mut batches) = alone(work.path());
    let mut data = bytes_of(&batches);
    let end = data.len() - 1;
    data[end] ^= 1;
    std::fs::write(path.with_extension("log.swap"), data).unwrap();
    std::fs::remove_file(&path).unwrap();
    salvage(&folder, "swap");
    batches.pop();
    assert_eq!(all_whole(&std::fs::read(&path).unwrap()), batches);
}

/// Of two files that claim the same offsets the one counts that Kafka reads, the other where that one has no more: all
/// of its batches, some of them, none.
#[test]
fn a_second_file_of_another_spelling() {
    for left in [usize::MAX, 2, 0] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        let left = left.min(batches.len());
        let mut other = batches.clone();
        for batch in &mut other {
            let end = batch.bytes.len() - 2;
            batch.bytes[end] ^= 1;
            seal(&mut batch.bytes);
        }
        std::fs::write(folder.join("17.log"), bytes_of(&other)).unwrap();
        batches.truncate(left);
        std::fs::write(&path, bytes_of(&batches)).unwrap();
        salvage(&folder, "two names");
        batches.extend_from_slice(&other[left..]);
        let after: Vec<u8> = logs(&folder).into_values().flatten().collect();
        let kept: Vec<_> = all_whole(&after);
        let kept: Vec<_> = kept
            .into_iter()
            .filter(|b| (17..24).contains(&b.first))
            .collect();
        assert_eq!(kept, batches, "{left}");
        assert_loads(&folder, "two names");
        assert!(!folder.join("17.log").exists());
    }
}
