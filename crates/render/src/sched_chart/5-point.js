  // What is pointed at: its details, and an arrow from who woke it.
  var tip = document.getElementById("tip");
  // A row and a span of it, or a CPU and a run of it.
  var pointed = null;

  function duration(time) { return clock.text(time, time, time > 0 ? Math.pow(10, Math.floor(Math.log10(time)) - 2) : 1); }
  function moment(time) { return clock.text(time, Math.max(time, 1), (view.to - view.from) / 1000); }
  function lastOf(row) { return data.rowFirst[row + 1] - 2; }

  // What a span is, in words.
  function describe(row, span) {
    var code = data.codes[span];
    var lasted = duration(data.starts[span + 1] - data.starts[span]);
    var lines = [];
    var kind = kindOf[code];
    if (code === RUNNING) {
      lines.push("ran on CPU " + data.cpus[data.details[span]] + " for " + lasted);
    } else if (kind === READY) {
      lines.push("waited for a CPU for " + lasted);
      if (code === PREEMPTED) { lines.push("it had to leave its CPU"); }
    } else if (kind === KINDS - 1) {
      lines.push("not known for " + lasted + ": events are missing");
    } else {
      var letter = letterOf[code];
      lines.push((LABELS[kind] === "blocked" || LABELS[kind] === "stopped" || LABELS[kind] === "uninterruptible" ? LABELS[kind]
        : "blocked: " + LABELS[kind]) + (letter === "-" ? "" : " (" + letter + ")") + " for " + lasted);
    }
    var wake = wakeOf(row, span);
    if (wake >= 0) {
      lines.push((kind > READY ? "then " : "") + "woken by " + wakerText(wake) +
        (code === RUNNING ? ", " + duration(data.starts[wake + 1] - data.starts[wake]) + " before it ran" : ""));
    }
    lines.push("from " + moment(data.starts[span]));
    return lines;
  }
  // The span that a wake-up began and that this one goes with: itself, that before a run, that after a wait; -1 if there is none.
  function wakeOf(row, span) {
    var kind = kindOf[data.codes[span]];
    var at = kind === 0 ? span - 1 : kind === READY ? span : span + 1;
    if (at < data.rowFirst[row] || at > lastOf(row)) { return -1; }
    return data.codes[at] === WOKEN ? at : -1;
  }
  function wakerText(wake) {
    var waker = data.details[wake];
    var where = " on CPU " + data.wakeCpus[wake];
    return (waker === 0 ? "an interrupt" : waker === 1 ? "a thread that is not known" : title(waker - 2)) + where;
  }

  function target(x, y) {
    var item = itemAt(y + scroller.scrollTop);
    if (!item || x < gutter) { return item ? { item: item } : null; }
    var time = timeAt(x);
    var found = { item: item, time: time };
    if (item.kind === "row") {
      var row = item.index;
      if (time >= data.starts[data.rowFirst[row]]) {
        if (time < data.starts[data.rowFirst[row + 1] - 1]) { found.row = row; found.span = spanAt(data, row, time); }
      }
    } else if (item.kind === "cpu") {
      var run = runAt(data, item.index, time);
      if (run >= 0) {
        var span = data.runSpans[run];
        if (time >= data.starts[span]) {
          if (time < data.starts[span + 1]) { found.row = data.runRows[run]; found.span = span; }
        }
      }
    }
    return found;
  }
  // Of a pixel with several spans, how it is shared out.
  function sharesAt(found) {
    var per = (view.to - view.from) / plotWidth();
    if (data.starts[found.span + 1] - data.starts[found.span] >= per) { return ""; }
    var from = timeAt(Math.floor(xOf(found.time)));
    var sums = new Float64Array(KINDS);
    var count = 0;
    for (var i = spanAt(data, found.row, from); i <= lastOf(found.row); i++) {
      if (data.starts[i] >= from + per) { break; }
      sums[kindOf[data.codes[i]]] += Math.min(from + per, data.starts[i + 1]) - Math.max(from, data.starts[i]);
      count++;
    }
    if (count < 3) { return ""; }
    var parts = [];
    sums.forEach(function (sum, kind) {
      if (sum > 0) { parts.push(Math.round(100 * sum / per) + " % " + LABELS[kind]); }
    });
    return grouped(count) + " spans in this pixel: " + parts.join(", ");
  }
  function idleAt(cpu, time) {
    var power = data.power[cpu];
    var lines = [];
    function at(list) {
      var index = list[0].length ? lastUpTo(list[0], 0, list[0].length, time) : -1;
      return index >= 0 && list[0][index] <= time ? index : -1;
    }
    var index = at(power.idle);
    if (index >= 0) {
      if (time < power.idle[0][index] + power.idle[1][index]) {
        lines.push("idle state " + power.idle[2][index] + " for " + duration(power.idle[1][index]));
      }
    }
    index = at(power.unknown);
    if (index >= 0) {
      if (time < power.unknown[0][index] + power.unknown[1][index]) { lines.push("not known: events are missing"); }
    }
    index = at(power.frequencies);
    if (index >= 0) { lines.push(grouped(Math.round(power.frequencies[1][index] / 1000)) + " MHz"); }
    return lines;
  }
  function linesOf(found) {
    var item = found.item;
    if (found.row !== undefined) {
      var lines = [title(found.row)].concat(describe(found.row, found.span));
      if (item.kind === "row") { lines.push(sharesAt(found)); }
      if (item.kind === "cpu") { lines = lines.concat(idleAt(item.index, found.time)); }
      return lines.filter(Boolean);
    }
    if (found.time === undefined) {
      if (item.kind === "row") { return [title(item.index), data.processes[data.processOf[item.index]].name]; }
      return [];
    }
    if (item.kind === "cpu") {
      var power = idleAt(item.index, found.time);
      return ["CPU " + data.cpus[item.index], power.length && power[0].startsWith("not known") ? "" : "idle"].concat(power).filter(Boolean);
    }
    if (item.kind === "process") {
      return [data.processes[item.index].name, grouped(data.processes[item.index].rows) +
        " threads; the height is how many of them ran and waited for a CPU"];
    }
    return [];
  }

  function showTip(found, x, y) {
    var lines = found ? linesOf(found) : [];
    tip.hidden = lines.length === 0;
    if (tip.hidden) { return; }
    tip.replaceChildren.apply(tip, lines.map(function (line, at) {
      var element = document.createElement(at === 0 ? "b" : "span");
      element.textContent = line;
      return element;
    }));
    var left = Math.max(4, Math.min(x + 14, wide - tip.offsetWidth - 4));
    var below = y + 20;
    if (below + tip.offsetHeight > high) { below = Math.max(2, y - tip.offsetHeight - 14); }
    tip.style.left = left + "px";
    tip.style.top = below + "px";
  }
  function pointAt(found, x, y) {
    pointed = found;
    showTip(found, x, y);
    drawOver();
  }

  // What moves with the pointer, on a canvas of its own.
  function drawOver() {
    var context = over.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, high);
    if (selection) { drawSelection(context); }
    if (!pointed) { return; }
    if (pointed.time !== undefined) {
      context.fillStyle = colours.muted;
      context.globalAlpha = 0.5;
      context.fillRect(Math.round(xOf(pointed.time)), 0, 1, high);
      context.globalAlpha = 1;
    }
    if (pointed.row === undefined) { return; }
    outline(context, pointed.item, pointed.span);
    var wake = wakeOf(pointed.row, pointed.span);
    if (wake >= 0) { drawArrow(context, wake); }
  }
  function drawSelection(context) {
    var from = Math.max(gutter, xOf(selection.from));
    var to = Math.min(wide, xOf(selection.to));
    context.fillStyle = cssOf(colours.page);
    context.globalAlpha = 0.55;
    if (from > gutter) { context.fillRect(gutter, 0, Math.min(from, wide) - gutter, high); }
    if (to < wide) { context.fillRect(Math.max(to, gutter), 0, wide - Math.max(to, gutter), high); }
    context.globalAlpha = 1;
    context.fillStyle = colours.accent;
    [from, to].forEach(function (x) { if (x >= gutter) { if (x <= wide) { context.fillRect(Math.round(x) - 1, 0, 2, high); } } });
  }
  function middleOf(item) { return item.y - scroller.scrollTop + above + bar / 2 - 1; }
  function outline(context, item, span) {
    var from = Math.max(gutter, xOf(data.starts[span]));
    var to = Math.min(wide, xOf(data.starts[span + 1]));
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect(from, item.y - scroller.scrollTop + above - 1, Math.max(2, to - from), bar);
  }
  // From the waker's row, or the CPU on which an interrupt came, to the row that was woken.
  function drawArrow(context, wake) {
    var waker = data.details[wake];
    var from = waker >= 2 ? itemOfRow(waker - 2) : null;
    if (!from) {
      var cpu = data.cpus.indexOf(data.wakeCpus[wake]);
      from = items.find(function (item) { return item.kind === "cpu" && item.index === cpu; });
    }
    var to = pointed.item.kind === "cpu" ? itemOfRow(pointed.row) || pointed.item : pointed.item;
    if (!from) { return; }
    var x = xOf(data.starts[wake]);
    var start = middleOf(from);
    var end = middleOf(to);
    if (x < gutter || x > wide) { return; }
    context.strokeStyle = context.fillStyle = colours.accent;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, start, 3.5, 0, 7);
    context.fill();
    var step = end > start ? 1 : -1;
    context.beginPath();
    context.moveTo(x, start);
    context.lineTo(x, end - step * 6);
    context.stroke();
    context.beginPath();
    context.moveTo(x, end);
    context.lineTo(x - 5, end - step * 8);
    context.lineTo(x + 5, end - step * 8);
    context.fill();
    var text = waker >= 2 ? title(waker - 2) : waker === 0 ? "interrupt" : "not known";
    drawFlag(context, text, x, start, step);
  }
  // The waker's name at the arrow's tail; where that is not in view, at the edge beyond which it is.
  function drawFlag(context, text, x, y, step) {
    context.font = getComputedStyle(document.body).font;
    context.textBaseline = "middle";
    var beyond = y < 8 ? "\u2191 " : y > high - 8 ? "\u2193 " : "";
    text = fit(context, beyond + text, 200);
    var width = textWidth(context, text) + 10;
    var left = x + 8 + width > wide ? x - 8 - width : x + 8;
    var middle = Math.max(11, Math.min(high - 11, y - step * (beyond ? 0 : 2)));
    context.fillStyle = colours.accent;
    context.beginPath();
    context.roundRect(left, middle - 9, width, 18, 5);
    context.fill();
    context.fillStyle = dark.matches ? "#000" : "#fff";
    context.fillText(text, left + 5, middle + 0.5);
  }
