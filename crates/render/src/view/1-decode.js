  // The profile in the page: docs/viewer.md lists the columns. Callers come before what they call, samples in the order
  // of their times, texts and frames by name.
  function decode(bytes) {
    const columns = columnsOf(bytes);
    const about = JSON.parse(new TextDecoder().decode(columns.get(1)));
    const { counts } = about;
    const list = (column, length, Type) => numbersOf(columns.get(column), new (Type || Uint32Array)(length));
    const texts = textsOf(columns.get(2), list(3, counts.texts));
    const label = list(4, counts.frames);
    for (let i = 1; i < label.length; i++) { label[i] += label[i - 1]; }
    // Of texts that are mostly others' already: 0 is that of the other, and else it is one more than the text.
    const or = (column, other) => list(column, counts.frames).map((text, i) => text ? text - 1 : other[i]);
    const name = or(40, label);
    const frames = {
      label, name, full: or(39, name), tier: list(41, counts.frames, Uint8Array), module: list(6, counts.frames), file: list(7, counts.frames), line: list(8, counts.frames),
      kind: list(11, counts.frames, Uint8Array), paint: list(13, counts.frames), start: list(42, counts.frames, Uint8Array)
    };
    const up = list(14, counts.stacks - 1);
    const leaf = list(15, counts.stacks - 1);
    const stacks = { parent: new Uint32Array(counts.stacks), leaf: new Uint32Array(counts.stacks) };
    for (let i = 1; i < counts.stacks; i++) {
      let caller = i - 1;
      for (let k = up[i - 1]; k > 0; k--) { caller = stacks.parent[caller]; }
      stacks.parent[i] = caller;
      stacks.leaf[i] = leaf[i - 1];
    }
    const verdicts = columns.has(29) ? list(29, counts.stacks, Uint8Array) : null;
    const threads = threadsOf(list, counts.threads, about);
    const code = columns.has(36) ? JSON.parse(new TextDecoder().decode(columns.get(36))) : [];
    return { about, code, texts, frames, ...namesOf(frames, texts), stacks, threads, verdicts, functions: functionsOf(frames, texts),
      functionVerdicts: pairsOf(columns.get(30)), samples: samplesOf(columns, list, about) };
  }
  function columnsOf(bytes) {
    const columns = new Map();
    if (bytes[10] !== 1) { throw new Error("it has version " + bytes[10] + ", and only 1 is known"); }
    const head = new Float64Array(2);
    for (let at = 11; at < bytes.length;) {
      at = fill(bytes, at, head);
      columns.set(head[0], bytes.subarray(at, at + head[1]));
      at += head[1];
    }
    return columns;
  }
  // Numbers of seven bits a byte, the lowest first; returns where they end.
  function fill(bytes, at, out) {
    for (let i = 0; i < out.length; i++) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let factor = 128; byte > 127; factor *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * factor;
      }
      out[i] = value;
    }
    return at;
  }
  // A column that is not there is all 0.
  function numbersOf(bytes, out) {
    if (bytes) { fill(bytes, 0, out); }
    return out;
  }
  function textsOf(bytes, lengths) {
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes || new Uint8Array(0));
    const texts = [];
    let at = 0;
    for (const length of lengths) { texts.push(text.slice(at, at += length)); }
    return texts;
  }
  function pairsOf(bytes) {
    const pairs = new Map();
    const pair = new Uint32Array(2);
    for (let at = 0; bytes && at < bytes.length;) {
      at = fill(bytes, at, pair);
      pairs.set(pair[0], pair[1]);
    }
    return pairs;
  }
  function threadsOf(list, count) {
    const [pid, tid] = [16, 17].map((column) => list(column, count, Float64Array));
    const [process, name, host, cgroup, cmdline] = [18, 19, 20, 37, 38].map((column) => list(column, count));
    const labels = list(21, 4 * count);
    const number = (value) => value === 0 ? null : value % 2 ? (value - 1) / 2 : -value / 2;
    const threads = [];
    for (let i = 0; i < count; i++) {
      threads.push({ pid: number(pid[i]), tid: number(tid[i]), process: process[i], name: name[i], host: host[i],
        cgroup: cgroup[i], cmdline: cmdline[i] || process[i], hasCmdline: cmdline[i] > 0, labels: labels.subarray(4 * i, 4 * i + 4) });
    }
    return threads;
  }
  // A function is a label in a module: a row of the table. Frames of one are neighbours, and those of one kind and one name within
  // it: these are one key, so that code that was inlined is not painted as what was called, and tiers are known. `of` has the key of each frame, `first` the
  // first frame of each key, `kind` that of its code, `row` its function, `firstKey` the first key of each function.
  function functionsOf(frames, texts) {
    const { label, module, kind, name } = frames;
    const of = new Uint32Array(label.length);
    const first = [];
    const row = [];
    const firstKey = [];
    for (let i = 0; i < of.length; i++) {
      const isSame = i > 0 && label[i] === label[i - 1] && module[i] === module[i - 1];
      if (!isSame) { firstKey.push(first.length); }
      if (!isSame || kind[i] !== kind[i - 1] || name[i] !== name[i - 1]) {
        first.push(i);
        row.push(firstKey.length - 1);
      }
      of[i] = first.length - 1;
    }
    // Marks of names stand for kinds that formats do not have.
    const markOf = (text) => "kij".indexOf((/_\[(.)\]$/.exec(text) || " _")[1]) + 1;
    return { of, first: Uint32Array.from(first), kind: Uint8Array.from(first, (i) => kind[i] || markOf(texts[name[i]])),
      row: Uint32Array.from(row), firstKey: Uint32Array.from(firstKey) };
  }
  // `names`: of each label the names that it stands for, as filters and other outputs have them, tiers of one function for one.
  // `fullOf`: of names the one with all that is known, and `shownAs`: the label, where these are other texts.
  function namesOf({ label, name, full }, texts) {
    const fullOf = new Map();
    const names = new Map();
    const shownAs = new Map();
    name.forEach((of, i) => {
      const known = names.get(label[i]);
      if (!known) { names.set(label[i], [of]); } else if (!known.includes(of)) { known.push(of); }
      if (of !== full[i]) { fullOf.set(of, full[i]); }
      if (of !== label[i]) { shownAs.set(texts[of], texts[label[i]]); }
    });
    return { names, fullOf, shownAs };
  }
  function samplesOf(columns, list, about) {
    const count = about.counts.samples;
    const steps = columns.has(25);
    const stack = list(steps ? 25 : 24, count);
    for (let i = 1; steps && i < count; i++) { stack[i] += stack[i - 1]; }
    const bytes = columns.get(23);
    let untimed = count;
    const time = new Float64Array(count);
    if (bytes) {
      const head = new Float64Array(2);
      const at = fill(bytes, 0, head);
      untimed = head[1];
      fill(bytes, at, time.subarray(untimed));
      let sum = 0;
      for (let i = untimed; i < count; i++) { time[i] = sum += time[i] * head[0]; }
    }
    const all = list(28, count * about.values.length, Float64Array);
    return { count, stack, thread: list(26, count), cpu: columns.has(27) ? list(27, count) : null, time, untimed,
      values: about.values.map((_, i) => all.subarray(i * count, (i + 1) * count)) };
  }
