//! Counts, contents of samples and records, and losses.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use pyrograph_event::{FileId, Record};
use pyrograph_record::*;

use crate::recorded::{command, record, shell, to_the_end};
use crate::subject::subject_command;

#[test]
fn each_page_fault_counts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let check = |rate: Option<Rate>, stack: StackMode| {
        let event = Event::parse("page-faults").ok();
        let options = Options { event, rate, stack, ..subject_command("faults", &out) };
        let Some(recorded) = to_the_end(&options) else { return };
        let reported: u64 = std::fs::read_to_string(&out).unwrap().parse().unwrap();
        let counted: u64 = recorded.periods.values().sum();
        let lost = match recorded.rate {
            Rate::Every(period) => period * recorded.summary.lost,
            Rate::Hertz(_) => panic!("page faults are counted, not timed"),
        };
        // Those of the shell before, and of the end after its report, are beyond its count.
        assert!(reported > 3000);
        assert!(
            counted + lost + 100 >= reported && counted <= reported + 1000,
            "{counted} counted, {lost} lost, {reported} reported"
        );
    };
    check(None, StackMode::FramePointers);
    check(None, StackMode::Dwarf { bytes: 8192 });
    check(Some(Rate::Every(7)), StackMode::FramePointers);
}

#[test]
fn context_switches_happen_in_the_kernel_and_have_stacks_of_both_parts() {
    let options = Options { event: Event::parse("cs").ok(), ..shell("sleep 0.01; sleep 0.01") };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.periods.values().sum::<u64>() >= 3);
    assert!(recorded.kernel_addresses > 0);
    assert!(recorded.stacks > 0);
    let user_only = Options { kernel: false, ..options };
    let recorded = to_the_end(&user_only).unwrap();
    assert!(recorded.periods.values().sum::<u64>() >= 3);
    assert_eq!(recorded.kernel_addresses, 0);
}

#[test]
fn the_kernel_alone() {
    let options = Options {
        user: false,
        ..shell("dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null")
    };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.kernel_addresses > 0);
    assert_eq!(recorded.stacks, 0);
}

/// The largest stack that can be asked for makes the largest record that there can be.
#[test]
fn the_largest_stacks_are_recorded() {
    let stack = StackMode::Dwarf { bytes: StackMode::MOST_BYTES };
    let options = Options { stack, ..shell("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done") };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.stacks > 5);
}

/// An event that asks for build IDs makes the kernel spoil the records of other programs: ours does not, and
/// is not spoilt by others that do.
#[test]
fn mappings_have_device_and_inode_whatever_others_ask_for() {
    let session = match Session::open(&command(["true"])) {
        Ok(session) => session,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let layout = session.layout();
    let mut recording = session.start().unwrap();
    let mut inodes = Vec::new();
    loop {
        match recording.next(Duration::from_millis(20)) {
            Next::Batch(batch) => {
                for bytes in batch.iter() {
                    if let Ok(Record::Mmap2(mapping)) = layout.decode(bytes)
                        && mapping.path.starts_with(b"/")
                    {
                        let FileId::Inode { inode, .. } = mapping.file else {
                            panic!("a build ID that nobody asked for: {mapping:?}")
                        };
                        inodes.push((String::from_utf8_lossy(mapping.path).into_owned(), inode));
                    }
                }
            }
            Next::Waiting => {}
            Next::End => break,
        }
    }
    assert!(inodes.len() >= 3, "program, loader and C library are mapped: {inodes:?}");
    for (path, inode) in inodes {
        let data = std::fs::metadata(&path).unwrap();
        // Overlay file systems, whose devices have the major number 0, may show another inode.
        if libc::major(data.dev()) != 0 {
            assert_eq!(data.ino(), inode, "{path}");
        }
    }
}

#[test]
fn a_frequency_above_the_kernels_limit_is_lowered() {
    let options = Options { rate: Some(Rate::Hertz(1 << 40)), ..command(["true"]) };
    match Session::open(&options) {
        Ok(session) => {
            let lowered = |notice: &Notice| {
                matches!(notice, Notice::RateLowered { .. } | Notice::RateTooHigh { .. })
            };
            assert!(session.notices().iter().any(lowered), "{:?}", session.notices());
        }
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn a_caller_who_is_busy_for_a_while_loses_nothing() {
    let options = shell("i=0; while [ $i -lt 800000 ]; do i=$((i+1)); done");
    // A ring holds a quarter of a second of these.
    let mut pause = Duration::from_millis(800);
    let recorded = record(&options, |_| {
        std::thread::sleep(std::mem::take(&mut pause));
        false
    });
    let Some(recorded) = recorded else { return };
    let (stacks, lost) = (recorded.stacks, recorded.summary.lost);
    assert!(stacks > 300, "{stacks}");
    // It could be hundreds; those of a pause of the whole machine are no fault of the caller's.
    assert!(lost * 20 < stacks as u64, "{lost} lost, {stacks} recorded");
}
