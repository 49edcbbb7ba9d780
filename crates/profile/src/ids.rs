//! Identifiers: `u32` newtypes, so that the compiler distinguishes them.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the identifier of row `index` of its table.
            ///
            /// # Panics
            ///
            /// If `index` does not fit in 32 bits: more than four thousand million distinct rows.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 distinct rows in a profile"))
            }

            /// Index of the row in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A string in [`Strings`](crate::Strings).
    StringId
);
id!(
    /// A frame in [`Frames`](crate::Frames).
    FrameId
);
id!(
    /// An address in [`Addresses`](crate::Addresses).
    AddressId
);
id!(
    /// A stack in [`Stacks`](crate::Stacks).
    StackId
);
id!(
    /// A thread in [`Threads`](crate::Threads).
    ThreadId
);
id!(
    /// A node of a [`Tree`](crate::Tree).
    NodeId
);

impl StringId {
    /// The empty string, which means "not known" wherever a string is optional.
    pub const EMPTY: Self = Self(0);

    /// Returns true if this is the empty string.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

impl StackId {
    /// The stack without frames, the root of all other stacks.
    pub const ROOT: Self = Self(0);
}

impl ThreadId {
    /// The thread of samples whose source names no thread.
    pub const UNKNOWN: Self = Self(0);
}

impl NodeId {
    /// The root node, which represents the whole profile.
    pub const ROOT: Self = Self(0);
}
