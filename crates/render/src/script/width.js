  // The width of texts in one font, by their characters, each of which is measured once.
  function makeTextWidth() {
    var advances = new Map();
    return function (context, text) {
      var sum = 0;
      for (var c of text) {
        var known = advances.get(c);
        if (known === undefined) {
          known = context.measureText(c).width;
          advances.set(c, known);
        }
        sum += known;
      }
      return sum;
    };
  }
