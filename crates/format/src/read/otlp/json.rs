//! The JSON form of OTLP profiles, as a collector's file exporter writes it by default: a request a line, each with tables of
//! its own.
//!
//! ```text
//! {"resourceProfiles": [{"scopeProfiles": [{"profiles": [{"sampleType": {"typeStrindex": 1, "unitStrindex": 2},
//!   "samples": [{"stackIndex": 1, "values": ["9"], "timestampsUnixNano": ["1774910497545532978"]}]}]}]}],
//!  "dictionary": {"stackTable": [{}, {"locationIndices": [1, 2]}], "stringTable": ["", "cpu", "nanoseconds"]}}
//! ```
//!
//! Source: "ProtoJSON Format" in the documentation of Protocol Buffers. Names are in `lowerCamelCase` or as in the `.proto`
//! file; 64-bit numbers are text or numbers. A request is encoded as a message again, so that there is one reader.

use memchr::memmem;
use serde_json::Value;

use crate::protobuf::Writer;

/// Content of a field.
enum Content {
    Number,
    Text,
    Message(&'static [Field]),
}

/// Name, number and content of a field.
type Field = (&'static str, u32, Content);

use Content::{Message, Number, Text};

const REQUEST: &[Field] =
    &[("resourceProfiles", 1, Message(RESOURCE_PROFILES)), ("dictionary", 2, Message(DICTIONARY))];
const RESOURCE_PROFILES: &[Field] = &[
    ("resource", 1, Message(&[("attributes", 1, Message(KEY_VALUE))])),
    ("scopeProfiles", 2, Message(&[("profiles", 2, Message(PROFILE))])),
];
const KEY_VALUE: &[Field] =
    &[("key", 1, Text), ("value", 2, Message(ANY_VALUE)), ("keyStrindex", 3, Number)];
const ANY_VALUE: &[Field] =
    &[("stringValue", 1, Text), ("intValue", 3, Number), ("stringValueStrindex", 8, Number)];
const VALUE_TYPE: &[Field] = &[("typeStrindex", 1, Number), ("unitStrindex", 2, Number)];
const PROFILE: &[Field] = &[
    ("sampleType", 1, Message(VALUE_TYPE)),
    ("samples", 2, Message(SAMPLE)),
    ("timeUnixNano", 3, Number),
    ("durationNano", 4, Number),
    ("periodType", 5, Message(VALUE_TYPE)),
    ("period", 6, Number),
];
const SAMPLE: &[Field] = &[
    ("stackIndex", 1, Number),
    ("attributeIndices", 2, Number),
    ("values", 4, Number),
    ("timestampsUnixNano", 5, Number),
];
const DICTIONARY: &[Field] = &[
    (
        "mappingTable",
        1,
        Message(&[
            ("memoryStart", 1, Number),
            ("memoryLimit", 2, Number),
            ("fileOffset", 3, Number),
            ("filenameStrindex", 4, Number),
            ("attributeIndices", 5, Number),
        ]),
    ),
    (
        "locationTable",
        2,
        Message(&[
            ("mappingIndex", 1, Number),
            ("address", 2, Number),
            ("lines", 3, Message(&[("functionIndex", 1, Number), ("line", 2, Number)])),
            ("attributeIndices", 4, Number),
        ]),
    ),
    (
        "functionTable",
        3,
        Message(&[
            ("nameStrindex", 1, Number),
            ("systemNameStrindex", 2, Number),
            ("filenameStrindex", 3, Number),
            ("startLine", 4, Number),
        ]),
    ),
    ("stringTable", 5, Text),
    ("attributeTable", 6, Message(&[("keyStrindex", 1, Number), ("value", 2, Message(ANY_VALUE))])),
    ("stackTable", 7, Message(&[("locationIndices", 1, Number)])),
];

/// Returns true if the bytes begin with an object that has profiles of OTLP.
pub(super) fn is_json(head: &[u8]) -> bool {
    let has = |word: &str| memmem::find(head, word.as_bytes()).is_some();
    let tables = || has("\"stringTable\"") || has("\"string_table\"");
    head.trim_ascii_start().first() == Some(&b'{')
        && (has("\"resourceProfiles\"")
            || has("\"resource_profiles\"")
            || has("\"dictionary\"") && tables())
}

/// Encodes the requests of a file, and says where the file is damaged.
pub(super) fn encode(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<String>) {
    let mut requests = Vec::new();
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        match value {
            Ok(value) => {
                let mut message = Writer::default();
                message.fields(&value, REQUEST);
                requests.push(message.bytes);
            }
            Err(error) => return (requests, Some(format!("no OTLP profile in JSON: {error}"))),
        }
    }
    (requests, None)
}

impl Writer {
    fn fields(&mut self, object: &Value, fields: &[Field]) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let is_it = |(name, ..): &&Field| is_name(key, name);
            let Some((_, number, content)) = fields.iter().find(is_it) else { continue };
            match value {
                Value::Array(values) => {
                    values.iter().for_each(|value| self.field(*number, value, content));
                }
                Value::Null => {}
                value => self.field(*number, value, content),
            }
        }
    }

    fn field(&mut self, number: u32, value: &Value, content: &Content) {
        match content {
            Number => self.explicit_number(number, to_number(value)),
            Text => self.put(number, value.as_str().unwrap_or_default().as_bytes()),
            Message(fields) => self.message(number, |message| message.fields(value, fields)),
        }
    }
}

/// Returns true for both spellings of a name: `stackIndex`, `stack_index`.
fn is_name(key: &str, name: &str) -> bool {
    let plain = |text: &str| -> Vec<u8> {
        text.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase()).collect()
    };
    key == name || key.contains('_') && plain(key) == plain(name)
}

/// A number, also as text; negative ones are as varints have them. 0 if it is none.
fn to_number(value: &Value) -> u64 {
    let of_text = |text: &str| {
        text.parse::<u64>().or_else(|_| text.parse::<i64>().map(i64::cast_unsigned)).ok()
    };
    let signed = || value.as_i64().map(i64::cast_unsigned);
    value.as_u64().or_else(signed).or_else(|| of_text(value.as_str()?)).unwrap_or(0)
}
