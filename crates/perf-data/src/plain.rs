//! Fast path for samples of the usual form: words at fixed offsets, then a callchain, then raw data.
//!
//! [`Layout::decode`] decodes everything that a sample can contain into a large struct. When millions of samples are
//! printed, that is most of the work.
//!
//! [`Layout::decode`]: pyrograph_event::Layout::decode

use pyrograph_event::{Attr, ByteOrder, Callchain, CpuMode, Header, sample_type};

/// Offsets of the fields in the samples of an event.
#[derive(Clone, Copy, Debug)]
pub struct PlainLayout {
    ip: Option<u16>,
    tid: Option<u16>,
    time: Option<u16>,
    addr: Option<u16>,
    cpu: Option<u16>,
    /// Offset of the first field of variable size.
    end: u16,
    has_callchain: bool,
    has_raw: bool,
}

/// A sample of the usual form.
#[derive(Clone, Copy, Debug)]
pub struct PlainSample<'a> {
    pub ip: Option<u64>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub time: Option<u64>,
    pub addr: Option<u64>,
    pub cpu: Option<u32>,
    pub mode: CpuMode,
    pub callchain: Callchain<'a>,
    pub raw: Option<&'a [u8]>,
}

impl PlainLayout {
    /// Returns `None` if samples have other fields, or are big-endian.
    pub fn new(attr: &Attr, order: ByteOrder) -> Option<Self> {
        use sample_type as field;
        const WORDS: [u64; 9] = [
            field::IDENTIFIER,
            field::IP,
            field::TID,
            field::TIME,
            field::ADDR,
            field::ID,
            field::STREAM_ID,
            field::CPU,
            field::PERIOD,
        ];
        let has = |field| attr.sample_type & field != 0;
        let known = WORDS.into_iter().fold(field::CALLCHAIN | field::RAW, |all, bit| all | bit);
        if attr.sample_type & !known != 0 || order != ByteOrder::Little {
            return None;
        }
        let mut end = Header::SIZE as u16;
        let places = WORDS.map(|field| {
            has(field).then(|| {
                end += 8;
                end - 8
            })
        });
        let [_, ip, tid, time, addr, _, _, cpu, _] = places;
        let (has_callchain, has_raw) = (has(field::CALLCHAIN), has(field::RAW));
        Some(Self { ip, tid, time, addr, cpu, end, has_callchain, has_raw })
    }

    /// Decodes a sample; `None` if the record is too short.
    #[inline]
    pub fn read<'a>(&self, record: &'a [u8]) -> Option<PlainSample<'a>> {
        let (fixed, mut rest) = record.split_at_checked(self.end.into())?;
        let word = |at: Option<u16>| {
            let at = usize::from(at?);
            fixed.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
        };
        let mut callchain = Callchain::default();
        if self.has_callchain {
            let (count, after) = rest.split_first_chunk()?;
            let len = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
            let (words, after) = after.split_at_checked(len)?;
            callchain = Callchain::new(words, ByteOrder::Little);
            rest = after;
        }
        let mut raw = None;
        if self.has_raw {
            let (size, after) = rest.split_first_chunk()?;
            raw = Some(after.get(..usize::try_from(u32::from_le_bytes(*size)).ok()?)?);
        }
        let thread = word(self.tid);
        Some(PlainSample {
            ip: word(self.ip),
            pid: thread.map(|word| (word as u32).cast_signed()),
            tid: thread.map(|word| ((word >> 32) as u32).cast_signed()),
            time: word(self.time),
            addr: word(self.addr),
            cpu: word(self.cpu).map(|word| word as u32),
            mode: CpuMode::from_misc(u16::from_le_bytes([*fixed.get(4)?, *fixed.get(5)?])),
            callchain,
            raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::{Layout, Record, kind};

    use super::*;

    /// Samples of every such layout, whole and cut off, against the decoder of all fields.
    #[test]
    fn it_reads_what_the_decoder_of_all_fields_reads() {
        use sample_type as field;
        let optional = [
            field::IDENTIFIER,
            field::IP,
            field::TID,
            field::TIME,
            field::ADDR,
            field::ID,
            field::STREAM_ID,
            field::CPU,
            field::PERIOD,
            field::CALLCHAIN,
            field::RAW,
        ];
        for set in 0..1_u64 << optional.len() {
            let bits = optional.iter().enumerate().filter(|(at, _)| set >> at & 1 != 0);
            let sample_type = bits.fold(0, |all, (_, bit)| all | bit);
            let attr = Attr { sample_type, ..Attr::default() };
            let layout = PlainLayout::new(&attr, ByteOrder::Little).expect("a plain layout");
            let words = (sample_type & !(field::CALLCHAIN | field::RAW)).count_ones();
            let mut body: Vec<u8> = (1..=8 * words as u8).collect();
            if sample_type & field::CALLCHAIN != 0 {
                body.extend(
                    [2_u64, 0xffff_ffff_ffff_fe00, 77].map(u64::to_le_bytes).as_flattened(),
                );
            }
            if sample_type & field::RAW != 0 {
                body.extend([4, 0, 0, 0, 9, 8, 7, 6]);
            }
            for len in (0..=body.len()).rev() {
                let size = (Header::SIZE + len) as u16;
                let mut record = kind::SAMPLE.to_le_bytes().to_vec();
                record.extend(2_u16.to_le_bytes());
                record.extend(size.to_le_bytes());
                record.extend(&body[..len]);
                let (plain, whole) = (layout.read(&record), Layout::new(&attr).decode(&record));
                let Ok(Record::Sample(whole)) = whole else {
                    assert!(plain.is_none(), "{sample_type:#x} {len}");
                    continue;
                };
                let plain = plain.unwrap_or_else(|| panic!("{sample_type:#x} {len}"));
                assert_eq!(
                    (plain.ip, plain.pid, plain.tid, plain.time, plain.addr, plain.cpu),
                    (whole.ip, whole.id.pid, whole.id.tid, whole.id.time, whole.addr, whole.id.cpu),
                    "{sample_type:#x}"
                );
                assert_eq!(
                    (plain.mode, plain.callchain, plain.raw),
                    (whole.mode, whole.callchain, whole.raw),
                    "{sample_type:#x}"
                );
            }
        }
    }

    #[test]
    fn samples_with_other_fields_are_not_of_the_usual_kind() {
        let of = |sample_type, order| {
            PlainLayout::new(&Attr { sample_type, ..Attr::default() }, order).is_some()
        };
        assert!(of(sample_type::IP, ByteOrder::Little));
        assert!(!of(sample_type::IP, ByteOrder::Big));
        assert!(!of(sample_type::IP | sample_type::STACK_USER, ByteOrder::Little));
        assert!(!of(sample_type::READ, ByteOrder::Little));
    }
}
