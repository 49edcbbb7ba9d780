  // What is shown: a frame that takes the whole width, and the frames that were searched for.
  var zoomed = 0;
  var steps = [];
  var pattern = "";
  // "ignore" or "exact" where the reader chose.
  var caseMode = "";
  var hits = [];
  var viewStart = 0;
  var viewWidth = span;

  function framesWidth() { return width - 2 * MARGIN; }
  function scale() { return framesWidth() / viewWidth; }
  // Rows that hold nothing in the zoom are left out: `places` has what number each of the others is,
  // from the root, and `shownDepths` which row has that number.
  var places = [];
  var shownDepths = [];
  function rowTop(depth) {
    return (inverted ? places[depth] : shownDepths.length - 1 - places[depth]) * rowHeight;
  }
  // The row at a height; none beyond the frames.
  function depthAt(y) {
    var row = Math.floor((y - top) / rowHeight);
    return shownDepths[inverted ? row : shownDepths.length - 1 - row];
  }
  function isWithin(depth) {
    return rows[depth].some(function (i) {
      return starts[i] >= viewStart + viewWidth ? false : starts[i] + widths[i] > viewStart;
    });
  }
  function placeRows() {
    places = [];
    shownDepths = [];
    for (var depth = 0; rows.length > depth; depth++) {
      if (depth > 0) { if (!isWithin(depth)) { continue; } }
      places[depth] = shownDepths.length;
      shownDepths.push(depth);
    }
    rowsHeight = shownDepths.length * rowHeight;
    rowGroups.forEach(function (group, depth) {
      if (places[depth] === undefined) { group.setAttribute("display", "none"); return; }
      group.removeAttribute("display");
      group.setAttribute("transform",
        "translate(0 " + (rowTop(depth) + Math.max(1, rowHeight - 1) / 2) + ")");
    });
    picture.setAttribute("height", rowsHeight);
    foot.setAttribute("transform", "translate(0 " + (top + rowsHeight) + ")");
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
  function fit(text, room) {
    if (2 * advance("i") > room) { return ""; }
    return fitName(text, room, textWidth);
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
    shownDepths.forEach(function (depth) {
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
        var more = elements[i].getAttribute("data-more");
        var shown = fit(nameOf(i) + (more ? " " + more : ""), w - PADDING - indent);
        if (!shown) { continue; }
        var text = document.createElementNS(SVG, "text");
        text.setAttribute("x", (x + indent).toFixed(1));
        text.setAttribute("y", (y + middle).toFixed(1));
        if (inkIsWhite(i)) { text.setAttribute("fill", "#fff"); }
        if (depths[zoomed] > depth) { text.setAttribute("class", "up"); }
        // A link is below the text on it.
        if (elements[i].closest("a")) { text.setAttribute("pointer-events", "none"); }
        text.textContent = shown;
        texts.push(text);
      }
    });
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
    keepInPlace(function () {
      viewStart = starts[zoomed];
      viewWidth = widths[zoomed];
      placeRows();
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
    });
    hideTip();
  }
  // Rows come and go above the root: it stays where it is in the window.
  var kept = false;
  function keepInPlace(change) {
    var outer = !kept;
    var before = shownDepths.length > 0 ? top + rowTop(0) : NaN;
    kept = true;
    change();
    if (!outer) { return; }
    kept = false;
    var moved = top + rowTop(0) - before;
    var matrix = root.getScreenCTM();
    if (matrix) { if (Math.abs(moved) > 0) { window.scrollBy(0, moved * matrix.d); } }
  }
  // Where nothing else says what to show first, it is the root, and the zoomed frame with it.
  function openAtRoot() {
    if (!alone || inverted) { return; }
    window.scrollTo(0, height);
    var y = root.getScreenCTM().f + top + rowTop(depths[zoomed]);
    if (60 > y) { window.scrollBy(0, y - 60); }
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
    // An <object> may be higher than the picture.
    root.setAttribute("preserveAspectRatio", "xMidYMin");
    picture.setAttribute("width", framesWidth());
    headTop = fitHead();
    placeHead();
    showZoom();
  }
  function fitHeight() {
    height = top + rowsHeight + placeFoot();
    root.setAttribute("viewBox", "0 0 " + width + " " + height);
    root.setAttribute("height", height);
    tip.setAttribute("width", width);
    tip.setAttribute("height", height);
  }
  // The buttons stand beside the heading, or below it where that is narrow; and what was found to
  // their left, or in lines of its own where it would be cut.
  var headTop = top;
  var barAt = { x: 0, y: 0, width: 0 };
  var saidAt = null;
  function placeHead() {
    var beside = width >= 640;
    var buttons = controls.line.offsetWidth;
    var text = controls.status.textContent;
    var left = titleWidth > 0 ? titleWidth + 24 : 0;
    var room = framesWidth() - left - buttons - 12;
    barAt = { x: MARGIN, y: beside ? 6 : headTop - 6, width: framesWidth() };
    // A finger's buttons are higher than the heading.
    var high = controls.line.offsetHeight;
    top = beside ? Math.max(headTop, high + 8) : headTop + high + 4;
    saidAt = null;
    if (text) {
      if (beside) {
        if (room >= textWidth(text) * 1.05 + 4) { saidAt = { x: MARGIN + left, y: 6, width: room }; }
      }
      if (!saidAt) {
        said.setAttribute("width", framesWidth());
        saidAt = { x: MARGIN, y: top - 6, width: framesWidth() };
        top += controls.said.scrollHeight;
      }
    }
    picture.setAttribute("y", top);
    textLayer.setAttribute("transform", "translate(" + MARGIN + " " + top + ")");
    foot.setAttribute("transform", "translate(0 " + (top + rowsHeight) + ")");
    floatBar();
  }
  // In a window of its own the controls stay in view.
  function floatBar() {
    var scrolled = alone ? window.scrollY : 0;
    var floats = scrolled + 6 > barAt.y;
    var at = saidAt;
    if (floats) { at = { x: MARGIN, y: scrolled + controls.line.offsetHeight + 18, width: framesWidth() }; }
    [[bar, { x: barAt.x, y: Math.max(barAt.y, scrolled + 6), width: barAt.width }, controls.line],
      [said, at || barAt, controls.said]].forEach(function (part) {
      set(part[0], part[1]);
      part[2].classList.toggle("floats", floats);
    });
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
  // The title is cut where it is too long, and the subtitle broken. Returns where the frames begin.
  var heading = [];
  var titleWidth = 0;
  function fitHead() {
    var y = designTop;
    titleWidth = 0;
    bar.setAttribute("width", framesWidth());
    heading.forEach(function (entry) {
      if (entry.isTitle) { cutTitle(entry); return; }
      var lines = wrap(entry.full, framesWidth());
      entry.element.replaceChildren.apply(entry.element, lines.map(function (text, k) {
        var part = document.createElementNS(SVG, "tspan");
        part.setAttribute("x", MARGIN);
        if (k > 0) { part.setAttribute("dy", fontSize + 6); }
        part.textContent = text;
        return part;
      }));
      y += (lines.length - entry.lines) * (fontSize + 6);
    });
    return y;
  }
  function cutTitle(entry) {
    var room = width >= 640 ? framesWidth() - controls.line.offsetWidth - 24 : framesWidth();
    cutText(entry.element, entry.full, room);
    titleWidth = entry.element.getComputedTextLength();
  }
