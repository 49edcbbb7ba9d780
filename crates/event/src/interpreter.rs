//! Descriptions of interpreters, as the kernel programs need them, and the calls of interpreted languages, as the
//! programs emit them. Plain data.

/// Description of an interpreter: where in the memory of a process the calls of its language are found. Addresses are
/// virtual addresses in the interpreter's ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The language.
    pub language: Language,
    /// Value to add to the file offset of code to get its address in the file.
    pub to_address: u64,
    /// Addresses of variables, in the order in which the language's walker in the kernel expects them.
    pub symbols: [u64; Self::SYMBOLS],
    /// Location of the thread's variable that leads to its calls.
    pub place: ThreadPlace,
    /// Offsets in structures, in bytes, in the order in which the language's walker expects them; [`Self::NO_OFFSET`] for
    /// a field that does not exist.
    pub offsets: [u32; Self::OFFSETS],
    /// The pieces of memory from which a function's name is read. The first is the function object itself.
    pub plan: Vec<ChunkPlan>,
    /// Mask of the tag bits in pointers in these pieces, which are not part of the address.
    pub tag: u32,
}

impl Interpreter {
    /// Maximum number of variables that a walker needs.
    pub const SYMBOLS: usize = 4;
    /// Maximum number of offsets that a walker needs.
    pub const OFFSETS: usize = 32;
    /// Maximum number of pieces of memory that name a function.
    pub const CHUNKS: usize = 32;
    /// Maximum size of one of these pieces, in bytes.
    pub const CHUNK_BYTES: u16 = 160;
    /// Placeholder for an offset that does not exist.
    pub const NO_OFFSET: u32 = u32::MAX;

    /// Builds the table of offsets from pairs of index and offset; all others are [`Self::NO_OFFSET`].
    pub fn offsets<const N: usize>(fields: [(usize, u32); N]) -> [u32; Self::OFFSETS] {
        let mut offsets = [Self::NO_OFFSET; Self::OFFSETS];
        for (field, offset) in fields {
            offsets[field] = offset;
        }
        offsets
    }
}

/// Languages that the kernel programs can walk. The values are those of `enum language` in the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Language {
    /// CPython.
    Python = 1,
    /// Perl 5.
    Perl,
    /// PHP.
    Php,
    /// Ruby (MRI).
    Ruby,
    /// JavaScript in V8 (Node).
    JavaScript,
    /// Lua in LuaJIT.
    Lua,
    /// Java in HotSpot.
    Java,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 7] =
        [Self::Python, Self::Perl, Self::Php, Self::Ruby, Self::JavaScript, Self::Lua, Self::Java];

    /// The language's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Perl => "perl",
            Self::Php => "php",
            Self::Ruby => "ruby",
            Self::JavaScript => "javascript",
            Self::Lua => "lua",
            Self::Java => "java",
        }
    }
}

/// Location of a per-thread variable of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPlace {
    /// Not per thread: a global variable at this address in the file.
    Global(u64),
    /// Offset from the thread pointer (`fs` base): thread-local storage of the program itself.
    Thread(u64),
    /// Like [`Self::Thread`], but the offset is read from the process's memory, at this address in the file.
    ThreadAt(u64),
    /// Thread-local storage of a library: an offset in the block that the dynamic thread vector (DTV) has for the
    /// library. The library's TLS module ID is read from the process's memory.
    Library {
        /// Address of the TLS module ID, in the file.
        number_at: u64,
        /// Offset of the variable in the block.
        offset: u64,
        /// Size of a DTV entry in bytes (glibc: 16, musl: 8).
        row: u32,
    },
    /// Value of a key of `pthread_key_create`.
    Key {
        /// Address of the key, in the file.
        key_at: u64,
        /// Offset from the thread pointer (`fs` base) to the values of the first 32 keys.
        values: u64,
    },
}

