  // Drawing. Bars are written into pixels, which a million spans take no longer than a hundred; texts and lines go over them.
  var view = { from: 0, to: 1, width: 1 };
  var selection = null;
  var ratio = 1;
  var wide = 0;
  var high = 0;
  var clock = makeScale(1, "");
  var image = null;
  var solid, shares, busy, owner, ready;
  var textWidth = makeTextWidth();

  function fit(context, text, room) {
    if (room < 16) { return ""; }
    return fitName(text, room, function (part) { return textWidth(context, part); });
  }
  function plotWidth() { return wide - gutter; }
  function xOf(time) { return gutter + (time - view.from) / (view.to - view.from) * plotWidth(); }
  function timeAt(x) { return view.from + (x - gutter) / plotWidth() * (view.to - view.from); }

  function shownHeight() { return Math.max(60, Math.min(scroller.clientHeight, tall.offsetHeight, MOST_HIGH)); }
  function size(element, width, height) {
    element.style.width = width + "px";
    element.style.height = height + "px";
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
  }
  // More pixels than this no canvas should have: on paper all rows are in it.
  var MOST_HIGH = 6000;
  // The window's size has changed, or the rows.
  function resize() {
    ratio = window.devicePixelRatio || 1;
    lay();
    wide = scroller.clientWidth;
    high = shownHeight();
    pane.style.height = high + "px";
    size(canvas, wide, high);
    size(over, wide, high);
    size(axis, wide, AXIS);
    view.width = Math.max(1, Math.round(plotWidth() * ratio));
    image = canvas.getContext("2d").createImageData(view.width, canvas.height);
    solid = new Uint8Array(view.width);
    shares = new Float32Array(view.width * KINDS);
    busy = new Float32Array(view.width);
    ready = new Float32Array(view.width);
    owner = new Uint32Array(view.width);
    loads = null;
  }

  // Fills a column of pixels from the bottom up: `height` pixels end at `bottom`.
  function column(pixels, x, bottom, height, colour) {
    var width = view.width;
    for (var at = x + (bottom - height) * width; height > 0; height--, at += width) {
      if (at >= 0) { if (at < pixels.length) { pixels[at] = colour; } }
    }
  }
  function rectangle(pixels, from, to, top, bottom, colour) {
    top = Math.max(0, top);
    bottom = Math.min(canvas.height, bottom);
    for (var y = top; y < bottom; y++) { pixels.fill(colour, y * view.width + from, y * view.width + to); }
  }
  function drawRow(pixels, row, top, bottom, labels) {
    pixelsOf(data, row, view, kindOf, KINDS, solid, shares, 44 * ratio, labels);
    var height = bottom - top;
    for (var x = 0; x < view.width;) {
      var kind = solid[x];
      if (kind > 0) {
        var end = x + 1;
        while (end < view.width) { if (solid[end] !== kind) { break; } end++; }
        if (kind <= KINDS) { rectangle(pixels, x, end, top, bottom, colours.kinds[kind - 1]); }
        x = end;
        continue;
      }
      var at = bottom;
      var sum = 0;
      for (var k = 0; k < KINDS; k++) {
        var share = shares[x * KINDS + k];
        if (share <= 0) { continue; }
        sum += share;
        // What ran or waited for a CPU is seen, however short.
        var least = k <= READY ? 1 : 0;
        var next = Math.max(top, Math.min(at - least, bottom - Math.round(sum * height)));
        column(pixels, x, at, at - next, colours.kinds[k]);
        at = next;
      }
      x++;
    }
  }
  function drawCpu(pixels, cpu, top, bottom, labels) {
    var power = data.power[cpu];
    drawSpans(pixels, power.idle, top, bottom, function (at) {
      return colours.idle[Math.min(power.idle[2][at], colours.idle.length - 1)];
    });
    drawSpans(pixels, power.unknown, top, bottom, function () { return colours.kinds[KINDS - 1]; });
    pixelsOfCpu(data, cpu, view, busy, owner, 30 * ratio, labels);
    var height = bottom - top;
    for (var x = 0; x < view.width;) {
      var share = busy[x];
      if (share <= 0) { x++; continue; }
      var row = owner[x];
      var end = x + 1;
      while (end < view.width) { if (busy[end] !== share || owner[end] !== row) { break; } end++; }
      var index = colourOfProcess(data.processOf[row]);
      var colour = shownRows && !shownRows[row] ? colours.dimmed[index] : colours.processes[index];
      rectangle(pixels, x, end, bottom - Math.max(1, Math.min(height, Math.round(share * height))), bottom, colour);
      x = end;
    }
  }
  function drawSpans(pixels, spans, top, bottom, colourOf) {
    var per = (view.to - view.from) / view.width;
    var done = 0;
    for (var at = spans[0].length ? lastUpTo(spans[0], 0, spans[0].length, view.from) : 0; at < spans[0].length; at++) {
      if (spans[0][at] >= view.to) { return; }
      var from = Math.max(done, Math.round((spans[0][at] - view.from) / per));
      var to = Math.min(view.width, Math.round((spans[0][at] + spans[1][at] - view.from) / per));
      if (to > from) { rectangle(pixels, from, to, top, bottom, colourOf(at)); done = to; }
    }
  }
  function drawProcess(pixels, index, top, bottom) {
    var process = data.processes[index];
    pixelsOfProcess(data, process, view, kindOf, busy, ready);
    var most = Math.min(process.rows, data.cpus.length) || 1;
    var height = bottom - top;
    rectangle(pixels, 0, view.width, top, bottom, mixed(colours.page, colours.kinds[LABELS.indexOf("blocked")], 0.5));
    for (var x = 0; x < view.width; x++) {
      if (busy[x] + ready[x] <= 0) { continue; }
      var ran = Math.min(height, Math.ceil(busy[x] / most * height - 1e-6));
      var both = Math.min(height, Math.max(ran + (ready[x] > 0 ? 1 : 0), Math.round((busy[x] + ready[x]) / most * height)));
      column(pixels, x, bottom, ran, colours.kinds[0]);
      column(pixels, x, bottom - ran, both - ran, colours.kinds[READY]);
    }
  }

  function draw() {
    if (!data) { return; }
    var context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    var pixels = new Uint32Array(image.data.buffer);
    pixels.fill(colours.page);
    var top = scroller.scrollTop;
    var visible = items.filter(function (item) { return item.y < top + high && item.y + item.height > top; });
    var texts = visible.map(function (item) {
      var labels = [];
      var from = Math.round((item.y - top + above) * ratio);
      var to = from + Math.round((bar - (item.kind === "cpu" ? 0 : 2)) * ratio);
      if (item.kind === "cpu") { drawCpu(pixels, item.index, from, to, labels); }
      if (item.kind === "row") { drawRow(pixels, item.index, from, to, labels); }
      if (item.kind === "process") { drawProcess(pixels, item.index, from, to); }
      return labels;
    });
    context.fillStyle = cssOf(colours.page);
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.putImageData(image, Math.round(gutter * ratio), 0);
    context.scale(ratio, ratio);
    context.font = getComputedStyle(document.body).font;
    context.textBaseline = "middle";
    visible.forEach(function (item, at) {
      drawLabels(context, item, texts[at], item.y - top);
      drawName(context, item, item.y - top);
    });
    drawAxis();
    drawOver();
  }
  function cssOf(colour) { return "rgb(" + (colour & 255) + "," + (colour >> 8 & 255) + "," + (colour >> 16 & 255) + ")"; }

  function drawLabels(context, item, labels, y) {
    var middle = y + above + bar / 2 - (item.kind === "cpu" ? 0 : 1) + 0.5;
    for (var at = 0; at < labels.length; at += 3) {
      var colour, text;
      if (item.kind === "cpu") {
        var row = data.runRows[labels[at + 2]];
        if (shownRows) { if (!shownRows[row]) { continue; } }
        colour = colours.processes[colourOfProcess(data.processOf[row])];
        text = name(row);
      } else {
        var span = labels[at + 2];
        var code = data.codes[span];
        colour = colours.kinds[kindOf[code]];
        text = code === RUNNING ? "CPU " + data.cpus[data.details[span]] : LABELS[kindOf[code]];
      }
      var x = gutter + labels[at] / ratio;
      var room = (labels[at + 1] - labels[at]) / ratio - 8;
      // What a thread does is said in full or not at all: its colour says it, too.
      var shown = item.kind === "cpu" ? fit(context, text, room) : textWidth(context, text) <= room ? text : "";
      if (!shown) { continue; }
      context.fillStyle = inkOn(colour);
      context.globalAlpha = item.kind === "row" && kindOf[data.codes[labels[at + 2]]] > READY ? 0.62 : 1;
      context.fillText(shown, x + 4, middle);
      context.globalAlpha = 1;
    }
  }
  function drawName(context, item, y) {
    var room = narrow ? wide - 12 : gutter - 16;
    var middle = narrow ? y + 9 : y + above + bar / 2;
    var x = narrow ? 8 : 12;
    context.fillStyle = colours.text;
    if (item.kind === "head") {
      context.font = "600 " + context.font;
      context.fillStyle = colours.muted;
      context.fillText(item.index, x, y + item.height - 9);
      context.font = getComputedStyle(document.body).font;
      return;
    }
    if (item.kind === "cpu") {
      context.fillText("CPU " + data.cpus[item.index], x, middle);
      return;
    }
    var process = item.kind === "process" ? item.index : data.processOf[item.index];
    var alone = data.processes[process].rows === 1;
    context.fillStyle = cssOf(colours.processes[colourOfProcess(process)]);
    if (item.kind === "process" || alone) { context.fillRect(x - 7, middle - 5, 3, 10); }
    context.fillStyle = colours.text;
    var text = item.kind === "row" ? title(item.index)
      : (closed.has(process) ? "\u25b8 " : "\u25be ") + data.processes[process].name +
        (data.processes[process].pid < 0 ? "" : " " + data.processes[process].pid);
    if (item.kind === "process") { context.font = "600 " + context.font; }
    if (item.kind === "row") { if (!alone) { x += 14; room -= 14; } }
    // The name first: of a long one the number is left out.
    var shown = fit(context, text, room - 4) || fit(context, item.kind === "row" ? name(item.index) : data.processes[process].name, room);
    context.fillText(shown, x, middle);
    context.font = getComputedStyle(document.body).font;
  }

  // Above the rows: how busy all CPUs were over all of the time, with the part that is in view, and the time of that.
  var LOAD = 26;
  var AXIS = LOAD + 22;
  var loads = null;
  function drawAxis() {
    var context = axis.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, AXIS);
    context.font = getComputedStyle(document.body).font;
    var whole = { from: 0, to: data.length, width: Math.max(1, Math.round(plotWidth())) };
    if (!loads) {
      loads = new Float32Array(whole.width);
      var one = new Float32Array(whole.width);
      var who = new Uint32Array(whole.width);
      data.cpus.forEach(function (_, cpu) {
        pixelsOfCpu(data, cpu, whole, one, who, 1e9, []);
        for (var x = 0; x < loads.length; x++) { loads[x] += one[x] / data.cpus.length; }
      });
    }
    context.fillStyle = cssOf(colours.kinds[0]);
    context.globalAlpha = 0.55;
    loads.forEach(function (load, x) {
      var height = Math.min(1, load) * (LOAD - 4);
      context.fillRect(gutter + x, LOAD - height, 1, height);
    });
    context.globalAlpha = 1;
    var scaleX = plotWidth() / data.length;
    var from = gutter + view.from * scaleX;
    var to = Math.max(from + 2, gutter + view.to * scaleX);
    context.fillStyle = cssOf(colours.page);
    context.globalAlpha = 0.72;
    context.fillRect(gutter, 2, from - gutter, LOAD - 2);
    context.fillRect(to, 2, wide - to, LOAD - 2);
    context.globalAlpha = 1;
    context.strokeStyle = colours.muted;
    context.strokeRect(from + 0.5, 2.5, Math.max(1, to - from - 1), LOAD - 3);
    context.textBaseline = "middle";
    context.fillStyle = colours.muted;
    if (!narrow) { context.fillText("All CPUs", 12, LOAD / 2 + 2); }
    var ticks = clock.ticks(view.from, view.to, Math.max(2, plotWidth() / 110));
    var size = Math.max(view.to, 1);
    var last = -Infinity;
    ticks.ticks.forEach(function (tick) {
      var x = Math.round(xOf(tick)) + 0.5;
      var text = clock.text(tick, size, ticks.step);
      context.fillStyle = colours.line;
      context.fillRect(x - 0.5, LOAD + 16, 1, 6);
      var left = Math.max(gutter + 1, Math.min(x - textWidth(context, text) / 2, wide - textWidth(context, text) - 2));
      if (left < last + 8) { return; }
      last = left + textWidth(context, text);
      context.fillStyle = colours.muted;
      context.fillText(text, left, LOAD + 9);
    });
  }
