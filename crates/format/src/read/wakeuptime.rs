//! Reader of the output of bcc's `wakeuptime` and `offwaketime`, and of `wakeuptime` of libbpf-tools: wakers, the
//! threads that they woke, and how long these had waited.
//!
//! ```text
//!     target:          sshd
//!     ffffffff81000e06 asm_sysvec_apic_timer_interrupt
//!     ffffffff813a8887 try_to_wake_up
//!     waker:           swapper/1
//!         5306
//!
//!     waker:           dd 1234
//!     __write
//!     entry_SYSCALL_64_after_hwframe
//!     pipe_write
//!     --               --
//!     finish_task_switch
//!     entry_SYSCALL_64_after_hwframe
//!     __read
//!     target:          wc 1235
//!         9529
//!
//! ```
//!
//! - In `wakeuptime`, each stack is the waker's, with only kernel frames. The sample belongs to the waker, with the
//!   thread that was woken as the leaf. bcc prints the stack root first; libbpf-tools, which indents with tabs, leaf
//!   first.
//! - In `offwaketime`, the waker's stack, root first, is followed by the sleeper's stack, leaf first. The sample
//!   belongs to the sleeper, with the waker as the leaf.
//! - Values are microseconds.

use pyrograph_profile::{Marker, ValueType};

use super::bcc;
use super::text::{Collector, Lines, first_lines, is_kernel_entry};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `wakeuptime` and `offwaketime` text.
pub struct Wakeuptime;

impl Reader for Wakeuptime {
    fn name(&self) -> &'static str {
        "wakeuptime"
    }

    fn written_by(&self) -> &'static str {
        "wakeuptime-bpfcc, offwaketime-bpfcc, wakeuptime (libbpf-tools)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut begun = None;
        let mut ended = false;
        first_lines(head).take(4000).any(|line| match role(line) {
            Some((role, _)) => {
                ended = begun.is_some_and(|begun| begun != role);
                begun = Some(role);
                false
            }
            None => std::mem::take(&mut ended) && value(line).is_some(),
        })
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::new("off-cpu", "us")).addresses(options);
        let mut block = Block::default();
        while let Some(line) = lines.next_line() {
            match role(line) {
                Some((role, who)) if block.first.is_none() => {
                    block.first = Some((role, who.to_owned()));
                    block.is_root_first = line.starts_with(' ');
                }
                Some((_, who)) if block.last.is_none() => block.last = Some(who.to_owned()),
                None if block.last.is_none() => {
                    if block.first.is_some() && !line.trim().is_empty() {
                        block.stack.push(line.trim().to_owned());
                    }
                }
                _ => {
                    let block = std::mem::take(&mut block);
                    match value(line) {
                        Some(value) => block.finish(&mut out, value),
                        None => lines.warn(WarningKind::NoCount),
                    }
                }
            }
        }
        Ok(out.reading(lines.warnings))
    }
}

/// The role of the thread in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Target,
    Waker,
}

/// The parts of a stack, in printed order.
#[derive(Default)]
struct Block {
    first: Option<(Role, String)>,
    /// True if the waker's frames are root first.
    is_root_first: bool,
    stack: Vec<String>,
    last: Option<String>,
}

impl Block {
    fn finish(mut self, out: &mut Collector, value: u64) {
        let (Some((role, first)), Some(last)) = (self.first, self.last) else { return };
        let thread = match role {
            Role::Target => {
                if self.is_root_first {
                    self.stack.reverse();
                }
                out.remark(&first);
                bcc::push(out, &self.stack, self.stack.len());
                out.thread(&last, None, None)
            }
            Role::Waker => {
                out.remark(numbered(&first).0);
                let is_joint = |line: &String| line.starts_with("--") && line.ends_with("--");
                let joint = self.stack.iter().position(is_joint).unwrap_or(self.stack.len());
                let (waker, sleeper) = self.stack.split_at(joint);
                // In printed order, the waker is the leaf, and its own leaf is next to the sleeper's.
                let entry = waker.iter().position(|frame| is_kernel_entry(frame));
                let (user, kernel) = waker.split_at(entry.unwrap_or(waker.len()));
                bcc::push(out, user, 0);
                bcc::push(out, kernel, kernel.len());
                out.marker(Marker::Waker);
                let sleeper = sleeper.get(1..).unwrap_or_default();
                bcc::push(out, sleeper, bcc::kernel_frames(sleeper));
                let (name, pid) = numbered(&last);
                out.thread(name, pid, None)
            }
        };
        out.end_leaf_first(thread, value);
    }
}

/// Parses `    target:          sshd`.
fn role(line: &str) -> Option<(Role, &str)> {
    let line = line.strip_prefix(['\t', ' '])?.trim();
    let named = |word| line.strip_prefix(word).map(str::trim);
    let target = named("target:").map(|name| (Role::Target, name));
    target.or_else(|| named("waker:").map(|name| (Role::Waker, name)))
}

/// Parses name and process ID in `sshd 1234`.
fn numbered(who: &str) -> (&str, Option<i32>) {
    let parsed = who.rsplit_once(' ').and_then(|(name, pid)| Some((name, pid.parse().ok()?)));
    parsed.map_or((who, None), |(name, pid)| (name.trim_end(), Some(pid)))
}

/// Parses the microseconds.
fn value(line: &str) -> Option<u64> {
    line.strip_prefix(['\t', ' '])?.trim().parse().ok()
}