/// Plan for reading a piece of memory: `len` bytes from the address in the word at `offset` of another piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkPlan {
    /// Number of the other piece, which must be an earlier one; or [`Self::OWNER`] or [`Self::FUNCTION`].
    pub from: u16,
    /// Offset of the pointer in the other piece, in bytes.
    pub offset: u16,
    /// Number of bytes to read.
    pub len: u16,
    /// If set, the bytes to read follow an array of 8-byte words, which begins at the address. The index of the array's
    /// last element is the word at this place: (piece, offset).
    pub behind: Option<(u16, u16)>,
    /// Offset, in the other piece, of a word whose upper half is a number of pairs of words; the pointer is that many
    /// pairs after `offset`. 0: the pointer is at `offset`.
    pub pairs: u16,
}

impl ChunkPlan {
    /// Value of `from`: read from the address of the function's owner ([`Function::owner`]).
    pub const OWNER: u16 = u16::MAX;
    /// Value of `from`: read from the function itself, `offset` bytes after its start.
    pub const FUNCTION: u16 = u16::MAX - 1;

    /// Plans to read `len` bytes from the address in the word at `offset` of piece `from`. The cast to 16 bits loses
    /// nothing: offsets are below the size of a piece.
    pub const fn new(from: u16, offset: u32, len: u16) -> Self {
        Self { from, offset: offset as u16, len, behind: None, pairs: 0 }
    }
}

/// A function that was called, with the memory from which its name is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// ID of the process.
    pub pid: i32,
    /// Number of the interpreter's file.
    pub module: u32,
    /// Address of the function object.
    pub function: u64,
    /// Hash that distinguishes it from another function at the same address.
    pub identity: u32,
    /// Address of the function's owner, if the function has no pointer to it: the class of a method in Ruby. 0 if there
    /// is none.
    pub owner: u64,
    /// The pieces: the address of each, and the bytes that could be read.
    pub chunks: Vec<(u64, Vec<u8>)>,
}

/// Calls of interpreted functions in one stack, leaf first, encoded in words as the kernel programs emit them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls<'a> {
    /// The process ID, the number of calls, and two words per call; empty if there are no calls.
    words: &'a [u64],
}

/// Maximum number of calls that the programs keep (`MAX_CALLS` in `shared.h`), and how many of them are the innermost
/// ones (`INNER_CALLS`).
const MAX_CALLS: u64 = 1024;
const INNER_CALLS: u64 = 512;

/// One decoded entry of [`Calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Start of the calls of an interpreter, with the number of its file.
    Interpreter(u32),
    /// A call of a function.
    Function {
        /// Address of the function object.
        function: u64,
        /// Hash that distinguishes it from another function at the same address.
        identity: u32,
        /// Line of the call, or its offset in the function's instructions; 0 if not requested.
        offset: u32,
    },
    /// The program or script itself, with the line of the call.
    Main(u32),
    /// An evaluated string or block.
    Eval {
        /// Line of the call in it.
        line: u32,
        /// Native frame to which control returns if the evaluated code fails, counted from the leaf, if known.
        catch: Option<u32>,
    },
    /// End of the calls of one run of the interpreter's loop. The value is the native frame of that run, found by a stack
    /// address of the call and counted from the leaf, if known.
    End(Option<u32>),
    /// Calls are missing because there were too many.
    Truncated,
    /// Calls of a virtual thread are missing: their frames are in the heap until the thread returns to them.
    Frozen,
}

impl<'a> Calls<'a> {
    /// Number of words before the calls.
    const HEAD: usize = 2;
    /// Maximum number of words of one stack.
    pub const MOST_WORDS: usize = Self::HEAD + 2 * MAX_CALLS as usize;

    /// Creates a list from the words that the programs emit.
    pub fn new(words: &'a [u64]) -> Self {
        Self { words }
    }

