//! System calls, and what has to be copied from a program's memory to show one.

use crate::kind::Kind;

/// A system call: its name, arguments, and kind of result.
#[derive(Debug)]
pub struct Call {
    /// Name in `unistd.h`, such as `openat`.
    pub name: &'static str,
    /// Arguments, at most six.
    pub arguments: &'static [Argument],
    pub(crate) returns: Returns,
}

/// An argument of a system call.
#[derive(Debug)]
pub struct Argument {
    /// Name in the kernel, as in tracefs.
    pub name: &'static str,
    pub(crate) kind: Kind,
}

impl Argument {
    /// Number of the bits of the argument that are used, and true if it is signed.
    pub fn bits(&self) -> (u8, bool) {
        match self.kind {
            Kind::Int | Kind::Fd => (32, true),
            Kind::Uint
            | Kind::Mode
            | Kind::Signal
            | Kind::Device
            | Kind::Name(_)
            | Kind::Flags(_) => (32, false),
            Kind::Long => (64, true),
            _ => (64, false),
        }
    }

    /// Returns true for the address of a text that ends with a zero byte.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Path | Kind::Text)
    }
}

/// Kind of result of a successful call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A count, an ID, or 0.
    Number,
    /// A file descriptor.
    Descriptor,
    /// An address.
    Address,
    /// An access mode, in octal.
    Mode,
    /// Nothing: the call does not return.
    Never,
    /// Number of ready descriptors, or 0 after the timeout.
    Ready,
    /// Result of a command of `fcntl`.
    Fcntl,
    /// Flags, shown in hexadecimal.
    Hex,
}

/// A piece of a program's memory to copy, so that an argument can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Index of the argument that contains the address.
    pub argument: u8,
    /// Time at which the memory has the wanted contents.
    pub when: When,
    /// Size of the memory.
    pub extent: Extent,
    /// True if it is shown as a string, for which [`Written::text`](crate::Written::text) bytes are enough. Everything
    /// else, including paths, is copied as a whole.
    pub text: bool,
}

/// Time of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the call: data from the program.
    Entry,
    /// After the call: data from the kernel.
    Exit,
}

/// The size of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Up to a NUL.
    Text,
    /// This many bytes.
    Fixed(u32),
    /// Up to this many bytes, fewer if the next page cannot be read: the actual size depends on the command.
    UpTo(u32),
    /// Value of an argument (its low 32 bits if it is an `int`), times a size, in bytes.
    Argument {
        /// Index of the argument with the count.
        argument: u8,
        /// Bytes per element.
        times: u32,
    },
    /// Result of the call, times a size, in bytes.
    Result {
        /// Bytes per element.
        times: u32,
    },
    /// The `u32` that an argument points to, in bytes. It is read at the same time as the copy.
    Pointed {
        /// Index of the argument that points to the size, a `socklen_t *`.
        argument: u8,
    },
    /// Words of 8 bytes up to one that is 0: an array of pointers, without the memory they point to.
    Pointers,
    /// An array of strings that ends with a null pointer, such as `argv`. The copy is a sequence of
    /// [pieces](crate::pieces), one per string.
    Strings,
    /// An array of `struct iovec`; an argument has the count. The copy is a sequence of [pieces](crate::pieces), one
    /// per element.
    Vector {
        /// Index of the argument with the count.
        argument: u8,
        /// True if the call fills the buffers: then the copy is limited to the number of bytes that it returned.
        filled: bool,
    },
    /// A `struct msghdr`. The copy is a sequence of [pieces](crate::pieces): the 56 bytes of the structure, the targets
    /// of `msg_name` and `msg_control`, and then one for each element of `msg_iov`.
    Message,
    /// An array of `struct mmsghdr`; an argument has the count (at [`When::Exit`], the result of the call). For each
    /// element there are the pieces of a [`Message`](Self::Message), the first of which has 64 bytes.
    Messages {
        /// Index of the argument with the count.
        argument: u8,
    },
}

impl Call {
    /// Returns what has to be copied from memory to show this call's arguments: at most [`Self::MOST_COPIES`].
    pub fn copies(&self) -> Vec<Copy> {
        self.each_copy().collect()
    }

    /// Returns what can be copied from the memory of a 32-bit program, if this is [the same call](crate::compat_alike)
    /// there. `None` for copies whose layout differs. Pointers of [`Extent::Strings`] have 4 bytes.
    pub fn compat_copies(&self) -> Vec<Option<Copy>> {
        // `struct linux_dirent` has an inode and an offset of type `long`.
        let is_alike = |copy: &Copy| {
            let argument = self.arguments.get(usize::from(copy.argument));
            self.name != "getdents" && argument.is_some_and(|it| it.kind.is_alike())
        };
        self.each_copy().map(|copy| Some(copy).filter(is_alike)).collect()
    }

    /// Maximum number of copies of a call.
    pub const MOST_COPIES: usize = 4;

    pub(crate) fn each_copy(&self) -> impl Iterator<Item = Copy> + '_ {
        let all = self.arguments.iter().zip(0..).flat_map(|(argument, index)| {
            let one = move |(when, extent, text)| Copy { argument: index, when, extent, text };
            argument.kind.copies().into_iter().flatten().map(one)
        });
        all.take(Self::MOST_COPIES)
    }

    /// Returns true if an argument is a path.
    pub(crate) fn has_path(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument.kind, Kind::Path))
    }

    /// Returns true if the call takes or returns a file descriptor.
    pub(crate) fn has_descriptor(&self) -> bool {
        self.returns == Returns::Descriptor
            || self.arguments.iter().any(|argument| matches!(argument.kind, Kind::Fd))
    }
}
