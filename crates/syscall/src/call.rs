//! A system call, and what has to be copied from a program's memory to show one.

use crate::kind::Kind;

/// A system call: its name, its arguments, what it returns.
#[derive(Debug)]
pub struct Call {
    /// The name in `unistd.h`, as `openat`.
    pub name: &'static str,
    /// What it takes, at most six.
    pub arguments: &'static [Argument],
    pub(crate) returns: Returns,
}

/// An argument of a system call.
#[derive(Debug)]
pub struct Argument {
    /// The name in the kernel, as tracefs has it.
    pub name: &'static str,
    pub(crate) kind: Kind,
}

/// What a call returns where it succeeds.
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
    /// A number of descriptors that are ready, or 0 after the timeout.
    Ready,
    /// The answer to a command of `fcntl`.
    Fcntl,
    /// Flags as a number in hexadecimal.
    Hex,
}

/// A piece of a program's memory to be copied, so that an argument can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Index of the argument that is the address.
    pub argument: u8,
    /// When the memory holds what is wanted.
    pub when: When,
    /// How much of it.
    pub extent: Extent,
    /// True if it is shown as a string, of which [`Written::text`](crate::Written::text) bytes are enough. Everything else, paths too,
    /// is wanted whole.
    pub text: bool,
}

/// The moment of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the call: what the program says.
    Entry,
    /// After the call: what the kernel says.
    Exit,
}

/// The size of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Up to a NUL.
    Text,
    /// Bytes.
    Fixed(u32),
    /// At most so many bytes, fewer where the page after them cannot be read: how many there are depends on the command.
    UpTo(u32),
    /// The value of an argument (the low 32 bits, where it is an `int`), times a size, in bytes.
    Argument {
        /// Index of the argument that counts.
        argument: u8,
        /// Bytes of one.
        times: u32,
    },
    /// What the call returned, times a size, in bytes.
    Result {
        /// Bytes of one.
        times: u32,
    },
    /// The `u32` that an argument points at, in bytes. It is read at the same time as the copy.
    Pointed {
        /// Index of the argument that points at the size, a `socklen_t *`.
        argument: u8,
    },
    /// Words of 8 bytes up to one that is 0: an array of pointers, itself.
    Pointers,
    /// An array of strings that ends with a null pointer, `argv`. The copy is a sequence of [pieces](crate::pieces), one a string.
    Strings,
    /// An array of `struct iovec`, of as many as an argument says. The copy is a sequence of [pieces](crate::pieces), one an element.
    Vector {
        /// Index of the argument that counts.
        argument: u8,
        /// True if the call fills the buffers: then no more of them is copied than the number of bytes it returned.
        filled: bool,
    },
    /// A `struct msghdr`. The copy is a sequence of [pieces](crate::pieces): the 56 bytes themselves, what `msg_name` points at, what
    /// `msg_control` points at, and then one for each element of `msg_iov`.
    Message,
    /// An array of `struct mmsghdr`, of as many as an argument says (at [`When::Exit`], as the call returned): for each the pieces of a
    /// [`Message`](Self::Message), of which the first has 64 bytes.
    Messages {
        /// Index of the argument that counts.
        argument: u8,
    },
}

impl Call {
    /// What has to be copied from memory to show this call's arguments: at most [`Self::MOST_COPIES`].
    pub fn copies(&self) -> Vec<Copy> {
        self.each_copy().collect()
    }

    /// What can be copied of the memory of a 32-bit program, for which this is [the same call](crate::compat_alike): copies that
    /// have another layout there are none. Pointers of [`Extent::Strings`] have 4 bytes.
    pub fn compat_copies(&self) -> Vec<Option<Copy>> {
        // `struct linux_dirent` has an inode and an offset that are `long`.
        let is_alike = |copy: &Copy| {
            let argument = self.arguments.get(usize::from(copy.argument));
            self.name != "getdents" && argument.is_some_and(|it| it.kind.is_alike())
        };
        self.each_copy().map(|copy| Some(copy).filter(is_alike)).collect()
    }

    /// How many copies a call has at most.
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
