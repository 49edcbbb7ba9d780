use std::sync::Arc;

use proptest::prelude::*;
use pyrograph_analyze::SchedChartBuilder;
use pyrograph_profile::{SchedAction, SchedEvent, SchedTask, StackLine, TaskId};

use super::*;

const NASTY: &str = "</script><img src=x onerror=alert(1)>]]>\u{2028}";

fn event(time: u64, cpu: u32, action: SchedAction) -> SchedEvent {
    SchedEvent { time, cpu, action, stack: [].into() }
}

fn switch(previous: u32, state: TaskState, reason: WaitReason, next: u32) -> SchedAction {
    SchedAction::Switch { previous: TaskId(previous), state, reason, next: TaskId(next) }
}

/// Two processes, one of two threads, on CPUs 0 and 2; the second thread has a name that is markup, and a stack.
fn sample() -> (SchedChart, SchedTasks) {
    let mut tasks = SchedTasks::default();
    for (pid, tid, name) in [(7, 7, "app"), (7, 8, NASTY), (9, 9, "other")] {
        tasks.add(SchedTask { pid, tid, name: name.to_owned(), parent: None });
    }
    let line = Arc::new(StackLine { function: NASTY.to_owned(), ..StackLine::default() });
    let mut builder = SchedChartBuilder::default();
    let wakeup = SchedAction::Wakeup {
        task: TaskId(2),
        waker: TaskId(3),
        target: 0,
        is_new: false,
        is_waking: true,
    };
    let events = [
        event(1000, 0, switch(0, TaskState::Runnable, WaitReason::Unknown, 1)),
        event(1000, 2, SchedAction::Idle { state: Some(2) }),
        event(3000, 2, SchedAction::Idle { state: None }),
        event(3000, 2, switch(0, TaskState::Runnable, WaitReason::Unknown, 3)),
        event(4000, 0, switch(1, TaskState::Runnable, WaitReason::Unknown, 2)),
        event(6000, 0, switch(2, TaskState::Uninterruptible, WaitReason::Disk, 0)),
        event(8000, 2, wakeup),
        event(9000, 0, switch(0, TaskState::Runnable, WaitReason::Unknown, 2)),
        event(11_000, 2, switch(3, TaskState::Sleeping, WaitReason::Lock, 0)),
    ];
    for event in events {
        let stack: Arc<[Arc<StackLine>]> =
            if event.time == 6000 { [Arc::clone(&line)].into() } else { [].into() };
        builder.push(&SchedEvent { stack, ..event });
    }
    (builder.finish(), tasks)
}

fn look() -> SchedChartLook {
    SchedChartLook {
        title: NASTY.to_owned(),
        subtitle: NASTY.to_owned(),
        ..SchedChartLook::default()
    }
}

fn page() -> String {
    let ((chart, tasks), mut out) = (sample(), Vec::new());
    sched_chart_html(&chart, &tasks, &look(), &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

fn picture(look: &SchedChartLook) -> String {
    let ((chart, tasks), mut out) = (sample(), Vec::new());
    sched_chart_svg(&chart, &tasks, look, &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn the_page_has_no_markup_from_names_and_asks_for_nothing() {
    let html = page();
    assert!(!html.contains("<img"));
    // The data, and the page's own.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    for outside in ["src=\"", "@import", "url(", "fetch(", "innerHTML", "eval("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("content=\"default-src 'none';"));
}

#[test]
fn the_picture_is_well_formed_and_has_no_markup_from_names() {
    for width in [200.0, 360.0, 1200.0, 2560.0] {
        let svg = picture(&SchedChartLook { width, ..look() });
        let mut reader = quick_xml::Reader::from_str(&svg);
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) => {
                    assert!(tag.name().as_ref() != b"script" && tag.name().as_ref() != b"img");
                }
                _ => {}
            }
        }
        assert!(svg.contains(&format!("viewBox=\"0 0 {width} ")), "{width}");
    }
}

#[test]
fn rows_that_are_not_drawn_are_counted() {
    let all = picture(&look());
    assert!(!all.contains("Not drawn"));
    assert_eq!(all.matches("<g class=\"row\">").count(), 2 + 4);
    let svg = picture(&SchedChartLook { rows: 1, width: 2560.0, ..look() });
    // 3 + 4 of 3 + 4 + 8 microseconds.
    let expect = "Not drawn: 2 threads of 1 process, which ran for 47 % of all that ran.";
    assert!(svg.contains(expect), "{svg}");
}

#[test]
fn the_summary_says_what_is_missing() {
    let (mut chart, tasks) = sample();
    let text = |chart: &SchedChart| Shown::new(chart, &tasks).summary();
    assert_eq!(text(&chart), "6 switches of 3 threads on 2 CPUs in 10.0 µs");
    (chart.wakeups, chart.gaps, chart.impossible) = (0, 1, 2);
    assert_eq!(
        text(&chart),
        "6 switches of 3 threads on 2 CPUs in 10.0 µs; no wake-ups were recorded, so that waiting for a CPU is part of \
         being blocked; events are missing at 1 place; 2 events left out, of CPUs beyond the number that Linux can have"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pixels_share_their_time_out(
        spans in prop::collection::vec((0.0f64..60.0, 0.0f64..20.0, 0usize..12), 1..30),
    ) {
        let mut row = bars::Bars::new(40);
        for (from, length, kind) in &spans {
            row.add(bars::Class::Kind(Kind::ALL[*kind]), *from, from + length);
        }
        // By brute force: of each pixel, in two hundred parts.
        for (x, shares) in row.pixels.iter().enumerate() {
            for kind in Kind::ALL {
                let inside = |at: f64| {
                    let of_kind = spans.iter().filter(|(.., of)| Kind::ALL[*of] == kind);
                    of_kind.filter(|(from, length, _)| at >= *from && at < from + length).count()
                };
                let sum: usize = (0..200).map(|part| inside(x as f64 + (part as f64 + 0.5) / 200.0)).sum();
                let found = shares.iter().find(|(class, _)| *class == bars::Class::Kind(kind));
                let share = found.map_or(0.0, |(_, share)| *share);
                prop_assert!((share - sum as f64 / 200.0).abs() < 0.005 * spans.len() as f64 + 1e-9);
            }
        }
        for column in row.heights() {
            // One above the other, without a gap.
            prop_assert!(column.windows(2).all(|pair| pair[1].2 == pair[0].1));
            prop_assert!(column.iter().all(|(_, top, bottom)| top < bottom));
        }
    }
}
