  // The chart's data: what pack.rs has packed, as typed arrays. Times are nanoseconds from the chart's start.
  //
  // Spans of row r are rowFirst[r] to rowFirst[r + 1] - 2: behind the last one stands its end, so that span i lasts from
  // starts[i] to starts[i + 1]. Runs of CPU c are cpuFirst[c] to cpuFirst[c + 1] - 1.
  var RUNNING = 1;
  var PREEMPTED = 3;
  var WOKEN = 4;
  var BLOCKED = 5;
  /** Behind a row's last span. */
  var END = 255;

  async function unpack(text) { return readChart(await gunzip(text)); }

  function readChart(bytes) {
    var at = 0;
    function number() {
      var value = 0;
      var factor = 1;
      for (;;) {
        var byte = bytes[at++];
        value += (byte & 127) * factor;
        if (byte < 128) { return value; }
        factor *= 128;
      }
    }
    var decoder = new TextDecoder();
    function texts() {
      var list = [];
      for (var left = number(); left > 0; left--) {
        var length = number();
        list.push(decoder.decode(bytes.subarray(at, at + length)));
        at += length;
      }
      return list;
    }
    var data = { names: texts(), length: number(), cpus: [], processes: [] };
    for (var left = number(); left > 0; left--) { data.cpus.push(number()); }
    var rows = 0;
    for (left = number(); left > 0; left--) {
      var process = { pid: number() - 1, name: data.names[number()], first: rows, rows: number() };
      rows += process.rows;
      data.processes.push(process);
    }
    data.rows = rows;
    data.tids = new Uint32Array(rows);
    data.rowNames = new Uint32Array(rows);
    data.processOf = new Uint32Array(rows);
    data.rowFirst = new Uint32Array(rows + 1);
    var begins = new Float64Array(rows);
    for (var row = 0; row < rows; row++) {
      data.tids[row] = number();
      data.rowNames[row] = number();
      begins[row] = number();
      data.rowFirst[row + 1] = data.rowFirst[row] + number() + 1;
    }
    data.processes.forEach(function (process, index) {
      data.processOf.fill(index, process.first, process.first + process.rows);
    });
    at = readSpans(data, begins, bytes, at);
    at = readRuns(data, bytes, at);
    at = readCpus(data, number, function () { return at; });
    readStacks(data, number);
    return data;
  }

  // Lists of numbers are read in loops of their own: with all in local variables, they take a third of the time.
  function readSpans(data, begins, bytes, at) {
    var rowFirst = data.rowFirst;
    var count = rowFirst[data.rows];
    var codes = data.codes = new Uint8Array(count);
    var starts = data.starts = new Float64Array(count);
    // Of a span that runs, its CPU's place; of one that was woken, its waker.
    var details = data.details = new Uint32Array(count);
    // Of a span that was woken, the CPU's number.
    var wakeCpus = data.wakeCpus = new Uint16Array(count);
    for (var row = 0; row < data.rows; row++) {
      var spans = rowFirst[row + 1] - rowFirst[row] - 1;
      codes.set(bytes.subarray(at, at + spans), rowFirst[row]);
      at += spans;
      codes[rowFirst[row + 1] - 1] = END;
    }
    var byte, value, factor, i;
    for (row = 0; row < data.rows; row++) {
      var time = begins[row];
      var last = rowFirst[row + 1] - 1;
      for (i = rowFirst[row]; i < last; i++) {
        starts[i] = time;
        byte = bytes[at++];
        value = byte & 127;
        factor = 128;
        while (byte >= 128) {
          byte = bytes[at++];
          value += (byte & 127) * factor;
          factor *= 128;
        }
        time += value;
      }
      starts[last] = time;
    }
    for (i = 0; i < count; i++) {
      if (codes[i] !== RUNNING) { continue; }
      byte = bytes[at++];
      value = byte & 127;
      for (factor = 7; byte >= 128; factor += 7) {
        byte = bytes[at++];
        value |= (byte & 127) << factor;
      }
      details[i] = value;
    }
    for (i = 0; i < count; i++) {
      if (codes[i] !== WOKEN) { continue; }
      byte = bytes[at++];
      value = byte & 127;
      for (factor = 7; byte >= 128; factor += 7) {
        byte = bytes[at++];
        value |= (byte & 127) << factor;
      }
      details[i] = value;
      byte = bytes[at++];
      value = byte & 127;
      for (factor = 7; byte >= 128; factor += 7) {
        byte = bytes[at++];
        value |= (byte & 127) << factor;
      }
      wakeCpus[i] = value;
    }
    return at;
  }

  function readRuns(data, bytes, at) {
    var byte, value, factor, i;
    function number() {
      value = 0;
      factor = 1;
      do {
        byte = bytes[at++];
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte >= 128);
      return value;
    }
    return fillRuns(data, number(), bytes, at);
  }
  function fillRuns(data, runs, bytes, at) {
    var cpuFirst = data.cpuFirst = new Uint32Array(data.cpus.length + 1);
    var codes = data.codes;
    var details = data.details;
    var starts = data.starts;
    for (var i = 0; i < codes.length; i++) { if (codes[i] === RUNNING) { cpuFirst[details[i] + 1]++; } }
    for (i = 1; i < cpuFirst.length; i++) { cpuFirst[i] += cpuFirst[i - 1]; }
    // The span of each run, its row, and its times once more: side by side they are read in a third of the time.
    var runSpans = data.runSpans = new Uint32Array(runs);
    var runRows = data.runRows = new Uint32Array(runs);
    var runStarts = data.runStarts = new Float64Array(runs);
    var runEnds = data.runEnds = new Float64Array(runs);
    var next = cpuFirst.slice();
    var spans = data.rowFirst.slice();
    for (i = 0; i < runs; i++) {
      var byte = bytes[at++];
      var row = byte & 127;
      for (var shift = 7; byte >= 128; shift += 7) {
        byte = bytes[at++];
        row |= (byte & 127) << shift;
      }
      var span = spans[row];
      while (codes[span] !== RUNNING) { span++; }
      spans[row] = span + 1;
      var run = next[details[span]]++;
      runSpans[run] = span;
      runRows[run] = row;
      runStarts[run] = starts[span];
      runEnds[run] = starts[span + 1];
    }
    return at;
  }

  function readCpus(data, number, place) {
    data.power = data.cpus.map(function () {
      function list(width) {
        var count = number();
        var columns = [];
        for (var k = 0; k < width; k++) { columns.push(new Float64Array(count)); }
        var time = 0;
        for (var i = 0; i < count; i++) {
          time += number();
          columns[0][i] = time;
          for (k = 1; k < width; k++) { columns[k][i] = number(); }
        }
        return columns;
      }
      var unknown = list(2);
      var idle = list(3);
      var frequencies = list(2);
      return { unknown: unknown, idle: idle, frequencies: frequencies };
    });
    return place();
  }

  function readStacks(data, number) {
    var frames = number();
    if (frames === 0) { return; }
    frames++;
    var graph = data.graph = {
      names: data.names,
      parents: new Uint32Array(frames),
      nameOf: new Uint32Array(frames),
      moduleOf: new Uint32Array(frames),
      paintOf: new Uint16Array(frames),
      depths: new Uint16Array(frames)
    };
    for (var i = 1; i < frames; i++) {
      graph.parents[i] = graph.parents[i - 1] + number();
      graph.depths[i] = graph.depths[graph.parents[i]] + 1;
    }
    for (i = 1; i < frames; i++) { graph.nameOf[i] = number(); }
    for (i = 1; i < frames; i++) { graph.moduleOf[i] = number(); }
    for (i = 0; i < frames; i++) { graph.paintOf[i] = number(); }
    var stacks = new Uint32Array(number() + 1);
    for (i = 1; i < stacks.length; i++) { stacks[i] = number(); }
    data.frameOfStack = stacks;
    data.stackOf = new Uint32Array(data.codes.length);
    for (i = 0; i < data.codes.length; i++) {
      var code = data.codes[i];
      if (code === PREEMPTED || code >= BLOCKED) {
        if (code !== END) { data.stackOf[i] = number(); }
      }
    }
  }
