// From the outputs of both experts to the prediction, as in cosmo.mixture.smoothing.

const EPSILON = Number.EPSILON;

/** p(U): the gate's probability that a sample is unseen, clipped to the open interval (0, 1). */
function gateProbability(score, { threshold, softness, hard }) {
  let pUnseen = hard ? Number(threshold > score) : 1 / (1 + Math.exp((score - threshold) / softness));
  if (Number.isNaN(pUnseen)) pUnseen = 0.5;
  return Math.min(1 - EPSILON, Math.max(EPSILON, pUnseen));
}

const share = (value, mass, n) => (mass > 0 ? value / mass : 1 / n);

/**
 * Probability of one class of one expert in the result.
 * `own` is the gate's probability of this expert's domain, `mass` the sum of its output over its n classes.
 */
function mixed(value, mass, n, own, smoothing, weight) {
  if (smoothing === "adaptive") return (value + (1 - own) / n) * own;
  const conditional = share(value, mass, n);
  return own * (smoothing === "constant" ? (1 - weight) * conditional + weight / n : conditional);
}

/**
 * All steps from both experts to the prediction, for one row {score, seen_mass, ..., flip, seen, unseen}.
 * Without smoothing, `expert` is a distribution over the classes of its domain.
 */
function stepsOf(row, { threshold, softness, priorWeight, smoothing, hard, nSeen, nUnseen }) {
  const pUnseen = gateProbability(row.score, { threshold, softness, hard });
  const total = smoothing === "adaptive"
    ? (row.seen_mass + pUnseen) * (1 - pUnseen) + (row.unseen_mass + 1 - pUnseen) * pUnseen
    : 1;
  const side = (codes, proba, mass, n, own, seen) => Array.from(codes, (code, j) => ({
    code, seen,
    expert: smoothing === "none" ? share(proba[j], mass, n) : proba[j],
    before: mixed(proba[j], mass, n, own, "none", 0),
    after: mixed(proba[j], mass, n, own, smoothing, priorWeight) / total,
  }));
  const seen = side(row.seen_codes, row.seen_proba, row.seen_mass, nSeen, 1 - pUnseen, true);
  const unseen = side(row.unseen_codes, row.unseen_proba, row.unseen_mass, nUnseen, pUnseen, false);
  const toUnseen = threshold > row.flip;
  // Ties go to seen, as with argmax.
  const unsmoothed = smoothing === "none" ? toUnseen : unseen[0].before > seen[0].before;
  const predicted = toUnseen ? row.unseen : row.seen;
  return {
    pUnseen, seen, unseen, toUnseen, predicted,
    predictedBefore: unsmoothed ? row.unseen : row.seen,
    probability: (toUnseen ? unseen : seen)[0].after,
  };
}

const VERDICTS = {
  right: "correct",
  fixed: "corrected by smoothing",
  broke: "wrong by smoothing",
  gate: "gate wrong",
  expert: "expert wrong",
};

/** Verdict on one sample. Smoothing only moves samples between experts; its errors are not counted as the gate's. */
function verdictOf(truth, predicted, predictedBefore, nSeen) {
  if (predicted === truth) return predictedBefore === truth ? "right" : "fixed";
  if (predictedBefore === truth) return "broke";
  return (predicted < nSeen) === (truth < nSeen) ? "expert" : "gate";
}
