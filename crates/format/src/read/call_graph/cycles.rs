//! Detection of cycles in call graphs.

/// Returns the number of each node's strongly connected component: all nodes that can reach each other have the same
/// number.
///
/// Tarjan's algorithm, without recursion, because the input determines the length of call chains.
pub(super) fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = edges.len();
    let mut component = vec![UNSEEN; count];
    // When a node was first visited, and the earliest visited node on `open` that it reaches.
    let mut visited = vec![UNSEEN; count];
    let mut reaches = vec![0; count];
    let mut open = Vec::new();
    // Nodes that are being walked, with the index of the next edge.
    let mut walk: Vec<(usize, usize)> = Vec::new();
    let (mut clock, mut components) = (0, 0);
    for start in 0..count {
        if visited[start] != UNSEEN {
            continue;
        }
        walk.push((start, 0));
        while let Some((node, next)) = walk.last_mut() {
            let node = *node;
            if *next == 0 {
                visited[node] = clock;
                reaches[node] = clock;
                clock += 1;
                open.push(node);
            }
            if let Some(&to) = edges[node].get(*next) {
                *next += 1;
                if visited[to] == UNSEEN {
                    walk.push((to, 0));
                } else if component[to] == UNSEEN {
                    reaches[node] = reaches[node].min(visited[to]);
                }
                continue;
            }
            walk.pop();
            if let Some(&(caller, _)) = walk.last() {
                reaches[caller] = reaches[caller].min(reaches[node]);
            }
            if reaches[node] == visited[node] {
                while let Some(member) = open.pop() {
                    component[member] = components;
                    if member == node {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_share_a_number() {
        // 0 → 1 → 2 → 0, 2 → 3, 4 → 4 is none of our edges, 5 ↔ 6, 6 → 1.
        let edges = [vec![1], vec![2], vec![0, 3], vec![], vec![], vec![6], vec![5, 1]];
        let found = components(&edges);
        assert!(found[0] == found[1] && found[1] == found[2]);
        assert_eq!(found[5], found[6]);
        let mut distinct = vec![found[0], found[3], found[4], found[5]];
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let edges: Vec<Vec<usize>> = (0..300_000).map(|node| vec![(node + 1) % 300_000]).collect();
        assert!(components(&edges).iter().all(|&component| component == 0));
    }
}
