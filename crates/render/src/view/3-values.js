  // Sums of samples by node, and what a search finds.

  // The first sample at or after a time.
  function sampleAt(samples, time) {
    let low = samples.untimed;
    let high = samples.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (samples.time[middle] < time) { low = middle + 1; } else { high = middle; }
    }
    return low;
  }
  // The samples of a range of time, [start, end) in nanoseconds; all of them without a range.
  function slice(samples, range) {
    return range ? [sampleAt(samples, range[0]), sampleAt(samples, range[1])] : [0, samples.count];
  }
  // When within a second samples were taken: sums by column, of one second or several, and row, the first at its beginning.
  function bySecond(samples, node, values, { second, phase, all, columns, rows }) {
    const sums = new Float64Array(columns * rows);
    for (let i = samples.untimed; i < samples.count; i++) {
      if (node[i] < 0) { continue; }
      const at = samples.time[i] + phase;
      const column = Math.floor(Math.min(all - 1, Math.floor(at / second)) * columns / all);
      sums[column * rows + Math.min(rows - 1, Math.floor(at % second / second * rows))] += values[i];
    }
    return sums;
  }
  // What ends in each node, and what is in it with all that it calls, in one pass back over the tree. With `power` 2 the squares
  // of the samples are added up.
  function sums(tree, node, values, [first, end], power) {
    const own = new Float64Array(tree.size);
    let samples = 0;
    for (let i = first; i < end; i++) {
      const at = node[i];
      if (at >= 0) { own[at] += power === 2 ? values[i] * values[i] : values[i]; samples++; }
    }
    const total = own.slice();
    const { parent } = tree;
    for (let i = total.length - 1; i > 0; i--) { total[parent[i]] += total[i]; }
    return { own, total, samples };
  }
  // Where each node begins: callees stand behind what ended in their caller.
  function layout(tree, { own, total }) {
    const start = new Float64Array(tree.size);
    const next = own.slice();
    const { parent } = tree;
    for (let i = 1; i < start.length; i++) {
      const caller = parent[i];
      start[i] = next[caller];
      next[caller] += total[i];
      next[i] += start[i];
    }
    return start;
  }

  // In which row each node is drawn. Functions that only start a thread are `folded` into the row of the first of them, which
  // stands for so many `more`; with `all`, none are. `analyze/src/start.rs` has the rule.
  const [ALWAYS, LEADING, LAST, CODE, ROW] = [1, 2, 3, 4, 5];
  function rowsOf(data, tree, { total, fineTotal, otherTotal }, all) {
    const { size, parent } = tree;
    const level = new Uint32Array(size);
    const folded = new Uint8Array(size);
    const more = new Uint32Array(size);
    const isSeen = (i) => fineTotal[i] > 0 || otherTotal && otherTotal[i] > 0;
    const isStart = all ? folded : startsOf(tree, startParts(data, tree, isSeen));
    for (let i = 1; i < size; i++) {
      folded[i] = isStart[i] && isStart[parent[i]] ? 1 : 0;
      level[i] = level[parent[i]] + 1 - folded[i];
    }
    for (let i = size - 1; i > 0; i--) {
      if (folded[i] && total[i] > 0) { more[parent[i]] = Math.max(more[parent[i]], more[i] + 1); }
    }
    return { level, folded, more };
  }
  // What each node is for the start of a thread; where its functions are not all the same, nothing.
  function startParts(data, tree, isSeen) {
    const { fine } = tree;
    const { count } = tree.keys;
    const parts = new Uint8Array(tree.size);
    const isKnown = new Uint8Array(tree.size);
    for (let i = 1; i < fine.size; i++) {
      if (!isSeen(i)) { continue; }
      const key = fine.key[i];
      const part = key < count ? data.frames.start[data.functions.first[key]] : ROW;
      const node = tree.of ? tree.of[i] : i;
      parts[node] = isKnown[node] && parts[node] !== part ? 0 : part;
      isKnown[node] = 1;
    }
    return parts;
  }
  function startsOf({ size, parent }, parts) {
    const leads = new Uint8Array(size);
    for (let i = size - 1; i > 0; i--) {
      const part = parts[i];
      if (part === LAST || part === CODE || (part === ALWAYS || part === LEADING) && leads[i]) { leads[parent[i]] = 1; }
    }
    // Rows at the root come before it.
    const isRow = new Uint8Array(size);
    const isStart = new Uint8Array(size);
    isRow[0] = 1;
    for (let i = 1; i < size; i++) {
      const part = parts[i];
      isRow[i] = isRow[parent[i]] && part === ROW ? 1 : 0;
      const goesOn = isRow[parent[i]] || isStart[parent[i]];
      isStart[i] = goesOn && (part === ALWAYS || part === LAST || part === LEADING && leads[i]) ? 1 : 0;
    }
    return isStart;
  }

  // Whether an expression matches a label, or one of the names that it stands for: what is left out of a label is found.
  function matcherOf({ texts, names, fullOf }, tree, regexp) {
    const test = (text) => regexp.test(withoutMark(text));
    return (label, isFunction) => test(tree.keys.names[label]) || isFunction && (names.get(label) || []).some((of) =>
      of !== label && test(texts[of]) || fullOf.has(of) && test(texts[fullOf.get(of)]));
  }
  // The nodes whose names a regular expression matches. `all` and `zoomed` are what they took, of the whole and of the
  // zoomed node: within a node that is found nothing counts twice. `nodes` are those outermost ones.
  // `matches` is asked about a label, and whether it is a function's.
  function findHits(tree, matches, total, zoomed) {
    const { labels, count } = tree.keys;
    const { key, end, size } = tree;
    const known = new Map();
    const byKey = new Uint8Array(labels.length);
    for (let i = 0; i < byKey.length; i++) {
      const label = i < count ? labels[i] : -1 - labels[i];
      if (!known.has(label)) { known.set(label, matches(labels[i], i < count) ? 1 : 0); }
      byKey[i] = known.get(label);
    }
    const hit = new Uint8Array(size);
    for (let i = 1; i < size; i++) { hit[i] = byKey[key[i]]; }
    const nodes = [];
    let all = 0;
    let within = 0;
    for (let i = 1; i < size;) {
      if (!hit[i] || total[i] === 0) { i++; continue; }
      nodes.push(i);
      all += total[i];
      // Around the zoomed node, or in it.
      if (i <= zoomed && zoomed < end[i]) { within = total[zoomed]; }
      if (i > zoomed && i < end[zoomed]) { within += total[i]; }
      i = end[i];
    }
    return { hit, nodes, all, zoomed: within };
  }
