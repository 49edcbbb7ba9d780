//! Parser of an entry's own line, and distribution of the entry's value to its callchains.

use pyrograph_profile::FrameKind;

use super::chains::Chains;

/// Name of the frame for parts that perf left out.
pub const NOT_SHOWN: &str = "[not shown]";

/// Columns of a report, as byte ranges of its lines.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Percentage to which callchains are relative: with two columns, the one that includes children.
    overhead: Column,
    /// Percentage of the entry itself, without children.
    own: Column,
    /// Number of samples.
    pub samples: Option<Column>,
    command: Option<Column>,
    module: Option<Column>,
    /// The function.
    pub symbol: Option<Column>,
    /// True if the function is the first sort key.
    pub symbol_first: bool,
    /// True if the percentages of entries include their callees.
    pub has_children: bool,
}

/// Byte range of a column; the last one extends to the end of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Column {
    start: usize,
    end: usize,
}

/// An entry of a report.
#[derive(Debug, Default)]
pub struct Entry {
    /// Total in hundredths of a percent, including callees if perf printed both.
    pub percent: u64,
    /// Self value in hundredths of a percent, without callees.
    pub own: u64,
    pub samples: Option<u64>,
    /// The thread's name; empty if there is no such column.
    pub comm: String,
    pub pid: Option<i32>,
    pub module: String,
    pub symbol: String,
    pub kind: Option<FrameKind>,
    pub chains: Chains,
    /// True if its chains are below perf's limit.
    pub lacks_chains: bool,
}

impl Columns {
    /// Parses the line of column names and the line of dots below it.
    pub fn parse(names: &str, dots: &str) -> Option<Self> {
        let dots = dots.strip_prefix("# ")?.trim_end();
        let is_rule =
            dots.starts_with("..") && dots.bytes().all(|byte| matches!(byte, b'.' | b' '));
        if !is_rule || !names.starts_with('#') || !names.is_ascii() {
            return None;
        }
        let mut columns = Self::default();
        let (mut overhead, mut children, mut sort_key) = (None, None, None);
        let mut start = 0;
        let mut ranges = Vec::new();
        for word in dots.split(' ') {
            if !word.is_empty() {
                ranges.push(Column { start: start + 2, end: start + 2 + word.len() });
            }
            start += word.len() + 1;
        }
        if let Some(last) = ranges.last_mut() {
            last.end = usize::MAX;
        }
        for range in ranges {
            let name =
                names.get(range.start..range.end.min(names.len())).unwrap_or_default().trim();
            let is_number = matches!(name, "Overhead" | "Self" | "Children" | "Samples" | "Period");
            if !is_number {
                sort_key.get_or_insert(name);
            }
            match name {
                "Overhead" | "Self" => overhead = Some(range),
                "Children" => children = Some(range),
                "Samples" => columns.samples = Some(range),
                "Command" | "Pid:Command" => columns.command = Some(range),
                "Shared Object" => columns.module = Some(range),
                "Symbol" => columns.symbol = Some(range),
                _ => {}
            }
        }
        columns.own = overhead?;
        columns.overhead = children.unwrap_or(columns.own);
        columns.has_children = children.is_some();
        columns.symbol_first = sort_key == Some("Symbol");
        Some(columns)
    }

    /// Parses `    18.64%            22  worker one  demo               [.] app::spin`.
    pub fn entry(&self, line: &str) -> Option<Entry> {
        if !line.starts_with(' ') {
            return None;
        }
        let text = |column: Option<Column>| {
            let column = column?;
            line.get(column.start..column.end.min(line.len())).map(str::trim)
        };
        let own = percent(text(Some(self.own))?)?;
        let percent = percent(text(Some(self.overhead))?)?;
        let symbol = without_address(text(self.symbol).unwrap_or_default());
        // `[k] read_zero`: the level is in brackets. `[.]` is user code.
        let (level, symbol) = match symbol.as_bytes() {
            [b'[', level, b']', b' ', ..] => (*level, &symbol[4..]),
            _ => (b'.', symbol),
        };
        let (pid, comm) = split_pid(text(self.command).unwrap_or_default());
        Some(Entry {
            percent,
            own,
            samples: text(self.samples).and_then(|samples| samples.parse().ok()),
            comm: comm.to_owned(),
            pid,
            module: text(self.module).unwrap_or_default().to_owned(),
            symbol: symbol.trim().to_owned(),
            kind: matches!(level, b'k' | b'g').then_some(FrameKind::Kernel),
            chains: Chains::default(),
            lacks_chains: false,
        })
    }
}

