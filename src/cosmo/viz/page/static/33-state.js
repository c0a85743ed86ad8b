// State of the page. There is one operating point per curve, and all views show it.

const state = { view: null, live: null, sets: [], set: null, curve: 0, sample: 0, tab: "answers" };
const followers = new Set(); // called once per frame after any change

const changed = perFrame(() => {
  for (const follow of followers) follow();
});

const currentCurve = () => state.set.curves[state.curve];

/** Moves the operating point of a curve (default: the current one) to a threshold. */
function operateAt(threshold, index = state.curve) {
  state.curve = index;
  state.set.curves[index].now = threshold;
  changed();
}

/** Moves it to a point of the exact curve. */
function operateAtPoint(k) {
  const { thresholds } = currentCurve().exact;
  operateAt(thresholds[Math.max(0, Math.min(thresholds.length - 1, k))]);
}

/** The operating point of a calibrated curve or gate is shown as the share of unseen samples that it expects. */
const shareAt = (threshold) => 1 / (1 + Math.exp(-threshold));
const pointTerm = ({ share }) => (share ? "share of unseen samples" : "threshold");
const pointValue = ({ share }, threshold) => (share ? shareText(shareAt(threshold)) : short(threshold));
const pointPhrase = (curve, threshold) => `${pointTerm(curve)} ${pointValue(curve, threshold)}`;

const fullName = ({ name, family }) => (family && !name.includes(family) ? `${family}: ${name}` : name);

/** The accuracies and the counts between domains of a curve at its current operating point. */
function pointOf(curve, threshold = curve.now) {
  const { exact } = curve, k = exact.indexAt(threshold), [seen, unseen] = state.set.raw.counted;
  const accTs = unseen ? exact.accTs[k] : NaN, accTr = seen ? exact.accTr[k] : NaN;
  return {
    k, accTs, accTr, accH: seen && unseen ? exact.accH[k] : NaN,
    seenAsUnseen: exact.movedSeen[k], unseenAsUnseen: exact.movedUnseen[k],
  };
}

/** The area under a curve; not known where there are samples of one domain only. */
const areaText = (curve) => (state.set.raw.counted.every(Boolean) ? percent(curve.exact.area) : "–");

/** The part after # that leads to a view, a curve and a sample. */
function hashFor({ tab = state.tab, sample = state.sample } = {}) {
  const parts = [tab, currentCurve()?.name ?? "", sample];
  if (state.sets.length > 1) parts.push(state.set.name);
  return `#${parts.map(encodeURIComponent).join("/")}`;
}

const fileName = (what) => () => `${state.set.name} ${what}`.replace(/[^\p{L}\p{N}]+/gu, "-").toLowerCase();

/** Description of the operating point for screen readers and the slider. */
function pointText(curve) {
  const { accTs, accTr, accH } = pointOf(curve);
  return `${fullName(curve)}, ${pointPhrase(curve, curve.now)}: `
    + `Acc_ts ${percent(accTs)} %, Acc_tr ${percent(accTr)} %, Acc_H ${percent(accH)} %`;
}
