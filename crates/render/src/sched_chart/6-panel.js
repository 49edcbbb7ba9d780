  // Below the chart: what each thread did in the span that is selected, and the stacks with which they left their CPUs.
  var MOST_LINES = 20;
  var flame = null;
  var sums = null;
  var sortedBy = 0;
  var allLines = false;

  function showPanel() {
    var from = selection ? selection.from : 0;
    var to = selection ? selection.to : data.length;
    sums = sumsIn(data, kindOf, KINDS, from, to);
    document.getElementById("span").textContent = selection
      ? "Selected: " + clock.range(from, to) + ", " + duration(to - from) : "All of the time: " + duration(to);
    document.getElementById("clear").hidden = !selection;
    document.getElementById("tozoom").hidden = !selection;
    showTable();
    showFlame(from, to);
  }
  function showFlame(from, to) {
    if (!data.graph) { return; }
    var own = offCpuIn(data, from, to, shownRows);
    var some = own.some(function (value) { return value > 0; });
    document.getElementById("stacks").hidden = false;
    document.getElementById("flame").hidden = !some;
    document.getElementById("nostacks").hidden = some;
    if (!some) { return; }
    if (!flame) { flame = makeFlame(data.graph, document.getElementById("flame")); }
    flame(own);
  }

  function element(tag, text, attributes) {
    var made = document.createElement(tag);
    if (text !== undefined) { made.textContent = text; }
    for (var name in attributes) { made.setAttribute(name, attributes[name]); }
    return made;
  }
  // Kinds of which there is any, and the number of runs.
  function columnsOf(rows) {
    var columns = [];
    for (var kind = 0; kind <= KINDS; kind++) {
      if (rows.some(function (row) { return sums[row * (KINDS + 1) + kind] > 0; })) { columns.push(kind); }
    }
    return columns;
  }
  function showTable() {
    var width = KINDS + 1;
    var rows = [];
    for (var row = 0; row < data.rows; row++) {
      if (shownRows) { if (!shownRows[row]) { continue; } }
      for (var kind = 0; kind < KINDS; kind++) { if (sums[row * width + kind] > 0) { rows.push(row); break; } }
    }
    var columns = columnsOf(rows);
    if (!columns.includes(sortedBy)) { sortedBy = columns.length ? columns[0] : 0; }
    rows.sort(function (a, b) { return sums[b * width + sortedBy] - sums[a * width + sortedBy] || a - b; });
    var table = document.getElementById("sums");
    var head = element("tr");
    head.appendChild(element("th", "Thread", { scope: "col" }));
    columns.forEach(function (kind) {
      var cell = element("th", undefined, { scope: "col", "aria-sort": kind === sortedBy ? "descending" : "none" });
      var button = element("button", kind === KINDS ? "times it ran" : LABELS[kind], { type: "button" });
      button.addEventListener("click", function () {
        sortedBy = kind;
        showTable();
        table.querySelector("[aria-sort=descending] button").focus();
      });
      cell.appendChild(button);
      head.appendChild(cell);
    });
    var body = element("tbody");
    body.appendChild(totalLine(rows, columns));
    rows.slice(0, allLines ? rows.length : MOST_LINES).forEach(function (row) { body.appendChild(lineOf(row, columns)); });
    var top = element("thead");
    top.appendChild(head);
    table.replaceChildren(top, body);
    var more = document.getElementById("more");
    more.hidden = allLines || rows.length <= MOST_LINES;
    more.textContent = "Show " + grouped(rows.length - MOST_LINES) + " more";
  }
  function valueText(kind, value) {
    if (value === 0) { return ""; }
    return kind === KINDS ? grouped(value) : duration(value);
  }
  function totalLine(rows, columns) {
    var line = element("tr", undefined, { "class": "total" });
    line.appendChild(element("th", rows.length === 1 ? "1 thread" : grouped(rows.length) + " threads", { scope: "row" }));
    columns.forEach(function (kind) {
      var sum = rows.reduce(function (sum, row) { return sum + sums[row * (KINDS + 1) + kind]; }, 0);
      line.appendChild(element("td", valueText(kind, sum)));
    });
    return line;
  }
  function lineOf(row, columns) {
    var line = element("tr");
    var cell = element("th", undefined, { scope: "row" });
    var button = element("button", title(row), { type: "button", title: "Show its row" });
    button.addEventListener("click", function () { showRow(row); });
    cell.appendChild(button);
    line.appendChild(cell);
    columns.forEach(function (kind) {
      line.appendChild(element("td", valueText(kind, sums[row * (KINDS + 1) + kind])));
    });
    return line;
  }
  // Brings a row into view, and points at what it did in the middle of it.
  function showRow(row) {
    closed.delete(data.processOf[row]);
    resize();
    var item = itemOfRow(row);
    scroller.scrollTop = item.y - high / 3;
    var from = selection ? selection.from : view.from;
    var to = selection ? selection.to : view.to;
    var span = Math.min(lastOf(row), spanAt(data, row, (from + to) / 2));
    pointSpan(row, span);
    draw();
    document.getElementById("pane").scrollIntoView({ block: "nearest" });
  }