/// True for two addresses that may belong to the same code: entries have file addresses, chains memory addresses.
fn is_same_code(one: &str, other: &str) -> bool {
    /// Files are mapped in whole pages.
    const PAGE: u64 = 4096;
    let address = |name: &str| u64::from_str_radix(name.strip_prefix("0x")?, 16).ok();
    address(one).zip(address(other)).is_some_and(|(one, other)| one % PAGE == other % PAGE)
}

/// Removes the prefix that `perf report -v` prints before a symbol: `0x116a             B [.] leaf_a`.
fn without_address(symbol: &str) -> &str {
    let after = symbol.strip_prefix("0x").and_then(|rest| rest.split_once(' '));
    let origin = after.and_then(|(_, rest)| rest.trim_start().split_once(' '));
    match origin {
        Some((origin, rest)) if origin.len() == 1 && rest.starts_with('[') => rest,
        _ => symbol,
    }
}

/// Parses `18.64%` into hundredths.
pub fn percent(text: &str) -> Option<u64> {
    let (whole, decimals) = text.strip_suffix('%')?.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 6
        || decimals.len() != 2
        || !digits(whole)
        || !digits(decimals)
    {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 100 + decimals.parse::<u64>().ok()?)
}

/// Splits `30705:worker one`; a name without a process ID may contain a colon, too.
fn split_pid(command: &str) -> (Option<i32>, &str) {
    match command.split_once(':') {
        Some((pid, comm)) if pid.parse::<i32>().is_ok() => (pid.parse().ok(), comm),
        _ => (None, command),
    }
}

impl Entry {
    /// Returns the stacks as printed, with their values: samples that add up to the entry's, hundredths of a percent,
    /// or the numbers of the chains themselves (`as_printed`).
    pub fn stacks(&self, fractal: bool, as_printed: bool) -> Vec<(Vec<&str>, u64)> {
        let stacks = self.chains.weigh(self.percent, self.samples, fractal);
        if as_printed {
            return stacks;
        }
        self.whole(stacks, fractal)
    }

    /// The same for a report whose entries include their callees, with callers first: returns the stacks that end in
    /// the entry's function. Chains of its callees begin with the function in such a report.
    pub fn own_stacks(&self, fractal: bool) -> Vec<(Vec<&str>, u64)> {
        if self.samples.unwrap_or(self.own) == 0 {
            return Vec::new();
        }
        let mut stacks = self.chains.weigh(self.percent, None, fractal);
        stacks.retain(|(path, _)| path.first().is_some_and(|first| !self.is_symbol(first)));
        self.whole(stacks, fractal)
    }

    /// True if a frame is the entry's own function.
    pub fn is_symbol(&self, frame: &str) -> bool {
        let frame = frame.strip_suffix(" (inlined)").unwrap_or(frame);
        frame == self.symbol || is_same_code(frame, &self.symbol)
    }

    /// Scales stacks with weights in any unit, and what is missing, to the entry's value.
    fn whole<'a>(
        &self,
        mut stacks: Vec<(Vec<&'a str>, u64)>,
        fractal: bool,
    ) -> Vec<(Vec<&'a str>, u64)> {
        let total = self.samples.unwrap_or(self.own);
        let sum: u64 = stacks.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight));
        if sum == 0 {
            // A function without a caller is printed without a chain.
            let path = if self.lacks_chains { vec![NOT_SHOWN] } else { Vec::new() };
            return vec![(path, total)];
        }
        // The total that the weights are parts of: the percentage if they are percentages, the samples if the numbers
        // can be samples; otherwise nothing is known to be missing.
        let whole = match (self.chains.are_percentages(), self.samples) {
            (true, _) => self.own,
            (false, Some(samples)) if sum <= samples => samples,
            (false, _) => sum,
        };
        // Each of perf's numbers may be off by half of the last decimal.
        let tolerance = if self.chains.are_percentages() { stacks.len() as u64 + 1 } else { 0 };
        if whole > sum.saturating_add(tolerance) && !fractal {
            stacks.push((vec![NOT_SHOWN], whole - sum));
        }
        share(&mut stacks, total);
        stacks.retain(|(_, value)| *value > 0);
        stacks
    }
}

/// Scales weights to parts of `total`, rounded such that their sum is exact.
fn share(stacks: &mut [(Vec<&str>, u64)], total: u64) {
    let sum: u128 = stacks.iter().map(|(_, weight)| u128::from(*weight)).sum();
    if sum == 0 {
        return;
    }
    let mut left = total;
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(stacks.len());
    for (place, (_, weight)) in stacks.iter_mut().enumerate() {
        let exact = u128::from(*weight) * u128::from(total);
        remainders.push((exact % sum, place));
        // The quotient is at most `total`.
        *weight = (exact / sum) as u64;
        left -= *weight;
    }
    remainders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, place) in remainders.into_iter().take(left as usize) {
        stacks[place].1 += 1;
    }
}
