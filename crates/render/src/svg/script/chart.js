  // A chart of true time: each thread has rows of its own, and the row of the whole has the times.
  var threadRows = picture.getAttribute("data-threads").split(" ").map(Number);
  var perPosition = Number(picture.getAttribute("data-ns"));
  var time = makeScale(1, "");
  var TICKS_FROM = 44;
  var callerOf = parentOf;
  parentOf = function (i) { return threadRows.includes(depths[i]) ? 0 : callerOf(i); };
  var drawFrames = drawText;
  drawText = function () {
    drawFrames();
    var y = rowTop(0);
    var from = viewStart * perPosition;
    var to = (viewStart + viewWidth) * perPosition;
    var found = time.ticks(from, to, framesWidth() / 110);
    found.ticks.forEach(function (tick) {
      var x = (tick - from) / (to - from) * framesWidth();
      if (TICKS_FROM > x) { return; }
      var mark = document.createElementNS(SVG, "path");
      mark.setAttribute("d", "M" + x.toFixed(1) + " " + y + "v5");
      mark.setAttribute("stroke", "#77777f");
      var text = document.createElementNS(SVG, "text");
      text.textContent = time.text(tick, to, found.step);
      // At the right edge there is room on the left of the tick alone.
      var fits = framesWidth() >= x + 2 * PADDING + textWidth(text.textContent);
      text.setAttribute("x", (fits ? x + PADDING : x - PADDING).toFixed(1));
      if (!fits) { text.setAttribute("text-anchor", "end"); }
      text.setAttribute("y", (y + (rowHeight - 1) / 2 + 0.36 * fontSize).toFixed(1));
      textLayer.append(mark, text);
    });
  };
