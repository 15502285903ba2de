//! x
use kafkalog::arrow::{columns::*, reader::*, schema::*};
use kafkalog::log::range::*;
use kafkalog::segment::reader::ReadOptions;
use std::time::Instant;
fn ranges(topic: &str) -> Vec<PartitionRange> {
    (0..4)
        .map(|p| {
            let folder = std::path::PathBuf::from(format!("/tmp/perf/logs/{topic}-{p}"));
            let mut names: Vec<_> = std::fs::read_dir(&folder)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .filter(|n| n.ends_with(".log"))
                .collect();
            names.sort();
            let bases: Vec<i64> = names.iter().map(|n| n[..20].parse().unwrap()).collect();
            let segments = names
                .iter()
                .enumerate()
                .map(|(i, n)| SegmentRange {
                    base_offset: bases[i],
                    file_name: n.clone(),
                    size: std::fs::metadata(folder.join(n)).unwrap().len(),
                    is_active: i + 1 == names.len(),
                    start_position: 0,
                    next_base_offset: bases.get(i + 1).copied(),
                })
                .collect();
            PartitionRange {
                folder,
                topic: topic.into(),
                partition: p,
                start_offset: 0,
                end_offset: None,
                segments,
            }
        })
        .collect()
}
#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason
)]
fn limit(r: &[PartitionRange]) -> u64 {
    let mut n = 0;
    for p in r {
        for s in &p.segments {
            let f = std::fs::File::open(p.folder.join(&s.file_name)).unwrap();
            let m = unsafe { memmap2::Mmap::map(&f).unwrap() };
            let mut at = 0;
            while at + 61 <= m.len() {
                let len = 12 + u32::from_be_bytes(m[at + 8..at + 12].try_into().unwrap()) as usize;
                let b = &m[at..at + len];
                assert_eq!(
                    crc32c::crc32c(&b[21..]),
                    u32::from_be_bytes(b[17..21].try_into().unwrap())
                );
                n += u64::from(u32::from_be_bytes(b[57..61].try_into().unwrap()));
                at += len;
            }
        }
    }
    n
}
fn read(r: &[PartitionRange], layout: Layout, cols: &[Column], rows: usize, threads: usize) -> u64 {
    let o = ColumnOptions {
        columns: cols.to_vec(),
        layout,
        batch_rows: rows,
        ..Default::default()
    };
    let mut n = 0;
    if threads > 1 {
        let mut r =
            ParallelReader::try_new(r.to_vec(), threads, ReadOptions::default(), &o).unwrap();
        while let Some(b) = r.next_batch().unwrap() {
            n += b.num_rows() as u64;
        }
    } else {
        let mut r = RecordReader::try_new(r.to_vec(), ReadOptions::default(), o).unwrap();
        while let Some(b) = r.next_batch().unwrap() {
            n += b.num_rows() as u64;
        }
    }
    n
}
fn main() {
    let four = [
        Column::Offset,
        Column::Timestamp,
        Column::Key,
        Column::Value,
    ];
    for topic in std::env::args()
        .nth(1)
        .unwrap_or("v10,v100,v1k,v100-single,v100-lz4".into())
        .split(',')
    {
        let r = ranges(topic);
        type Leg<'a> = (&'a str, Box<dyn Fn() -> u64 + 'a>);
        let mut legs: Vec<Leg<'_>> = vec![
            ("crc", Box::new(|| limit(&r))),
            ("view", Box::new(|| read(&r, Layout::View, &four, 65536, 1))),
            (
                "view8k",
                Box::new(|| read(&r, Layout::View, &four, 8192, 1)),
            ),
            (
                "binary",
                Box::new(|| read(&r, Layout::Binary, &four, 65536, 1)),
            ),
            (
                "binary8k",
                Box::new(|| read(&r, Layout::Binary, &four, 8192, 1)),
            ),
            (
                "all",
                Box::new(|| read(&r, Layout::Binary, Column::defaults(), 65536, 1)),
            ),
            (
                "view 2t",
                Box::new(|| read(&r, Layout::View, &four, 65536, 2)),
            ),
            (
                "binary 2t",
                Box::new(|| read(&r, Layout::Binary, &four, 65536, 2)),
            ),
        ];
        if std::env::args().nth(2).is_some() {
            legs.truncate(4);
        }
        let mut times = vec![vec![]; legs.len()];
        let mut n = 0;
        for _ in 0..9 {
            for (i, l) in legs.iter().enumerate() {
                let t = Instant::now();
                n = l.1();
                times[i].push(t.elapsed().as_secs_f64() * 1e9 / n as f64);
            }
        }
        print!("{topic} ({n}):");
        let mut first = 0.0;
        for (i, l) in legs.iter().enumerate() {
            times[i].sort_by(f64::total_cmp);
            let m = times[i][4];
            if i == 0 {
                first = m;
            }
            print!("  {} {:.1} ({:.2})", l.0, m, m / first);
        }
        println!();
    }
}
