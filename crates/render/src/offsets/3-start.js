  var map = document.querySelector("svg");
  var status = document.getElementById("span");
  var clock = makeScale(1, "");
  function show(span) {
    var first = 0;
    var end = times.length;
    if (span) {
      // Samples are kept in microseconds.
      first = sampleAt(span.start / 1000);
      end = sampleAt(span.end / 1000);
    }
    lay(first, end);
    if (totals[zoomed] === 0) { zoomed = 0; }
    if (totals[current] === 0) { current = zoomed; }
    findRows();
    var all = times.length;
    var samples = grouped(samplesIn) + (samplesIn === 1 ? " sample" : " samples");
    status.textContent = (span ? clock.range(span.start, span.end) + ": " : "All of the time: ") +
      samples + (span ? ", " + percent(samplesIn, all) + " of all" : ".");
    document.getElementById("hint").hidden = Boolean(span);
    document.getElementById("all").hidden = !span;
    zoomTo(zoomed);
  }
  async function start() {
    try {
      await unpack();
    } catch (error) {
      status.textContent = "This browser cannot unpack the samples: " + error.message;
      return;
    }
    document.getElementById("all").addEventListener("click", function () {
      map.dispatchEvent(new CustomEvent("pyrograph-all"));
    });
    document.getElementById("out").addEventListener("click", function () { zoomTo(0); });
    document.getElementById("search").addEventListener("input", function (event) {
      search(event.target.value);
    });
    var wanted = null;
    var pending = false;
    map.addEventListener("pyrograph-span", function (event) {
      // A drag sends more spans than can be drawn.
      wanted = event.detail;
      if (pending) { return; }
      pending = true;
      requestAnimationFrame(function () { pending = false; show(wanted); });
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
      if (event.key !== "/" || event.target === input) { return; }
      input.focus();
      event.preventDefault();
    });
    dark.addEventListener("change", draw);
    var width = 0;
    new ResizeObserver(function () {
      if (canvas.clientWidth !== width) { width = canvas.clientWidth; draw(); }
    }).observe(canvas);
    show(null);
  }
  start();
})();
