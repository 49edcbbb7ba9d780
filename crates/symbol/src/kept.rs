//! Names and symbol indexes that one pass over a module keeps for the following ones.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use crate::module::Module;
use crate::symbolize::{Options, Symbolization, Symbolized};
use crate::symbols::{Finder, Sorted};

/// Maximum number of addresses whose names are kept, more than a program is sampled at in minutes.
const MOST_NAMES: usize = 1 << 13;

/// Estimated size of an address's name and table entry, in bytes; many addresses share their name.
const NAME_SIZE: usize = 128;

/// Names and symbol indexes of a module.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    names: HashMap<u64, Symbolized>,
    tables: Tables,
}

/// Symbol indexes of the module, its debug file, and its mini debug information. The inner `None` means too many
/// symbols.
#[derive(Debug, Default)]
pub(crate) struct Tables([Option<Option<Sorted>>; 3]);

/// Adds the symbols of file `at` of the module to `finder`, by the sorted index if one is kept.
pub(crate) fn read<'a>(
    tables: &mut Option<&mut Tables>,
    at: usize,
    elf: &object::File<'a>,
    finder: &mut Finder<'a, '_>,
) {
    let sorted = tables.as_mut().map(|of| of.0[at].get_or_insert_with(|| Sorted::new(elf)));
    match sorted {
        Some(Some(sorted)) => finder.read_sorted(elf, sorted),
        _ => finder.read(elf),
    }
}

impl Module {
    /// Like [`Self::symbolize`], but keeps the names and symbol indexes for the next pass, until
    /// [`Self::forget_names`]. All passes must have the same options.
    pub fn symbolize_again(&self, addresses: &[u64], options: &Options) -> Symbolization {
        let mut kept = self.kept();
        let Kept { names, tables } = &mut *kept;
        let is_new = |address: &u64| !names.contains_key(address);
        let mut new: Vec<u64> = addresses.iter().copied().filter(is_new).collect();
        new.sort_unstable();
        new.dedup();
        let found = self.symbolize_sorted(&new, options, Some(tables));
        names.extend(new.into_iter().zip(found.addresses));
        let name = |address| names.get(address).cloned().unwrap_or_default();
        let addresses = addresses.iter().map(name).collect();
        if names.len() > MOST_NAMES {
            *names = HashMap::new();
        }
        Symbolization { addresses, warnings: found.warnings }
    }

    /// Frees the names and symbol indexes that were kept.
    pub fn forget_names(&self) {
        *self.kept() = Kept::default();
    }

    /// Approximate size of the names and symbol indexes that are kept, in bytes.
    pub fn kept_bytes(&self) -> usize {
        let Kept { names, tables } = &*self.kept();
        let tables = tables.0.iter().flatten().flatten().map(Sorted::bytes);
        names.len() * NAME_SIZE + tables.sum::<usize>()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
