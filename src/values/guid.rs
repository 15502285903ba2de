//! Ids of schemas by their content: the MD5 digest that Confluent's registry calls GUID (`Schema.getGuid`, `MD5.java`).
//!
//! | part | bytes |
//! |---|---|
//! | schema | its text |
//! | each reference | name, subject, version (i32) |
//! | metadata, if any | 1; by tag the tag and its sorted values; by property name and value; sorted names of sensitive ones |
//! | rules, if any | 1; each of migration, domain and encoding rules: its fields in order, 1 if disabled |

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Groups of hexadecimal digits.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A schema's reference to another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SchemaReference {
    /// Name in the text that refers.
    pub(crate) name: String,
    /// Subject; without a context it is in that of the schema that refers.
    pub(crate) subject: String,
    /// Version; below 1 the newest.
    pub(crate) version: i32,
}

/// The id of a schema's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Guid(pub(crate) [u8; 16]);

impl Guid {
    /// Computes the id of a schema. `metadata` and `rules` are the JSON that the registry keeps.
    pub(crate) fn of(
        text: &str,
        references: &[SchemaReference],
        metadata: Option<&str>,
        rules: Option<&str>,
    ) -> Self {
        let mut md5 = Md5::new();
        md5.update(text);
        for reference in references {
            md5.update(&reference.name);
            md5.update(&reference.subject);
            md5.update(reference.version.to_be_bytes());
        }
        let parsed = |json: Option<&str>| json.and_then(|json| serde_json::from_str(json).ok());
        if let Some(metadata) = parsed(metadata) {
            md5.update([1]);
            add_metadata(&metadata, &mut md5);
        }
        if let Some(rules) = parsed(rules) {
            md5.update([1]);
            for kind in ["migrationRules", "domainRules", "encodingRules"] {
                let rules: &Value = &rules;
                for rule in rules
                    .get(kind)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                {
                    add_rule(rule, &mut md5);
                }
            }
        }
        Self(md5.finalize().into())
    }
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn sorted(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let mut texts: Vec<_> = list.filter_map(Value::as_str).collect();
    texts.sort_unstable();
    texts
}

fn members<'v>(of: &'v Value, name: &str) -> BTreeMap<&'v str, &'v Value> {
    let members = of
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    members
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

fn add_texts(of: &Value, name: &str, md5: &mut Md5) {
    for (name, value) in members(of, name) {
        md5.update(name);
        md5.update(value.as_str().unwrap_or_default());
    }
}

fn add_metadata(metadata: &Value, md5: &mut Md5) {
    for (tag, values) in members(metadata, "tags") {
        md5.update(tag);
        for value in sorted(Some(values)) {
            md5.update(value);
        }
    }
    add_texts(metadata, "properties", md5);
    for name in sorted(metadata.get("sensitive")) {
        md5.update(name);
    }
}

fn add_rule(rule: &Value, md5: &mut Md5) {
    for name in ["name", "doc", "kind", "mode", "type"] {
        md5.update(text(rule, name));
    }
    for tag in sorted(rule.get("tags")) {
        md5.update(tag);
    }
    add_texts(rule, "params", md5);
    for name in ["expr", "onSuccess", "onFailure"] {
        md5.update(text(rule, name));
    }
    if rule.get("disabled").and_then(Value::as_bool) == Some(true) {
        md5.update([1]);
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", u128::from_be_bytes(self.0));
        let mut rest = digits.as_str();
        for (n, group) in GROUPS.into_iter().enumerate() {
            let (digits, after) = rest.split_at_checked(group).unwrap_or_default();
            write!(f, "{}{digits}", if n > 0 { "-" } else { "" })?;
            rest = after;
        }
        Ok(())
    }
}

/// Text that is no GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoGuid;

impl fmt::Display for NoGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 32 hexadecimal digits, in groups of 8-4-4-4-12")
    }
}

impl FromStr for Guid {
    type Err = NoGuid;

    fn from_str(text: &str) -> Result<Self, NoGuid> {
        let groups = text.split('-').map(str::len);
        let is_grouped = groups.clone().eq(GROUPS) || groups.eq([32]);
        let digits: String = text.chars().filter(|&each| each != '-').collect();
        if !is_grouped || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoGuid);
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| NoGuid)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

impl TryFrom<String> for Guid {
    type Error = NoGuid;

    fn try_from(text: String) -> Result<Self, NoGuid> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321's digest of `abc`.
    #[test]
    fn guids_as_uuids() {
        let guid = Guid::of("abc", &[], None, None);
        let text = "90015098-3cd2-4fb0-d696-3f7d28e17f72";
        assert_eq!(guid.to_string(), text);
        assert_eq!(text.parse(), Ok(guid));
        assert_eq!(text.to_uppercase().replace('-', "").parse(), Ok(guid));
        for bad in [
            "",
            "90015098-3cd2-4fb0-d6963f7d28e17f72",
            "900150983cd24fb0d6963f7d28e17f7",
            "+0015098-3cd2-4fb0-d696-3f7d28e17f72",
            "90015098-3cd2-4fb0-d696-3f7d28e17f7é",
        ] {
            assert_eq!(bad.parse::<Guid>(), Err(NoGuid), "{bad}");
        }
    }
}
