//! Maximum sample rate of this machine, found by taking some samples.
//!
//! Each sample costs time in the kernel, during which the sampled program does not run, and time in this process, which
//! reads it. The kernel limits the first for hardware counters (`kernel.perf_cpu_time_max_percent`, by default a
//! quarter of the time), but not for its clocks.

use std::time::{Duration, Instant};

use pyrograph_event::{Attr, Header, Layout, flag, kind, sample_type};

use crate::copy::Copier;
use crate::error::Notice;
use crate::ring::Ring;
use crate::sys;

/// Rates up to this, in Hz, are not checked: their cost is known to be low, and measuring takes longer than some
/// programs run.
pub(crate) const UNMEASURED: u64 = 5_000;

/// Maximum rate in Hz: the kernel's timers have a minimum period of 10 µs.
const MOST: u64 = 100_000;

/// The trial: sample rate in Hz, number of samples, and maximum duration.
const TRIAL_RATE: u64 = 4_000;
const TRIAL_SAMPLES: usize = 60;
const TRIAL_TIME: Duration = Duration::from_millis(100);

/// Limits for all samples together: the share of each CPU's time that they may take in the kernel, and the share of one
/// CPU's time that they may take in this process.
const SHARE_OF_KERNEL: f64 = 0.25;
const SHARE_OF_READER: f64 = 0.5;

/// Time to unwind a stack. In the kernel: a shallow stack; the time of others is measured during the recording. In this
/// process: with all processing before it.
const UNWINDING_IN_KERNEL: Duration = Duration::from_micros(3);
const UNWINDING: Duration = Duration::from_micros(8);

/// Costs that are assumed if they could not be measured: another program had the CPU, or no memory may be locked.
const ASSUMED: Cost = Cost { kernel: Duration::from_micros(15), here: Duration::from_micros(5) };

/// Time that one sample takes in the kernel, and here in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    kernel: Duration,
    here: Duration,
}

/// Returns true if the rate of a clock is so high that its cost is measured.
pub(crate) fn is_measured(attr: &Attr) -> bool {
    attr.has(flag::FREQ) && attr.sample_period > UNMEASURED
}

/// Lowers the rate of a clock to what the machine can do. `asked`: requested rate in Hz. `cpus`: number of CPUs that
/// are sampled at once. Returns the time that the kernel needs for a sample, if it was measured.
pub(crate) fn lower(
    attr: &mut Attr,
    asked: u64,
    cpus: usize,
    notices: &mut Vec<Notice>,
) -> Option<Duration> {
    if !is_measured(attr) {
        return None;
    }
    let is_unwound_in_kernel = attr.sample_type & sample_type::CALLCHAIN == 0;
    let mut cost = measure(attr).unwrap_or(ASSUMED);
    let interrupt = cost.kernel;
    if is_unwound_in_kernel {
        cost = Cost { kernel: cost.kernel + UNWINDING_IN_KERNEL, here: Duration::ZERO };
    } else {
        cost.here += UNWINDING;
    }
    let possible = cost.rate(cpus);
    if possible < attr.sample_period {
        attr.sample_period = possible;
        notices.retain(|notice| !matches!(notice, Notice::RateLowered { .. }));
        let cost = cost.kernel + cost.here;
        notices.push(Notice::RateTooHigh { asked, possible, cost });
    }
    Some(interrupt)
}

/// Returns the highest rate, in Hz, at which samples stay within their share of a CPU's time in the kernel. `cost`:
/// total time that the kernel takes for one sample.
pub fn possible_rate(cost: Duration) -> u64 {
    Cost { kernel: cost, here: Duration::ZERO }.rate(1)
}

impl Cost {
    /// Returns the highest rate, in Hz, at which samples stay within both shares.
    fn rate(self, cpus: usize) -> u64 {
        let kernel = SHARE_OF_KERNEL / self.kernel.as_secs_f64();
        let here = SHARE_OF_READER / (self.here.as_secs_f64() * cpus.max(1) as f64);
        let rate = kernel.min(here);
        // Rounded down to hundreds: the measurement is not more exact than that.
        let rounded = (rate / 100.0 + 1e-6).floor() * 100.0;
        (rounded as u64).clamp(UNMEASURED, MOST)
    }
}

