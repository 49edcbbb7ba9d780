//! Functions of the kernel: counts, values, stacks. What is expected is what the programs have been told to do. For kernels with
//! kprobes: `tests/kernels/run linux-image-6.12 kernel_probes::`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{Folded, counts, is_root, of, pyrograph, text};
use crate::values::{by_root, stat};

const BLOCKS: &str = "count=3000";
const READS: i64 = 3000;

/// Reads as many blocks of 700 bytes.
const DD: [&str; 6] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=700", BLOCKS, "status=none"];

fn has_kernel_probes(test: &str) -> bool {
    let has = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    if !has {
        eprintln!("skipped: {test}: this kernel has no kprobes");
    }
    is_root(test) && has
}

#[test]
fn functions_of_the_kernel_are_counted_by_their_values() {
    if !has_kernel_probes("functions_of_the_kernel_are_counted_by_their_values") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let count = |arguments: &[&str]| stat(folder.path(), &DD, arguments);
    let one = |arguments: &[&str], key: &str, expect: i64| {
        let counted = count(arguments);
        let found = counted.counts.get(key).copied();
        assert_eq!(found, Some(expect), "{arguments:?}: {:?} {}", counted.counts, counted.said);
    };
    // By a number, what is returned, texts that pointers lead to, registers, and the same for the returns.
    one(&["-e", "kprobe:vfs_read", "--by", "count"], "700", READS);
    one(&["-e", "fentry:vfs_read", "--by", "arg3"], "700", READS);
    one(&["-e", "kretprobe:vfs_read", "--by", "$retval"], "700", READS);
    // What it was called with, when it returns: by the types, and by the registers.
    for by in ["count", "arg3"] {
        let filter = "$retval == 700";
        one(&["-e", "kretprobe:vfs_read", "--by", by, "--filter", filter], "700", READS);
    }
    one(&["-e", "kprobe:vfs_read", "--by", "%dx"], "0x2bc", READS);
    let name = "file->f_path.dentry->d_name.name:string";
    one(&["-e", "kprobe:vfs_read", "--by", name], "zero", READS);
    let filter = ["--filter", "count == 700"];
    let sum = ["-e", "kprobe:vfs_read", "--value", "count"];
    one(&[&sum[..], &filter].concat(), "", 700 * READS);
    // Memory of the program, to which the kernel has a pointer.
    let opened = "kprobe:do_sys_openat2 name=filename:string";
    one(&["-e", opened, "--by", "name", "--filter", "name ~ '/dev/*'"], "/dev/zero", 1);
    // Beside other events, without values.
    let counted = count(&["-e", "kprobe:vfs_read,page-faults,kretprobe:vfs_read"]);
    assert!(counted.said.is_empty() || !counted.said.contains("error"), "{}", counted.said);
    // A pattern stands for several functions.
    let events = ["-e", "kprobe:vfs_rea?,page-faults", "-e", "kprobe:vfs_writ*"];
    let output = pyrograph().args(["stat", "--json"]).args(events).arg("--").args(DD).output();
    let counted = counts(&output.expect("pyrograph runs"));
    for event in ["kprobe:vfs_read", "kprobe:vfs_write"] {
        assert!(of(&counted, event) >= READS as f64, "{event}: {counted:?}");
    }
    let latency = count(&["-e", "kprobe:vfs_read", "--latency", "--filter", "count == 700"]);
    let calls: u64 = latency.ranges.values().sum();
    assert_eq!(calls, READS.cast_unsigned(), "{}", latency.said);
}

