//! Summary of the switch history, by task and CPU.

use std::collections::BTreeMap;

use pyrograph_profile::{SchedAction, SchedEvent, TaskId, TaskState};

use super::timehist::{TimehistEvent, TimehistRow};

/// Sums over all rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedSummary {
    /// By task, except idle tasks.
    pub tasks: BTreeMap<TaskId, TaskSummary>,
    /// Known idle time of each CPU in nanoseconds; `None` if the CPU was never idle.
    pub idle: BTreeMap<u32, Option<u64>>,
    /// Number of switches.
    pub switches: u64,
    /// Times of the first and the last switch, as in perf.
    pub span: Option<(u64, u64)>,
}

/// Sums of a task. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// Number of times that it left a CPU.
    pub switches: u64,
    /// Known run times.
    pub run: Spread,
    /// Time blocked in interruptible sleep, or in a state that has no field of its own here.
    pub sleep: u64,
    /// Time blocked in uninterruptible sleep.
    pub uninterruptible: u64,
    /// Time waiting for a CPU after preemption.
    pub preempted: u64,
    /// Time waiting for a CPU after wakeup.
    pub delay: u64,
    /// Number of migrations to another CPU.
    pub migrations: u64,
    /// True if its exit was seen.
    pub has_ended: bool,
}

/// Statistics of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Sum.
    pub total: u64,
    /// Minimum; 0 if there are no values.
    pub least: u64,
    /// Maximum; 0 if there are no values.
    pub most: u64,
    /// Sum of squares.
    squares: u128,
}

impl Spread {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.total = self.total.saturating_add(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// Mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }

    /// Standard error of the mean, as a share of the mean; 0 for fewer than two values.
    pub fn relative_deviation(&self) -> f64 {
        let (count, mean) = (self.count as f64, self.mean());
        if self.count < 2 || mean == 0.0 {
            return 0.0;
        }
        // Integers, because with values this large the difference of two floats would lose all precision.
        let of_squares = self.squares.saturating_mul(self.count.into());
        let of_total = u128::from(self.total) * u128::from(self.total);
        let variance = of_squares.saturating_sub(of_total) as f64 / count / (count - 1.0);
        (variance / count).sqrt() / mean
    }
}

impl SchedSummary {
    /// Updates the time span, and notes exits of tasks.
    pub(super) fn saw(&mut self, event: &SchedEvent) {
        if let SchedAction::Switch { .. } = event.action {
            let (first, last) = self.span.unwrap_or((event.time, event.time));
            self.span = Some((first.min(event.time), last.max(event.time)));
        }
        if let SchedAction::Exit { task } = event.action
            && let Some(row) = self.tasks.get_mut(&task)
        {
            row.has_ended = true;
        }
    }

    /// Adds a row's idle time to its CPU.
    pub(super) fn add_cpu(&mut self, row: &TimehistRow) {
        let TimehistEvent::Switch { stint, next, .. } = &row.what else { return };
        let idle = self.idle.entry(row.cpu).or_default();
        if *next == TaskId::IDLE {
            idle.get_or_insert(0);
        }
        if row.task == TaskId::IDLE {
            let sum = idle.get_or_insert(0);
            *sum = sum.saturating_add(stint.on_cpu().unwrap_or(0));
        }
    }

    /// Adds a row to the sums of its task.
    pub(super) fn add_task(&mut self, row: &TimehistRow) {
        match &row.what {
            TimehistEvent::Switch { stint, .. } => {
                self.switches += 1;
                if row.task == TaskId::IDLE {
                    return;
                }
                let sums = self.tasks.entry(row.task).or_default();
                sums.switches += 1;
                sums.has_ended |= stint.state == TaskState::Dead;
                if let Some(time) = stint.on_cpu().or(stint.counted) {
                    sums.run.add(time);
                }
                let Some(arrival) = &stint.arrival else { return };
                if let (Some(ready), Some(delay)) = (arrival.ready, arrival.delay())
                    && !ready.preempted
                {
                    sums.delay = sums.delay.saturating_add(delay);
                }
                let (Some(absence), Some(time)) = (arrival.absence, arrival.absent()) else {
                    return;
                };
                let sum = match absence.state {
                    TaskState::Runnable => &mut sums.preempted,
                    TaskState::Uninterruptible => &mut sums.uninterruptible,
                    _ => &mut sums.sleep,
                };
                *sum = sum.saturating_add(time);
            }
            TimehistEvent::Wakeup(_) => {}
            TimehistEvent::Migration { task, .. } => {
                self.tasks.entry(*task).or_default().migrations += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_its_numbers() {
        let numbers = [3_000_000_000_u64, 3_000_000_001, 3_000_000_002, 3_000_000_009];
        let mut spread = Spread::default();
        numbers.iter().for_each(|number| spread.add(*number));
        let mean = 3_000_000_003.0;
        assert_eq!((spread.count, spread.least, spread.most), (4, numbers[0], numbers[3]));
        assert_eq!(spread.mean(), mean);
        // By hand: squares of −3, −2, −1, 6 are 50; 50 / 3 / 4 is 4.1667, its root 2.0412.
        let expect = (50.0_f64 / 3.0 / 4.0).sqrt() / mean;
        assert!((spread.relative_deviation() / expect - 1.0).abs() < 1e-9);
        assert_eq!(Spread::default().relative_deviation(), 0.0);
    }
}
