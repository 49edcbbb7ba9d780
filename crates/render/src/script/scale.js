  // Axes: round steps and numbers with units, by the rules of scale.rs.
  var MINUTE = 60e9;
  var HOUR = 3600e9;
  function makeScale(nanoseconds, label) {
    var hex = label === "hex";
    function unitOf(size, step) {
      if (!nanoseconds) { return { size: 1, label: label }; }
      size = Math.abs(size) * nanoseconds;
      step = Math.abs(step) * nanoseconds;
      var unit = step >= HOUR ? [HOUR, "h"] : step >= MINUTE ? [MINUTE, "min"]
        : size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "\u00b5s"]
        : [1, "ns"];
      return { size: unit[0] / nanoseconds, label: unit[1] };
    }
    function text(value, size, step) {
      if (hex) { return hexText(value); }
      var unit = unitOf(size, step);
      var number = numberText(value / unit.size, step / unit.size);
      return unit.label ? number + " " + unit.label : number;
    }
    return {
      text: text,
      range: function (low, high) {
        if (hex) { return hexText(low) + "\u2013" + hexText(high); }
        var step = high - low;
        var unit = unitOf(Math.max(Math.abs(high), Math.abs(low)), step);
        return numberText(low / unit.size, step / unit.size) + "\u2013" +
          text(high, Math.max(Math.abs(high), Math.abs(low)), step);
      },
      ticks: function (low, high, most) {
        var factor = nanoseconds || 1;
        var least = (high - low) * factor / Math.max(most, 1);
        var step = hex ? roundHex(least) : roundStep(least, nanoseconds > 0) / factor;
        var ticks = [];
        if (!(step > 0)) { return { ticks: [low], step: 1 }; }
        var first = Math.ceil(low / step - 1e-9);
        var last = Math.min(Math.floor(high / step + 1e-9), first + 100);
        for (var at = first; last >= at; at++) { ticks.push(at * step); }
        return { ticks: ticks, step: step };
      },
      logTicks: function (low, high, most) {
        var base = hex ? 16 : 10;
        var of = function (value) { return hex ? Math.log2(value) / 4 : Math.log10(value); };
        var first = Math.floor(of(low));
        var last = Math.ceil(of(high));
        var decades = of(high) - of(low);
        var digits = most >= decades * 3 ? (hex ? [1, 4] : [1, 2, 5]) : [1];
        var every = Math.max(1, Math.ceil(decades / Math.max(most, 1)));
        var ticks = [];
        for (var power = first; last >= power; power += every) {
          digits.forEach(function (digit) {
            var tick = digit * Math.pow(base, power);
            if (tick >= low * (1 - 1e-9)) { if (high * (1 + 1e-9) >= tick) { ticks.push(tick); } }
          });
        }
        return ticks;
      }
    };
  }
  function roundHex(least) {
    return Math.pow(2, Math.ceil(Math.log2(Math.max(least, 1))));
  }
  function hexText(value) {
    return (-1 >= value ? "-" : "") + "0x" + Math.trunc(Math.abs(value)).toString(16);
  }
  function roundStep(least, time) {
    if (time) {
      if (least > 20e9) {
        if (30e9 >= least) { return 30e9; }
        var long = [1, 2, 5, 10, 20, 30, 60, 120, 240, 480, 720, 1440].find(function (minutes) {
          return minutes * MINUTE >= least;
        });
        if (long) { return long * MINUTE; }
      }
    }
    var power = Math.pow(10, Math.floor(Math.log10(least)));
    var digit = [1, 2, 5].find(function (digit) { return digit * power >= least * (1 - 1e-9); });
    return (digit || 10) * power;
  }
  function numberText(value, step) {
    step = Math.abs(step);
    if (Math.abs(value) >= 1e15 || 1e-9 > step || !isFinite(step)) {
      return value === 0 ? "0" : value.toExponential(3).replace("+", "");
    }
    var most = Math.min(11, Math.max(0, 2 - Math.floor(Math.log10(step))));
    var digits = 0;
    while (most > digits) {
      var shown = step * Math.pow(10, digits);
      if (1e-6 * shown > Math.abs(shown - Math.round(shown))) { break; }
      digits++;
    }
    var parts = Math.abs(value).toFixed(digits).split(".");
    var whole = grouped(parts[0]);
    var number = parts.length > 1 ? whole + "." + parts[1] : whole;
    return 0 > value ? (/[1-9]/.test(number) ? "-" + number : number) : number;
  }
  function grouped(digits) {
    return String(digits).replace(/\B(?=(\d{3})+$)/g, ",");
  }
