  // Functions over all places that they are called from. A stack that a function is on twice counts once.

  // What was spent in each function, by line; rows at the root and what has no frame are the last, `[unknown]`.
  function functions(fine, { own, total }) {
    const { functions: count, line } = fine.keys;
    const self = new Float64Array(count + 1);
    const all = new Float64Array(count + 1);
    const open = new Uint32Array(count + 1);
    self[count] = all[count] = own[0];
    for (let i = 1; i < fine.size; i++) {
      const key = line[fine.key[i]];
      if (key >= count) {
        self[count] += own[i];
        all[count] += own[i];
        continue;
      }
      self[key] += own[i];
      if (i >= open[key]) {
        all[key] += total[i];
        open[key] = fine.end[i];
      }
    }
    return { self, total: all };
  }
  // Who calls a function and whom it calls: pairs of line and value, of the stacks in which one calls the other directly.
  function neighbours(fine, { total }, wanted) {
    const { line } = fine.keys;
    const callers = new Map();
    const callees = new Map();
    const openCallers = new Map();
    const openCallees = new Map();
    const add = (map, open, other, i) => {
      if (i < (open.get(other) || 0)) { return; }
      open.set(other, fine.end[i]);
      map.set(other, (map.get(other) || 0) + total[i]);
    };
    for (let i = 1; i < fine.size; i++) {
      const caller = fine.parent[i];
      if (caller === 0) { continue; }
      const [by, at] = [line[fine.key[caller]], line[fine.key[i]]];
      if (at === wanted) { add(callers, openCallers, by, i); }
      if (by === wanted) { add(callees, openCallees, at, i); }
    }
    const sorted = (map) => [...map].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    return { callers: sorted(callers), callees: sorted(callees) };
  }
  // The callers of what ended in functions: a tree from the leaves, a level at a time. An entry is of one line, and has the
  // nodes that it stands for, and of each how much of what ended there came through it.
  function reversed(fine, { own }) {
    const { line } = fine.keys;
    const top = new Map();
    for (let i = 1; i < fine.size; i++) {
      if (own[i] > 0) { enter(top, line[fine.key[i]], i, own[i]); }
    }
    return byValue(top);
  }
  function callersOf(fine, entry) {
    const { line } = fine.keys;
    const found = new Map();
    entry.nodes.forEach((node, i) => {
      const caller = fine.parent[node];
      if (caller > 0) { enter(found, line[fine.key[caller]], caller, entry.parts[i]); }
    });
    return byValue(found);
  }
  function enter(map, key, node, value) {
    let entry = map.get(key);
    if (!entry) { map.set(key, entry = { key, value: 0, nodes: [], parts: [] }); }
    entry.value += value;
    const last = entry.nodes.length - 1;
    // Callers of several callees come one after the other.
    if (last >= 0 && entry.nodes[last] === node) { entry.parts[last] += value; return; }
    entry.nodes.push(node);
    entry.parts.push(value);
  }
  function byValue(map) {
    return [...map.values()].sort((a, b) => b.value - a.value || a.key - b.key);
  }
