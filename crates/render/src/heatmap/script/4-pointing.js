  // Details of a cell, and what is drawn over the cells.
  var DARK = "@media(prefers-color-scheme:dark){";
  var tip;
  var tipBox;
  var reset;
  var ring;
  var band;
  var resolution;
  function buildOverlay() {
    band = svgElement("rect", {
      "class": "band", fill: "#0a66d8", "fill-opacity": 0.18, stroke: "#0a66d8",
      "pointer-events": "none", visibility: "hidden"
    });
    ring = svgElement("rect", {
      "class": "ring", fill: "none", stroke: "#0a66d8", "stroke-width": 2,
      "pointer-events": "none", visibility: "hidden"
    });
    var made = foreign(
      tipStyle(420, DARK) +
      "button{position:absolute;box-sizing:border-box;" + font() +
      "top:6px;right:10px;height:26px;padding:0 8px;border:1px solid #8e8e98;" +
      "border-radius:6px;background:#fff;color:#3f3f46;cursor:pointer;pointer-events:auto}" +
      "button[hidden]{display:none}button:hover{background:#f0f0f3}" +
      "button:focus-visible{outline:2px solid #0a66d8;outline-offset:1px}" +
      "@media(pointer:coarse){button{height:40px;min-width:44px}}" +
      DARK + "button{background:#26262b;border-color:#77777f;color:#dcdce0}" +
      "button:hover{background:#34343a}}", 100);
    resolution = svgElement("text", {
      "class": "sub", fill: "#5c5c63", "text-anchor": "end", y: 6 + fontSize + 9
    });
    tip = made.holder;
    tipBox = html("div", { role: "status", "aria-live": "polite", hidden: "" });
    reset = html("button", { type: "button", title: "Show everything (Escape)", hidden: "" }, "Reset");
    reset.addEventListener("click", function () { zoom(0, columns, 0, rows); });
    made.shadow.appendChild(tipBox);
    made.shadow.appendChild(reset);
  }

  function percent(part, whole) {
    if (part === 0 || whole === 0) { return "0%"; }
    var value = 100 * part / whole;
    return value.toFixed(value >= 0.01 ? 2 : 4) + "%";
  }
  function describe(column, row) {
    var count = countOf(column, row);
    var whole = columnOf(column);
    var step = columnStep / level.x;
    var lines = [
      grouped(count) + " " + (count === 1 ? noun.replace(/s$/, "") : noun) + ", " +
        percent(count, whole.points) + whole.text,
      scale.range(valueAt(row / level.y), valueAt((row + 1) / level.y)),
      time.range(column * step, (column + 1) * step) + " from the start"
    ];
    if (below) {
      if (level.x * level.y > 1) { return lines; }
      var sum = below[column];
      for (var k = 0; row >= k; k++) { sum += countOf(column, k); }
      lines.push("up to here " + grouped(sum) + ", " + percent(sum, points[column]));
    }
    return lines;
  }
  function cellBox(column, row) {
    var w = across / (view.x1 - view.x0) / level.x;
    var h = down / (view.y1 - view.y0) / level.y;
    return {
      x: left + (column - view.x0 * level.x) * w, y: top + (view.y1 * level.y - row - 1) * h,
      w: w, h: h
    };
  }
  var shown = "";
  var current = { column: 0, row: 0 };
  function showTip(column, row, x, y) {
    current = { column: column, row: row };
    var box = cellBox(column, row);
    set(ring, { x: box.x, y: box.y, width: box.w, height: box.h, visibility: "visible" });
    var key = column + " " + row;
    if (shown !== key) {
      shown = key;
      var lines = describe(column, row);
      tipBox.replaceChildren(html("b", {}, lines[0]));
      lines.slice(1).forEach(function (line) { tipBox.appendChild(html("span", {}, line)); });
    }
    tipBox.removeAttribute("hidden");
    var w = tipBox.offsetWidth;
    var h = tipBox.offsetHeight;
    var under = y + 18 + h > height ? y - h - 10 : y + 18;
    tipBox.style.left = Math.max(4, Math.min(x + 14, width - w - 4)) + "px";
    tipBox.style.top = Math.max(4, under) + "px";
  }
  function hideTip() {
    tipBox.setAttribute("hidden", "");
    ring.setAttribute("visibility", "hidden");
    shown = "";
  }

  // The cell under the pointer, at the nearest edge if it is outside.
  function pointed(event) {
    var matrix = root.getScreenCTM();
    var place = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    var column = view.x0 + (place.x - left) / across * (view.x1 - view.x0);
    var row = view.y1 - (place.y - top) / down * (view.y1 - view.y0);
    var cell = within(Math.floor(column * level.x), Math.floor(row * level.y));
    return { x: place.x, y: place.y, column: cell.column, row: cell.row };
  }
  // The nearest cell of the shown level that is in view.
  function within(column, row) {
    function nearest(at, from, to, parts) {
      return Math.min(Math.ceil(to * parts) - 1, Math.max(Math.floor(from * parts), at));
    }
    return {
      column: nearest(column, view.x0, view.x1, level.x),
      row: nearest(row, view.y0, view.y1, level.y)
    };
  }
  function zoom(x0, x1, y0, y1) {
    view = { x0: x0, x1: x1, y0: y0, y1: y1 };
    var all = x1 - x0 === columns ? y1 - y0 === rows : false;
    if (all) { reset.setAttribute("hidden", ""); } else { reset.removeAttribute("hidden"); }
    draw();
    widenAxis();
    // Cells are only so fine: so it is said how fine they are.
    var step = columnStep / level.x;
    var high = valueAt(y1);
    var low = valueAt(y1 - 1 / level.y);
    resolution.textContent = all ? "" : "a cell: " + time.text(step, step, step) + " by " +
      (log ? "a ratio of " + numberText(high / low, 0.01)
        : scale.text(high - low, high - low, high - low));
    fitHead();
  }
