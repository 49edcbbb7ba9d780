  // A flame graph on a canvas, of values by frame. What is around it gives `holder`, with the settings, and of each frame, callers
  // before what they call: `parents`, `nameOf`, `moduleOf` (in `names`), `paintOf`, `depths`.

  // Values by frame with what they call, and where each frame stands.
  var totals, starts;
  function lay(own) {
    totals = own.slice();
    for (var i = totals.length - 1; i > 0; i--) { totals[parents[i]] += totals[i]; }
    starts = new Float64Array(parents.length);
    // Where the next callee of each frame begins: behind what ends in it.
    var next = own;
    for (i = 1; i < totals.length; i++) {
      starts[i] = next[parents[i]];
      next[parents[i]] += totals[i];
      next[i] += starts[i];
    }
  }

  // A finger needs higher rows than a mouse.
  var ROW = matchMedia("(pointer: coarse)").matches ? 28 : 18;
  var PADDING = 3;
  var canvas = document.getElementById("canvas");
  var details = document.getElementById("details");
  var found = document.getElementById("found");
  // Paper is light.
  var dark = matchMedia("screen and (prefers-color-scheme: dark)");
  var zoomed = 0;
  var hits = null;
  var wrong = "";
  var rows = [];
  var top = 1;
  var textWidth = makeTextWidth();

  function setting(name) { return holder.getAttribute("data-" + name) || ""; }
  var decimals = Math.pow(10, Number(setting("decimals")));
  var isTime = setting("unit") === "ns";
  var scale = makeScale(isTime ? 1 : 0, "");
  function amount(value) {
    if (isTime) { return scale.text(value, value, Math.pow(10, Math.floor(Math.log10(value)) - 2)); }
    var unit = setting("unit");
    var noun = unit === "count" || unit === "" ? setting("noun") : unit;
    return grouped(Math.round(value / decimals)) + " " + noun;
  }
  function percent(part, whole) {
    if (part === 0 || whole === 0) { return "0%"; }
    var share = 100 * part / whole;
    return share.toFixed(share >= 0.01 ? 2 : 4) + "%";
  }
  function label(i) {
    if (i === 0) { return "all"; }
    return names[nameOf[i]];
  }

  // Frames by row; the root is at the top, beside the heat map.
  function findRows() {
    rows = [];
    for (var i = 0; i < parents.length; i++) {
      if (totals[i] > 0) { (rows[depths[i]] = rows[depths[i]] || []).push(i); }
    }
    top = Math.max(1, rows.length);
  }
  function view() {
    return { start: starts[zoomed], width: totals[zoomed] || 1 };
  }
  function isAbove(i, caller) {
    while (depths[i] > depths[caller]) { i = parents[i]; }
    return i === caller;
  }

  function fit(context, text, room) {
    if (room < 14) { return ""; }
    return fitName(text, room, function (part) { return textWidth(context, part); });
  }
  function ink(colour) {
    var hex = colour.length === 4 ? colour.replace(/[0-9a-f]/g, "$&$&") : colour;
    var light = [1, 3, 5].map(function (k) {
      var c = parseInt(hex.slice(k, k + 2), 16) / 255;
      return c <= 0.04045 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179 ? "#000" : "#fff";
  }

  function draw() {
    var width = canvas.clientWidth;
    var height = top * ROW;
    var ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    var context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = getComputedStyle(canvas).font;
    var colours = setting(dark.matches ? "dark" : "light").split(" ");
    var inks = colours.map(ink);
    var plain = dark.matches ? "#3a3a40" : "#d9d9dc";
    var hit = dark.matches ? "#d4007f" : "#f06abf";
    var shown = view();
    var per = width / shown.width;
    var end = shown.start + shown.width;
    rows.forEach(function (row, depth) {
      var y = depth * ROW;
      row.forEach(function (i) {
        var from = Math.max(starts[i], shown.start);
        var x = (from - shown.start) * per;
        var w = (Math.min(starts[i] + totals[i], end) - from) * per;
        // Below a tenth of a pixel nothing is seen.
        if (w < 0.1 || from >= end) { return; }
        var colour = hits ? (hits[i] ? hit : plain) : colours[paintOf[i]];
        context.fillStyle = colour;
        context.globalAlpha = depth < depths[zoomed] ? 0.5 : 1;
        context.fillRect(x, y, w >= 3 ? w - 0.7 : w, ROW - 1);
        var text = fit(context, label(i), w - 2 * PADDING);
        if (text) {
          context.fillStyle = hits ? ink(colour) : inks[paintOf[i]];
          context.fillText(text, x + PADDING, y + ROW / 2 + 4);
        }
      });
    });
    context.globalAlpha = 1;
    var at = ring ? boxOf(current) : null;
    if (at) {
      context.strokeStyle = dark.matches ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect(at.x + 1, at.y, Math.max(2, at.width - 2), ROW - 2);
    }
  }
  // Where a frame is on the canvas; nothing if it is not in view.
  function boxOf(i) {
    var shown = view();
    var per = canvas.clientWidth / shown.width;
    var from = Math.max(starts[i], shown.start);
    var to = Math.min(starts[i] + totals[i], shown.start + shown.width);
    if (from >= to) { return null; }
    return { x: (from - shown.start) * per, y: depths[i] * ROW + 1, width: (to - from) * per };
  }
  // With the keyboard: the root is at the top, so that what is called is below.
  var current = 0;
  var ring = false;
  function move(key) {
    var to = -1;
    if (!ring || !boxOf(current)) {
      to = zoomed;
    } else if (key === "ArrowUp") {
      to = parents[current];
    } else {
      var row = (rows[depths[current] + (key === "ArrowDown" ? 1 : 0)] || []).filter(boxOf);
      if (key === "ArrowDown") {
        row.forEach(function (i) {
          if (parents[i] !== current) { return; }
          if (to < 0 || totals[i] > totals[to]) { to = i; }
        });
      } else {
        row.sort(function (a, b) { return starts[a] - starts[b]; });
        to = row[row.indexOf(current) + (key === "ArrowLeft" ? -1 : 1)];
      }
    }
    if (to === undefined || to < 0) { to = current; }
    pointAt(to);
  }
  function pointAt(i) {
    current = i;
    ring = true;
    draw();
    var at = boxOf(i);
    var box = canvas.getBoundingClientRect();
    if (at) {
      showDetails(i, { clientX: box.left + at.x + at.width / 2, clientY: box.top + at.y + ROW / 2 });
    }
  }

  function frameUnder(event) {
    var box = canvas.getBoundingClientRect();
    var depth = Math.floor((event.clientY - box.top) / ROW);
    var shown = view();
    var value = shown.start + (event.clientX - box.left) / box.width * shown.width;
    var slack = shown.width / box.width;
    var best = -1;
    var distance = slack;
    (rows[depth] || []).forEach(function (i) {
      var off = Math.max(starts[i] - value, value - starts[i] - totals[i], 0);
      if (off <= distance) { best = i; distance = off; }
    });
    return best;
  }
  function showDetails(i, event) {
    if (i < 0) { details.hidden = true; return; }
    var lines = [label(i), amount(totals[i]) + ", " + percent(totals[i], totals[0]) +
      " of the chosen span"];
    if (zoomed !== 0) {
      if (isAbove(i, zoomed)) { lines.push(percent(totals[i], totals[zoomed]) + " of " + label(zoomed)); }
    }
    if (names[moduleOf[i]]) { lines.push(names[moduleOf[i]]); }
    details.replaceChildren.apply(details, lines.map(function (line, at) {
      var element = document.createElement(at === 0 ? "b" : "span");
      element.textContent = line;
      return element;
    }));
    details.hidden = false;
    var box = canvas.parentNode.getBoundingClientRect();
    var x = event.clientX - box.left + 12;
    var y = event.clientY - box.top + 18;
    details.style.left = Math.max(4, Math.min(x, box.width - details.offsetWidth - 4)) + "px";
    details.style.top = y + "px";
  }
  function zoomTo(i) {
    zoomed = i;
    document.getElementById("out").hidden = zoomed === 0;
    details.hidden = true;
    showFound();
    draw();
  }

  function search(pattern) {
    var input = document.getElementById("search");
    hits = null;
    wrong = "";
    input.removeAttribute("aria-invalid");
    if (pattern) {
      try {
        var wanted = regexpOf(pattern, ignoresCase(pattern, ""));
        var matches = names.map(function (name) { return wanted.test(name); });
        hits = new Uint8Array(parents.length);
        for (var i = 1; i < hits.length; i++) { hits[i] = matches[nameOf[i]] ? 1 : 0; }
      } catch (error) {
        input.setAttribute("aria-invalid", "true");
        wrong = "No regular expression: " + reasonOf(error);
      }
    }
    showFound();
    draw();
  }
  // What is in frames that were found; a frame within another counts once.
  function showFound() {
    if (!hits) { found.textContent = wrong; return; }
    var within = new Uint8Array(parents.length);
    var sum = 0;
    for (var i = 1; i < within.length; i++) {
      within[i] = within[parents[i]] | hits[i];
      if (within[i] && !within[parents[i]]) { sum += totals[i]; }
    }
    found.textContent = percent(sum, totals[0]) + " of the chosen span in what was found";
  }
  // Shows other values.
  function showValues(own) {
    lay(own);
    if (totals[zoomed] === 0) { zoomed = 0; }
    if (totals[current] === 0) { current = zoomed; }
    findRows();
    zoomTo(zoomed);
  }
  function listen() {
    document.getElementById("out").addEventListener("click", function () { zoomTo(0); });
    document.getElementById("search").addEventListener("input", function (event) {
      search(event.target.value);
    });
    canvas.addEventListener("pointermove", function (event) { showDetails(frameUnder(event), event); });
    canvas.addEventListener("pointerleave", function (event) {
      // A finger leaves with every tap: the details of what it tapped stay.
      if (event.pointerType !== "touch") { details.hidden = true; }
    });
    var touched = false;
    document.addEventListener("pointerdown", function (event) {
      touched = event.pointerType === "touch";
      if (event.target !== canvas) { details.hidden = true; }
    });
    canvas.addEventListener("click", function (event) {
      var i = frameUnder(event);
      ring = false;
      if (i >= 0) { current = i; zoomTo(i); }
      if (touched) { showDetails(i, event); }
    });
    canvas.addEventListener("blur", function () {
      ring = false;
      details.hidden = true;
      draw();
    });
    canvas.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) { return; }
      if (event.key.startsWith("Arrow")) {
        move(event.key);
      } else if (event.key === "Enter" || event.key === " ") {
        zoomTo(current);
        pointAt(current);
      } else if (event.key === "Escape" || event.key === "Home") {
        zoomTo(0);
      } else {
        return;
      }
      event.preventDefault();
    });
    document.addEventListener("keydown", function (event) {
      var input = document.getElementById("search");
      // Where the page has another field for it, that one has taken it.
      if (event.key !== "/" || event.target === input || event.defaultPrevented) { return; }
      input.focus();
      event.preventDefault();
    });
    dark.addEventListener("change", draw);
    var width = 0;
    new ResizeObserver(function () {
      if (canvas.clientWidth !== width) { width = canvas.clientWidth; draw(); }
    }).observe(canvas);
  }
