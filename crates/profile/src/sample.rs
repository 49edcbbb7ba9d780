//! Samples, stored in columns.

use crate::{AddressId, StackId, ThreadId};

/// One sample without its values: stack, thread, and, if the source has them, CPU, time and address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadId,
    /// The CPU's number.
    pub cpu: Option<u32>,
    /// Nanoseconds of a monotonic clock, whose zero depends on the source.
    pub time: Option<u64>,
    /// Address of the leaf's instruction. Sources set it if it was requested and the leaf is machine code.
    pub address: Option<AddressId>,
}

impl Sample {
    /// Creates a sample of which only the stack is known, for example for totals.
    pub fn new(stack: StackId) -> Self {
        Self { stack, ..Self::default() }
    }
}

/// All samples, stored in columns. The columns of CPUs, times and addresses are empty if no sample has a value there.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    stack: Vec<StackId>,
    thread: Vec<ThreadId>,
    cpu: Vec<u32>,
    time: Vec<u64>,
    address: Vec<AddressId>,
    /// One column for each value type.
    values: Vec<Vec<u64>>,
}

/// Value that means "not known" in the columns of CPUs, times and addresses.
const NO_CPU: u32 = u32::MAX;
const NO_TIME: u64 = u64::MAX;
const NO_ADDRESS: AddressId = AddressId(u32::MAX);

impl Samples {
    /// Creates an empty table with `columns` values per sample.
    pub fn new(columns: usize) -> Self {
        Self { values: vec![Vec::new(); columns], ..Self::default() }
    }

    /// Adds a sample.
    ///
    /// # Panics
    ///
    /// If the number of `values` differs from the number of value types.
    pub fn push(&mut self, sample: Sample, values: &[u64]) {
        assert_eq!(values.len(), self.values.len(), "one value for each value type");
        let before = self.stack.len();
        self.stack.push(sample.stack);
        self.thread.push(sample.thread);
        push_optional(&mut self.cpu, before, sample.cpu, NO_CPU);
        push_optional(&mut self.time, before, sample.time, NO_TIME);
        push_optional(&mut self.address, before, sample.address, NO_ADDRESS);
        for (column, &value) in self.values.iter_mut().zip(values) {
            column.push(value);
        }
    }

    /// Adds `value` to a value of a sample. Saturates.
    pub fn add(&mut self, row: usize, column: usize, value: u64) {
        let sum = &mut self.values[column][row];
        *sum = sum.saturating_add(value);
    }

    /// Memory of the columns in bytes.
    pub fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(Vec::capacity).sum();
        let ids = [self.stack.capacity(), self.thread.capacity(), self.address.capacity()];
        (ids.iter().sum::<usize>() + self.cpu.capacity()) * size_of::<u32>()
            + (self.time.capacity() + values) * size_of::<u64>()
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Returns the sample in row `row`.
    pub fn get(&self, row: usize) -> Sample {
        Sample {
            stack: self.stack[row],
            thread: self.thread[row],
            cpu: self.cpu.get(row).copied().filter(|&cpu| cpu != NO_CPU),
            time: self.time.get(row).copied().filter(|&time| time != NO_TIME),
            address: self.address.get(row).copied().filter(|&address| address != NO_ADDRESS),
        }
    }

    /// Iterates over all samples, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The values of column `column`, one per sample.
    pub fn values(&self, column: usize) -> &[u64] {
        &self.values[column]
    }

    /// Removes all columns of values except one.
    pub(crate) fn keep(&mut self, column: usize) {
        self.values = vec![self.values.swap_remove(column)];
    }

    /// Number of columns of values, one per value type.
    pub fn columns(&self) -> usize {
        self.values.len()
    }

    /// Multiplies a column by `factor`, for a source in which later values have more decimals than the first ones.
    /// Saturates.
    pub fn scale(&mut self, column: usize, factor: u64) {
        for value in &mut self.values[column] {
            *value = value.saturating_mul(factor);
        }
    }

    /// Replaces the stack of each sample.
    pub fn map_stacks(&mut self, new: impl Fn(StackId) -> StackId) {
        for stack in &mut self.stack {
            *stack = new(*stack);
        }
    }

    /// Replaces the thread of each sample.
    pub fn map_threads(&mut self, new: impl Fn(ThreadId) -> ThreadId) {
        for thread in &mut self.thread {
            *thread = new(*thread);
        }
    }

    /// Sets the time of all samples.
    pub fn set_times(&mut self, time: u64) {
        self.time = vec![time; self.len()];
    }

    /// Sets the address of each sample by its stack.
    pub fn set_addresses(&mut self, address: impl FnMut(StackId) -> Option<AddressId>) {
        let addresses = self.stack.iter().copied().map(address);
        self.address = addresses.map(|address| address.unwrap_or(NO_ADDRESS)).collect();
    }

    /// Sum of a column. Saturates.
    pub fn total(&self, column: usize) -> u64 {
        self.values[column].iter().fold(0, |sum, &value| sum.saturating_add(value))
    }
}

/// Adds a value to an optional column, which remains empty until the first known value.
fn push_optional<T: Copy>(column: &mut Vec<T>, before: usize, value: Option<T>, none: T) {
    match value {
        Some(value) => {
            column.resize(before, none);
            column.push(value);
        }
        None if !column.is_empty() => column.push(none),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_time_leaves_the_earlier_samples_without() {
        let mut samples = Samples::new(1);
        samples.push(Sample::new(StackId(1)), &[1]);
        samples.push(Sample { time: Some(7), ..Sample::new(StackId(2)) }, &[2]);
        samples.push(Sample::new(StackId(3)), &[3]);
        assert_eq!(samples.iter().map(|s| s.time).collect::<Vec<_>>(), [None, Some(7), None]);
        assert_eq!(samples.iter().map(|s| s.cpu).collect::<Vec<_>>(), [None; 3]);
        assert_eq!(samples.total(0), 6);
    }

    #[test]
    fn totals_saturate_and_do_not_wrap() {
        let mut samples = Samples::new(1);
        samples.push(Sample::new(StackId(1)), &[u64::MAX]);
        samples.push(Sample::new(StackId(1)), &[2]);
        assert_eq!(samples.total(0), u64::MAX);
    }
}
