//! The rows of a segment: samples of one stack of one owner, taken together.

use hashbrown::HashMap;
use pyrograph_profile::{AddressId, Profile, StackId, ThreadId};
use twox_hash::XxHash3_128;

/// Samples of a stack of a thread, taken at the same instruction if it is known.
#[derive(Debug)]
pub struct Group {
    pub stack: StackId,
    /// Identifies the stack in other segments, too.
    pub hash: u128,
    pub thread: ThreadId,
    pub address: Option<AddressId>,
    /// The samples, in the order of the profile.
    pub samples: Vec<u32>,
}

/// Returns the groups of a profile, ordered by stack, machine, and process.
pub fn groups(profile: &Profile) -> Vec<Group> {
    let mut index: HashMap<(StackId, ThreadId, Option<AddressId>), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (row, sample) in (0u32..).zip(profile.samples.iter()) {
        let (stack, thread, address) = (sample.stack, sample.thread, sample.address);
        let next = groups.len();
        let at = *index.entry((stack, thread, address)).or_insert(next);
        if at == next {
            groups.push(Group { stack, hash: 0, thread, address, samples: Vec::new() });
        }
        groups[at].samples.push(row);
    }
    let mut hashes: HashMap<StackId, u128> = HashMap::new();
    for group in &mut groups {
        group.hash =
            *hashes.entry(group.stack).or_insert_with(|| hash_of_stack(profile, group.stack));
    }
    let host = |thread: ThreadId| profile.strings.get(profile.threads.get(thread).host);
    groups.sort_by(|a, b| {
        let pid = |of: &Group| profile.threads.get(of.thread).pid;
        (a.hash, host(a.thread), pid(a)).cmp(&(b.hash, host(b.thread), pid(b)))
    });
    groups
}

/// Hash of the frames of a stack, leaf first: of what names them, or of their addresses where nothing does.
fn hash_of_stack(profile: &Profile, stack: StackId) -> u128 {
    let mut text = Vec::new();
    for frame in profile.stacks.leaf_first(stack) {
        let frame = profile.frames.get(frame);
        for part in [frame.module, frame.function, frame.file] {
            text.extend_from_slice(profile.strings.get(part).as_bytes());
            text.push(0);
        }
        text.extend_from_slice(&frame.line.to_le_bytes());
        text.extend_from_slice(&frame.address.to_le_bytes());
        text.extend_from_slice(&[frame.kind.code(), frame.guessed.into()]);
    }
    XxHash3_128::oneshot(&text)
}
