//! Converts view structs to bytes: flame graphs as SVG, and other views as SVG, HTML, text, Markdown, CSV and JSON.
//!
//! [`svg`] writes one self-contained file, which is complete without its script: it contains every frame, with its
//! details as a native tooltip and its text cut to fit, in colours that follow the reader's light or dark setting.
//! The script adds zoom, search and keyboard navigation.
//!
//! The file works on its own, in `<img>` and `<object>`, and embedded in a page, even several times: there is no
//! CDATA section, the script contains no `<` and no `&`, and it handles events of its own picture only. All text from
//! outside is escaped.
//!
//! This crate draws what `pyrograph-analyze` has laid out, and computes no analysis.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod annotate;
mod apart;
mod attributes;
mod color;
mod counting;
mod csv;
mod diff_table;
mod events;
mod frame_colors;
mod heatmap;
mod info;
mod nameless;
mod options;
mod packed;
mod palette;
mod palette_change;
mod palette_even;
mod palette_map;
#[cfg(feature = "png")]
mod png;
mod report;
mod role;
mod scale;
mod sched;
mod sched_chart;
mod script;
mod source;
mod subtitle;
mod svg;
mod table;
mod tag;
mod text;
mod top;
mod trace;
mod units;
mod view;

pub use annotate::{
    AnnotationParts, AnnotationStyle, annotation_html, annotation_json, annotation_text,
};
pub use apart::{cut_apart, file_labels};
pub use attributes::{NameAttributes, RefusedAttribute};
pub use color::Rgb;
pub use counting::{CountStyle, IntervalTable, not_counted, write_count_changes, write_counts};
pub use csv::top_csv;
pub use diff_table::{DiffHints, DiffTable};
pub use events::{ListedEvent, events_json, events_text};
pub use frame_colors::{FrameColors, change_colors, frame_colors, function_colors};
pub use heatmap::{HeatMapLook, Shades, heat_map_svg};
pub use info::{info_json, info_text, profile_json, profile_text};
pub use nameless::nameless_advice;
pub use options::{Background, Encoding, MinWidth, OptionError, SvgOptions, Theme};
pub use palette::{Hue, Palette, Rule, Tone, UnknownPalette};
pub use palette_change::{ChangeColors, UnknownChangeColors};
pub use palette_map::PaletteMap;
#[cfg(feature = "png")]
pub use png::{Png, PngError, png};
pub use report::{ReportStyle, report_json, report_markdown, report_text};
pub use scale::HEX;
pub use sched::{
    LatencyStyle, MapLook, SchedScriptStyle, TimehistLook, TimehistStyle, TimehistWriter,
    write_latency, write_map_line, write_sched_event, write_sched_summary, write_sched_waits,
};
pub use sched_chart::{SchedChartLook, sched_chart_html, sched_chart_svg};
pub use script::{
    FieldError, FieldSet, ScriptField, ScriptFields, ScriptOptions, ScriptTimes, ScriptWriter,
};
pub use source::{ListedFunction, ListedLine, ListedVariable, functions_json, functions_text};
pub use subtitle::subtitle;
pub use svg::{DiffStyle, View, diff_svg, svg, svg_message};
pub use top::{TopTable, top_json, top_text};
pub use trace::{CallStyle, write_call_table, write_thread_event};
pub use units::{counted, exact_percent, grouped, percent, value_text};
pub use view::{ViewLook, view_html};
