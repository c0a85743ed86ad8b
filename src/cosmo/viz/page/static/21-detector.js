// ROC curve, AUC and FPR of a gate score, as in cosmo.metrics.accuracy; seen samples are the positives.

/** ROC points, one per distinct score from the largest down; ties enter together. */
function rocOf(scores, isSeen) {
  const order = Uint32Array.from(scores, (_, i) => i).sort((a, b) =>
    scores[a] > scores[b] ? -1 : scores[a] < scores[b] ? 1 : 0);
  const truePositives = [0], falsePositives = [0];
  let hits = 0, alarms = 0;
  order.forEach((i, position) => {
    if (isSeen(i)) hits++; else alarms++;
    if (position + 1 === order.length || scores[order[position + 1]] !== scores[i]) {
      truePositives.push(hits);
      falsePositives.push(alarms);
    }
  });
  if (!hits || !alarms) return null; // samples of one domain only
  return { tpr: truePositives.map((v) => v / hits), fpr: falsePositives.map((v) => v / alarms) };
}

function aucOf({ tpr, fpr }) {
  let area = 0;
  for (let j = 1; j < tpr.length; j++) area += (fpr[j] - fpr[j - 1]) * (tpr[j] + tpr[j - 1]) / 2;
  return area;
}

/** False positive rate at a true positive rate, interpolated; of several, the smallest. */
function fprAt({ tpr, fpr }, wanted = 0.95) {
  const j = lowerBound(tpr, wanted);
  if (j === 0 || tpr[j] === wanted) return fpr[j];
  const share = (wanted - tpr[j - 1]) / (tpr[j] - tpr[j - 1]);
  return fpr[j - 1] + share * (fpr[j] - fpr[j - 1]);
}

/** Share of the seen and of the unseen samples in each of `bins` equal intervals. */
function histogramOf(scores, isSeen, bins) {
  let low = Infinity, high = -Infinity;
  for (const score of scores) {
    if (!Number.isFinite(score)) continue;
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  if (!(low <= high)) [low, high] = [0, 1];
  if (high === low) [low, high] = [low - 0.5, high + 0.5];
  const seen = new Float64Array(bins), unseen = new Float64Array(bins);
  let nSeen = 0, nUnseen = 0;
  scores.forEach((score, i) => {
    const bin = Math.min(bins - 1, Math.max(0, Math.floor(((score - low) / (high - low)) * bins)));
    if (isSeen(i)) { seen[bin]++; nSeen++; } else { unseen[bin]++; nUnseen++; }
  });
  return {
    low, high,
    seen: Array.from(seen, (count) => count / Math.max(nSeen, 1)),
    unseen: Array.from(unseen, (count) => count / Math.max(nUnseen, 1)),
  };
}
