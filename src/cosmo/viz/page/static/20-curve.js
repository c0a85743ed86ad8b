// The exact seen-unseen curve, the same numbers as cosmo.mixture.curve.SeenUnseenCurve.

const harmonicMean = (ts, tr) => (ts + tr > 0 ? (2 * ts * tr) / (ts + tr) : 0);

/** First position in ascending `values` that is not smaller than `wanted`. */
function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

/** All operating points of "sample i is unseen iff threshold > flips[i]". */
function makeCurve({ flips, seen, unseen, target, nSeen, counted }) {
  const n = flips.length;
  const rows = new Float64Array(65536); // codes are 16 bits
  let totalSeen = 0;
  for (const code of target) {
    rows[code]++;
    if (code < nSeen) totalSeen++;
  }
  // Samples at -inf are always predicted unseen, those at +inf never: neither makes a corner. Ties share one.
  const corners = Array.from(new Set(flips.slice().sort())).filter(Number.isFinite);
  const points = corners.length + 1;
  const [accTs, accTr, movedSeen, movedUnseen] = Array.from({ length: 4 }, () => new Float64Array(points));
  let most = 0;
  // The changes at each point, then the running sums.
  for (let i = 0; i < n; i++) {
    const truth = target[i], isSeen = truth < nSeen;
    const gain = 1 / (rows[truth] * (isSeen ? counted[0] : counted[1]));
    if (seen[i] === truth) most += gain;
    if (flips[i] === Infinity) continue;
    const k = flips[i] === -Infinity ? 0 : lowerBound(corners, flips[i]) + 1;
    if (unseen[i] === truth) accTs[k] += gain;
    if (seen[i] === truth) accTr[k] -= gain;
    if (isSeen) movedSeen[k]++; else movedUnseen[k]++;
  }
  accTr[0] += most;
  for (const sums of [accTs, accTr, movedSeen, movedUnseen]) {
    for (let k = 1; k < points; k++) sums[k] += sums[k - 1];
  }
  for (let k = 0; k < points; k++) accTr[k] = Math.max(accTr[k], 0);
  return {
    accTs, accTr, corners, movedSeen, movedUnseen, totalSeen, totalUnseen: n - totalSeen,
    accH: accTs.map((value, k) => harmonicMean(value, accTr[k])),
    thresholds: midpoints(corners),
    area: areaUnder(accTs, accTr),
    indexAt: (threshold) => lowerBound(corners, threshold),
  };
}

/** A threshold for every point: midway between the corners around it. */
function midpoints(corners) {
  if (!corners.length) return [0];
  const first = corners[0], last = corners[corners.length - 1];
  const beyond = 0.5 * (last - first) + 1e-3 * (1 + Math.max(Math.abs(first), Math.abs(last)));
  const inner = corners.slice(0, -1).map((corner, j) => {
    const middle = corner + (corners[j + 1] - corner) / 2;
    return middle > corner ? middle : corners[j + 1]; // neighbouring floats have no midpoint
  });
  return [first - beyond, ...inner, last + beyond];
}

/** AUSUC. Only tied samples move both ways at once, so trapezoids are exact. */
function areaUnder(accTs, accTr) {
  let area = accTs[0] * accTr[0];
  for (let j = 1; j < accTs.length; j++) area += (accTs[j] - accTs[j - 1]) * (accTr[j] + accTr[j - 1]) / 2;
  return area;
}

/** Index of the largest Acc_H with Acc_tr >= minSeen; -1 if there is no such point. */
function bestPoint(curve, minSeen = 0) {
  let best = -1, height = -1;
  curve.accH.forEach((value, j) => {
    // Rounded, so that equally good points stay equal however the samples are ordered.
    const rounded = Math.round(value * 1e12);
    if (curve.accTr[j] >= minSeen - 1e-12 && rounded > height) [best, height] = [j, rounded];
  });
  return best;
}

/** Predicted class code of every sample at a threshold. */
function predictionsAt({ flips, seen, unseen }, threshold) {
  return Uint16Array.from(flips, (flip, i) => (threshold > flip ? unseen[i] : seen[i]));
}
