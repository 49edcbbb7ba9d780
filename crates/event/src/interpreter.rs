//! Interpreters, as the programs in the kernel need to know them, and the calls of their languages, as the programs
//! emit them. Plain data.

/// An interpreter: where the calls of its language are in the memory of a process. Addresses are those in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The language.
    pub language: Language,
    /// To be added to a file offset of code for its address in the file.
    pub to_address: u64,
    /// Addresses of variables, in the order that the language's walker in the kernel has.
    pub symbols: [u64; Self::SYMBOLS],
    /// The variable of a thread that leads to its calls.
    pub place: ThreadPlace,
    /// Offsets in structures, bytes, in the order that the language's walker has; [`Self::NO_OFFSET`]: there is no such
    /// thing.
    pub offsets: [u32; Self::OFFSETS],
    /// The pieces of memory that name a function; the first is the function itself.
    pub plan: Vec<ChunkPlan>,
    /// Bits of a pointer in these pieces that are no part of the address.
    pub tag: u32,
}

impl Interpreter {
    /// How many variables a walker needs at most.
    pub const SYMBOLS: usize = 4;
    /// How many offsets.
    pub const OFFSETS: usize = 32;
    /// How many pieces of memory name a function at most.
    pub const CHUNKS: usize = 32;
    /// The most bytes of one of these pieces.
    pub const CHUNK_BYTES: u16 = 160;
    /// In place of an offset.
    pub const NO_OFFSET: u32 = u32::MAX;

    /// Offsets by their places in the walker's order; the others are none.
    pub fn offsets<const N: usize>(fields: [(usize, u32); N]) -> [u32; Self::OFFSETS] {
        let mut offsets = [Self::NO_OFFSET; Self::OFFSETS];
        for (field, offset) in fields {
            offsets[field] = offset;
        }
        offsets
    }
}

/// Languages whose calls the programs find. The numbers are those of `enum language` in the programs.
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
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Python, Self::Perl, Self::Php, Self::Ruby, Self::JavaScript, Self::Lua, Self::Java];

    /// Its name on the command line.
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

/// How a thread's variable is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPlace {
    /// It is no thread's: a global variable at an address in the file.
    Global(u64),
    /// So far from what `fs` points to.
    Thread(u64),
    /// The same; the distance is in the file's memory, at this address.
    ThreadAt(u64),
    /// In the block of variables of a library, whose number is in the file's memory.
    Library {
        /// Where the number is.
        number_at: u64,
        /// The distance in the block.
        offset: u64,
        /// Bytes of a row in the thread's table of blocks (glibc: 16, musl: 8).
        row: u32,
    },
    /// The value of a key of `pthread_key_create`.
    Key {
        /// Where the key is.
        key_at: u64,
        /// How far from what `fs` points to the values of the first 32 keys begin.
        values: u64,
    },
}

/// A piece of memory: so many bytes of where the word at `offset` of another piece points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkPlan {
    /// The number of the other piece, which must come before.
    pub from: u16,
    /// Where in it.
    pub offset: u16,
    /// Bytes.
    pub len: u16,
    /// The bytes lie behind an array of words, the number of whose last element is in this piece, at this offset.
    pub behind: Option<(u16, u16)>,
    /// Where in it is, in the upper half of a word, how many pairs of words come before the word at `offset`; 0: none do.
    pub pairs: u16,
}

impl ChunkPlan {
    /// In place of another piece: what the function belongs to ([`Function::owner`]).
    pub const OWNER: u16 = u16::MAX;
    /// In place of another piece: bytes of the function itself, as far behind its start as `offset` says.
    pub const FUNCTION: u16 = u16::MAX - 1;

    /// `len` bytes of where the word at `offset` of piece `from` points to. Pieces are far shorter than an offset of 16
    /// bits can say.
    pub const fn new(from: u16, offset: u32, len: u16) -> Self {
        Self { from, offset: offset as u16, len, behind: None, pairs: 0 }
    }
}

/// A function that was called, with the memory that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The process.
    pub pid: i32,
    /// Number of the interpreter's file.
    pub module: u32,
    /// Its address.
    pub function: u64,
    /// Bits that another function at the same address would not have.
    pub identity: u32,
    /// What it belongs to, where it does not say that itself: the class of a method in Ruby; 0: nothing.
    pub owner: u64,
    /// The pieces: addresses, and as many bytes as could be read.
    pub chunks: Vec<(u64, Vec<u8>)>,
}

/// Calls of interpreters in a process, leaf first, as words of the programs in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls<'a> {
    /// The process, the number of calls, and two words a call; none if there are no calls.
    words: &'a [u64],
}

/// The calls that the programs keep (`MAX_CALLS` of `shared.h`), and of these the innermost (`INNER_CALLS`).
const MAX_CALLS: u64 = 1024;
const INNER_CALLS: u64 = 512;

/// One step of [`Calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The calls of an interpreter begin: the number of its file.
    Interpreter(u32),
    /// A function.
    Function {
        /// Its address.
        function: u64,
        /// Bits that another function at the same address would not have.
        identity: u32,
        /// Line, or how far into its instructions the call is; 0 where it is not asked for.
        offset: u32,
    },
    /// The program or script itself, at a line.
    Main(u32),
    /// An evaluated string or block.
    Eval {
        /// The line in it.
        line: u32,
        /// The native frame that it is left to when it fails, counted from the leaf, if that is known.
        catch: Option<u32>,
    },
    /// Here ends what one run of the interpreter's loop has called. The native frame whose part of the stack holds it,
    /// counted from the leaf, if that is known.
    End(Option<u32>),
    /// Calls are missing: there were too many.
    Truncated,
    /// Calls are missing: a virtual thread's, whose frames are in the heap until it returns to them.
    Frozen,
}

impl<'a> Calls<'a> {
    /// Words before the calls.
    const HEAD: usize = 2;
    /// The most words of a stack.
    pub const MOST_WORDS: usize = Self::HEAD + 2 * MAX_CALLS as usize;

    /// From the words that the programs emit.
    pub fn new(words: &'a [u64]) -> Self {
        Self { words }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.words.len() <= Self::HEAD
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.words.first().map_or(0, |word| *word as i32)
    }

    /// The calls, leaf first.
    pub fn iter(&self) -> impl Iterator<Item = Call> + 'a {
        let count = self.words.get(1).copied().unwrap_or(0);
        let (pairs, _) = self.words.get(Self::HEAD..).unwrap_or(&[]).as_chunks::<2>();
        let inner = pairs.len().min(INNER_CALLS as usize);
        let (inner, outer) = pairs.split_at(inner);
        // The outer ones are in a ring.
        let start = if count > MAX_CALLS { (count % INNER_CALLS) as usize } else { 0 };
        let (late, early) = outer.split_at(start.min(outer.len()));
        let gap = (count > MAX_CALLS).then_some(Call::Truncated);
        let decode = |pair: &'a [u64; 2]| Self::decode(*pair);
        let inner = inner.iter().flat_map(decode);
        inner.chain(gap).chain(early.iter().chain(late).flat_map(decode))
    }

    /// A call, and the end behind it.
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
