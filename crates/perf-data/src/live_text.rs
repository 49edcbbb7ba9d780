//! Text of tracepoint data of the running kernel.

use hashbrown::HashMap;
use pyrograph_event::ByteOrder;

use crate::memo::Memo;
use crate::trace_text::{Kernel, RawSample};
use crate::tracepoint::Tracepoint;
use crate::tracing::texts_of;

/// Formats tracepoint data as text, with names of the running kernel's functions.
#[derive(Debug, Default)]
pub struct LiveText {
    /// Kernel strings by address, once a tracepoint was formatted.
    texts: Option<HashMap<u64, String>>,
    /// The kernel's symbols, once they were needed.
    kernel: Option<Kernel>,
    /// Names of numbers, by tracepoint ID.
    names: HashMap<u64, Memo>,
}

impl LiveText {
    /// Appends the text of a tracepoint's data to `out`.
    pub fn write(&mut self, tracepoint: &Tracepoint, data: &[u8], out: &mut String) {
        const PLACES: [&str; 2] =
            ["/sys/kernel/tracing/printk_formats", "/sys/kernel/debug/tracing/printk_formats"];
        let texts = self.texts.get_or_insert_with(|| {
            let text = PLACES.iter().find_map(|path| std::fs::read_to_string(path).ok());
            texts_of(&text.unwrap_or_default())
        });
        let kernel = &mut self.kernel;
        let memo = self.names.entry(tracepoint.id).or_default();
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let sample = RawSample { tracepoint, raw: data, order, texts };
        let function = &mut |address, with_offset, out: &mut String| {
            kernel.get_or_insert_with(Kernel::running).write(address, with_offset, out);
        };
        sample.write(function, memo, out);
    }
}
