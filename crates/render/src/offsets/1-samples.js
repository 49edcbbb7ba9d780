// The flame graph of a span of time that is chosen in the heat map above it. Names come from
// outside: they are only ever set as text.
(function () {
  "use strict";
  var holder = document.getElementById("samples");
  var names = [];
  // By frame; 0 is the whole. Callers come before what they call.
  var parents, nameOf, moduleOf, paintOf, depths;
  // By sample, in the order of their times.
  var times, frameOf, values;

  async function unpack() {
    var packed = Uint8Array.from(atob(holder.textContent.trim()), function (c) {
      return c.charCodeAt(0);
    });
    var stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    read(new Uint8Array(await new Response(stream).arrayBuffer()));
  }
  function read(bytes) {
    var at = 0;
    function number() {
      var value = 0;
      var factor = 1;
      for (;;) {
        var byte = bytes[at++];
        value += (byte & 127) * factor;
        if (byte < 128) { return value; }
        factor *= 128;
      }
    }
    var text = new TextDecoder();
    for (var left = number(); left > 0; left--) {
      var length = number();
      names.push(text.decode(bytes.subarray(at, at + length)));
      at += length;
    }
    var frames = number() + 1;
    parents = new Uint32Array(frames);
    nameOf = new Uint32Array(frames);
    moduleOf = new Uint32Array(frames);
    paintOf = new Uint16Array(frames);
    depths = new Uint16Array(frames);
    for (var i = 1; i < frames; i++) {
      parents[i] = parents[i - 1] + number();
      depths[i] = depths[parents[i]] + 1;
    }
    for (i = 1; i < frames; i++) { nameOf[i] = number(); }
    for (i = 1; i < frames; i++) { moduleOf[i] = number(); }
    for (i = 0; i < frames; i++) { paintOf[i] = number(); }
    var samples = number();
    times = new Float64Array(samples);
    frameOf = new Uint32Array(samples);
    values = new Float64Array(samples);
    var time = 0;
    for (i = 0; i < samples; i++) { time += number(); times[i] = time; }
    for (i = 0; i < samples; i++) { frameOf[i] = number(); }
    var each = number();
    for (i = 0; i < samples; i++) { values[i] = each || number(); }
  }

  // The first sample at or after a time in microseconds.
  function sampleAt(time) {
    var low = 0;
    var high = times.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (times[middle] < time) { low = middle + 1; } else { high = middle; }
    }
    return low;
  }
  // The values of a span of time, by the frame that samples end in.
  var samplesIn;
  function valuesIn(first, end) {
    var own = new Float64Array(parents.length);
    for (var s = first; s < end; s++) { own[frameOf[s]] += values[s]; }
    samplesIn = end - first;
    return own;
  }
