//! An entry's own line, and what its callchains add up to.

use pyrograph_profile::FrameKind;

use super::chains::Chains;

/// The frame of what perf left out.
pub const NOT_SHOWN: &str = "[not shown]";

/// Where the columns of a report are, as byte ranges of its lines.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The percentage that callchains are parts of: of an entry and, if there are two, of what it calls.
    overhead: Column,
    /// That of the entry alone.
    own: Column,
    /// The number of samples.
    pub samples: Option<Column>,
    command: Option<Column>,
    module: Option<Column>,
    /// The function.
    pub symbol: Option<Column>,
    /// True if the function comes before all else that entries are sorted by.
    pub symbol_first: bool,
    /// True if entries count what they call, too.
    pub has_children: bool,
}

/// From where to where a column goes; the last one goes on to the end of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Column {
    start: usize,
    end: usize,
}

/// A line of a report.
#[derive(Debug, Default)]
pub struct Entry {
    /// Hundredths of a percent; those of what it calls included, where perf printed both.
    pub percent: u64,
    /// Hundredths of a percent without what it calls.
    pub own: u64,
    pub samples: Option<u64>,
    /// The thread's name; empty if there is no such column.
    pub comm: String,
    pub pid: Option<i32>,
    pub module: String,
    pub symbol: String,
    pub kind: Option<FrameKind>,
    pub chains: Chains,
    /// Its chains are below perf's limit.
    pub lacks_chains: bool,
}

impl Columns {
    /// Reads the line of names and that of dots below it.
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

    /// Reads `    18.64%            22  worker one  demo               [.] app::spin`.
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
        // `[k] read_zero`: which part of the system it is in. `[.]` is user code.
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

/// True for two addresses that may be of the same code: entries have those in files, chains those in memory.
fn is_same_code(one: &str, other: &str) -> bool {
    /// Files are mapped by whole pages.
    const PAGE: u64 = 4096;
    let address = |name: &str| u64::from_str_radix(name.strip_prefix("0x")?, 16).ok();
    address(one).zip(address(other)).is_some_and(|(one, other)| one % PAGE == other % PAGE)
}

/// Drops what `perf report -v` prints before a symbol: `0x116a             B [.] leaf_a`.
fn without_address(symbol: &str) -> &str {
    let after = symbol.strip_prefix("0x").and_then(|rest| rest.split_once(' '));
    let origin = after.and_then(|(_, rest)| rest.trim_start().split_once(' '));
    match origin {
        Some((origin, rest)) if origin.len() == 1 && rest.starts_with('[') => rest,
        _ => symbol,
    }
}

/// Reads `18.64%` in hundredths.
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

/// Parts `30705:worker one`; a name alone may hold a colon, too.
fn split_pid(command: &str) -> (Option<i32>, &str) {
    match command.split_once(':') {
        Some((pid, comm)) if pid.parse::<i32>().is_ok() => (pid.parse().ok(), comm),
        _ => (None, command),
    }
}

impl Entry {
    /// The stacks, as printed, and what each counts: as many samples as the entry has, or hundredths
    /// of a percent, or the numbers of the chains themselves (`as_printed`).
    pub fn stacks(&self, fractal: bool, as_printed: bool) -> Vec<(Vec<&str>, u64)> {
        let stacks = self.chains.weigh(self.percent, self.samples, fractal);
        if as_printed {
            return stacks;
        }
        self.whole(stacks, fractal)
    }

    /// The same of a report that counts what an entry calls, too, with callers first: of the stacks that end in
    /// the entry's function. What it calls begins with it there.
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

    /// Stacks with weights in any unit, and what is missing of them, as parts of what the entry has.
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
        // Of which whole these are parts: the percentage where they are such, the samples where the
        // numbers can be samples, otherwise nothing is known to be missing.
        let whole = match (self.chains.are_percentages(), self.samples) {
            (true, _) => self.own,
            (false, Some(samples)) if sum <= samples => samples,
            (false, _) => sum,
        };
        // Each of perf's figures may be off by half of the last decimal.
        let tolerance = if self.chains.are_percentages() { stacks.len() as u64 + 1 } else { 0 };
        if whole > sum.saturating_add(tolerance) && !fractal {
            stacks.push((vec![NOT_SHOWN], whole - sum));
        }
        share(&mut stacks, total);
        stacks.retain(|(_, value)| *value > 0);
        stacks
    }
}

/// Turns weights into parts of `total`, rounded so that their sum is exact.
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
        // Not above `total`.
        *weight = (exact / sum) as u64;
        left -= *weight;
    }
    remainders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, place) in remainders.into_iter().take(left as usize) {
        stacks[place].1 += 1;
    }
}
