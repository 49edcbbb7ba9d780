use pyrograph_analyze::{AnnotatedInstruction, Scope, SourceFile, SourcePlace};
use pyrograph_profile::ValueType;

use super::*;

fn place(file: usize, line: u32) -> Option<SourcePlace> {
    Some(SourcePlace { file, line })
}

/// A loop with an inlined call, in two files, behind a long run without samples.
fn annotation() -> Annotation {
    let mut of = Annotation {
        function: "work<b>".to_owned(),
        module: "/bin/app\x1b[31m".to_owned(),
        value_types: vec![ValueType::samples()],
        totals: vec![100],
        wholes: vec![400],
        scopes: vec![Scope::default()],
        notes: vec!["a note".to_owned()],
        start: place(0, 1),
        ..Annotation::default()
    };
    of.scopes.push(Scope {
        inlined: vec![("next<u8>".to_owned(), place(0, 3)), ("get".to_owned(), place(1, 8))],
    });
    let lines = [(1, "void work() {"), (2, "  for (;;)"), (3, "    next();\x1b[2J")];
    let lines = lines.map(|(line, text)| (line, text.to_owned())).into();
    of.files = vec![
        SourceFile { path: "/src/work.c".to_owned(), lines },
        SourceFile { path: "/src/list.h".to_owned(), ..SourceFile::default() },
    ];
    let instruction = |address, text: &str, value, place, scope| AnnotatedInstruction {
        address,
        text: text.to_owned(),
        values: vec![value],
        place,
        scope,
        ..AnnotatedInstruction::default()
    };
    let nops = (0..20).map(|at| instruction(0x10 + at, "nop", 0, place(0, 1), 0));
    of.instructions = nops.collect();
    of.instructions.extend([
        instruction(0x30, "mov (%rax),%ecx", 60, place(1, 9), 1),
        instruction(0x32, "dec %ecx", 39, place(0, 2), 0),
        instruction(0x34, "jne 30", 1, place(0, 2), 0),
        instruction(0x36, "ret", 0, place(0, 3), 0),
    ]);
    of.instructions[22].target = Some(20);
    of
}

fn shown(style: AnnotationStyle) -> String {
    let mut out = Vec::new();
    annotation_text(&annotation(), style, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn instructions_stand_below_their_lines() {
    let expect = "\
work<b> in /bin/app\u{fffd}[31m
25.00% of 400 samples (samples): 100 samples
hottest: 30–34: 100.00% in 3 instructions

Percent │
        │ … 14 instructions without samples
        │   work.c:1  void work() {
        │     1e  nop
        │     1f  nop
        │     20  nop
        │     21  nop
        │     22  nop
        │     23  nop
        │ get, inlined at work.c:3 through next: next();\u{fffd}[2J
        │   list.h:9
  60.00 │ ┌►  30  mov (%rax),%ecx
        │ work<b>
        │   work.c:2    for (;;)
  39.00 │ │   32  dec %ecx
   1.00 │ └─  34  jne 30
        │   work.c:3      next();\u{fffd}[2J
        │     36  ret

a note
";
    let text = shown(AnnotationStyle::default());
    let squeezed = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&text), squeezed(expect), "{text}");
}

#[test]
fn only_what_is_asked_for_is_shown() {
    let all = shown(AnnotationStyle { all: true, ..AnnotationStyle::default() });
    assert!(!all.contains("without samples") && all.matches("nop").count() == 20);
    let asm = shown(AnnotationStyle {
        parts: AnnotationParts::Instructions,
        ..AnnotationStyle::default()
    });
    assert!(!asm.contains("work.c") && asm.contains("dec %ecx"));
    let source =
        shown(AnnotationStyle { parts: AnnotationParts::Source, ..AnnotationStyle::default() });
    assert!(!source.contains("nop") && source.contains("get (inlined), /src/list.h"), "{source}");
    for line in ["  40.00 │ 2    for (;;)", "  60.00 │ 3      next();", "  60.00 │ 9"] {
        assert!(source.contains(line), "{line} in {source}");
    }
}

#[test]
fn shares_are_coloured() {
    let text = shown(AnnotationStyle { color: true, ..AnnotationStyle::default() });
    assert!(text.contains("\x1b[31m  60.00\x1b[0m") && text.contains("\x1b[32m   1.00\x1b[0m"));
    assert!(!text.contains("\x1b[2J"));
}

#[test]
fn json_has_values_and_whole_chains() {
    let mut out = Vec::new();
    annotation_json(&annotation(), &mut out).expect("memory");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let hot = &value["instructions"][20];
    assert_eq!((&hot["address"], &hot["values"][0]), (&"30".into(), &60.into()));
    assert_eq!(hot["source"], serde_json::json!({ "file": "/src/list.h", "line": 9 }));
    assert_eq!(hot["inlined"][1]["function"], "get");
    assert_eq!(value["instructions"][22]["target"], "30");
}

#[test]
fn a_page_holds_text_from_outside_as_text() {
    let mut out = Vec::new();
    annotation_html(&annotation(), AnnotationStyle::default(), &mut out).expect("memory");
    let page = String::from_utf8(out).expect("text");
    assert!(page.contains("<h1>work&lt;b&gt;</h1>") && !page.contains('\x1b'));
    assert!(
        page.contains("<tr id=\"hot\" tabindex=\"0\" autofocus><td class=\"n hot\">60.00</td>")
    );
    assert!(!page.contains("<script"));
}

#[test]
fn functions_beyond_the_room_of_a_page_are_left_out() {
    let of = annotation();
    let one = packed(std::slice::from_ref(&of), 0)[0].to_string().len();
    let many = vec![of; (2 << 20) / one + 2];
    assert_eq!(packed(&many, 0).len(), (2 << 20) / one);
}
