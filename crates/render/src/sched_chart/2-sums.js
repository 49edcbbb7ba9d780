  // Sums over spans: pure functions of the data, which a test compares with brute force.

  // The last span of a row that begins at or before a time, or its first.
  function spanAt(data, row, time) {
    return lastUpTo(data.starts, data.rowFirst[row], data.rowFirst[row + 1] - 1, time);
  }
  function lastUpTo(times, low, high, time) {
    var first = low;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (times[middle] > time) { high = middle; } else { low = middle + 1; }
    }
    return Math.max(first, low - 1);
  }
  // The last run of a CPU that begins at or before a time, or its first; -1 if it has none.
  function runAt(data, cpu, time) {
    var first = data.cpuFirst[cpu];
    var low = first;
    var high = data.cpuFirst[cpu + 1];
    if (low === high) { return -1; }
    while (low < high) {
      var middle = (low + high) >> 1;
      if (data.runStarts[middle] > time) { high = middle; } else { low = middle + 1; }
    }
    return Math.max(first, low - 1);
  }

  // How long each row did what from one time to another, by kind: `kinds` numbers a row, then how often it was given a CPU.
  function sumsIn(data, kindOf, kinds, from, to) {
    var width = kinds + 1;
    var sums = new Float64Array(data.rows * width);
    var starts = data.starts;
    var codes = data.codes;
    for (var row = 0; row < data.rows; row++) {
      var last = data.rowFirst[row + 1] - 1;
      var base = row * width;
      for (var i = spanAt(data, row, from); i < last; i++) {
        var start = starts[i];
        if (start >= to) { break; }
        var code = codes[i];
        if (code === RUNNING) { if (start >= from) { sums[base + kinds]++; } }
        var end = starts[i + 1];
        var time = (end > to ? to : end) - (start < from ? from : start);
        if (time > 0) { sums[base + kindOf[code]] += time; }
      }
    }
    return sums;
  }

  // By frame of the stacks, how long tasks were off their CPUs there, from one time to another. A wait for a CPU after another
  // wait belongs to the stack of that one. Null if no span has a stack.
  function offCpuIn(data, from, to, rows) {
    if (!data.graph) { return null; }
    var own = new Float64Array(data.graph.parents.length);
    var starts = data.starts;
    for (var row = 0; row < data.rows; row++) {
      if (rows) { if (!rows[row]) { continue; } }
      var last = data.rowFirst[row + 1] - 1;
      var i = spanAt(data, row, from);
      // What was before decides whose wait this is.
      var stack = i > data.rowFirst[row] ? data.stackOf[i - 1] : 0;
      for (; i < last; i++) {
        if (starts[i] >= to) { break; }
        var code = data.codes[i];
        if (code === RUNNING) { stack = 0; continue; }
        if (code !== WOKEN) { stack = data.stackOf[i]; }
        if (stack === 0) { continue; }
        own[data.frameOfStack[stack]] += Math.max(0, Math.min(to, starts[i + 1]) - Math.max(from, starts[i]));
      }
    }
    return own;
  }

  // What stands in the pixels of a row: `solid` has the kind + 1 of each pixel that one kind fills, and 0 where several share
  // it; then `shares` has how much of it each has, `kinds` numbers a pixel. Pixels before and behind the row's time are left
  // at kinds + 1. Adds to the labels those spans that are wider than `least` pixels.
  function pixelsOf(data, row, view, kindOf, kinds, solid, shares, least, labels) {
    var starts = data.starts;
    var codes = data.codes;
    var per = (view.to - view.from) / view.width;
    var last = data.rowFirst[row + 1] - 1;
    solid.fill(kinds + 1);
    var i = spanAt(data, row, view.from);
    var x = Math.max(0, Math.floor((starts[i] - view.from) / per));
    while (x < view.width) {
      if (i >= last) { return; }
      var left = view.from + x * per;
      var right = left + per;
      while (i < last) { if (starts[i + 1] > left) { break; } i++; }
      if (i >= last) { return; }
      var kind = kindOf[codes[i]];
      // Pixels that this span fills alone.
      if (starts[i] <= left) {
        if (starts[i + 1] >= right) {
          var until = Math.min(view.width, Math.floor((starts[i + 1] - view.from) / per + 1e-9));
          solid.fill(kind + 1, x, until);
          if (until - x >= least) { labels.push(x, until, i); }
          x = Math.max(until, x + 1);
          continue;
        }
      }
      var base = x * kinds;
      shares.fill(0, base, base + kinds);
      while (i < last) {
        var start = starts[i];
        if (start >= right) { break; }
        var end = starts[i + 1];
        shares[base + kindOf[codes[i]]] += ((end > right ? right : end) - (start < left ? left : start)) / per;
        if (end > right) { break; }
        i++;
      }
      solid[x] = 0;
      x++;
    }
  }

  // The same of a CPU: `busy` has the share of each pixel in which it ran anything, `owner` the row that ran longest in it.
  function pixelsOfCpu(data, cpu, view, busy, owner, least, labels) {
    busy.fill(0);
    var end = data.cpuFirst[cpu + 1];
    var run = runAt(data, cpu, view.from);
    if (run < 0) { return; }
    var starts = data.runStarts;
    var ends = data.runEnds;
    var rows = data.runRows;
    var width = view.width;
    var scale = width / (view.to - view.from);
    var most = 0;
    var last = -1;
    for (; run < end; run++) {
      var first = (starts[run] - view.from) * scale;
      if (first >= width) { return; }
      var until = (ends[run] - view.from) * scale;
      if (until <= 0) { continue; }
      if (first < 0) { first = 0; }
      if (until > width) { until = width; }
      if (until - first >= least) { labels.push(first, until, run); }
      for (var at = Math.floor(first); at < until; at++) {
        var share = (until < at + 1 ? until : at + 1) - (first > at ? first : at);
        if (at !== last) { last = at; most = 0; }
        busy[at] += share;
        if (share > most) { most = share; owner[at] = rows[run]; }
      }
    }
  }

  // How many CPUs' worth of a process's threads ran, and were ready to, in each pixel.
  function pixelsOfProcess(data, process, view, kindOf, running, ready) {
    running.fill(0);
    ready.fill(0);
    var starts = data.starts;
    var codes = data.codes;
    var width = view.width;
    var scale = width / (view.to - view.from);
    for (var row = process.first; row < process.first + process.rows; row++) {
      var last = data.rowFirst[row + 1] - 1;
      for (var i = spanAt(data, row, view.from); i < last; i++) {
        var kind = kindOf[codes[i]];
        if (kind > 1) { continue; }
        var first = (starts[i] - view.from) * scale;
        if (first >= width) { break; }
        var until = (starts[i + 1] - view.from) * scale;
        if (first < 0) { first = 0; }
        if (until > width) { until = width; }
        var list = kind === 0 ? running : ready;
        for (var at = Math.floor(first); at < until; at++) {
          list[at] += (until < at + 1 ? until : at + 1) - (first > at ? first : at);
        }
      }
    }
  }
