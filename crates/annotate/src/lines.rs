//! Source lines and inlined functions of instructions, and names of call targets.

use std::collections::HashMap;
use std::sync::Arc;

use pyrograph_analyze::{Annotation, Scope, SourceFile, SourcePlace};
use pyrograph_disassemble::Instruction;
use pyrograph_symbol::{Frame, Kallsyms, Options, Symbolized};

use crate::code::{Code, JitLines};

/// Appends the names of called functions and jump targets to instructions.
pub(crate) fn name_targets(
    annotation: &mut Annotation,
    decoded: &[Instruction],
    code: &Code,
    options: &Options,
) {
    if let Some(symbols) = &code.symbols {
        name_kernel_targets(annotation, decoded, code, symbols);
    }
    let Some(module) = &code.module else { return };
    let is_outside = |of: &&Instruction| of.target.is_some_and(|target| !holds(code, target));
    let mut targets: Vec<u64> =
        decoded.iter().filter(is_outside).filter_map(|of| of.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let plain = Options { inlines: false, lines: false, ..options.clone() };
    let found = module.symbolize(&targets, &plain);
    let names: HashMap<u64, &Symbolized> = targets.iter().copied().zip(&found.addresses).collect();
    for (annotated, instruction) in annotation.instructions.iter_mut().zip(decoded) {
        let Some(target) = instruction.target else { continue };
        if holds(code, target) {
            continue;
        }
        if let Some(symbol) = names.get(&target)
            && let Some(frame) = symbol.frames.last()
        {
            let into = symbol.start.map_or(0, |start| target.saturating_sub(start));
            add_name(&mut annotated.text, &frame.function, into);
        }
    }
}

/// As [`name_targets`], for code without a file.
fn name_kernel_targets(
    annotation: &mut Annotation,
    decoded: &[Instruction],
    code: &Code,
    symbols: &Kallsyms,
) {
    for (annotated, instruction) in annotation.instructions.iter_mut().zip(decoded) {
        if let Some(target) = instruction.target.filter(|&target| !holds(code, target))
            && let Some(symbol) = symbols.lookup(target)
        {
            add_name(&mut annotated.text, symbol.name, target.saturating_sub(symbol.start));
        }
    }
}

fn add_name(text: &mut String, name: &str, into: u64) {
    let into = if into > 0 { format!("+0x{into:x}") } else { String::new() };
    text.push_str(&format!(" <{name}{into}>"));
}

fn holds(code: &Code, address: u64) -> bool {
    address.checked_sub(code.start).is_some_and(|into| into < code.bytes.len() as u64)
}

/// Sets the source lines and inlined functions of instructions.
pub(crate) fn add_lines(annotation: &mut Annotation, code: &mut Code, options: &Options) {
    annotation.scopes = vec![Scope::default()];
    if let Some(lines) = &mut code.lines {
        add_jit_lines(annotation, lines);
    }
    let Some(module) = &code.module else { return };
    let addresses: Vec<u64> = annotation.instructions.iter().map(|of| of.address).collect();
    let wanted = Options { inlines: true, lines: true, ..options.clone() };
    let found = module.symbolize(&addresses, &wanted);
    annotation.notes.extend(found.warnings.iter().map(ToString::to_string));
    let mut tables = Tables::default();
    for (instruction, symbol) in annotation.instructions.iter_mut().zip(&found.addresses) {
        let Some(innermost) = symbol.frames.first() else { continue };
        instruction.place = tables.place(innermost);
        instruction.scope = tables.scope(&symbol.frames, &mut annotation.scopes);
        if let Some(outermost) = symbol.frames.last()
            && annotation.start.is_none()
            && outermost.start_line > 0
        {
            let start = Frame { line: outermost.start_line, ..outermost.clone() };
            annotation.start = tables.place(&start);
        }
    }
    annotation.files = tables.files;
    if annotation.instructions.iter().all(|of| of.place.is_none()) {
        let path = &annotation.module;
        let reason = match module.has_debug_information(&options.locator) {
            true => {
                "has debug information, but none of this function: it was made by the linker, or compiled without -g"
            }
            false => "has no debug information; compile with -g, or install its debug package",
        };
        annotation.notes.push(format!("no source lines: {path} {reason}"));
    }
}

/// Sets the lines from the jitdump file.
fn add_jit_lines(annotation: &mut Annotation, JitLines { dump, number }: &mut JitLines) {
    let mut tables = Tables::default();
    for instruction in &mut annotation.instructions {
        let Some(found) = dump.function(*number, instruction.address) else { continue };
        let file = found.file.map(Arc::from);
        let (function, line) = (found.name.into(), found.line);
        let frame = Frame { function, full: None, file, line, start_line: 0 };
        instruction.place = tables.place(&frame);
    }
    annotation.files = tables.files;
    if annotation.instructions.iter().all(|of| of.place.is_none()) {
        let path = &annotation.module;
        annotation.notes.push(format!("no source lines: the process has written none to {path}"));
    }
}

#[derive(Default)]
struct Tables {
    files: Vec<SourceFile>,
    by_path: HashMap<Arc<str>, usize>,
    scopes: HashMap<Scope, usize>,
}

impl Tables {
    fn place(&mut self, frame: &Frame) -> Option<SourcePlace> {
        let path = frame.file.as_ref().filter(|_| frame.line > 0)?;
        let file = *self.by_path.entry(Arc::clone(path)).or_insert_with(|| {
            self.files.push(SourceFile { path: path.to_string(), ..SourceFile::default() });
            self.files.len() - 1
        });
        Some(SourcePlace { file, line: frame.line })
    }

    /// Returns the index of the scope of `frames`, which are innermost first.
    fn scope(&mut self, frames: &[Frame], scopes: &mut Vec<Scope>) -> usize {
        // The line of a frame is the line of the call to the next inner one.
        let calls = frames.windows(2).rev();
        let inlined = calls.map(|pair| (pair[0].function.to_string(), self.place(&pair[1])));
        let scope = Scope { inlined: inlined.collect() };
        if scope.inlined.is_empty() {
            return 0;
        }
        *self.scopes.entry(scope).or_insert_with_key(|scope| {
            scopes.push(scope.clone());
            scopes.len() - 1
        })
    }
}
