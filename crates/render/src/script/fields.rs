//! Output fields of events, with the names of `perf script -F`.

use std::fmt;
use std::ops::BitAnd;

use pyrograph_profile::{EventClass, EventKind};

/// An output field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptField {
    /// Thread name.
    Comm,
    /// Thread ID.
    Tid,
    /// Process ID.
    Pid,
    /// Time in seconds.
    Time,
    /// CPU number.
    Cpu,
    /// Event name.
    Event,
    /// Fields of a tracepoint.
    Trace,
    /// Instruction address, and the stack.
    Ip,
    /// Function name.
    Sym,
    /// Offset from the function's start, in bytes.
    Symoff,
    /// Module.
    Dso,
    /// Source file and line.
    Srcline,
    /// Data address.
    Addr,
    /// Period: the value of the sample.
    Period,
    /// Weight.
    Weight,
    /// Source of the data (memory level and the like).
    DataSrc,
    /// Physical data address.
    PhysAddr,
    /// Registers at the sample.
    Iregs,
    /// User-space registers.
    Uregs,
    /// Branch stack.
    Brstack,
    /// Page size at the data address.
    DataPageSize,
    /// Page size at the instruction address.
    CodePageSize,
}

impl ScriptField {
    /// All fields with their names.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::Comm, "comm"),
        (Self::Tid, "tid"),
        (Self::Pid, "pid"),
        (Self::Time, "time"),
        (Self::Cpu, "cpu"),
        (Self::Event, "event"),
        (Self::Trace, "trace"),
        (Self::Ip, "ip"),
        (Self::Sym, "sym"),
        (Self::Symoff, "symoff"),
        (Self::Dso, "dso"),
        (Self::Srcline, "srcline"),
        (Self::Addr, "addr"),
        (Self::Period, "period"),
        (Self::Weight, "weight"),
        (Self::DataSrc, "data_src"),
        (Self::PhysAddr, "phys_addr"),
        (Self::Iregs, "iregs"),
        (Self::Uregs, "uregs"),
        (Self::Brstack, "brstack"),
        (Self::DataPageSize, "data_page_size"),
        (Self::CodePageSize, "code_page_size"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }

    fn is_in(self, kind: &EventKind) -> bool {
        match self {
            Self::Comm | Self::Tid | Self::Pid => kind.thread,
            Self::Time => kind.time,
            Self::Cpu => kind.cpu,
            Self::Event => true,
            Self::Trace => kind.class == EventClass::Tracepoint,
            Self::Ip | Self::Sym | Self::Symoff | Self::Dso | Self::Srcline => {
                kind.ip || kind.stack
            }
            Self::Addr => kind.addr,
            Self::Period => kind.period,
            Self::Weight => kind.weight,
            Self::DataSrc => kind.data_src,
            Self::PhysAddr => kind.phys_addr,
            Self::Iregs => kind.registers,
            Self::Uregs => kind.user_registers,
            Self::Brstack => kind.branches,
            Self::DataPageSize => kind.data_page_size,
            Self::CodePageSize => kind.code_page_size,
        }
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u32);

impl FieldSet {
    /// Fields of each frame of a stack.
    pub(super) const OF_PLACES: Self = Self::new(&[
        ScriptField::Ip,
        ScriptField::Sym,
        ScriptField::Symoff,
        ScriptField::Dso,
        ScriptField::Srcline,
    ]);

    const fn new(fields: &[ScriptField]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < fields.len() {
            bits |= 1 << fields[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Returns true if the set contains a field.
    pub fn has(self, field: ScriptField) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    fn fields(self) -> impl Iterator<Item = ScriptField> {
        ScriptField::ALL.into_iter().map(|(field, _)| field).filter(move |&field| self.has(field))
    }
}

impl BitAnd for FieldSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Selection of fields: the defaults of each kind of event, with changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptFields {
    changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// Class of events that the change applies to; all if `None`.
    class: Option<EventClass>,
    /// Fields that replace the defaults.
    only: Option<FieldSet>,
    more: FieldSet,
    less: FieldSet,
}

/// Reasons why fields cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// There is no such field.
    #[error("no field {0}; there are {known}", known = Known)]
    Unknown(String),
    /// There is no such class of events.
    #[error("no type of events {0}; there are hw, sw, trace, raw, bp and other")]
    UnknownClass(String),
    /// Fields with and without a sign are mixed.
    #[error("{0}: fields either have a sign, + or -, all of them, or none has")]
    Mixed(String),
    /// No event has this field.
    #[error("print {0}: no event in the input has it")]
    NotRecorded(&'static str),
}

struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ScriptField::ALL.map(|(_, name)| name).join(", "))
    }
}

impl ScriptFields {
    /// Adds an argument of `-F`: `comm,ip,sym`, `+pid,-dso`, `trace:comm,trace`. Several arguments accumulate; a list
    /// without signs replaces all previous ones for the same events.
    ///
    /// # Errors
    ///
    /// Fails if a field or a class of events is unknown, or if fields with and without a sign are mixed.
    pub fn add(&mut self, typed: &str) -> Result<(), FieldError> {
        let (class, list) = match typed.split_once(':') {
            Some((class, list)) => (Some(class_named(class)?), list),
            None => (None, typed),
        };
        let mut change =
            Change { class, only: None, more: FieldSet::default(), less: FieldSet::default() };
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (to, name) = match (item.strip_prefix('+'), item.strip_prefix('-')) {
                (Some(name), _) => (&mut change.more, name),
                (None, Some(name)) => (&mut change.less, name),
                (None, None) => (change.only.get_or_insert_default(), item),
            };
            let found = ScriptField::ALL.iter().find(|(_, known)| *known == name);
            let (field, _) = found.ok_or_else(|| FieldError::Unknown(name.to_owned()))?;
            to.0 |= 1 << *field as u32;
        }
        if change.only.is_some() && (change.more.0 | change.less.0) != 0 {
            return Err(FieldError::Mixed(typed.to_owned()));
        }
        if change.only.is_some() {
            self.changes.retain(|before| class.is_some() && before.class != class);
        }
        self.changes.push(change);
        Ok(())
    }

