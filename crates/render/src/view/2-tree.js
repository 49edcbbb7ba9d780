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
    return { child, nodes: () => ({ size, parent: parent.subarray(0, size), key: key.subarray(0, size) }) };
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
    const { label, module } = data.frames;
    const inModule = text.startsWith("module:");
    const regexp = new RegExp(inModule ? text.slice(7) : text, "u");
    const known = new Map();
    const test = (name) => {
      if (!known.has(name)) { known.set(name, regexp.test(data.texts[name])); }
      return known.get(name);
    };
    return {
      frame: (frame) => inModule ? module[frame] > 0 && test(module[frame]) : test(label[frame]),
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
  const GROUPS = ["name", "process", "pool", "thread", "cpu", "host", "none"];
  function groupsOf(data, group, rules) {
    const rows = new Set();
    const column = { process: 1, thread: 2, pool: 3 }[group];
    const groups = [];
    const known = new Map();
    // The row that the command line puts there is hidden as frames are, and stacks begin at it.
    function groupOf(thread, cpu) {
      const of = data.threads[thread];
      const name = data.about.rooted ? 0 : of.labels[0];
      const level = group === "cpu" ? "CPU " + (cpu ? cpu - 1 : "?") : group === "host" ? of.host || "[unknown]" :
        column ? of.labels[column] || "[unknown]" : "";
      const id = level + "\n" + name;
      if (!known.has(id)) {
        const bits = rules.label(name);
        const path = level ? [level] : [];
        const begun = !rules.from || !column && (bits & FROM) !== 0;
        if (name && !column && group !== "none" && begun && (bits & HIDDEN) === 0) { path.push(name); }
        path.forEach((row) => rows.add(row));
        known.set(id, groups.length);
        groups.push({ path, bits: bits & ~HIDDEN, begun });
      }
      return known.get(id);
    }
    const byCpu = group === "cpu" && data.samples.cpu;
    const ofThread = byCpu ? null : data.threads.map((_, thread) => groupOf(thread, 0));
    const { thread } = data.samples;
    return { groups, rows, of: (i) => byCpu ? groupOf(thread[i], byCpu[i]) : ofThread[thread[i]] };
  }

  // `view`: { group, filters }. Of the tree: `key` is the function, or the row at the root after all functions; `node` has
  // the node of each sample, -1 if it does not pass; `fine` is the same tree where names in different modules are apart.
  function* build(data, view) {
    const rules = rulesOf(data, view.filters);
    const passing = threadsThatPass(data, view.filters);
    const { groups, rows, of: groupOf } = groupsOf(data, view.group, rules);
    const { thread, count } = data.samples;
    const ofSample = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      ofSample[i] = passing[thread[i]] ? groupOf(i) : -1;
      if ((i & SLICE) === SLICE) { yield; }
    }
    const keys = keysOf(data, rows);
    const used = groups.filter((group, g) => { group.path = group.path.map(keys.ofRow); return ofSample.includes(g); });
    let fine;
    if (used.length === 1 && !rules.any && keys.functions === data.frames.label.length) {
      fine = wholeTree(data, used[0].path, ofSample);
    } else {
      const interner = makeInterner();
      const node = yield* walk(data, groups, ofSample, rules, interner);
      const { tree, number } = yield* inPreorder(interner.nodes(), keys.labels.length);
      fine = { ...tree, node: node.map((at) => at < 0 ? -1 : number[at]), isWhole: false };
    }
    Object.assign(fine, { keys });
    const tree = yield* byLabel(fine);
    tree.fine = fine;
    return tree;
  }
  // Functions, and the rows after them; `labels` are numbers in `names`.
  function keysOf(data, rows) {
    const functions = data.functions.first.length;
    const text = (row) => typeof row === "number" ? data.texts[row] : row;
    const sorted = [...rows].sort((a, b) => text(a) < text(b) ? -1 : 1);
    const labels = new Uint32Array(functions + sorted.length);
    data.functions.first.forEach((frame, key) => { labels[key] = data.frames.label[frame]; });
    const own = sorted.filter((row) => typeof row !== "number");
    sorted.forEach((row, i) => {
      labels[functions + i] = typeof row === "number" ? row : data.texts.length + own.indexOf(row);
    });
    const place = new Map(sorted.map((row, i) => [row, functions + i]));
    return { functions, labels, names: own.length ? data.texts.concat(own) : data.texts, ofRow: (row) => place.get(row) };
  }
  // Where every stack is one node, they are in order already.
  function wholeTree(data, path, ofSample) {
    const { parent, leaf } = data.stacks;
    const rows = path.length;
    const tree = emptyTree(parent.length + rows);
    path.forEach((key, i) => {
      Object.assign(tree.parent, { [i + 1]: i });
      tree.key[i + 1] = key;
      tree.depth[i + 1] = i + 1;
    });
    for (let i = 1; i < parent.length; i++) {
      const caller = parent[i] + rows;
      tree.parent[i + rows] = caller;
      tree.key[i + rows] = data.functions.of[leaf[i]];
      tree.depth[i + rows] = tree.depth[caller] + 1;
    }
    setEnds(tree);
    const node = ofSample.map((group, i) => group < 0 ? -1 : data.samples.stack[i] + rows);
    return { ...tree, node, isWhole: rows === 0 };
  }
  function setEnds(tree) {
    for (let i = tree.size - 1; i >= 0; i--) {
      tree.end[i] = Math.max(tree.end[i], i + 1);
      if (i > 0) { tree.end[tree.parent[i]] = Math.max(tree.end[tree.parent[i]], tree.end[i]); }
    }
  }
  // The node of each sample, one group after the other, so that one table of nodes, by stack, serves them all.
  function* walk(data, groups, ofSample, rules, interner) {
    const { parent, leaf } = data.stacks;
    const { frames } = rules;
    const functionOf = data.functions.of;
    const label = data.frames.label;
    const size = parent.length;
    const round = new Int32Array(size).fill(-1);
    const nodeOf = new Uint32Array(size);
    const bitsOf = new Int32Array(size);
    // One more than the label of the last frame; stacks that have not begun have -1.
    const last = new Int32Array(size);
    const node = new Int32Array(data.samples.count);
    const order = [...groups.keys()].map(() => []);
    ofSample.forEach((group, i) => { if (group < 0) { node[i] = -1; } else { order[group].push(i); } });
    const missing = [];
    let done = 0;
    for (let g = 0; g < groups.length; g++) {
      const { path, bits, begun } = groups[g];
      round[0] = g;
      nodeOf[0] = path.reduce((at, key) => interner.child(at, key), 0);
      bitsOf[0] = bits;
      last[0] = begun ? 0 : -1;
      for (const i of order[g]) {
        let at = data.samples.stack[i];
        while (round[at] !== g) { missing.push(at); at = parent[at]; }
        while (missing.length) {
          const caller = at;
          at = missing.pop();
          const frame = leaf[at];
          const hits = frames[frame];
          round[at] = g;
          bitsOf[at] = bitsOf[caller] | hits & ~HIDDEN;
          nodeOf[at] = nodeOf[caller];
          last[at] = last[caller] < 0 && (hits & FROM) !== 0 ? 0 : last[caller];
          const skipped = last[at] < 0 || (hits & HIDDEN) !== 0 || rules.recursion && last[at] === label[frame] + 1;
          if (!skipped) {
            nodeOf[at] = interner.child(nodeOf[caller], functionOf[frame]);
            last[at] = label[frame] + 1;
          }
        }
        node[i] = rules.passes(bitsOf[at]) ? nodeOf[at] : -1;
        if ((++done & SLICE) === 0) { yield; }
      }
    }
    return node;
  }
  // Where a name is in several modules, its frames beside each other are one.
  function* byLabel(fine) {
    const first = new Map();
    let shared = false;
    const keyOf = fine.keys.labels.map((label, key) => {
      if (first.has(label)) { shared = true; } else { first.set(label, key); }
      return first.get(label);
    });
    if (!shared) { return { ...fine }; }
    const interner = makeInterner();
    const at = new Uint32Array(fine.size);
    for (let i = 1; i < fine.size; i++) { at[i] = interner.child(at[fine.parent[i]], keyOf[fine.key[i]]); }
    const { tree, number } = yield* inPreorder(interner.nodes(), fine.keys.labels.length);
    return { ...fine, ...tree, node: fine.node.map((node) => node < 0 ? -1 : number[at[node]]), isWhole: false };
  }
