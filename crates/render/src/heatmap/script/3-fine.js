  // Finer cells where the picture is zoomed: as many as the whole has at most, by powers of two.
  var level = { x: 1, y: 1 };
  var finest = null;
  var shownCells = counts;
  var drawn = [];
  function readFine() {
    finest = { factor: 1, columns: [], rows: [], counts: [] };
    var parts = (picture.getAttribute("data-fine") || "1").split(" ");
    finest.factor = Number(parts[0]);
    var height = rows * finest.factor;
    var at = 0;
    for (var k = 1; parts.length > k; k++) {
      var cell = parts[k].split(":");
      at += parseInt(cell[0], 36);
      finest.columns.push(Math.floor(at / height));
      finest.rows.push(at % height);
      finest.counts.push(cell.length > 1 ? parseInt(cell[1], 36) : 1);
    }
  }
  function levelOf(shown, all, least) {
    var power = 1;
    if (shown === all) { return power; }
    while (finest.factor > power) {
      if (shown * power * 2 > Math.max(all, least)) { break; }
      power *= 2;
    }
    return power;
  }
  function chooseLevel() {
    if (!finest) { readFine(); }
    level = {
      x: levelOf(view.x1 - view.x0, columns, 100), y: levelOf(view.y1 - view.y0, rows, 50)
    };
    var grid = picture.querySelector(".grid");
    drawn.forEach(function (path) { path.remove(); });
    drawn = [];
    shownCells = counts;
    if (level.x * level.y === 1) {
      grid.removeAttribute("display");
      return;
    }
    grid.setAttribute("display", "none");
    shownCells = new Map();
    for (var k = 0; finest.counts.length > k; k++) {
      var column = Math.floor(finest.columns[k] * level.x / finest.factor);
      var row = Math.floor(finest.rows[k] * level.y / finest.factor);
      var key = cellKey(column, row);
      shownCells.set(key, (shownCells.get(key) || 0) + finest.counts[k]);
    }
    drawFine(grid);
  }
  // In the colours of the whole, so that they mean the same counts.
  function drawFine(grid) {
    var from = numbers(picture.getAttribute("data-from"));
    var paths = from.map(function () { return ""; });
    shownCells.forEach(function (count, key) {
      var column = Math.floor(key / (rows * level.y)) / level.x;
      var row = key % (rows * level.y) / level.y;
      if (view.x0 > column || column >= view.x1) { return; }
      if (view.y0 > row || row >= view.y1) { return; }
      var index = from.length - 1;
      while (from[index] > count) { index--; }
      paths[index] += "M" + column + " " + (rows - row - 0.5 / level.y) + "h" + 1 / level.x;
    });
    paths.forEach(function (d, index) {
      if (!d) { return; }
      var path = document.createElementNS(SVG, "path");
      set(path, {
        "class": "c" + index, d: d, fill: "none", "stroke-width": 1 / level.y,
        "shape-rendering": "crispEdges",
        stroke: foot.querySelector(".l" + index).getAttribute("fill")
      });
      picture.insertBefore(path, grid);
      drawn.push(path);
    });
  }
  // The points of a column of the shown level, and what they are.
  function columnOf(column) {
    if (level.x * level.y === 1) {
      return { points: points[column], text: " of the column's " + grouped(points[column]) };
    }
    var sum = 0;
    for (var row = 0; rows * level.y > row; row++) { sum += countOf(column, row); }
    return { points: sum, text: " of the " + grouped(sum) + " drawn in the column" };
  }
