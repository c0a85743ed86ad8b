// A data set of the view, decoded and with its curves computed when first needed.

const WALK_ARRAYS = [
  "score", "seen_mass", "unseen_mass", "seen_codes", "seen_proba", "unseen_codes", "unseen_proba",
];

function prepareSet(view, raw) {
  const array = (index) => decodeArray(view, index);
  const { names, seen: nSeen } = raw.classes;
  const target = raw.samples ? array(raw.samples.target) : new Uint16Array(0);
  const curves = raw.curves.map((one) => {
    const curve = {
      ...one, flips: array(one.flips), seen: array(one.seen), unseen: array(one.unseen),
      threshold: one.threshold ?? 0,
    };
    curve.now = curve.threshold; // current threshold; the user can move it
    curve.shown = true;
    curve.exact = makeCurve({ ...curve, target, nSeen, counted: raw.counted });
    return curve;
  });
  const main = Math.max(0, curves.findIndex((one) => one.main));
  const gates = raw.gates.map((one) => ({ ...one, scores: array(one.scores), now: one.threshold }));
  for (const gate of gates) {
    // The main gate's threshold is the main curve's: moving one moves the other.
    gate.linked = Boolean(gate.main && curves.length && Math.abs(gate.threshold - curves[main].threshold) < 1e-9);
  }
  let walk = null;
  if (raw.walk) {
    walk = { ...raw.walk };
    Object.assign(curves[main], { smoothing: walk.smoothing, hard: walk.hard });
    for (const field of WALK_ARRAYS) walk[field] = array(raw.walk[field]);
  }
  return {
    raw, name: raw.name, names, nSeen, nUnseen: names.length - nSeen, n: target.length,
    target, curves, main, gates, walk, points: raw.points ?? [], samples: raw.samples,
    descriptions: raw.classes.descriptions,
    isSeen: (i) => target[i] < nSeen,
  };
}

/** The data of sample i for the walk-through. */
function rowOf(set, i) {
  const { walk } = set, curve = set.curves[set.main];
  const cut = (values, width) => values.subarray(i * width, (i + 1) * width);
  const kSeen = walk.seen_codes.length / set.n, kUnseen = walk.unseen_codes.length / set.n;
  return {
    score: walk.score[i], seen_mass: walk.seen_mass[i], unseen_mass: walk.unseen_mass[i],
    seen_codes: cut(walk.seen_codes, kSeen), seen_proba: cut(walk.seen_proba, kSeen),
    unseen_codes: cut(walk.unseen_codes, kUnseen), unseen_proba: cut(walk.unseen_proba, kUnseen),
    flip: curve.flips[i], seen: curve.seen[i], unseen: curve.unseen[i],
  };
}

/** The parameters of the prediction at the operating point of the main curve. */
function ruleOf({ curves, main, nSeen, nUnseen }) {
  const { now, softness, prior_weight, smoothing, hard, share } = curves[main];
  return { threshold: now, softness, priorWeight: prior_weight, smoothing, hard, share, nSeen, nUnseen };
}

/** The verdict of every sample at the current operating point of the main curve. */
function verdictsOf(set) {
  const rule = ruleOf(set), { walk, nSeen, nUnseen } = set, { flips, seen, unseen } = set.curves[set.main];
  const kSeen = walk.seen_codes.length / set.n, kUnseen = walk.unseen_codes.length / set.n;
  // As stepsOf does, but only with each expert's best class: it runs while the point is dragged.
  return Array.from(set.target, (truth, i) => {
    const toUnseen = rule.threshold > flips[i], pUnseen = gateProbability(walk.score[i], rule);
    const before = rule.smoothing === "none" ? toUnseen
      : mixed(walk.unseen_proba[i * kUnseen], walk.unseen_mass[i], nUnseen, pUnseen, "none", 0)
        > mixed(walk.seen_proba[i * kSeen], walk.seen_mass[i], nSeen, 1 - pUnseen, "none", 0);
    return verdictOf(truth, toUnseen ? unseen[i] : seen[i], before ? unseen[i] : seen[i], nSeen);
  });
}
