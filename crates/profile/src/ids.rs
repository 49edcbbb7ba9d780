//! The identifiers: `u32` newtypes, so that one kind is never taken for another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier of row `index` of its table.
            ///
            /// # Panics
            ///
            /// When `index` does not fit in 32 bits: four thousand million distinct rows.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 distinct rows in a profile"))
            }

            /// The row in its table.
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
    /// The empty string, which stands for "not known" wherever a string is optional.
    pub const EMPTY: Self = Self(0);

    /// True if this is the empty string.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

impl StackId {
    /// The stack without frames, which every other stack grows from.
    pub const ROOT: Self = Self(0);
}

impl ThreadId {
    /// The thread of samples whose source names none.
    pub const UNKNOWN: Self = Self(0);
}

impl NodeId {
    /// The node above every other: the whole profile.
    pub const ROOT: Self = Self(0);
}
