//! Stacks as text, deduplicated.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{Locations, StackEntry, StackLine};

/// Lines of a stack, innermost frame first.
type StackText = Arc<[Arc<StackLine>]>;

/// Formats stacks as text. Equal stacks share an allocation.
pub struct Stacks<'a> {
    locations: &'a Locations,
    /// Lines by location.
    lines: HashMap<u32, Vec<Arc<StackLine>>, FixedState>,
    /// Stacks by their locations.
    known: HashMap<Box<[u32]>, StackText, FixedState>,
    none: StackText,
    places: Vec<u32>,
}

impl<'a> Stacks<'a> {
    pub fn new(locations: &'a Locations) -> Self {
        Self {
            locations,
            lines: HashMap::default(),
            known: HashMap::default(),
            none: Arc::new([]),
            places: Vec::new(),
        }
    }

    /// Returns the text of a stack, innermost frame first.
    pub fn of(&mut self, stack: &[StackEntry]) -> StackText {
        if stack.is_empty() {
            return self.none.clone();
        }
        self.places.clear();
        self.places.extend(stack.iter().map(|entry| entry.location));
        if let Some(known) = self.known.get(&self.places[..]) {
            return known.clone();
        }
        let mut lines = Vec::new();
        for &place in &self.places {
            let of_place = self.lines.entry(place).or_insert_with(|| {
                let location = self.locations.list.get(place as usize);
                location
                    .into_iter()
                    .flat_map(|it| self.locations.lines_of(it))
                    .map(Arc::new)
                    .collect()
            });
            lines.extend_from_slice(of_place);
        }
        let stack: StackText = lines.into();
        self.known.insert(self.places.as_slice().into(), stack.clone());
        stack
    }
}