    /// Returns true if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.words.len() <= Self::HEAD
    }

    /// ID of the process; 0 if there are no words.
    pub fn pid(&self) -> i32 {
        self.words.first().map_or(0, |word| *word as i32)
    }

    /// Iterates over the calls, leaf first.
    pub fn iter(&self) -> impl Iterator<Item = Call> + 'a {
        let count = self.words.get(1).copied().unwrap_or(0);
        let (pairs, _) = self.words.get(Self::HEAD..).unwrap_or(&[]).as_chunks::<2>();
        let inner = pairs.len().min(INNER_CALLS as usize);
        let (inner, outer) = pairs.split_at(inner);
        // The outermost calls are kept in a ring buffer.
        let start = if count > MAX_CALLS { (count % INNER_CALLS) as usize } else { 0 };
        let (late, early) = outer.split_at(start.min(outer.len()));
        let gap = (count > MAX_CALLS).then_some(Call::Truncated);
        let decode = |pair: &'a [u64; 2]| Self::decode(*pair);
        let inner = inner.iter().flat_map(decode);
        inner.chain(gap).chain(early.iter().chain(late).flat_map(decode))
    }

    /// Decodes a call and the end of the run after it, if there is one.
    fn decode([function, place]: [u64; 2]) -> impl Iterator<Item = Call> {
        const OFFSET: u64 = 0xff_ffff;
        let offset = (place & OFFSET) as u32;
        let native = (place >> 48 & 0xfff) as u32;
        let call = match function {
            0 => None,
            1 => Some(Call::Interpreter((place >> 32) as u32)),
            2 => Some(Call::Main(offset)),
            3 => Some(Call::Eval { line: offset, catch: native.checked_sub(1) }),
            4 => Some(Call::Frozen),
            function => {
                let identity = (place >> 24 & OFFSET) as u32;
                Some(Call::Function { function, identity, offset })
            }
        };
        let ends = function != 1 && place >> 63 == 1;
        call.into_iter().chain(ends.then_some(Call::End(native.checked_sub(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as a walker writes them that comes to `count` functions at `16 + n`.
    fn words(count: u64) -> Vec<u64> {
        let mut words = vec![0; Calls::HEAD + 2 * count.min(MAX_CALLS) as usize];
        words[0] = 7;
        words[1] = count;
        for number in 0..count {
            let at = if number < INNER_CALLS { number } else { INNER_CALLS + number % INNER_CALLS };
            words[Calls::HEAD + 2 * at as usize] = 16 + number;
        }
        words
    }

    #[test]
    fn the_innermost_and_the_outermost_calls_are_kept() {
        for count in [0, 1, 511, 512, 513, 1023, 1024, 1025, 1500, 5000, 5120] {
            let words = words(count);
            let calls: Vec<Call> = Calls::new(&words).iter().collect();
            let call = |number| Call::Function { function: 16 + number, identity: 0, offset: 0 };
            let expected: Vec<Call> = match count {
                0..=MAX_CALLS => (0..count).map(call).collect(),
                _ => {
                    let inner = (0..INNER_CALLS).map(call);
                    let outer = (count - INNER_CALLS..count).map(call);
                    inner.chain([Call::Truncated]).chain(outer).collect()
                }
            };
            assert_eq!(calls, expected, "{count}");
        }
    }

    #[test]
    fn places_have_all_parts() {
        let place = 1 << 63 | 6 << 48 | 0xabcdef << 24 | 0x123456;
        let words = [7, 4, 1, 9 << 32 | 2, 100, place, 4, 1 << 63 | 8 << 48, 0, 1 << 63];
        let calls: Vec<Call> = Calls::new(&words).iter().collect();
        let expected = [
            Call::Interpreter(9),
            Call::Function { function: 100, identity: 0xabcdef, offset: 0x123456 },
            Call::End(Some(5)),
            Call::Frozen,
            Call::End(Some(7)),
            Call::End(None),
        ];
        assert_eq!(calls, expected);
        assert_eq!(Calls::new(&words).pid(), 7);
        assert!(Calls::new(&words[..1]).iter().next().is_none());
    }
}
