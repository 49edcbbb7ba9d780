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
        if (c === " ") { break; }
        if (c === "/") { found.push(at); }
        else if (c === ":") { if (name[at - 2] === ":") { found.push(at); } }
      }
    }
    return found;
  }
  function fit(text, room) {
    if (2 * advance("i") > room) { return ""; }
    if (room >= textWidth(text)) { return text; }
    text = text.replace(/::h[0-9a-f]{16}$/, "");
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
        var indent = PADDING + hiddenUnder(depth, x);
        var shown = fit(nameOf(i), w - PADDING - indent);
        if (!shown) { continue; }
        var text = document.createElementNS(SVG, "text");
        text.setAttribute("x", (x + indent).toFixed(1));
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
  // How much of what stands at a place of a row is covered: in a comparison, by a box.
  var hiddenUnder = function () { return 0; };
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
    showNotice();
    hideTip();
  }
  // A zoom shows more of what is in the file, and nothing of what is not.
  function showNotice() {
    if (!notice) { return; }
    noticeShown = zoomed === 0 ? noticeText
      : noticeText.replace("not drawn", "at full width are not in this file");
    fitHeight();
  }

  // Layout for the width that is there.
  function layOut() {
    if (!fixed) {
      var there = Math.round(root.getBoundingClientRect().width);
      if (there > 0) { width = Math.max(240, there); }
    }
    var narrow = 640 > width;
    top = designTop + (narrow ? 32 : 0);
    fitHeight();
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
    fitHead(narrow ? width - 2 * MARGIN : width - 600);
    showZoom();
  }
  function fitHeight() {
    height = top + rowsHeight + placeFoot();
    root.setAttribute("viewBox", "0 0 " + width + " " + height);
    root.setAttribute("height", height);
    tip.setAttribute("width", width);
    tip.setAttribute("height", height);
  }
  // In a window of its own the controls stay in view.
  function floatBar() {
    var scrolled = alone ? window.scrollY : 0;
    bar.setAttribute("y", Math.max(barTop, scrolled + 6));
    controls.line.classList.toggle("floats", scrolled + 6 > barTop);
  }
  // The legend, made smaller where it is too wide, and the notice beside it or in lines below.
  var noticeShown = noticeText;
  function placeFoot() {
    var line = fontSize + 8;
    var room = framesWidth();
    if (legend) {
      var box = legend.getBBox();
      var shrink = Math.min(1, (width - 2 * MARGIN) / box.width);
      legend.setAttribute("transform", "translate(" + MARGIN * (1 - shrink) + " " +
        (1 - shrink) * line / 2 + ") scale(" + shrink + ")");
      room -= box.width + 24;
    }
    if (!notice) { return MARGIN + (legend ? line : 0); }
    var beside = legend ? room >= textWidth(noticeShown) : false;
    var lines = beside ? [noticeShown] : wrap(noticeShown, framesWidth());
    var before = legend ? (beside ? 0 : 1) : 0;
    notice.setAttribute("text-anchor", beside ? "end" : "start");
    notice.replaceChildren.apply(notice, lines.map(function (text, k) {
      var part = document.createElementNS(SVG, "tspan");
      part.setAttribute("x", beside ? width - MARGIN : MARGIN);
      part.setAttribute("y", (before + k + 1) * line);
      part.textContent = text;
      return part;
    }));
    return MARGIN + (before + lines.length) * line;
  }
  // Lines end with the blank that they were broken at.
  function wrap(text, room) {
    var lines = [""];
    (text.match(/\S+\s*/g) || []).forEach(function (word) {
      var last = lines.length - 1;
      if (lines[last] === "" || room >= textWidth((lines[last] + word).trimEnd())) {
        lines[last] += word;
      } else {
        lines.push(word);
      }
    });
    return lines;
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
