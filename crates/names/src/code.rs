//! What kind of code a name says that it is of, where nothing else says it.

/// Code that is not a program's own, compiled before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// The kernel's.
    Kernel,
    /// Inlined into its caller.
    Inlined,
    /// Compiled at run time.
    Jit,
    /// Interpreted.
    Interpreted,
}

/// The kind that a mark at the end of a name says: `_[k]` kernel, `_[i]` inlined, `_[j]` compiled at run time.
pub fn marked_kind(name: &str) -> Option<CodeKind> {
    Some(match name.strip_suffix(']')?.rsplit_once("_[")?.1 {
        "k" => CodeKind::Kernel,
        "i" => CodeKind::Inlined,
        "j" => CodeKind::Jit,
        _ => return None,
    })
}

/// The kind that the form of a name shows: a script's function, `run (app.py:7)`, or a method of Java, `java/util/List.get`, which
/// profilers of folded text write for compiled ones.
pub fn kind_by_form(name: &str) -> Option<CodeKind> {
    if is_script(name) {
        Some(CodeKind::Interpreted)
    } else {
        is_java(name).then_some(CodeKind::Jit)
    }
}

/// True if the name has a source file of an interpreted language: `run (app.py:7)`.
fn is_script(name: &str) -> bool {
    [".py", ".rb", ".php", ".lua", ".pl"].iter().any(|ending| {
        name.find(ending).is_some_and(|at| {
            let next = name[at + ending.len()..].chars().next();
            at > 0 && next.is_none_or(|c| matches!(c, ':' | ' ' | ')'))
        })
    })
}

/// True of the name of a Java class: `java/util/List.get`, with `L` before it or not.
fn is_java(name: &str) -> bool {
    let packages = ["java/", "javax/", "jdk/", "net/", "org/", "com/", "io/", "sun/"];
    let class = name.strip_prefix('L').unwrap_or(name);
    packages.iter().any(|package| class.starts_with(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_forms() {
        let check = |name: &str, mark: Option<CodeKind>, form: Option<CodeKind>| {
            assert_eq!((marked_kind(name), kind_by_form(name)), (mark, form), "{name}");
        };
        check("vfs_read_[k]", Some(CodeKind::Kernel), None);
        check("push_[i]", Some(CodeKind::Inlined), None);
        check("java/util/List.get_[j]", Some(CodeKind::Jit), Some(CodeKind::Jit));
        check("run (app.py:7)", None, Some(CodeKind::Interpreted));
        check("app.pyx", None, None);
        check("a[k]", None, None);
        check("wake_[w]", None, None);
    }
}
