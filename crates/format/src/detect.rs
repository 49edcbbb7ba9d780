//! Detection of formats by content, never by file name.

use crate::read::READERS;
use crate::reader::Reader;

/// Finds the reader for an input that begins with these bytes (decompressed; at least 64 KiB, or the whole input).
pub fn detect(head: &[u8]) -> Option<&'static dyn Reader> {
    READERS.iter().copied().find(|reader| reader.detect(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(detect(text.as_bytes()).map(Reader::name), expect, "{text}");
    }

    #[test]
    fn perf_script_text() {
        let name = Some("perf script");
        check("app 12 1.5: cycles: \n\t 4a1 main (/bin/app)\n", name);
        check("# ========\n# captured on: today\n#\napp 12 [000] 1.5: 1 cycles: \n", name);
        check("java 19983 cycles:\nffffffff8103d0ca f ([kernel.kallsyms])\n", name);
        check("\n\t 4a1 main\n\t 4a2 _start\n\n", name);
        check("app \n\t 4a1 main (/bin/app)\n", name);
        check("          app 12 1.5: sched:sched_switch: prev_comm=a next_prio=0\n", name);
        check("app 12 [000] 1.5: 1 cycles: \r\n\t 4a1 main (/bin/app)\r\n", name);
    }

    #[test]
    fn folded_text() {
        let name = Some("folded");
        check("app;main;work 12\n", name);
        check("app;main;work 12", name);
        check("# a remark\napp;main;work 12 34\napp 1.5 2\n", name);
        check("main 5\r\n", name);
        check("foo 12 3\n", name);
        check("app;no count\napp;main 2\n", name);
        check("my app;main 2\nidle task 5\n", name);
    }

    #[test]
    fn text_whose_lines_end_in_numbers_is_not_folded() {
        for text in [
            "hello world 5\n",
            " Performance counter stats for 'ls':\n\n  cycles 1234567\n  page faults 12\n",
            "Flat profile:\n\nEach sample counts as 0.01\n  100.00 1.50 1.50 main 3\n",
            "request took 12\nrequest took 15\n",
            "0\t1F5\t1.1\n1F6\t1F9\t3.0\n220\t\t3.2\n",
            "\tSize::Int32,// 0\n\tSize::Unknown,// 1\n",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn text_of_go_whose_lines_end_in_numbers() {
        for text in [
            "goroutine profile: total 5\n1 @ 0x43b945 0x44bcf8\n#\t0x43b944\truntime.gopark+0xd4\t\n",
            "heap profile: 1: 1048576 [2: 2097152] @ heap/1048576\n1: 1048576 [1: 1048576] @ 0x4a 27\n",
        ] {
            check(text, Some("Go profile text"));
        }
    }

    #[test]
    fn neither() {
        check("", None);
        check("\n\n", None);
        check("hello world\n", None);
        check("<svg xmlns='http://www.w3.org/2000/svg'/>\n", None);
        check("{\"version\": 1}\n", None);
        // Binary formats.
        check("\u{1}\0\u{2}\napp;main;work 12\n", None);
        check("app 12 1.5: cycles: \n\t 4a1 main (/bin/app)\n\0", None);
    }
}
