//! Events that the machine itself names: events of its PMUs, and tracepoints.
//!
//! Sources: `Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events}`,
//! `Documentation/trace/events.rst`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::names::nearest;
use super::{Code, EventError};

/// Directories with the machine's events.
pub(super) struct Sources {
    /// `/sys/bus/event_source/devices`.
    pub devices: PathBuf,
    /// Possible mount points of tracefs.
    pub tracing: Vec<PathBuf>,
}

impl Sources {
    pub(super) fn of_this_machine() -> Self {
        Self {
            devices: "/sys/bus/event_source/devices".into(),
            tracing: vec!["/sys/kernel/tracing".into(), "/sys/kernel/debug/tracing".into()],
        }
    }

    /// Finds the PMU event with this name. The CPU's own PMU has precedence.
    pub(super) fn named_event(&self, name: &str) -> Option<(String, Code)> {
        if !is_file_name(name) {
            return None;
        }
        let mut pmus = file_names(&self.devices);
        pmus.sort_by_key(|pmu| pmu != "cpu");
        let pmu = pmus
            .into_iter()
            .find(|pmu| self.devices.join(pmu).join("events").join(name).is_file())?;
        Some((name.to_owned(), self.pmu_event(&pmu, name).ok()?))
    }

    /// Returns the names of all PMUs' events. (Files such as `NAME.scale` describe an event.)
    pub(super) fn event_names(&self) -> Vec<String> {
        let pmus = file_names(&self.devices);
        let events = pmus.iter().flat_map(|pmu| file_names(&self.devices.join(pmu).join("events")));
        events.filter(|name| !name.contains('.')).collect()
    }

    /// Parses the event `PMU/TERM,TERM=VALUE,NAME/`.
    pub(super) fn pmu_event(&self, pmu: &str, terms: &str) -> Result<Code, EventError> {
        let device = self.devices.join(pmu);
        let type_ = if is_file_name(pmu) { number_in(&device.join("type")).ok() } else { None };
        let Some(type_) = type_.and_then(|number| u32::try_from(number).ok()) else {
            let near = nearest(pmu, file_names(&self.devices));
            let near = near.into_iter().map(|near| format!("{near}/{terms}/")).collect();
            return Err(EventError::Unknown { name: format!("{pmu}/{terms}/"), near });
        };
        let mut code = Code { type_, ..Code::default() };
        for term in terms.split(',').filter(|term| !term.is_empty()) {
            let name = term.split('=').next().unwrap_or(term);
            let alias = device.join("events").join(name);
            if is_file_name(name) && alias.is_file() && !term.contains('=') {
                let text = fs::read_to_string(alias).unwrap_or_default();
                for term in text.trim().split(',') {
                    apply(&mut code, &device, pmu, term)?;
                }
            } else {
                apply(&mut code, &device, pmu, term)?;
            }
        }
        Ok(code)
    }

    /// Returns system, name and directory of each tracepoint. `pattern` is only for the error.
    pub(super) fn tracepoints(
        &self,
        pattern: &str,
    ) -> Result<Vec<(String, String, PathBuf)>, EventError> {
        let events = self.tracepoint_folder(pattern)?;
        let mut points = Vec::new();
        for system in file_names(&events) {
            let folder = events.join(&system);
            for point in file_names(&folder) {
                let path = folder.join(&point);
                if path.join("id").is_file() {
                    points.push((system.clone(), point, path));
                }
            }
        }
        Ok(points)
    }

    /// Returns the directory with the tracepoints of all systems. `name` is only for the error.
    fn tracepoint_folder(&self, name: &str) -> Result<PathBuf, EventError> {
        // Without permission to read tracefs, its directory seems to exist and be empty.
        for events in self.tracing.iter().map(|root| root.join("events")) {
            match fs::read_dir(&events) {
                Ok(_) => return Ok(events),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(EventError::TracefsDenied { name: name.to_owned(), path: events });
                }
                Err(_) => {}
            }
        }
        Err(EventError::NoTracefs { name: name.to_owned() })
    }

    /// Returns the ID of the tracepoint `SYSTEM:POINT`.
    pub(super) fn tracepoint(&self, system: &str, point: &str) -> Result<u64, EventError> {
        let name = format!("{system}:{point}");
        let events = self.tracepoint_folder(&name)?;
        let unknown = || {
            let points = file_names(&events.join(system))
                .into_iter()
                .map(|point| format!("{system}:{point}"));
            let near = if is_file_name(system) { nearest(&name, points) } else { Vec::new() };
            EventError::Unknown { name: name.clone(), near }
        };
        if !is_file_name(system) || !is_file_name(point) {
            return Err(unknown());
        }
        let id = events.join(system).join(point).join("id");
        number_in(&id).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                EventError::TracefsDenied { name: name.clone(), path: id }
            }
            _ => unknown(),
        })
    }
}

/// Sets the bits of `term` (`NAME` or `NAME=VALUE`) that the PMU's `format/NAME` specifies, such as `config:0-7,32-35`.
fn apply(code: &mut Code, device: &Path, pmu: &str, term: &str) -> Result<(), EventError> {
    let unknown = |near| EventError::Term { pmu: pmu.to_owned(), term: term.to_owned(), near };
    let (name, value) = term.split_once('=').unwrap_or((term, "1"));
    let value = parse_number(value).ok_or_else(|| unknown(Vec::new()))?;
    match name {
        "config" => code.config = value,
        "config1" => code.config1 = value,
        "config2" => code.config2 = value,
        "config3" => code.config3 = value,
        _ => {
            let format = device.join("format").join(name);
            let format = if is_file_name(name) { fs::read_to_string(format).ok() } else { None };
            let Some(format) = format else {
                let near = nearest(name, file_names(&device.join("format")));
                let near = near.into_iter().filter(|_| is_file_name(name)).collect();
                return Err(EventError::Term { pmu: pmu.to_owned(), term: name.to_owned(), near });
            };
            place(code, format.trim(), value).ok_or_else(|| unknown(Vec::new()))?;
        }
    }
    Ok(())
}

/// Distributes the bits of `value`, lowest first, over the ranges of bits in `format`. Returns `None` if they do not
/// fit.
fn place(code: &mut Code, format: &str, mut value: u64) -> Option<()> {
    let (field, ranges) = format.split_once(':')?;
    let field = match field {
        "config" => &mut code.config,
        "config1" => &mut code.config1,
        "config2" => &mut code.config2,
        "config3" => &mut code.config3,
        _ => return None,
    };
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        for bit in first..=last.min(63) {
            *field |= (value & 1) << bit;
            value >>= 1;
        }
    }
    (value == 0).then_some(())
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn number_in(path: &Path) -> io::Result<u64> {
    fs::read_to_string(path)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns true if `name` can be joined to a directory without leaving it.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// Returns the names in a directory, sorted. Empty if it cannot be read.
pub(super) fn file_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_over_the_bits_that_a_format_names() {
        let check = |format: &str, value, expect: Option<(u64, u64)>| {
            let mut code = Code::default();
            let done = place(&mut code, format, value);
            assert_eq!(done.map(|()| (code.config, code.config1)), expect, "{format}");
        };
        check("config:0-7", 0xff, Some((0xff, 0)));
        check("config:0-7", 0x100, None);
        check("config:0-7,32-35", 0xabc, Some((0xa << 32 | 0xbc, 0)));
        check("config1:63", 1, Some((0, 1 << 63)));
        check("config:0-100", 1, Some((1, 0)));
        check("config9:0", 1, None);
        check("config:x", 1, None);
    }
}
