//! The note of a job that appends to many partitions at once: all of its records are appended, or none (the Spark
//! sink).
//!
//! | bytes of `.kafkalog-job` | |
//! |---|---|
//! | line 1 | `kafkalog-job 1 ` and the id of the job |
//! | the rest | JSON: where the job appends and what (`kafkalog/spark/append_job.py`) |
//!
//! The note is written before the first record and removed after the last. While it exists no other writer appends:
//! undoing the job would have to cut those records too. Brokers ignore the file: `LogManager.loadLogs` reads only the
//! directories in a log dir.

use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Refusal, Result};
use crate::io::file::open;

/// Prefix of the files that jobs keep in a log dir: brokers ignore them.
pub(crate) const OWN_FILES: &str = ".kafkalog-";
/// Prefix of the files that record the progress of a stream.
pub(crate) const STREAM_FILES: &str = ".kafkalog-stream-";
/// The file's name.
pub(crate) const JOB_NOTE: &str = ".kafkalog-job";
/// First bytes of the file.
const MAGIC: &str = "kafkalog-job 1 ";
/// More than the first line has.
const MAX_LINE: u64 = 256;

/// Refuses a log dir with the note of another job.
///
/// # Errors
/// `Refused` for a note of another job, and for one that cannot be understood; `Io`.
pub(crate) fn refuse_pending(log_dir: &Path, job: Option<&str>) -> Result<()> {
    let path = log_dir.join(JOB_NOTE);
    let file = match open(&path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(&path)(error)),
    };
    let mut line = Vec::new();
    file.take(MAX_LINE)
        .read_to_end(&mut line)
        .map_err(Error::io(&path))?;
    let line = String::from_utf8_lossy(&line);
    let line = line.lines().next().unwrap_or_default();
    match line.strip_prefix(MAGIC) {
        Some(noted) if job == Some(noted) => Ok(()),
        noted => Err(Error::Refused {
            refusal: Refusal::PendingJob,
            message: format!(
                "{}: job {:?} has not ended, or died: expected no note of a job. The next job of the Spark sink, or the \
                 next kafkalog.LogWriter in Python, takes back what it appended. To keep all records, delete the note",
                path.display(),
                noted.unwrap_or(line),
            ),
            path: Some(path),
            offset: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_job_itself_passes_its_note() {
        let dir = tempfile::tempdir().unwrap();
        refuse_pending(dir.path(), None).unwrap();
        fs::write(dir.path().join(JOB_NOTE), "kafkalog-job 1 a1\n{}\n").unwrap();
        refuse_pending(dir.path(), Some("a1")).unwrap();
        for job in [None, Some("a"), Some("a12"), Some("")] {
            let error = refuse_pending(dir.path(), job).unwrap_err();
            assert_eq!(error.refusal(), Some(Refusal::PendingJob));
            let text = error.to_string();
            assert!(
                text.contains(".kafkalog-job") && text.contains("\"a1\""),
                "{text}"
            );
        }
    }

    #[test]
    fn a_note_that_is_not_understood_is_no_ones() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(1 << 20);
        for note in [&b""[..], b"\xff\xfe", b"kafkalog-job 2 a1", long.as_bytes()] {
            fs::write(dir.path().join(JOB_NOTE), note).unwrap();
            for job in [None, Some("a1")] {
                let error = refuse_pending(dir.path(), job).unwrap_err();
                assert_eq!(error.refusal(), Some(Refusal::PendingJob));
                assert!(error.to_string().len() < 1000);
            }
        }
    }
}
