//! Paths that are written as URLs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::objects::mount::is_mounted;
use crate::error::{Error, Result};

/// The path from the root, so that it holds when the process changes its working directory. Links and `..` stay. A path in
/// a mounted store is one.
///
/// # Errors
/// As [`local`]; `Io` without a working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    if is_mounted(path) {
        return Ok(path.to_path_buf());
    }
    std::path::absolute(local(path)?).map_err(Error::io(path))
}

/// The folder that a path lies in, such as the log dir of a partition folder.
pub(crate) fn dir_above(path: &Path) -> PathBuf {
    // `.` has an empty parent too, and no name.
    match path.file_name().and_then(|_| path.parent()) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_path_buf(),
        None => path.join(".."),
    }
}

/// The path of a `file:` URL, or the path itself; any other URL is refused, so that it is never taken for a local folder
/// of that name.
///
/// `scheme:/` with one slash is a URL, too: `Path("s3://bucket")` becomes that in Python, and Databricks writes `dbfs:/`.
/// A scheme has at least two letters, as for Spark: `C:/` is a local folder.
pub(crate) fn local(path: &Path) -> Result<Cow<'_, Path>> {
    let bytes = path.as_os_str().as_encoded_bytes().trim_ascii_start();
    let Some(colon) = bytes.iter().position(|&byte| byte == b':') else {
        return Ok(Cow::Borrowed(path));
    };
    let (scheme, rest) = bytes.split_at(colon);
    let Some(rest) = rest.strip_prefix(b":").filter(|_| is_scheme(scheme)) else {
        return Ok(Cow::Borrowed(path));
    };
    if !rest.starts_with(b"/") {
        return Ok(Cow::Borrowed(path));
    }
    let refused = |why: &str| {
        let scheme = String::from_utf8_lossy(scheme);
        let url = format!("{scheme}:{}", without_secrets(rest));
        Err(Error::InvalidArgument(format!("{url} is a URL: {why}")))
    };
    if !scheme.eq_ignore_ascii_case(b"file") {
        return refused(
            "only local paths and file:/// work here; copy from the store first, or to it afterwards",
        );
    }
    let Some(rest) = rest.strip_prefix(b"//") else {
        return Ok(decoded(rest));
    };
    let root = rest
        .iter()
        .position(|&byte| byte == b'/')
        .unwrap_or(rest.len());
    let (host, path) = rest.split_at(root);
    if !(host.is_empty() || host.eq_ignore_ascii_case(b"localhost")) || path.is_empty() {
        return refused("expected file:/// and a path from the root, or file://localhost/");
    }
    Ok(decoded(path))
}

fn is_scheme(text: &[u8]) -> bool {
    let rest = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    text.len() > 1 && text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(rest)
}

/// Returns the rest after the scheme, without a user's name and password, a signature or a fragment.
fn without_secrets(rest: &[u8]) -> String {
    let text = String::from_utf8_lossy(rest);
    let slashes = text.find(|letter| letter != '/').unwrap_or(text.len());
    let (slashes, rest) = text.split_at(slashes);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Azure's container@account is no secret.
    let host = match host.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("***@{host}"),
        _ => host.to_owned(),
    };
    format!("{slashes}{host}{path}")
}

/// The path with `%20` and the like replaced by the bytes they stand for (RFC 3986, section 2.1).
fn decoded(path: &[u8]) -> Cow<'static, Path> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| first == b'%');
        let byte = digits.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 16)
                .ok()
                .filter(|_| !text.starts_with('+'))
        });
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    Cow::Owned(path_of(bytes))
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_urls_and_plain_paths_are_local() {
        for (given, path) in [
            ("/data", "/data"),
            ("data/s3://x", "data/s3://x"),
            ("./s3://x", "./s3://x"),
            ("C:/data", "C:/data"),
            ("a:b", "a:b"),
            ("file:///data/a,b", "/data/a,b"),
            ("file:/data", "/data"),
            ("FILE://localhost/data", "/data"),
            ("file:///a%20b/%C3%A9%zz%+1%2", "/a b/\u{e9}%zz%+1%2"),
        ] {
            assert_eq!(local(Path::new(given)).unwrap(), Path::new(path), "{given}");
        }
    }

    #[test]
    fn other_urls_are_refused_and_named_without_secrets() {
        for (given, named) in [
            ("s3://key:secret@bucket/x?sig=secret", "s3://***@bucket/x"),
            ("s3:/bucket/x", "s3:/bucket/x"),
            (" S3A://bucket", "S3A://bucket"),
            ("dbfs:/mnt", "dbfs:/mnt"),
            ("abfss://container@account/x", "abfss://container@account/x"),
            ("file://host/x", "file://host/x"),
            ("file://", "file://"),
            ("file://localhost", "file://localhost"),
        ] {
            let said = local(Path::new(given)).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{named} is a URL: ")), "{said}");
        }
    }
}