/// Measures the cost of a sample by sampling this thread, which spins meanwhile. `None` if there were too few samples
/// to tell.
fn measure(attr: &Attr) -> Option<Cost> {
    let mut attr = *attr;
    attr.flags &= flag::FREQ
        | flag::EXCLUDE_KERNEL
        | flag::EXCLUDE_HV
        | flag::EXCLUDE_CALLCHAIN_USER
        | flag::EXCLUDE_CALLCHAIN_KERNEL
        | flag::USE_CLOCKID;
    attr.flags |= flag::DISABLED | flag::WATERMARK;
    attr.sample_period = TRIAL_RATE;
    // The callchain and the stack copy are taken as in the recording, of this thread.
    let copier = Copier::new(&Layout::new(&attr), attr.sample_regs_user);
    let mut ring = [4 << 20, 256 << 10].into_iter().find_map(|size| {
        let event = sys::perf_event_open(&attr, 0, None).ok()?;
        Ring::of_event(event, 0, size).ok()
    })?;
    sys::enable(ring.fd()).ok()?;
    let (gaps, samples, read) = spin(&mut ring, copier);
    let _ = sys::disable(ring.fd());
    let kernel = longest(gaps, samples)?;
    Some(Cost { kernel, here: read / u32::try_from(samples).unwrap_or(u32::MAX).max(1) })
}

/// Reads the clock in a loop until there are enough samples. Returns the duration of each jump of the clock, the number
/// of samples, and the time that it took to read them.
fn spin(ring: &mut Ring, copier: Copier) -> (Vec<Duration>, usize, Duration) {
    const JUMP: Duration = Duration::from_micros(1);
    const MOST_JUMPS: usize = 4_000;
    let (mut gaps, mut samples, mut read) = (Vec::new(), 0, Duration::ZERO);
    let mut records = Vec::new();
    let begun = Instant::now();
    let mut last = begun;
    while samples < TRIAL_SAMPLES && gaps.len() < MOST_JUMPS && last - begun < TRIAL_TIME {
        let now = Instant::now();
        let gap = now - std::mem::replace(&mut last, now);
        if gap >= JUMP {
            gaps.push(gap);
            records.clear();
            ring.drain(copier, &mut records);
            samples += count_samples(&records);
            // A sample that is taken during the drain causes no jump that is seen here.
            last = Instant::now();
            read += last - now;
        }
    }
    (gaps, samples, read)
}

fn count_samples(mut records: &[u8]) -> usize {
    let mut count = 0;
    let order = Layout::new(&Attr::new()).order();
    while let Ok(header) = Header::parse(records, order) {
        count += usize::from(header.kind == kind::SAMPLE);
        records = &records[usize::from(header.size)..];
    }
    count
}

/// Returns the median of the longest jumps, taking as many as there were samples with a jump. Shorter jumps are not
/// caused by samples, and jumps caused by another program on the CPU are rare. `None` if there are fewer than ten
/// samples, or more than a tenth of them caused no jump.
fn longest(mut gaps: Vec<Duration>, samples: usize) -> Option<Duration> {
    const FEWEST: usize = 10;
    let unseen = samples.saturating_sub(gaps.len());
    if samples < FEWEST || unseen > samples / 10 {
        return None;
    }
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    Some(gaps[(samples - unseen) / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn the_rate_keeps_to_a_quarter_of_each_cpu() {
        let check = |kernel, here, cpus, expect| {
            let cost = Cost { kernel: micros(kernel), here: micros(here) };
            assert_eq!(cost.rate(cpus), expect, "{kernel} {here} {cpus}");
        };
        check(10, 0, 2, 25_000);
        check(2, 10, 2, 25_000);
        check(2, 10, 1, 50_000);
        check(1, 0, 64, MOST);
        check(10, 10, 64, UNMEASURED);
    }

    #[test]
    fn a_sample_takes_what_most_jumps_took() {
        let gaps = |long: usize| {
            let mut gaps = vec![micros(2); 500];
            gaps.extend(vec![micros(9); 40]);
            gaps.extend(vec![micros(4_000); long]);
            gaps
        };
        assert_eq!(longest(gaps(0), 40), Some(micros(9)));
        assert_eq!(longest(gaps(5), 40), Some(micros(9)));
        assert_eq!(longest(gaps(0), 5), None);
        assert_eq!(longest(vec![micros(9); 54], 60), Some(micros(9)));
        assert_eq!(longest(vec![micros(9); 53], 60), None);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let mut attr = Attr { sample_period: 20_000, ..Attr::new() };
        crate::Event::cpu_clock().fill(&mut attr);
        attr.sample_type = sample_type::IP | sample_type::TID | sample_type::TIME;
        let attr = attr.with(flag::FREQ | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
        // SAFETY: the call takes nothing and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if !is_root && sys::perf_event_open(&attr, 0, None).is_err() {
            return eprintln!(
                "skipped: this_machine_can_be_measured: this user may not sample, root may"
            );
        }
        // Again where another had the CPU for a while.
        let cost = (0..20).find_map(|_| measure(&attr)).expect("samples, each with its jump");
        assert!(cost.kernel > Duration::ZERO && cost.kernel < TRIAL_TIME, "{cost:?}");
    }
}