#[test]
fn functions_of_the_kernel_have_stacks() {
    if !has_kernel_probes("functions_of_the_kernel_have_stacks") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let record = |name: &str, arguments: &[&str]| {
        let path = folder.path().join(name);
        let mut command = pyrograph();
        command.arg("record").args(arguments).arg("-o").arg(&path).arg("--").args(DD);
        let output = command.output().expect("pyrograph runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        std::fs::read_to_string(path).expect("it was written")
    };
    let calls = Folded::parse(&record("calls.folded", &["-e", "kprobe:vfs_read"]));
    let through = |folded: &Folded, function: &str| folded.total() * folded.total_share(function);
    for function in ["vfs_read", "do_syscall_64"] {
        assert!(through(&calls, function) >= 100.0 * READS as f64, "{:?}", calls.leaves());
    }
    let by = ["-e", "kprobe:vfs_read size=count", "--by", "size", "--value", "size"];
    let roots = by_root(&record("by.folded", &by), "size");
    assert_eq!(roots.get("700").copied(), Some(700 * READS), "{roots:?}");
    let returns =
        record("returns.folded", &["-e", "kretprobe:vfs_read", "--filter", "$retval == 700"]);
    let returns = Folded::parse(&returns);
    assert_eq!(returns.total(), READS as f64, "{:?}", returns.leaves());
    assert_eq!(returns.self_share("vfs_read"), 100.0, "{:?}", returns.leaves());
}

#[test]
fn functions_of_the_kernel_are_traced_and_listed() {
    if !has_kernel_probes("functions_of_the_kernel_are_traced_and_listed") {
        return;
    }
    let event = "kprobe:vfs_read count name=file->f_path.dentry->d_name.name:string";
    let output = pyrograph()
        .args(["trace", "-e", event, "--filter", "count == 700", "--"])
        .args(DD)
        .output()
        .expect("pyrograph runs");
    let said = text(&output.stderr) + &text(&output.stdout);
    let lines = said.lines().filter(|line| line.contains("count=700"));
    let (all, named): (Vec<&str>, Vec<&str>) =
        (lines.clone().collect(), lines.filter(|line| line.contains("name=\"zero\"")).collect());
    assert_eq!((all.len(), named.len()), (READS as usize, READS as usize), "{:?}", all.first());
    let listed = pyrograph().args(["list", "kprobe:vfs_rea*"]).output().expect("pyrograph runs");
    let listed = text(&listed.stdout);
    assert!(listed.contains("vfs_read(struct file *file, char *buf, size_t count"), "{listed}");
    for (event, expect) in [
        ("kprobe:vfs_raed", "did you mean vfs_read"),
        ("kprobe:vfs_read size", "there is no such parameter; there are file, buf, count, pos"),
        ("kretprobe:vfs_read size", "there is no such parameter; there are file, buf, count, pos"),
        ("kprobe:vfs_read+4", "use kprobe:FUNCTION"),
    ] {
        let output = pyrograph().args(["trace", "-e", event, "--", "true"]).output();
        let said = text(&output.expect("pyrograph runs").stderr);
        assert!(said.contains(expect), "{event}: {said}");
    }
}

/// By ftrace or by a breakpoint: what `list` says is what the kernel does while a function is watched.
#[test]
fn functions_of_the_kernel_are_watched_as_it_is_said() {
    if !has_kernel_probes("functions_of_the_kernel_are_watched_as_it_is_said") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display();
    // `ffffffff812b3c10  k  vfs_read+0x0    [FTRACE]`
    let shell =
        format!("mount -t debugfs none {place} && cat {place}/kprobes/list; umount {place}");
    let output = pyrograph()
        .args(["stat", "-e", "kprobe:vfs_read", "--", "sh", "-c", &shell])
        .output()
        .expect("pyrograph runs");
    let active = text(&output.stdout);
    let Some(line) = active.lines().find(|line| line.contains("vfs_read+")) else {
        eprintln!(
            "skipped: this kernel does not list its probes: {active}{}",
            text(&output.stderr)
        );
        return;
    };
    let listed = pyrograph().args(["list", "kprobe:vfs_read"]).output().expect("pyrograph runs");
    let listed = text(&listed.stdout);
    let by_ftrace = "functions of the kernel, by ftrace, without a trap:";
    assert_eq!(line.contains("[FTRACE]"), listed.contains(by_ftrace), "{line}: {listed}");
}

/// Functions of modules have types of their own, which go on where the kernel's end.
#[test]
fn functions_of_modules_have_parameters() {
    if !has_kernel_probes("functions_of_modules_have_parameters") {
        return;
    }
    // A file system of an image is a module where these tests are run by emulation.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_module = symbols.lines().any(|line| line.ends_with(" ovl_open\t[overlay]"));
    let root = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !is_module || !root.lines().any(|line| line.starts_with("overlay / ")) {
        eprintln!("skipped: this root is not of the module overlay");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = "file->f_path.dentry->d_name.name:string";
    let arguments =
        ["-e", "kprobe:ovl_open", "--by", name, "--filter", &format!("{name} == 'hostname'")];
    let counted =
        stat(folder.path(), &["sh", "-c", "cat /etc/hostname; cat /etc/hostname"], &arguments);
    assert_eq!(counted.counts, BTreeMap::from([("hostname".to_owned(), 2)]), "{}", counted.said);
    let listed = pyrograph().args(["list", "kprobe:ovl_open"]).output().expect("pyrograph runs");
    let listed = text(&listed.stdout);
    assert!(listed.contains("int ovl_open(struct inode *inode, struct file *file)"), "{listed}");
}

/// The chase of perf's tutorial: packets that come in.
#[test]
fn packets_are_counted_where_they_arrive() {
    if !has_kernel_probes("packets_are_counted_where_they_arrive") {
        return;
    }
    let ping = ["busybox", "ping", "-q", "-c", "3", "-s", "100", "127.0.0.1"];
    if !Command::new(ping[0]).args(&ping[1..]).output().is_ok_and(|of| of.status.success()) {
        eprintln!("skipped: busybox's ping does not reach 127.0.0.1");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["-a", "-e", "kprobe:icmp_rcv", "--by", "skb->len"];
    let counted = stat(folder.path(), &ping, &arguments);
    // Requests and replies: 100 bytes and a header of 8.
    let expect = BTreeMap::from([("108".to_owned(), 6)]);
    assert_eq!(counted.counts, expect, "{}", counted.said);
}
