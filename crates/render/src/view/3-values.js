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
