  // What of the difference of two ranges is more than noise, by the tests of crates/analyze/src/diff: noise.rs has the reasons.
  // Of `items`, `before` and `after` have the values, `squares` the squares of their samples on both sides together; the first is
  // the whole. 0 is noise, 1 more, 2 less.
  const LEVEL = 0.05;
  function verdicts(before, after, squares, samples) {
    const made = new Uint8Array(before.length);
    const wholes = [before[0], after[0]];
    const all = wholes[0] + wholes[1];
    if (!(wholes[0] > 0 && wholes[1] > 0)) { return made; }
    // The value of a sample.
    const each = all / samples;
    const known = new Map();
    const chances = new Float64Array(before.length).fill(1);
    const tested = [];
    for (let i = 1; i < chances.length; i++) {
      if (before[i] + after[i] === 0) { continue; }
      const same = before[i] + " " + after[i] + " " + squares[i];
      if (!known.has(same)) {
        known.set(same, chance([before[i], after[i]], wholes, squares[i] / (each * each), squares[0] / (each * each), each));
      }
      const found = known.get(same);
      if (found === null) { continue; }
      chances[i] = found;
      tested.push(found);
    }
    // Of those that are called changed, at most LEVEL did not (Benjamini and Hochberg).
    tested.sort((a, b) => a - b);
    let passing = tested.length;
    while (passing > 0 && tested[passing - 1] > LEVEL * passing / tested.length) { passing--; }
    const level = LEVEL * Math.max(1, passing) / Math.max(1, tested.length);
    for (let i = 1; i < chances.length; i++) {
      const by = after[i] / wholes[1] - before[i] / wholes[0];
      if (chances[i] <= level && by !== 0) { made[i] = by > 0 ? 1 : 2; }
    }
    return made;
  }
  // The probability of so large a change by chance; null where no change could count.
  function chance(values, wholes, squares, allSquares, each) {
    const all = (wholes[0] + wholes[1]) / each;
    const part = Math.min(1, (values[0] + values[1]) / each / all);
    // Samples of different weight say less.
    const variance = (1 - part) * (1 - part) * squares + part * part * Math.max(0, allSquares - squares);
    const worth = part * (1 - part) * all / variance;
    const density = (worth > 0 && Number.isFinite(worth) ? worth : 1) / each;
    const exposure = wholes.map((whole) => whole * density);
    // Above one half, what is not in it is compared.
    const samples = values.map((value, side) => part > 0.5 ? Math.max(0, exposure[side] - value * density) : value * density);
    const stretch = 1 / Math.max(0.5, 1 - Math.min(part, 1 - part));
    const share = exposure[1] / (exposure[0] + exposure[1]);
    const least = 2 * Math.pow(Math.min(share, 1 - share), (samples[0] + samples[1]) * stretch);
    if (least > LEVEL) { return null; }
    const fell = samples[1] / exposure[1] < samples[0] / exposure[0];
    const [a, b] = (fell ? [samples[1], samples[0]] : samples).map((of) => of * stretch);
    return b > 0 ? Math.min(1, 2 * upperTail(a, b, fell ? 1 - share : share)) : 1;
  }
  // The probability of `after` samples after, or more, of all, if each is one with probability `share`.
  function upperTail(before, after, share) {
    const all = before + after;
    if (all * Math.min(share, 1 - share) > 300) {
      const z = (after - 0.5 - all * share) / Math.sqrt(all * share * (1 - share));
      return erfc(z / Math.SQRT2) / 2;
    }
    return betaPart(after, before + 1, share);
  }
  // The complement of the error function, to 1.2e-7 of itself: Chebyshev's approximation.
  function erfc(x) {
    const t = 1 / (1 + Math.abs(x) / 2);
    const terms = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
      -0.82215223, 0.17087277];
    const found = t * Math.exp(terms.reduceRight((sum, term) => sum * t + term, 0) - x * x);
    return x < 0 ? 2 - found : found;
  }
  // The regularized incomplete beta function: its continued fraction (Abramowitz and Stegun, 26.5.8).
  function betaPart(a, b, x) {
    if (x <= 0 || x >= 1) { return x <= 0 ? 0 : 1; }
    if (x > (a + 1) / (a + b + 2)) { return 1 - betaPart(b, a, 1 - x); }
    const tiny = 1e-300;
    const above = (value) => Math.abs(value) < tiny ? tiny : value;
    let c = 1;
    let d = 1 / above(1 - (a + b) * x / (a + 1));
    let sum = d;
    for (let m = 1; m < 2000; m++) {
      for (const term of [m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))]) {
        d = 1 / above(1 + term * d);
        c = above(1 + term / c);
        sum *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-12) { break; }
    }
    return Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) * sum / a;
  }
  // The logarithm of the gamma function: its asymptotic series from 10 on (Abramowitz and Stegun, 6.1.41).
  function logGamma(x) {
    let before = 0;
    for (; x < 10; x++) { before += Math.log(x); }
    const square = x * x;
    return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 - before +
      (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / x;
  }
