  // The tree that is shown: what the samples that pass the filters ran, under the rows that they are grouped by.
  // Long loops are generators, so that they can be done in slices: see `steps`.
  const SLICE = 65535;
  function steps(work) {
    for (;;) {
      const { done, value } = work.next();
      if (done) { return value; }
    }
  }

  // Nodes by caller and key, in the order in which they are found; 0 is the whole.
  function makeInterner() {
    let parent = new Uint32Array(1024);
    let key = new Uint32Array(1024);
    let slots = new Uint32Array(4096);
    let size = 1;
    const slotOf = (caller, name) => (Math.imul(caller, 0x9e3779b1) ^ Math.imul(name, 0x85ebca6b)) >>> 0;
    const mixed = (hash) => (hash ^ hash >>> 15) & slots.length - 1;
    function grow() {
      const wider = (old) => { const made = new Uint32Array(old.length * 2); made.set(old); return made; };
      parent = wider(parent);
      key = wider(key);
      slots = new Uint32Array(parent.length * 4);
      for (let node = 1; node < size; node++) {
        let slot = mixed(slotOf(parent[node], key[node]));
        while (slots[slot]) { slot = slot + 1 & slots.length - 1; }
        slots[slot] = node;
      }
    }
    function child(caller, name) {
      let slot = mixed(slotOf(caller, name));
      for (let node; (node = slots[slot]); slot = slot + 1 & slots.length - 1) {
        if (parent[node] === caller && key[node] === name) { return node; }
      }
      if (size === parent.length) { grow(); return child(caller, name); }
      slots[slot] = size;
      parent[size] = caller;
      key[size] = name;
      return size++;
    }
    // The node above another, or that itself, of whose key something holds; -1 if there is none up to a root.
    function above(node, root, holds) {
      for (; node !== root; node = parent[node]) { if (holds(key[node])) { return node; } }
      return -1;
    }
    return { child, above, nodes: () => ({ size, parent: parent.subarray(0, size), key: key.subarray(0, size) }) };
  }
  // The same in preorder, callees by key; `number` has the new number of each node.
  function* inPreorder({ size, parent, key }, keys) {
    const place = new Uint32Array(keys + 2);
    for (let i = 1; i < size; i++) { place[key[i] + 1]++; }
    for (let i = 1; i < place.length; i++) { place[i] += place[i - 1]; }
    const byKey = new Uint32Array(size);
    for (let i = 1; i < size; i++) { byKey[place[key[i]]++] = i; }
    yield;
    const first = new Uint32Array(size);
    const next = new Uint32Array(size);
    // From the last to the first: each becomes the first callee of its caller.
    for (let i = size - 2; i >= 0; i--) {
      const node = byKey[i];
      next[node] = first[parent[node]];
      first[parent[node]] = node;
    }
    yield;
    const tree = emptyTree(size);
    const number = new Uint32Array(size);
    let count = 0;
    let depth = 0;
    for (let node = first[0], caller = 0; node;) {
      const made = ++count;
      number[node] = made;
      tree.parent[made] = number[caller];
      tree.key[made] = key[node];
      tree.depth[made] = ++depth;
      caller = node;
      node = first[node];
      while (!node && caller) {
        tree.end[number[caller]] = count + 1;
        node = next[caller];
        caller = parent[caller];
        depth--;
      }
      if ((made & SLICE) === 0) { yield; }
    }
    tree.end[0] = size;
    return { tree, number };
  }
  function emptyTree(size) {
    return { size, parent: new Uint32Array(size), key: new Uint32Array(size), depth: new Uint32Array(size),
      end: new Uint32Array(size) };
  }

  // Which frames a pattern of the command line matches: by name, or after `module:` by the file of their code.
  function frameMatcher(data, text) {
    const { name: nameOf, module } = data.frames;
    const inModule = text.startsWith("module:");
    const regexp = regexpOf(inModule ? text.slice(7) : text);
    const known = new Map();
    const test = (name) => {
      if (!known.has(name)) { known.set(name, regexp.test(data.texts[name])); }
      return known.get(name);
    };
    return {
      frame: (frame) => inModule ? module[frame] > 0 && test(module[frame]) : test(nameOf[frame]),
      label: (name) => !inModule && name > 0 && test(name)
    };
  }
  // The filters as bits: one for each focus, and these.
  const IGNORED = 1 << 28;
  const FROM = 1 << 29;
  const HIDDEN = 1 << 30;
  function rulesOf(data, filters) {
    const patterns = [];
    let focus = 0;
    for (const { kind, text } of filters) {
      const bit = { ignore: IGNORED, "from-frame": FROM, hide: HIDDEN }[kind] ||
        (kind === "focus" ? 1 << Math.min(focus++, 27) : 0);
      if (bit) { patterns.push({ bit, ...frameMatcher(data, text) }); }
    }
    const all = (matches) => patterns.reduce((bits, of) => matches(of) ? bits | of.bit : bits, 0);
    const frames = new Int32Array(data.frames.label.length);
    if (patterns.length) { frames.forEach((_, i) => { frames[i] = all((of) => of.frame(i)); }); }
    const has = (kind) => filters.some((of) => of.kind === kind);
    const from = has("from-frame");
    const wanted = ((1 << Math.min(focus, 28)) - 1) | (from ? FROM : 0);
    return {
      frames, from, recursion: has("fold-recursion"), any: patterns.length > 0 || has("fold-recursion"),
      label: (name) => all((of) => of.label(name)),
      passes: (bits) => (bits & IGNORED) === 0 && (bits & wanted) === wanted
    };
  }
  // Which threads pass: of several numbers or names any.
  function threadsThatPass(data, filters) {
    const tids = filters.filter((of) => of.kind === "tid").map((of) => Number(of.text));
    const comms = filters.filter((of) => of.kind === "comm").map((of) => of.text.replace(/ /g, "_"));
    const named = (text) => text > 0 && comms.includes(data.texts[text].replace(/ /g, "_"));
    return data.threads.map((of) => (tids.length === 0 || tids.includes(of.tid)) &&
      (comms.length === 0 || named(of.process) || named(of.name)));
  }

  // The rows at the root, by thread and CPU. A row is a text's number, or a text that is none of the profile's.
  const GROUPS = ["name", "process", "pool", "thread", "cpu", "cgroup", "cmdline", "host", "none"];
  function groupsOf(data, group, rules) {
    const rows = new Set();
    const column = { process: 1, thread: 2, pool: 3 }[group];
    const groups = [];
    const known = new Map();
    // The row that the command line puts there is hidden as frames are, and stacks begin at it.
    function groupOf(thread, cpu) {
      const of = data.threads[thread];
      const name = data.about.rooted ? 0 : of.labels[0];
      const level = group === "cpu" ? "CPU " + (cpu ? cpu - 1 : "?") : ["host", "cgroup", "cmdline"].includes(group) ? of[group] || "[unknown]" :
        column ? of.labels[column] || "[unknown]" : "";
      const hasName = name > 0 && !column && group !== "none";
      const id = level + "\n" + (rules.any || hasName ? name : "");
      if (!known.has(id)) {
        const bits = rules.label(name);
        const path = level ? [level] : [];
        const begun = !rules.from || (bits & FROM) !== 0;
        if (hasName && begun && (bits & HIDDEN) === 0) { path.push(name); }
        known.set(id, groups.length);
        groups.push({ path, bits: bits & ~HIDDEN, begun, count: 0 });
      }
      return known.get(id);
    }
    const byCpu = group === "cpu" && data.samples.cpu;
    const ofThread = byCpu ? null : data.threads.map((_, thread) => groupOf(thread, 0));
    const { thread } = data.samples;
    return { groups, rows, of: (i) => byCpu ? groupOf(thread[i], byCpu[i]) : ofThread[thread[i]] };
  }

  // `view`: { group, filters }. Of the tree: `node` has the node of each sample, -1 if it does not pass. `fine` is the same tree
  // where names in different modules, and kinds of code, are apart: its `key` is that of the function, or the row at the root
  // after all functions. Siblings of one name are one node of the tree that is shown; `of` has the node of each of `fine`, and
  // `key` of these is that of the first only.
  function* build(data, view) {
    const rules = rulesOf(data, view.filters);
    const passing = threadsThatPass(data, view.filters);
    const { groups, rows, of: groupOf } = groupsOf(data, view.group, rules);
    const { thread, count } = data.samples;
    const ofSample = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      const group = ofSample[i] = passing[thread[i]] ? groupOf(i) : -1;
      if (group >= 0) { groups[group].count++; }
      if ((i & SLICE) === SLICE) { yield; }
    }
    const used = groups.filter((group) => group.count > 0);
    used.forEach((group) => group.path.forEach((row) => rows.add(row)));
    const keys = keysOf(data, rows);
    used.forEach((group) => { group.path = group.path.map(keys.ofRow); });
    const order = (a, b) => a.path.reduce((by, key, i) => by || key - (b.path[i] || 0), 0) || a.path.length - b.path.length;
    used.sort(order);
    const of = samplesByGroup(groups, used, ofSample);
    const isPlain = !rules.any && keys.count === data.frames.label.length;
    let fine;
    if (isPlain && used.length * data.stacks.parent.length < MOST_PASSES) {
      fine = yield* plainTree(data, used, of);
    } else {
      const interner = makeInterner();
      const node = yield* walk(data, used, of, rules, interner);
      const { tree, number } = yield* inPreorder(interner.nodes(), keys.labels.length);
      for (let i = 0; i < count; i++) { if (node[i] >= 0) { node[i] = number[node[i]]; } }
      fine = { ...tree, node, isWhole: false };
    }
    fine.keys = keys;
    const tree = yield* byLabel(fine);
    tree.fine = fine;
    return tree;
  }
  // The numbers of the samples, those of a group together; `ends` are where each group's end.
  function samplesByGroup(groups, used, ofSample) {
    const place = new Uint32Array(groups.length);
    const ends = [];
    let sum = 0;
    for (const group of used) {
      place[groups.indexOf(group)] = sum;
      ends.push(sum += group.count);
    }
    const order = new Uint32Array(sum);
    for (let i = 0; i < ofSample.length; i++) {
      if (ofSample[i] >= 0) { order[place[ofSample[i]]++] = i; }
    }
    return { order, ends };
  }
  // Keys of functions, and after them the rows at the root; `labels` are numbers in `names`. Tables have one line for all keys of
  // a function: `line` has that of each key, `functions` is the number of these lines, and rows come after them.
  function keysOf(data, rows) {
    const { first, row, firstKey } = data.functions;
    const [count, functions] = [first.length, firstKey.length];
    const text = (of) => typeof of === "number" ? data.texts[of] : of;
    const sorted = [...rows].sort((a, b) => text(a) < text(b) ? -1 : 1);
    const labels = new Uint32Array(count + sorted.length);
    const line = new Uint32Array(labels.length);
    first.forEach((frame, key) => { labels[key] = data.frames.label[frame]; });
    line.set(row);
    const own = sorted.filter((of) => typeof of !== "number");
    sorted.forEach((of, i) => {
      labels[count + i] = typeof of === "number" ? of : data.texts.length + own.indexOf(of);
      line[count + i] = functions + i;
    });
    const place = new Map(sorted.map((of, i) => [of, count + i]));
    return { count, functions, labels, line, names: own.length ? data.texts.concat(own) : data.texts,
      ofRow: (of) => place.get(of) };
  }
  // Where every stack of a group is a node of its own, nodes come in the order of stacks. Above so many looks at a stack,
  // most groups have few of them.
  const MOST_PASSES = 3e7;
  function* plainTree(data, groups, { order, ends }) {
    const { parent, leaf } = data.stacks;
    const { stack, count } = data.samples;
    const node = new Int32Array(count).fill(-1);
    const nodeOf = new Uint32Array(parent.length);
    const rows = new Map();
    // Callers and keys of the nodes of each group.
    const parts = [];
    let size = 1;
    for (let g = 0, first = 0; g < groups.length; first = ends[g++]) {
      nodeOf.fill(0);
      for (let k = first; k < ends[g]; k++) { nodeOf[stack[order[k]]] = 1; }
      let used = 0;
      for (let i = parent.length - 1; i > 0; i--) { if (nodeOf[i]) { nodeOf[parent[i]] = 1; used++; } }
      nodeOf[0] = groups[g].path.reduce((at, key) => {
        const row = at + " " + key;
        if (!rows.has(row)) { rows.set(row, size++); parts.push([[at], [key]]); }
        return rows.get(row);
      }, 0);
      const part = [new Uint32Array(used), new Uint32Array(used)];
      for (let i = 1, k = 0; i < parent.length; i++) {
        if (!nodeOf[i]) { continue; }
        part[0][k] = nodeOf[parent[i]];
        part[1][k++] = data.functions.of[leaf[i]];
        nodeOf[i] = size++;
      }
      parts.push(part);
      for (let k = first; k < ends[g]; k++) { node[order[k]] = nodeOf[stack[order[k]]]; }
      yield;
    }
    const tree = emptyTree(size);
    let at = 1;
    for (const [parents, keys] of parts) {
      tree.parent.set(parents, at);
      tree.key.set(keys, at);
      at += parents.length;
    }
    for (let i = 1; i < size; i++) { tree.depth[i] = tree.depth[tree.parent[i]] + 1; }
    for (let i = size - 1; i >= 0; i--) {
      const end = tree.end[i] = Math.max(tree.end[i], i + 1);
      if (i > 0 && tree.end[tree.parent[i]] < end) { tree.end[tree.parent[i]] = end; }
    }
    return { ...tree, node, isWhole: size === parent.length };
  }
  // The node of each sample, one group after the other, so that one table of nodes, by stack, serves them all.
  function* walk(data, groups, { order, ends }, rules, interner) {
    const { parent, leaf } = data.stacks;
    const { stack, count } = data.samples;
    const { frames } = rules;
    const functionOf = data.functions.of;
    const { label } = data.frames;
    const round = new Int32Array(parent.length).fill(-1);
    const nodeOf = new Uint32Array(parent.length);
    const bitsOf = new Int32Array(parent.length);
    const begun = new Uint8Array(parent.length);
    const isShown = new Uint8Array(parent.length);
    const isKnown = new Uint8Array(data.texts.length);
    const labelOf = (key) => label[data.functions.first[key]];
    const named = new Int32Array(parent.length).fill(-1);
    const node = new Int32Array(count).fill(-1);
    const missing = [];
    for (let g = 0, k = 0; g < groups.length; g++) {
      round[0] = named[0] = g;
      nodeOf[0] = groups[g].path.reduce((at, key) => interner.child(at, key), 0);
      bitsOf[0] = groups[g].bits;
      begun[0] = groups[g].begun ? 1 : 0;
      for (; k < ends[g]; k++) {
        const end = stack[order[k]];
        let at = end;
        while (round[at] !== g) { missing.push(at); at = parent[at]; }
        while (missing.length) {
          const caller = at;
          at = missing.pop();
          const frame = leaf[at];
          const hits = frames[frame];
          round[at] = g;
          bitsOf[at] = bitsOf[caller] | hits & ~HIDDEN;
          begun[at] = begun[caller] || (hits & FROM) !== 0 ? 1 : 0;
          isShown[at] = begun[at] && (hits & HIDDEN) === 0 ? 1 : 0;
        }
        if (!rules.passes(bitsOf[end])) { continue; }
        while (named[at] !== g) { missing.push(at); at = parent[at]; }
        while (missing.length) {
          const caller = nodeOf[at];
          at = missing.pop();
          named[at] = g;
          if (!isShown[at]) { nodeOf[at] = caller; continue; }
          const own = label[leaf[at]];
          // Most labels are new where they come, or on no stack twice.
          const first = rules.recursion && isKnown[own] ? interner.above(caller, nodeOf[0], (key) => labelOf(key) === own) : -1;
          isKnown[own] = 1;
          nodeOf[at] = first < 0 ? interner.child(caller, functionOf[leaf[at]]) : first;
        }
        node[order[k]] = nodeOf[end];
        if ((k & SLICE) === 0) { yield; }
      }
    }
    return node;
  }
  // Where a name is in several modules, its frames beside each other are one.
  function* byLabel(fine) {
    const { labels } = fine.keys;
    const first = new Map();
    let isShared = false;
    const keyOf = labels.map((label, key) => {
      if (first.has(label)) { isShared = true; } else { first.set(label, key); }
      return first.get(label);
    });
    if (!isShared) { return { ...fine }; }
    const interner = makeInterner();
    const at = new Uint32Array(fine.size);
    for (let i = 1; i < fine.size; i++) { at[i] = interner.child(at[fine.parent[i]], keyOf[fine.key[i]]); }
    const { tree, number } = yield* inPreorder(interner.nodes(), labels.length);
    const of = at.map((node) => number[node]);
    // From the last to the first: the first one's stays.
    for (let i = fine.size - 1; i > 0; i--) { tree.key[of[i]] = fine.key[i]; }
    return { ...fine, ...tree, of, node: fine.node.map((node) => node < 0 ? -1 : of[node]), isWhole: false };
  }
  // Of each node the key that most of it is of, among those of the kind of code that most of it is; and whether it is of several
  // functions, also if some have values on the other side of a comparison only.
  function leads(data, tree, fineTotal, otherTotal) {
    const { of, fine, keys } = tree;
    if (!of) { return { lead: tree.key, isMixed: null }; }
    const lead = tree.key.slice();
    const isMixed = new Uint8Array(tree.size);
    const isKnown = new Uint8Array(tree.size);
    const sum = new Float64Array(tree.size);
    // Of nodes of several keys, the sums by key.
    const several = new Map();
    for (let i = 1; i < fine.size; i++) {
      if (fineTotal[i] === 0 && !(otherTotal && otherTotal[i] > 0)) { continue; }
      const node = of[i];
      const key = fine.key[i];
      let sums = several.get(node);
      if (!isKnown[node]) {
        isKnown[node] = 1;
        lead[node] = key;
      } else if (!sums && lead[node] !== key) {
        several.set(node, sums = new Map([[lead[node], sum[node]]]));
      }
      if (keys.line[lead[node]] !== keys.line[key]) { isMixed[node] = 1; }
      sum[node] += fineTotal[i];
      if (sums) { sums.set(key, (sums.get(key) || 0) + fineTotal[i]); }
    }
    const kindOf = (key) => key < keys.count ? data.functions.kind[key] : -1;
    for (const [node, sums] of several) {
      const kinds = new Map();
      sums.forEach((total, key) => kinds.set(kindOf(key), (kinds.get(kindOf(key)) || 0) + total));
      let best = -1;
      sums.forEach((total, key) => {
        const more = best < 0 ? 1 : kinds.get(kindOf(key)) - kinds.get(kindOf(best)) || total - sums.get(best);
        if (more > 0) { best = key; }
      });
      lead[node] = best;
    }
    return { lead, isMixed };
  }
  // The nodes of the fine tree that a node stands for.
  function partsOf(tree, node) {
    if (!tree.of) { return [node]; }
    const parts = [];
    tree.of.forEach((of, i) => { if (of === node) { parts.push(i); } });
    return parts;
  }
