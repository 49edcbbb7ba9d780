  // What is shown: columns from x0 to x1, and rows, counted from the bottom, from y0 to y1.
  var view = { x0: 0, x1: columns, y0: 0, y1: rows };
  var scale = (function () {
    var units = { ns: 1, us: 1e3, "\u00b5s": 1e3, ms: 1e6, s: 1e9, sec: 1e9 };
    var unit = setting("unit").trim();
    var long = { nsec: "ns", nsecs: "ns", nanoseconds: "ns", usec: "us", usecs: "us",
      "\u03bcs": "us", microseconds: "us", msec: "ms", msecs: "ms", milliseconds: "ms",
      secs: "s", seconds: "s" };
    return makeScale(units[long[unit] || unit] || 0, unit);
  })();
  var time = makeScale(1, "");

  // Values and their place in rows from the bottom.
  function valueAt(place) {
    var row = Math.min(rows - 1, Math.max(0, Math.floor(place)));
    var share = place - row;
    var low = edges[row];
    var high = edges[row + 1];
    return log ? low * Math.pow(high / low, share) : low * (1 - share) + high * share;
  }
  function placeOf(value) {
    var low = 0;
    var high = rows;
    while (high > low + 1) {
      var middle = (low + high) >> 1;
      if (edges[middle] > value) { high = middle; } else { low = middle; }
    }
    var from = edges[low];
    var to = edges[low + 1];
    return low + (log ? Math.log(value / from) / Math.log(to / from)
      : (value / 2 - from / 2) / (to / 2 - from / 2));
  }

  function draw() {
    chooseLevel();
    var w = view.x1 - view.x0;
    var h = view.y1 - view.y0;
    var y = rows - view.y1;
    set(picture, { viewBox: view.x0 + " " + y + " " + w + " " + h });
    set(over, { viewBox: view.x0 + " 0 " + w + " 1000" });
    set(side, { viewBox: "0 " + y + " 1000 " + h });
    drawAxes();
    hideTip();
  }
  function valueTicks() {
    var low = valueAt(view.y0);
    var high = valueAt(view.y1);
    var most = Math.max(2, down / 36);
    var size = Math.max(Math.abs(low), Math.abs(high));
    if (log) {
      var powers = scale.logTicks(low, high, most);
      if (powers.length > 1) {
        return powers.map(function (tick) {
          return { value: tick, text: scale.text(tick, tick, tick) };
        });
      }
    }
    var found = scale.ticks(low, high, most);
    return found.ticks.map(function (tick) {
      return { value: tick, text: scale.text(tick, size, found.step) };
    });
  }
  function drawAxes() {
    var lines = "M" + (left - 0.5) + " " + top + "v" + (down + 0.5) +
      "M" + (left - 0.5) + " " + (top + down + 0.5) + "h" + (across + 0.5);
    var line = axes.querySelector("path");
    var parts = [line];
    function label(x, y, anchor, text) {
      var element = document.createElementNS(SVG, "text");
      set(element, { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor });
      element.textContent = text;
      parts.push(element);
    }
    var from = view.x0 * columnStep;
    var to = view.x1 * columnStep;
    var found = time.ticks(from, to, across / 90);
    found.ticks.forEach(function (tick) {
      var x = left + across * (tick - from) / (to - from);
      lines += "M" + x.toFixed(1) + " " + (gridLines ? top : top + down + 1) +
        "v" + (gridLines ? down + 5 : 4);
      var text = time.text(tick, to, found.step);
      // The last may be at the edge of the picture.
      var inside = width - 4 >= x + 0.3 * fontSize * text.length;
      label(inside ? x : width - 4, top + down + fontSize + 7, inside ? "middle" : "end", text);
    });
    valueTicks().forEach(function (tick) {
      var y = top + down * (view.y1 - placeOf(tick.value)) / (view.y1 - view.y0);
      lines += "M" + (left - 5) + " " + y.toFixed(1) + "h" + (gridLines ? across + 5 : 4);
      label(left - 8, y + 0.36 * fontSize, "end", tick.text);
    });
    line.setAttribute("d", lines);
    axes.replaceChildren.apply(axes, parts);
  }

  // Layout for the width that is there.
  function layOut() {
    if (!fixed) {
      var there = Math.round(root.getBoundingClientRect().width);
      if (there > 0) { width = Math.max(280, there); }
      var beside = 560 > width ? 0 : SIDE + GAP;
      side.setAttribute("display", beside ? "" : "none");
      across = Math.max(60, width - left - MARGIN - beside);
      across = Math.min(across, Math.max(240, 96 * columns));
      set(picture, { x: left, width: across });
      set(over, { x: left, width: across });
      set(side, { x: left + across + GAP });
    }
    placeFoot();
    height = top + down + underCells + footHeight;
    placeTitles();
    set(root, { viewBox: "0 0 " + width + " " + height, height: height });
    if (alone) { root.setAttribute("preserveAspectRatio", "xMidYMin"); }
    set(tip, { width: width, height: height });
    fitHead();
    draw();
  }
  // Items stand beside each other as far as there is room, and their text is cut if there is none.
  function placeFoot() {
    var line = Number(foot.getAttribute("data-line"));
    var x = MARGIN;
    var y = 0;
    foot.querySelectorAll(".item").forEach(function (item, index) {
      var box = item.getBBox();
      var w = box.x + box.width;
      if (index > 0) {
        if (x + w > width - MARGIN) {
          y += line + (y === 0 ? fontSize : 0);
          x = MARGIN;
        }
      }
      var shrink = Math.min(1, (width - 2 * MARGIN) / w);
      item.setAttribute("transform", "translate(" + x.toFixed(1) + " " + y + ")" +
        (1 > shrink ? " scale(" + shrink.toFixed(3) + ")" : ""));
      x += w * shrink + 24;
    });
    footHeight = y + line + fontSize + MARGIN;
    foot.setAttribute("transform", "translate(0 " + (top + down + underCells) + ")");
  }
  var titles = root.querySelectorAll(".titles text");
  function placeTitles() {
    set(titles[0], { x: left + across / 2 });
  }
  // The numbers of finer steps are longer: there the cells begin further right. Where their size is
  // fixed, they take the title's place.
  function widenAxis() {
    var widest = 0;
    axes.querySelectorAll("text").forEach(function (text) {
      if (Number(text.getAttribute("x")) > left) { return; }
      if (text.getAttribute("text-anchor") === "middle") { return; }
      widest = Math.max(widest, text.getComputedTextLength());
    });
    var needed = Math.ceil(MARGIN + fontSize + 14 + widest);
    titles[1].setAttribute("visibility", "visible");
    if (left >= needed) { return; }
    if (fixed) { titles[1].setAttribute("visibility", "hidden"); return; }
    left = needed;
    layOut();
  }
  var heading = [];
  function fitHead() {
    resolution.setAttribute("x", width - MARGIN - 64);
    var room = width - 2 * MARGIN - 60;
    var beside = resolution.getComputedTextLength();
    if (beside > 0) { room -= beside + 16; }
    heading.forEach(function (entry) { cutText(entry.element, entry.full, room); });
  }
