//! Parser of stacks that a bpftrace program prints event by event, with the text before each: `printf("%s %d\n%s\n",
//! comm, pid, ustack)`.
//!
//! ```text
//! cart 4711
//!
//!         usleep+0
//!         wait_turn+25
//!         main+48
//!
//! cart 4711
//! ```
//!
//! A text and the stacks up to the next text are one event. Numbers at the end of the text are process ID and thread
//! ID; what precedes them is the thread's name, unless it is longer than the kernel's limit.

use super::{Entry, Map, Part};

/// The kernel's limit on thread names, in bytes.
const LONGEST_NAME: usize = 15;

/// Events that were printed outside of maps.
#[derive(Default)]
pub(super) struct Singles {
    text: Option<String>,
    stacks: Vec<Part>,
    frames: Vec<String>,
    entries: Vec<Entry>,
}

impl Singles {
    /// Adds a line that does not belong to a map.
    pub fn line(&mut self, line: &str) {
        if line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            self.frames.push(line.trim().to_owned());
            return;
        }
        self.end_stack();
        if !line.trim().is_empty() && !is_of_bpftrace(line) {
            self.end_event();
            self.text = Some(line.trim().to_owned());
        } else if self.text.is_none() {
            // Without texts, blank lines are the only separators of events.
            self.end_event();
        }
    }

    /// Returns all events as a map named `printed`; `None` if there are none.
    pub fn into_map(mut self) -> Option<Map> {
        self.end_stack();
        self.end_event();
        let entries = self.entries;
        (!entries.is_empty()).then(|| Map { name: "printed".to_owned(), entries })
    }

    fn end_stack(&mut self) {
        if !self.frames.is_empty() {
            self.stacks.push(Part::Stack(std::mem::take(&mut self.frames)));
        }
    }

    fn end_event(&mut self) {
        let text = self.text.take();
        let mut key = std::mem::take(&mut self.stacks);
        if key.is_empty() {
            return;
        }
        key.extend(text.iter().flat_map(|text| thread(text)).map(Part::Text));
        self.entries.push(Entry { key, value: 1 });
    }
}

/// Splits `my app 4711 4712` into a name and numbers.
fn thread(text: &str) -> Vec<String> {
    let mut name = text;
    let mut numbers = Vec::new();
    while let Some((before, number)) = name.rsplit_once(' ')
        && numbers.len() < 2
        && number.parse::<i32>().is_ok()
    {
        numbers.insert(0, number.to_owned());
        name = before.trim_end();
    }
    let name = Some(name.to_owned()).filter(|name| name.len() <= LONGEST_NAME);
    name.into_iter().chain(numbers).collect()
}

/// True for bpftrace's own messages: `Attaching 1 probe...`, `Attached 1 probe`.
pub(super) fn is_of_bpftrace(line: &str) -> bool {
    let rest = line.strip_prefix("Attaching ").or_else(|| line.strip_prefix("Attached "));
    rest.and_then(|rest| rest.split_once(" probe"))
        .is_some_and(|(number, _)| number.parse::<u64>().is_ok())
}

/// True if a text begins with bpftrace's message and contains a stack frame: an indented `usleep+0`.
pub(super) fn is_beginning<'a>(mut lines: impl Iterator<Item = &'a str>) -> bool {
    if !lines.find(|line| !line.is_empty()).is_some_and(is_of_bpftrace) {
        return false;
    }
    let is_frame = |line: &str| {
        let offset = line.rsplit_once('+').map(|(_, offset)| offset);
        let offset = offset.and_then(|offset| offset.split(' ').next());
        line.starts_with([' ', '\t']) && offset.is_some_and(|offset| offset.parse::<u64>().is_ok())
    };
    lines.take(2000).any(is_frame)
}

#[cfg(test)]
mod tests {
    use super::super::Bpftrace;
    use crate::{Input, Options, Reader, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn check(text: &str, expect: &str) {
        assert!(Bpftrace.detect(text.as_bytes()), "{text}");
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = Bpftrace.read(input, &Options::default()).expect("stacks");
        let mut folded = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        write_folded(&tree, &mut folded).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn stacks_that_were_printed_event_by_event_were_no_profile() {
        let event = |text: &str, function: &str| {
            format!("{text}\n\n        usleep+0\n        {function}+9\n        main+61\n\n")
        };
        check(
            &("Attaching 1 probe...\n".to_owned()
                + &event("my app 4711", "wait")
                + &event("my app 4711 4712", "wait")
                + "no stack 1\n"
                + &event("a line that names no thread", "refill(int)")),
            "main;refill;usleep 1\nmy app;main;wait;usleep 2\n",
        );
        // Nothing but stacks.
        let stack = "\n    usleep+0\n    main+61\n\n";
        check(&format!("Attached 1 probe\n{stack}{stack}"), "main;usleep 2\n");
    }

    #[test]
    fn both_stacks_of_an_event_are_one() {
        check(
            "Attaching 1 probe...\napp 7\n\n    vfs_read+1\n    entry_SYSCALL_64_after_hwframe+118\n\n\
             \n    read+5\n    main+61\n\n",
            "app;main;read;entry_SYSCALL_64_after_hwframe;vfs_read 1\n",
        );
    }
}
