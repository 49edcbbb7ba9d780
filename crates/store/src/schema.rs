//! The columns of segments.
//!
//! | column | |
//! |---|---|
//! | `event unit` | what is counted |
//! | `tenant host service container pod comm exe thread cgroup cmdline field`, `labels` | whose the samples are, as far as known |
//! | `pid tid` | numbers of the process and the thread |
//! | `stack` | identifies the stack: XXH3, 128 bits, over its frames |
//! | `period` | events or nanoseconds that a sample stands for |
//! | `count value` | sums of the samples, and of their values |
//! | `at counts values cpus` | the same of each sample, with its time since the footer's `first` |
//! | `order` | the samples' places among all of the segment |
//! | `address` | the instruction at which the samples were taken |
//! | `frames` | the stack, leaf first |
//!
//! Columns that a reader does not know are left out.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

/// Columns of texts that say whose samples they are.
pub const OWNER: [&str; 11] = [
    "tenant",
    "host",
    "service",
    "container",
    "pod",
    "comm",
    "exe",
    "thread",
    "cgroup",
    "cmdline",
    "field",
];

/// Columns of texts of a frame.
pub const FRAME_TEXTS: [&str; 6] = ["module", "build_id", "function", "full", "plain", "file"];

/// Columns of texts of an address.
pub const ADDRESS_TEXTS: [&str; 3] = ["module", "build_id", "function"];

/// Bytes of a stack's identity.
pub const HASH: i32 = 16;

/// The fields of a frame. `full` is the function's name with parameters where `function` has none, `plain` the name without where it has
/// them; `kind` is `FrameKind::code`.
pub fn frame_fields() -> Fields {
    let texts = FRAME_TEXTS.map(|name| Field::new(name, DataType::Utf8, true));
    let rest = [
        Field::new("offset", DataType::UInt64, false),
        Field::new("line", DataType::UInt32, false),
        Field::new("start_line", DataType::UInt32, false),
        Field::new("inlined", DataType::Boolean, false),
        Field::new("guessed", DataType::Boolean, false),
        Field::new("kind", DataType::UInt8, false),
    ];
    texts.into_iter().chain(rest).collect()
}

/// The fields of an address.
pub fn address_fields() -> Fields {
    let texts = ADDRESS_TEXTS.map(|name| Field::new(name, DataType::Utf8, true));
    texts.into_iter().chain([Field::new("offset", DataType::UInt64, false)]).collect()
}

/// The item of a list of numbers, or of frames.
pub fn item(of: DataType, nullable: bool) -> Arc<Field> {
    Arc::new(Field::new("item", of, nullable))
}

/// The columns, in order.
pub fn schema() -> SchemaRef {
    let list = |name: &str, of: DataType, nullable| {
        Field::new(name, DataType::List(item(of, nullable)), true)
    };
    let mut fields =
        vec![Field::new("event", DataType::Utf8, false), Field::new("unit", DataType::Utf8, false)];
    fields.extend(OWNER.map(|name| Field::new(name, DataType::Utf8, true)));
    fields.extend([
        Field::new("pid", DataType::Int32, true),
        Field::new("tid", DataType::Int32, true),
        Field::new("stack", DataType::FixedSizeBinary(HASH), false),
        Field::new("period", DataType::UInt64, true),
        Field::new("count", DataType::UInt64, true),
        Field::new("value", DataType::UInt64, false),
        list("at", DataType::Int64, true),
        list("counts", DataType::UInt64, false),
        list("values", DataType::UInt64, false),
        list("cpus", DataType::UInt32, true),
        list("order", DataType::UInt32, false),
        Field::new("address", DataType::Struct(address_fields()), true),
        list("frames", DataType::Struct(frame_fields()), false),
    ]);
    Arc::new(Schema::new(fields))
}

/// Numbers that rise slowly, whose steps are written.
pub const STEPS: [&str; 3] = ["at.list.item", "order.list.item", "cpus.list.item"];
