use std::ops::Range;
use std::path::Path;

use super::*;
use crate::error::{Error, Fault, Location};

/// A file of 100 bytes, each its position, that fails where a read touches a damaged range, as a store does: by windows
/// of 40 bytes unless it was told where to stop.
#[derive(Debug)]
struct Windowed {
    damaged: Vec<Range<u64>>,
    stop: Mutex<Option<u64>>,
}

impl Windowed {
    fn around(damaged: &[Range<u64>]) -> AroundDamage<Self> {
        AroundDamage::new(Self {
            damaged: damaged.to_vec(),
            stop: Mutex::default(),
        })
    }
}

fn damage(range: &Range<u64>) -> DamagedRange {
    let location = Location {
        path: Some("object".into()),
        position: Some(range.start),
        offset: None,
    };
    DamagedRange {
        range: range.clone(),
        fault: Fault::from_text(location, "chunk: expected a tag, found another").into(),
        error: Error::CorruptRecord,
    }
}

impl ReadFile for Windowed {
    fn path(&self) -> &Path {
        Path::new("file")
    }

    fn length(&self) -> Result<u64> {
        Ok(100)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let end = 100.min(position.saturating_add(buffer.len() as u64));
        let ahead = position.saturating_add(40);
        let window = lock(&self.stop).unwrap_or(100).min(ahead).max(end);
        let met = self
            .damaged
            .iter()
            .find(|each| each.start < window && position < each.end);
        if let Some(met) = met {
            return Err(damage(met).into());
        }
        for (to, from) in buffer.iter_mut().zip(position..end) {
            *to = u8::try_from(from).unwrap();
        }
        Ok(usize::try_from(end.saturating_sub(position)).unwrap())
    }

    fn stop_at(&self, position: Option<u64>) {
        *lock(&self.stop) = position;
    }
}

fn read(file: &dyn ReadFile, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap()];
    let count = file.read_at(&mut bytes, range.start)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn bytes(range: Range<u8>) -> Vec<u8> {
    range.collect()
}

#[test]
fn only_reads_of_damaged_bytes_fail() {
    let file = Windowed::around(&[30..50, 70..71]);
    assert_eq!(read(&file, 0..30).unwrap(), bytes(0..30));
    assert_eq!(read(&file, 50..70).unwrap(), bytes(50..70));
    assert_eq!(read(&file, 71..120).unwrap(), bytes(71..100));
    for damaged in [29..31, 30..31, 49..50, 0..100, 60..80] {
        let error = read(&file, damaged).unwrap_err();
        let met = DamagedRange::met(&error).unwrap().clone();
        let at = met.range.start;
        assert!(at == 30 || at == 70);
        let error = Error::io("file")(error);
        let expected = format!("object: byte {at}: chunk: expected a tag, found another");
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, Error::CorruptRecord(_)));
    }
    assert!(file.has_damage());
}

#[test]
fn a_reader_that_goes_on_has_other_bytes_there() {
    for damaged in [
        &[30..50, 50..51, 99..100][..],
        &[0..100, 100..101],
        &[0..1, 98..99],
        &[],
    ] {
        let file = Windowed::around(damaged);
        file.pass_damage();
        let expected: Vec<u8> = (0..100)
            .map(|at| {
                let is_damaged = damaged.iter().any(|each| each.contains(&at));
                let byte = u8::try_from(at).unwrap();
                if is_damaged { FILL } else { byte }
            })
            .collect();
        for step in [1, 7, 64, 1000] {
            let found: Vec<u8> = (0..100)
                .step_by(step)
                .flat_map(|at| read(&file, at..at + step as u64).unwrap())
                .collect();
            assert_eq!(found, expected, "{damaged:?} in steps of {step}");
        }
        assert_eq!(file.has_damage(), !damaged.is_empty());
    }
}

#[test]
fn a_stop_counts_again_after_damage() {
    let file = Windowed::around(&[30..50, 95..96]);
    file.stop_at(Some(90));
    file.pass_damage();
    read(&file, 0..60).unwrap();
    assert_eq!(*lock(&file.file.stop), Some(90));
}

/// A store that never gives a byte, whatever it is asked.
#[derive(Debug)]
struct Hopeless;

impl ReadFile for Hopeless {
    fn path(&self) -> &Path {
        Path::new("file")
    }

    fn length(&self) -> Result<u64> {
        Ok(100)
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(damage(&(10..20)).into())
    }
}

#[test]
fn a_store_that_names_other_bytes_is_not_asked_forever() {
    let file = AroundDamage::new(Hopeless);
    file.pass_damage();
    read(&file, 50..60).unwrap_err();
}

#[test]
fn texts_are_taken_apart() {
    for (told, what, expected, found) in [
        (
            "chunk: expected a, found b, found c",
            "chunk",
            "a, found b",
            "c",
        ),
        ("expected 5 bytes, found 4", "object", "5 bytes", "4"),
        ("no log", "object", "one that can be read", "no log"),
    ] {
        let fault = Fault::from_text(Location::default(), told);
        let parts = (&*fault.what, &*fault.expected, &*fault.found);
        assert_eq!(parts, (what, expected, found));
    }
}