    /// Selected fields of a kind of event, limited to fields that it has.
    pub fn of(&self, kind: &EventKind) -> FieldSet {
        let wanted = self.wanted(kind);
        let mut found = FieldSet(0);
        for field in wanted.fields().filter(|field| field.is_in(kind)) {
            found.0 |= 1 << field as u32;
        }
        found
    }

    fn wanted(&self, kind: &EventKind) -> FieldSet {
        let mut set = usual(kind);
        for change in self.changes.iter().filter(|it| it.class.is_none_or(|it| it == kind.class)) {
            set = FieldSet(change.only.unwrap_or(set).0 | change.more.0);
            set.0 &= !change.less.0;
        }
        set
    }

    /// Checks that each requested field exists in some kind of event.
    ///
    /// # Errors
    ///
    /// Fails if a field exists in no kind.
    pub fn check(&self, kinds: &[EventKind]) -> Result<(), FieldError> {
        for change in &self.changes {
            let asked = FieldSet(change.only.unwrap_or_default().0 | change.more.0);
            let mut of_class =
                kinds.iter().filter(|kind| change.class.is_none_or(|of| of == kind.class));
            if of_class.clone().next().is_none() {
                continue;
            }
            if let Some(field) =
                asked.fields().find(|field| !of_class.clone().any(|kind| field.is_in(kind)))
                && of_class.next().is_some()
            {
                return Err(FieldError::NotRecorded(field.name()));
            }
        }
        Ok(())
    }

    /// Returns true if a field is selected for any of these kinds.
    pub fn any(&self, kinds: &[EventKind], field: ScriptField) -> bool {
        kinds.iter().any(|kind| self.of(kind).has(field))
    }
}

fn class_named(name: &str) -> Result<EventClass, FieldError> {
    Ok(match name {
        "hw" => EventClass::Hardware,
        "sw" => EventClass::Software,
        "trace" => EventClass::Tracepoint,
        "raw" => EventClass::Raw,
        "bp" => EventClass::Breakpoint,
        "other" => EventClass::Other,
        _ => return Err(FieldError::UnknownClass(name.to_owned())),
    })
}

/// Default fields of `perf script`.
fn usual(kind: &EventKind) -> FieldSet {
    use ScriptField as F;
    const ALL: FieldSet = FieldSet::new(&[F::Comm, F::Tid, F::Cpu, F::Time, F::Event]);
    const PLACE: FieldSet = FieldSet::new(&[F::Ip, F::Sym, F::Symoff, F::Dso]);
    const DATA: FieldSet = FieldSet::new(&[F::Addr, F::DataSrc, F::Weight, F::PhysAddr]);
    let more = match kind.class {
        EventClass::Tracepoint if kind.stack => FieldSet::new(&[F::Trace]).0 | PLACE.0,
        EventClass::Tracepoint => FieldSet::new(&[F::Trace]).0,
        EventClass::Raw => FieldSet::new(&[F::Period]).0 | PLACE.0 | DATA.0,
        _ => FieldSet::new(&[F::Period]).0 | PLACE.0,
    };
    FieldSet(ALL.0 | more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(class: EventClass) -> EventKind {
        EventKind {
            class,
            stack: true,
            thread: true,
            time: true,
            ip: true,
            period: true,
            ..EventKind::default()
        }
    }

    fn check(typed: &[&str], class: EventClass, expect: &str) {
        let mut fields = ScriptFields::default();
        let added = typed.iter().try_for_each(|typed| fields.add(typed));
        let names = match added {
            Ok(()) => fields
                .of(&kind(class))
                .fields()
                .map(ScriptField::name)
                .collect::<Vec<_>>()
                .join(","),
            Err(error) => error.to_string(),
        };
        assert!(names.starts_with(expect) && !expect.is_empty(), "{typed:?}: {names}");
    }

    #[test]
    fn fields_as_they_are_typed() {
        use EventClass::{Software, Tracepoint};
        check(&[], Software, "comm,tid,time,event,ip,sym,symoff,dso,period");
        check(&[], Tracepoint, "comm,tid,time,event,trace,ip,sym,symoff,dso");
        check(&["sym,ip"], Software, "ip,sym");
        check(&["+pid,-dso", "-symoff"], Software, "comm,tid,pid,time,event,ip,sym,period");
        check(&["comm,cpu"], Software, "comm");
        check(&["trace:comm"], Software, "comm,tid,time,event,ip,sym,symoff,dso,period");
        check(&["trace:comm"], Tracepoint, "comm");
        check(&["sw:pid", "trace:comm,trace"], Software, "pid");
        check(&["sw:pid", "comm"], Software, "comm");
        check(&["nosuch"], Software, "no field nosuch; there are comm, tid");
        check(&["cpu0:ip"], Software, "no type of events cpu0");
        check(&["comm,+pid"], Software, "comm,+pid: fields either");
    }

    #[test]
    fn what_no_event_has_cannot_be_printed() {
        let mut fields = ScriptFields::default();
        assert_eq!(fields.add("+addr"), Ok(()));
        let kinds = [kind(EventClass::Software)];
        assert_eq!(fields.check(&kinds), Err(FieldError::NotRecorded("addr")));
        let with = EventKind { addr: true, ..kind(EventClass::Software) };
        assert_eq!(fields.check(&[kinds[0].clone(), with]), Ok(()));
    }
}
