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
    showValues(valuesIn(first, end));
    var all = times.length;
    var samples = grouped(samplesIn) + (samplesIn === 1 ? " sample" : " samples");
    status.textContent = (span ? clock.range(span.start, span.end) + ": " : "All of the time: ") +
      samples + (span ? ", " + percent(samplesIn, all) + " of all" : ".");
    document.getElementById("hint").hidden = Boolean(span);
    document.getElementById("all").hidden = !span;
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
    var wanted = null;
    var pending = false;
    map.addEventListener("pyrograph-span", function (event) {
      // A drag sends more spans than can be drawn.
      wanted = event.detail;
      if (pending) { return; }
      pending = true;
      requestAnimationFrame(function () { pending = false; show(wanted); });
    });
    listen();
    show(null);
  }
  start();
})();
