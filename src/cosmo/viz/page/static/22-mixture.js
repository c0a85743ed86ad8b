// From what the experts said about a sample to the answer, as cosmo.mixture.smoothing does.

const EPSILON = Number.EPSILON;

/** p(U): the gate's belief that a sample is unseen; never quite 0 or 1, so that no expert is silenced. */
function beliefOf(score, { threshold, softness, hard }) {
  let belief = hard ? Number(threshold > score) : 1 / (1 + Math.exp((score - threshold) / softness));
  if (Number.isNaN(belief)) belief = 0.5;
  return Math.min(1 - EPSILON, Math.max(EPSILON, belief));
}

const share = (value, mass, n) => (mass > 0 ? value / mass : 1 / n);

/**
 * Probability of one class of one expert in the result.
 * `own` is the gate's belief that the sample is this expert's, `mass` the sum of its output over its n classes.
 */
function mixed(value, mass, n, own, smoothing, weight) {
  if (smoothing === "adaptive") return (value + (1 - own) / n) * own;
  const conditional = share(value, mass, n);
  return own * (smoothing === "constant" ? (1 - weight) * conditional + weight / n : conditional);
}

/** Every step from both experts to the answer, for one row {score, seen_mass, ..., flip, seen, unseen}. */
function stepsOf(row, { threshold, softness, priorWeight, smoothing, hard, nSeen, nUnseen }) {
  const belief = beliefOf(row.score, { threshold, softness, hard });
  const total = smoothing === "adaptive"
    ? (row.seen_mass + belief) * (1 - belief) + (row.unseen_mass + 1 - belief) * belief
    : 1;
  const side = (codes, proba, mass, n, own, seen) => Array.from(codes, (code, j) => ({
    code, seen,
    expert: proba[j],
    before: mixed(proba[j], mass, n, own, "none", 0),
    after: mixed(proba[j], mass, n, own, smoothing, priorWeight) / total,
  }));
  const seen = side(row.seen_codes, row.seen_proba, row.seen_mass, nSeen, 1 - belief, true);
  const unseen = side(row.unseen_codes, row.unseen_proba, row.unseen_mass, nUnseen, belief, false);
  const toUnseen = threshold > row.flip;
  // A tie goes to seen, as argmax does.
  const unsmoothed = smoothing === "none" ? toUnseen : unseen[0].before > seen[0].before;
  const answer = toUnseen ? row.unseen : row.seen;
  return {
    belief, seen, unseen, toUnseen, answer,
    answerBefore: unsmoothed ? row.unseen : row.seen,
    probability: (toUnseen ? unseen : seen)[0].after,
  };
}

const VERDICTS = {
  right: "right",
  fixed: "smoothing fixed it",
  broke: "smoothing broke it",
  gate: "gate wrong",
  expert: "expert wrong",
};

/** One verdict per sample. Smoothing only moves samples between experts; what it broke is not counted as the gate's. */
function verdictOf(truth, answer, answerBefore, nSeen) {
  if (answer === truth) return answerBefore === truth ? "right" : "fixed";
  if (answerBefore === truth) return "broke";
  return (answer < nSeen) === (truth < nSeen) ? "expert" : "gate";
}
