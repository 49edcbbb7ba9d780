// Zoom, search and keyboard for one flame graph. See svg.rs for the structure it finds.
//
// It stands inside pages and XML as it is, so there is no less-than sign and no ampersand in it:
// comparisons are turned round, and conditions are nested. Editors mangle both.
// Nothing here draws what was not drawn before: without it the picture is whole.
(function () {
  "use strict";
  var script = document.currentScript;
  var root = script ? script.parentNode : null;
  if (!root || !root.querySelector || root.pyrograph) { return; }
  root.pyrograph = true;

  var XHTML = "http://www.w3.org/1999/xhtml";
  var SVG = "http://www.w3.org/2000/svg";
  var AND = String.fromCharCode(38);
  var MARGIN = 10;
  var PADDING = 3;
  var alone = document.documentElement === root;
  var fixed = root.hasAttribute("data-fixed");
  var inverted = root.hasAttribute("data-inverted");
  var rowHeight = parseFloat(root.getAttribute("data-row"));
  var charShare = parseFloat(root.getAttribute("data-char"));
  var prefix = root.getAttribute("data-nametype");
  prefix = prefix ? prefix + " " : "";

  var id = root.getAttribute("class");
  var picture = root.querySelector(".frames");
  var textLayer = root.querySelector(".text");
  var head = root.querySelector(".head");
  var foot = root.querySelector(".foot");
  var notice = root.querySelector(".notice");
  var legend = root.querySelector(".legend");
  if (!picture) { return; }
  var box = root.viewBox.baseVal;
  var width = box.width;
  var height = box.height;
  var span = picture.viewBox.baseVal.width;
  var rowsHeight = picture.viewBox.baseVal.height;
  var top = parseFloat(picture.getAttribute("y"));
  var designTop = top;
  var fontSize = parseFloat(root.getAttribute("font-size"));

  // The frames, as arrays: element, start, width, row from the root; and per row, sorted by start.
  var elements = [];
  var starts = [];
  var widths = [];
  var depths = [];
  var rows = [];
  var names = null;
  function readFrames() {
    var groups = picture.children;
    for (var g = 0; groups.length > g; g++) {
      var paths = groups[g].querySelectorAll("path");
      var row = [];
      for (var p = 0; paths.length > p; p++) {
        var d = paths[p].getAttribute("d");
        var at = d.indexOf("h");
        paths[p].pyrograph = elements.length;
        row.push(elements.length);
        elements.push(paths[p]);
        starts.push(parseInt(d.slice(1, at), 10));
        widths.push(parseInt(d.slice(at + 1), 10));
        depths.push(rows.length);
      }
      row.sort(function (a, b) { return starts[a] - starts[b]; });
      rows.push(row);
    }
  }

  // Details: the lines of the native tooltip. They are taken out when a frame is first pointed at,
  // or the browser would show its own tooltip over ours.
  function details(i) {
    var element = elements[i];
    if (!element.pyrographDetails) {
      var title = element.querySelector("title");
      element.pyrographDetails = (title ? title.textContent : "").split("\n");
    }
    return element.pyrographDetails;
  }
  function nameOf(i) {
    return details(i)[0].slice(prefix.length);
  }
  function allNames() {
    if (!names) {
      names = [];
      for (var i = 0; elements.length > i; i++) { names.push(nameOf(i)); }
    }
    return names;
  }
  function percent(part, whole) {
    if (part === 0) { return "0%"; }
    var value = 100 * part / whole;
    return value.toFixed(value >= 0.01 ? 2 : 4) + "%";
  }

  // The frame at a value in a row; the nearest where none is exactly there.
  function frameAt(depth, value, slack) {
    var row = rows[depth];
    if (!row) { return -1; }
    var low = 0;
    var high = row.length;
    while (high > low) {
      var middle = (low + high) >> 1;
      if (starts[row[middle]] > value) { high = middle; } else { low = middle + 1; }
    }
    var best = -1;
    var distance = slack;
    for (var k = Math.max(0, low - 1); Math.min(row.length, low + 1) > k; k++) {
      var i = row[k];
      var off = Math.max(starts[i] - value, value - starts[i] - widths[i], 0);
      if (distance >= off) { best = i; distance = off; }
    }
    return best;
  }
  function parentOf(i) {
    return depths[i] > 0 ? frameAt(depths[i] - 1, starts[i] + widths[i] / 2, span) : i;
  }

  // What is shown: a frame that takes the whole width, and the frames that were searched for.
  var zoomed = 0;
  var steps = [];
  var pattern = "";
  var ignoreCase = false;
  var hits = [];
  var viewStart = 0;
  var viewWidth = span;

  function framesWidth() { return width - 2 * MARGIN; }
  function scale() { return framesWidth() / viewWidth; }
  function rowTop(depth) {
    return (inverted ? depth : rows.length - 1 - depth) * rowHeight;
  }

  // Text that fits, by the same rule as in text.rs, but with the widths of the font in use.
  var advances = null;
  function advance(c) {
    if (!advances) {
      advances = new Map();
      var context = document.createElementNS(XHTML, "canvas").getContext("2d");
      if (context) { context.font = fontSize + "px " + getComputedStyle(textLayer).fontFamily; }
      advances.measure = context;
    }
    var known = advances.get(c);
    if (known === undefined) {
      known = charShare ? charShare * fontSize
        : advances.measure ? advances.measure.measureText(c).width : 0.65 * fontSize;
      advances.set(c, known);
    }
    return known;
  }
  function textWidth(text) {
    var sum = 0;
    for (var c of text) { sum += advance(c); }
    return sum;
  }
  function heads(name) {
    var found = [];
    var depth = 0;
    for (var at = 1; name.length > at; at++) {
      var c = name[at - 1];
      if ("\u003c([{".includes(c)) { depth++; }
      else if (">)]}".includes(c)) { depth = Math.max(0, depth - 1); }
      else if (depth === 0) {
        if (c === "/") { found.push(at); }
        else if (c === ":") { if (name[at - 2] === ":") { found.push(at); } }
      }
    }
    return found;
  }
  function fit(text, room) {
    if (2 * advance("i") > room) { return ""; }
    if (room >= textWidth(text)) { return text; }
    var left = room - advance("\u2026");
    var cuts = heads(text);
    for (var k = 0; cuts.length > k; k++) {
      var tail = text.slice(cuts[k]);
      if (left >= textWidth(tail)) { return "\u2026" + tail; }
    }
    var rest = Array.from(cuts.length ? text.slice(cuts[cuts.length - 1]) : text);
    var count = 0;
    while (rest.length > count) {
      left -= advance(rest[count]);
      if (0 > left) { break; }
      count++;
    }
    return count >= 2 ? rest.slice(0, count).join("") + "\u2026" : "";
  }

  // Gaps and text of what is in view.
  function drawText() {
    var per = scale();
    var gap = textLayer.querySelector(".gap");
    var gaps = "";
    var texts = [gap];
    var end = viewStart + viewWidth;
    var least = 2 * advance("i") + 2 * PADDING;
    var middle = (rowHeight - 1) / 2 + 0.36 * fontSize;
    for (var depth = 0; rows.length > depth; depth++) {
      var row = rows[depth];
      var y = rowTop(depth);
      for (var k = 0; row.length > k; k++) {
        var i = row[k];
        var left = Math.max(starts[i], viewStart);
        var w = (Math.min(starts[i] + widths[i], end) - left) * per;
        if (3 > w) { continue; }
        var x = (left - viewStart) * per;
        if (x > 0) { gaps += "M" + x.toFixed(1) + " " + y + "v" + (rowHeight - 1); }
        if (least > w) { continue; }
        var shown = fit(nameOf(i), w - 2 * PADDING);
        if (!shown) { continue; }
        var text = document.createElementNS(SVG, "text");
        text.setAttribute("x", (x + PADDING).toFixed(1));
        text.setAttribute("y", (y + middle).toFixed(1));
        if (inkIsWhite(i)) { text.setAttribute("fill", "#fff"); }
        if (depths[zoomed] > depth) { text.setAttribute("class", "up"); }
        text.textContent = shown;
        texts.push(text);
      }
    }
    gap.setAttribute("d", gaps);
    textLayer.replaceChildren.apply(textLayer, texts);
  }
  function inkIsWhite(i) {
    var group = elements[i].closest("g");
    return group ? group.classList.contains("white") : false;
  }

  function showZoom() {
    viewStart = starts[zoomed];
    viewWidth = widths[zoomed];
    picture.setAttribute("viewBox", viewStart + " 0 " + viewWidth + " " + rowsHeight);
    root.querySelectorAll(".hatch").forEach(function (hatch) {
      hatch.setAttribute("patternTransform", "scale(" + 1 / scale() + " 1) rotate(45)");
    });
    picture.querySelectorAll(".up").forEach(function (up) { up.classList.remove("up"); });
    var up = zoomed;
    while (depths[up] > 0) {
      up = parentOf(up);
      elements[up].classList.add("up");
    }
    drawText();
    showStatus();
    hideTip();
  }

  // Layout for the width that is there.
  function layOut() {
    if (!fixed) {
      var there = Math.round(root.getBoundingClientRect().width);
      if (there > 0) { width = Math.max(240, there); }
    }
    var narrow = 640 > width;
    top = designTop + (narrow ? 32 : 0);
    var notes = placeFoot();
    height = top + rowsHeight + notes;
    root.setAttribute("viewBox", "0 0 " + width + " " + height);
    root.setAttribute("height", height);
    // An <object> may be higher than the picture.
    root.setAttribute("preserveAspectRatio", "xMidYMin");
    picture.setAttribute("width", framesWidth());
    picture.setAttribute("y", top);
    textLayer.setAttribute("transform", "translate(" + MARGIN + " " + top + ")");
    foot.setAttribute("transform", "translate(0 " + (top + rowsHeight) + ")");
    bar.setAttribute("x", narrow ? MARGIN : Math.max(MARGIN, width - MARGIN - 560));
    barTop = narrow ? designTop - 6 : 6;
    floatBar();
    bar.setAttribute("width", narrow ? framesWidth() : Math.min(560, framesWidth()));
    tip.setAttribute("width", width);
    tip.setAttribute("height", height);
    fitHead(narrow ? width - 2 * MARGIN : width - 600);
    showZoom();
  }
  // In a window of its own the controls stay in view.
  function floatBar() {
    var scrolled = alone ? window.scrollY : 0;
    bar.setAttribute("y", Math.max(barTop, scrolled + 6));
    controls.line.classList.toggle("floats", scrolled + 6 > barTop);
  }
  function placeFoot() {
    var line = fontSize + 8;
    if (!notice) { return MARGIN + (legend ? line : 0); }
    if (!legend) { return MARGIN + line; }
    var room = framesWidth() - legend.getBBox().width - 24;
    var two = notice.getComputedTextLength() > room;
    notice.setAttribute("x", two ? MARGIN : width - MARGIN);
    notice.setAttribute("y", fontSize + 8 + (two ? line : 0));
    notice.setAttribute("text-anchor", two ? "start" : "end");
    return MARGIN + (two ? 2 : 1) * line;
  }
  var heading = [];
  function fitHead(room) {
    heading.forEach(function (entry) {
      var text = entry.full;
      entry.element.textContent = text;
      while (text.length > 4) {
        if (room >= entry.element.getComputedTextLength()) { break; }
        text = text.slice(0, Math.floor(text.length * 0.9));
        entry.element.textContent = text + "\u2026";
      }
    });
  }

  // Controls, as HTML in a shadow tree: the page's style does not reach them.
  var bar;
  var tip;
  var tipBox;
  var ring;
  var controls = {};
  var barTop = 6;
  function html(tag, attributes, text) {
    var element = document.createElementNS(XHTML, tag);
    for (var key in attributes) { element.setAttribute(key, attributes[key]); }
    if (text) { element.textContent = text; }
    return element;
  }
  function foreign(style, x, y, w, h) {
    var holder = document.createElementNS(SVG, "foreignObject");
    holder.setAttribute("x", x);
    holder.setAttribute("y", y);
    holder.setAttribute("width", w);
    holder.setAttribute("height", h);
    var host = html("div", {});
    holder.appendChild(host);
    root.appendChild(holder);
    var shadow = host.attachShadow({ mode: "open" });
    shadow.appendChild(html("style", {}, style));
    return { holder: holder, shadow: shadow };
  }
  function font() {
    return "font:" + fontSize + "px " + getComputedStyle(root).fontFamily + ";";
  }
  function buildControls() {
    var made = foreign(
      "div{display:flex;gap:6px;align-items:center;justify-content:flex-end;" + font() +
      "height:28px;color:#3f3f46}" +
      "div.floats{background:#fff;border-radius:7px;padding:3px;margin:-3px;" +
      "box-shadow:0 2px 10px rgba(0,0,0,.25)}" +
      "[role=status]{flex:1 1 auto;min-width:0;text-align:right;overflow:hidden;" +
      "text-overflow:ellipsis;white-space:nowrap;font-variant-numeric:tabular-nums}" +
      "button,input{font:inherit;color:inherit;box-sizing:border-box;height:26px;margin:0;" +
      "border:1px solid #8e8e98;border-radius:6px;background:#fff;padding:0 8px}" +
      "button{cursor:pointer;flex:none}button[hidden]{display:none}" +
      "button:hover{background:#f0f0f3}" +
      "button[aria-pressed=true]{background:#3f3f46;color:#fff;border-color:#3f3f46}" +
      "input{width:150px;flex:0 1 150px;min-width:60px}" +
      "input[aria-invalid=true]{border-color:#c4002b;outline-color:#c4002b}" +
      "button:focus-visible,input:focus-visible{outline:2px solid #0a66d8;outline-offset:1px}" +
      "@media(prefers-color-scheme:dark){" +
      "div{color:#dcdce0}div.floats{background:#17171b}button,input{background:#26262b;border-color:#77777f}" +
      "button:hover{background:#34343a}" +
      "button[aria-pressed=true]{background:#dcdce0;color:#17171b;border-color:#dcdce0}}",
      0, 0, 100, 30);
    bar = made.holder;
    bar.style.overflow = "visible";
    var line = controls.line = html("div", { role: "toolbar", "aria-label": "Flame graph" });
    controls.status = html("span", { role: "status", "aria-live": "polite" });
    controls.out = html("button", { type: "button", title: "Zoom out one step (Escape)" }, "Out");
    controls.reset = html("button", { type: "button", title: "Show everything (Home)" }, "Reset");
    controls.input = html("input", {
      type: "search", placeholder: "Search", "aria-label": "Search functions by regular expression",
      title: "A regular expression (/ or Ctrl-F); Enter goes to the next", spellcheck: "false"
    });
    controls.ignore = html("button", {
      type: "button", title: "Ignore case", "aria-label": "Ignore case", "aria-pressed": "false"
    }, "aA");
    ["status", "out", "reset", "input", "ignore"].forEach(function (key) {
      line.appendChild(controls[key]);
    });
    made.shadow.appendChild(line);
    controls.out.addEventListener("click", function () { stepOut(); });
    controls.reset.addEventListener("click", function () { zoomTo(0); });
    controls.input.addEventListener("input", function () {
      search(controls.input.value, ignoreCase, pattern === "");
    });
    controls.ignore.addEventListener("click", function () { search(pattern, !ignoreCase, true); });
    line.addEventListener("keydown", function (event) {
      event.stopPropagation();
      if (event.key === "Escape") {
        if (event.target === controls.input) { search("", ignoreCase, true); }
        focusFrame(current, true);
      } else if (event.key === "Enter") {
        if (event.target === controls.input) { nextHit(event.shiftKey ? -1 : 1); }
      }
    });
  }
  function buildTip() {
    ring = document.createElementNS(SVG, "rect");
    ring.setAttribute("fill", "none");
    ring.setAttribute("stroke", "#0a66d8");
    ring.setAttribute("stroke-width", "2.5");
    ring.setAttribute("pointer-events", "none");
    ring.setAttribute("visibility", "hidden");
    root.appendChild(ring);
    var made = foreign(
      "div{position:absolute;box-sizing:border-box;max-width:min(560px,96%);padding:7px 10px;" +
      "border-radius:7px;background:#202024;color:#f4f4f6;" + font() + "line-height:1.4;" +
      "box-shadow:0 3px 14px rgba(0,0,0,.28);overflow-wrap:anywhere;" +
      "font-variant-numeric:tabular-nums}div[hidden]{display:none}b{font-weight:600}" +
      "span{display:block;color:#c6c6cc}" +
      "@media(prefers-color-scheme:dark){div{background:#f4f4f6;color:#17171b}span{color:#46464d}}",
      0, 0, 100, 100);
    tip = made.holder;
    tip.setAttribute("pointer-events", "none");
    tip.style.overflow = "visible";
    tip.style.pointerEvents = "none";
    tipBox = html("div", { hidden: "", "aria-hidden": "true" });
    made.shadow.appendChild(tipBox);
  }

  // What is said of a frame: its name, then lines.
  function describe(i) {
    var lines = details(i).slice();
    if (!lines[1].includes("%")) { lines[1] += ", " + percent(widths[i], span); }
    if (lines[1].endsWith("%")) { lines[1] += " of all"; }
    if (zoomed !== 0) {
      if (starts[i] >= viewStart) {
        lines[1] += ", " + percent(Math.min(widths[i], viewWidth), viewWidth) + " of " +
          (nameOf(zoomed).length > 40 ? "the zoomed frame" : nameOf(zoomed));
      }
    }
    return lines;
  }
  function showTip(i, x, y) {
    var title = elements[i].querySelector("title");
    if (title) {
      details(i);
      title.remove();
    }
    if (tipBox.pyrograph !== i) {
      tipBox.pyrograph = i;
      var lines = describe(i);
      tipBox.replaceChildren(html("b", {}, lines[0]));
      lines.slice(1).forEach(function (line) { tipBox.appendChild(html("span", {}, line)); });
    }
    tipBox.removeAttribute("hidden");
    var w = tipBox.offsetWidth;
    var h = tipBox.offsetHeight;
    var below = y + 18 + h > height ? y - h - 10 : y + 18;
    tipBox.style.left = Math.max(4, Math.min(x + 12, width - w - 4)) + "px";
    tipBox.style.top = Math.max(4, below) + "px";
  }
  function hideTip() {
    tipBox.setAttribute("hidden", "");
    tipBox.pyrograph = -1;
  }

  // The frame under the pointer, by its coordinates: lines of a tenth of a pixel are hard to hit.
  function pointed(event) {
    var matrix = root.getScreenCTM();
    var place = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    var x = place.x;
    var y = place.y;
    var row = Math.floor((y - top) / rowHeight);
    var depth = inverted ? row : rows.length - 1 - row;
    var value = viewStart + (x - MARGIN) / scale();
    var inside = x >= MARGIN ? width - MARGIN >= x : false;
    return { frame: inside ? frameAt(depth, value, 1 / scale()) : -1, x: x, y: y };
  }

  // The keyboard's frame: the only one that Tab reaches; arrows go on from there.
  var current = 0;
  function focusable(i) {
    elements[current].removeAttribute("tabindex");
    current = i;
    var element = elements[i];
    var lines = describe(i);
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", depths[i] + 1);
    element.setAttribute("aria-label", lines.join(", "));
  }
  function focusFrame(i, visibly) {
    if (0 > i) { return; }
    focusable(i);
    elements[i].focus({ preventScroll: true, focusVisible: visibly });
    showRing(i);
    ring.scrollIntoView({ block: "nearest" });
  }
  function showRing(i) {
    var left = Math.max(0, (starts[i] - viewStart) * scale());
    var right = Math.min(framesWidth(), (starts[i] + widths[i] - viewStart) * scale());
    ring.setAttribute("x", MARGIN + left);
    ring.setAttribute("y", top + rowTop(depths[i]));
    ring.setAttribute("width", Math.max(2, right - left));
    ring.setAttribute("height", rowHeight - 1);
    ring.setAttribute("visibility", right >= left ? "visible" : "hidden");
    var details = Math.min(width - 40, MARGIN + left);
    showTip(i, details, top + rowTop(depths[i]) + rowHeight - 8);
  }
  function move(key) {
    var step = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (step) {
      var row = rows[depths[current]];
      var next = row[row.indexOf(current) + step];
      if (next === undefined) { return; }
      var after = starts[next] >= viewStart + viewWidth;
      if (after) { return; }
      if (viewStart >= starts[next] + widths[next]) { return; }
      focusFrame(next, true);
    } else if ((key === "ArrowUp") !== inverted) {
      // The widest callee that is in view.
      var best = -1;
      (rows[depths[current] + 1] || []).forEach(function (i) {
        if (starts[current] > starts[i]) { return; }
        if (starts[i] >= starts[current] + widths[current]) { return; }
        if (viewStart > starts[i]) { return; }
        if (starts[i] >= viewStart + viewWidth) { return; }
        if (best === -1 || widths[i] > widths[best]) { best = i; }
      });
      if (0 > best) {
        // Above a caller of the zoomed frame: the way to it.
        if (depths[zoomed] > depths[current]) {
          best = frameAt(depths[current] + 1, viewStart + viewWidth / 2, 0);
        }
      }
      focusFrame(best, true);
    } else if (depths[current] > 0) {
      focusFrame(parentOf(current), true);
    }
  }

  // Zoom.
  function zoomTo(i, silent) {
    if (i === zoomed) { return; }
    if (!silent) { steps.push(zoomed); }
    if (i === 0) { steps = []; }
    zoomed = i;
    showZoom();
    if (!silent) { save(true); }
  }
  function stepOut() {
    if (zoomed === 0) { return; }
    var to = steps.pop();
    if (to === undefined) {
      to = zoomed;
      while (to !== 0) {
        to = parentOf(to);
        if (widths[to] > widths[zoomed]) { break; }
      }
    }
    zoomed = to;
    showZoom();
    save(true);
  }

  // Search.
  function search(text, anyCase, push) {
    pattern = text;
    ignoreCase = anyCase;
    if (controls.input.value !== text) { controls.input.value = text; }
    controls.ignore.setAttribute("aria-pressed", String(anyCase));
    hits.forEach(function (i) { elements[i].classList.remove("hit"); });
    hits = [];
    var regex = null;
    var wrong = false;
    if (text) {
      try { regex = new RegExp(text, anyCase ? "i" : ""); } catch (error) { wrong = true; }
    }
    controls.input.setAttribute("aria-invalid", String(wrong));
    if (regex) {
      allNames().forEach(function (name, i) { if (regex.test(name)) { hits.push(i); } });
    }
    hits.sort(function (a, b) { return starts[a] - starts[b] || depths[a] - depths[b]; });
    hits.forEach(function (i) { elements[i].classList.add("hit"); });
    root.classList.toggle("hits", regex !== null);
    showStatus(wrong);
    save(push);
  }
  // The width of all hits inside a range; one inside another counts once.
  function covered(from, to) {
    var sum = 0;
    var end = from;
    hits.forEach(function (i) {
      var stop = Math.min(starts[i] + widths[i], to);
      if (stop > end) {
        sum += stop - Math.max(starts[i], end);
        end = stop;
      }
    });
    return sum;
  }
  function nextHit(step) {
    var shown = hits.filter(function (i) {
      if (starts[i] >= viewStart + viewWidth) { return false; }
      return starts[i] + widths[i] > viewStart;
    });
    if (shown.length === 0) { return; }
    var at = shown.indexOf(current);
    var next = 0 > at ? (step > 0 ? 0 : shown.length - 1) : at + step + shown.length;
    focusFrame(shown[next % shown.length], true);
  }
  function showStatus(wrong) {
    var text = "";
    if (wrong) {
      text = "Not a regular expression";
    } else if (pattern) {
      text = hits.length.toLocaleString("en") + (hits.length === 1 ? " frame, " : " frames, ") +
        percent(covered(0, span), span) + " of all";
      if (zoomed !== 0) {
        text += ", " + percent(covered(viewStart, viewStart + viewWidth), viewWidth) +
          " of the zoomed frame";
      }
    } else if (zoomed !== 0) {
      text = nameOf(zoomed) + ": " + percent(viewWidth, span) + " of all";
    }
    controls.status.textContent = text;
    controls.status.setAttribute("title", text);
    ["out", "reset"].forEach(function (key) {
      if (zoomed === 0) { controls[key].setAttribute("hidden", ""); }
      else { controls[key].removeAttribute("hidden"); }
    });
  }

  // The state in the address: #zoom=12, search and case; with the picture's class before each name
  // where it is one of several in a page. Everything else in the fragment stays.
  var key = "";
  if (!alone) {
    var twins = Array.from(document.getElementsByClassName(id)).indexOf(root);
    key = id + (twins > 0 ? "-" + twins : "") + ".";
  }
  function save(push) {
    var own = ["zoom", "search", "case"].map(function (name) { return key + name; });
    var parts = location.hash.slice(1).split(AND).filter(function (part) {
      return part ? !own.includes(part.split("=")[0]) : false;
    });
    if (zoomed !== 0) { parts.push(key + "zoom=" + zoomed); }
    if (pattern) { parts.push(key + "search=" + encodeURIComponent(pattern)); }
    if (pattern) { if (ignoreCase) { parts.push(key + "case=ignore"); } }
    var hash = parts.join(AND);
    if (location.hash.slice(1) === hash) { return; }
    // Not everywhere is a history allowed: in a frame without an address, for one.
    try {
      var url = location.pathname + location.search + (hash ? "#" + hash : "");
      if (push) { history.pushState(null, "", url); } else { history.replaceState(null, "", url); }
    } catch (error) {
      if (alone) { location.hash = hash; }
    }
  }
  function restore() {
    var state = {};
    location.hash.slice(1).split(AND).forEach(function (part) {
      var at = part.indexOf("=");
      if (part.startsWith(key)) { state[part.slice(key.length, at)] = part.slice(at + 1); }
    });
    var to = parseInt(state.zoom || "0", 10);
    to = elements[to] ? to : 0;
    var text = "";
    try { text = decodeURIComponent(state.search || ""); } catch (error) { text = ""; }
    var anyCase = state["case"] === "ignore";
    if (to !== zoomed) {
      if (steps[steps.length - 1] === to) { steps.pop(); } else { steps = []; }
      zoomed = to;
      showZoom();
    }
    if (text !== pattern || anyCase !== ignoreCase) {
      var saved = save;
      save = function () {};
      search(text, anyCase, false);
      save = saved;
    }
  }

  function start() {
    readFrames();
    if (elements.length === 0) { return; }
    head.querySelectorAll("text").forEach(function (element) {
      heading.push({ element: element, full: element.textContent });
    });
    buildControls();
    buildTip();
    // Its listeners would make it a stop for Tab in some browsers.
    picture.setAttribute("tabindex", "-1");
    picture.setAttribute("role", "tree");
    picture.querySelectorAll("g").forEach(function (g) { g.setAttribute("role", "none"); });
    picture.setAttribute("aria-label",
      "Frames. Arrow keys move, Enter zooms, Escape zooms out, slash searches.");
    if (!fixed) {
      root.style.height = "";
      root.style.maxWidth = "";
      root.setAttribute("width", "100%");
    }
    focusable(0);
    layOut();
    restore();

    picture.addEventListener("pointermove", function (event) {
      var at = pointed(event);
      if (at.frame >= 0) { showTip(at.frame, at.x, at.y); } else { hideTip(); }
    });
    picture.addEventListener("pointerleave", hideTip);
    picture.addEventListener("click", function (event) {
      if (event.target.closest("a") || event.ctrlKey || event.metaKey) { return; }
      var at = pointed(event);
      if (0 > at.frame) { return; }
      focusable(at.frame);
      elements[at.frame].focus({ preventScroll: true, focusVisible: false });
      zoomTo(at.frame);
    });
    picture.addEventListener("focusin", function (event) {
      var i = event.target.pyrograph;
      if (i === undefined) { return; }
      if (event.target.matches(":focus-visible")) { showRing(i); }
    });
    picture.addEventListener("focusout", function () {
      ring.setAttribute("visibility", "hidden");
      hideTip();
    });
    root.addEventListener("keydown", onKey);
    window.addEventListener("popstate", restore);
    if (alone) { window.addEventListener("scroll", floatBar); }
    if (!fixed) { watchWidth(); }
  }
  function onKey(event) {
    var find = event.key === "f" ? event.ctrlKey || event.metaKey : false;
    if (find || event.key === "/") {
      controls.input.focus();
      controls.input.select();
    } else if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (event.key.startsWith("Arrow")) {
      move(event.key);
    } else if (event.key === "Enter" || event.key === " ") {
      zoomTo(current);
      focusFrame(current, true);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      if (zoomed === 0) { return; }
      stepOut();
      focusFrame(current, true);
    } else if (event.key === "Home") {
      zoomTo(0);
      focusFrame(0, true);
    } else if (event.key === "n" || event.key === "N") {
      nextHit(event.key === "n" ? 1 : -1);
    } else {
      return;
    }
    event.preventDefault();
  }
  function watchWidth() {
    var before = width;
    function changed() {
      var now = Math.round(root.getBoundingClientRect().width);
      if (now === before || now === 0) { return; }
      before = now;
      layOut();
    }
    if (alone) { window.addEventListener("resize", changed); }
    else { new ResizeObserver(changed).observe(root); }
  }
  start();
})();
