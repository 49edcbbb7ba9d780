//! Reader of the output of valgrind's DHAT and of the crate `dhat`: allocations by the stacks that made them.
//!
//! ```text
//! {"dhatFileVersion":2,"mode":"heap","verb":"Allocated",
//!  "pps":[{"tb":50000,"tbk":10,"gb":50000,"gbk":10,"eb":0,"ebk":0,"fs":[1,2]}],
//!  "ftbl":["[root]","0x48417B4: malloc (in /x.so)","0x109184: main (m.c:4)"]}
//! ```
//!
//! Source: "File format" in valgrind's DHAT manual. `fs` is leaf first; `tb` and `tbk` are total bytes and blocks,
//! `gb` the bytes at the peak, `eb` the bytes at the end.

use pyrograph_profile::{Frame, Profile, Sample, ValueType};
use serde::Deserialize;

use super::json;
use super::massif::valgrind_frame;
use super::text::Collector;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of DHAT files.
pub struct Dhat;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    pps: Vec<Point>,
    #[serde(default)]
    ftbl: Vec<String>,
}

/// A program point: allocations with the same stack.
#[derive(Deserialize)]
struct Point {
    #[serde(default)]
    tb: u64,
    #[serde(default)]
    tbk: u64,
    #[serde(default)]
    gb: u64,
    #[serde(default)]
    eb: u64,
    #[serde(default)]
    fs: Vec<usize>,
}

impl Reader for Dhat {
    fn name(&self) -> &'static str {
        "dhat"
    }

    fn written_by(&self) -> &'static str {
        "valgrind --tool=dhat, the crate dhat"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head) && json::has_key(head, "dhatFileVersion")
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let (file, mut warnings) = json::parse::<File>(input)?;
        let of = ValueType::new;
        let types = vec![
            of("blocks", "count"),
            of("total", "bytes"),
            of("at peak", "bytes"),
            of("at end", "bytes"),
        ];
        let mut out = Collector::new(ValueType::samples());
        out.profile = Profile { shown: 1, ..Profile::new(types) };
        for point in &file.pps {
            for &frame in &point.fs {
                match file.ftbl.get(frame) {
                    Some(place) => valgrind_frame(&mut out, place),
                    None => {
                        out.push_frame(Frame::default());
                        warnings.add(WarningKind::UnreadableRecord, 1, []);
                    }
                }
            }
            let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
            out.profile.push(Sample::new(stack), &[point.tbk, point.tb, point.gb, point.eb]);
        }
        Ok(out.reading(warnings))
    }
}
