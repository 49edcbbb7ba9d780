//! Finds where metadata begins in the data of compiled code (JDK 23 and 24). It is preceded by references to objects,
//! whose number is in no table for debuggers. However, the code's own method is known, and so is its number among the
//! metadata: all scopes without a caller have it. So metadata begins at a place if the code's method has that number
//! there, and if the numbers of all other scopes refer to methods, too.

use std::collections::{BTreeSet, HashSet};

use super::Code;
use super::compiled::{DEEPEST, MOST_METHODS};
use super::method::Numbers;

/// Maximum number of candidate places: code refers to its own method once or twice.
const MOST_STARTS: usize = 16;

/// Numbers of methods in scopes; they start at 1.
#[derive(Debug)]
pub(super) struct Used {
    /// Number of the code's own method.
    root: u32,
    all: BTreeSet<u32>,
}

impl Used {
    /// Collects the numbers from the scopes at `places`. `None` if the outermost scopes have more than one method.
    pub fn read(code: &Code<'_>, scopes: &[u8], places: &[(u32, u32)]) -> Option<Self> {
        let without_zeros = code.layout.method.without_zeros;
        let (mut all, mut roots, mut known) = (BTreeSet::new(), BTreeSet::new(), HashSet::new());
        for (_, place) in places {
            let mut at = *place;
            // A caller's scope has a lower offset.
            for _ in 0..DEEPEST {
                if !known.insert(at) {
                    break;
                }
                let mut numbers = Numbers { bytes: scopes, at: at as usize, without_zeros };
                let (sender, method) = (numbers.next()?, numbers.next()?);
                all.insert(method);
                if sender == 0 {
                    roots.insert(method);
                }
                if sender == 0 || sender >= at || all.len() > MOST_METHODS {
                    break;
                }
                at = sender;
            }
        }
        let root = roots.pop_first()?;
        (roots.is_empty() && !all.contains(&0)).then_some(Self { root, all })
    }
}

/// Finds the metadata in the data of code whose own method is known. `None` if no place fits, or more than one.
pub(super) fn find<'a>(
    code: &Code<'_>,
    data: &'a [u8],
    method: u64,
    used: &Used,
) -> Option<&'a [u8]> {
    let (words, _) = data.as_chunks::<8>();
    let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
    let index = |number: u32| usize::try_from(number - 1).ok();
    let root = index(used.root)?;
    let is_start = |start: &usize| {
        let is_method = |number: &u32| {
            let method = index(*number).and_then(|number| word(start.checked_add(number)?));
            method.is_some_and(|method| code.methods().name(method).is_some())
        };
        used.all.iter().all(is_method)
    };
    let own = (0..words.len()).filter(|at| word(*at) == Some(method)).take(MOST_STARTS);
    let mut starts = own.filter_map(|at| at.checked_sub(root)).filter(is_start);
    let start = starts.next()?;
    starts.next().is_none().then(|| &data[8 * start..])
}
