// The walk-through: the prediction of one sample, step by step.

/**
 * Draws the steps of one row; `names` are those of the codes, `rule` is from ruleOf, `truth` may be null (unknown).
 * Without smoothing, the bars of gate and experts multiply to those of the result.
 * Returns the elements and a function that redraws them for another row.
 */
function walkFigures(file, { smoothing }) {
  let now = null; // {row, rule, names, truth, steps}
  const smoothed = smoothing !== "none", given = smoothed ? "," : " |";
  const named = (one) => now.names[one.code] ?? `class ${one.code}`;
  const noted = (one) => (one.code === now.truth ? " ✓" : "");
  const bars = (width, list, label, pick, options = {}) => barChart({
    width, label, ...options,
    rows: list.map((one) => ({
      label: named(one), note: noted(one), seen: one.seen, values: pick(one), strong: one.code === now.steps.predicted,
    })),
  });
  // Both experts on one scale, so that their bars compare.
  const largest = () => Math.max(0.02, now.steps.seen[0].expert, now.steps.unseen[0].expert);
  const expert = (title, key, name) => figure({
    title, file: () => file(name),
    draw: (width) => bars(width, now.steps[key], title, (one) => [{ value: one.expert }],
      { max: largest(), text: smoothed ? barText : shareText }),
    table: () => [["class", "probability"], ...now.steps[key].map((one) => [named(one), one.expert])],
  });
  const both = () => [...now.steps.seen, ...now.steps.unseen].sort((a, b) => b.after - a.after).slice(0, 8);

  const seen = expert(`Expert for known classes: p(y${given} S)`, "seen", "seen-expert");
  const unseen = expert(`Expert for new classes: p(y${given} U)`, "unseen", "unseen-expert");
  const gate = figure({
    title: "Gate: known or new class, p(S) and p(U)", file: () => file("gate"),
    draw: (width) => drawGate(width, now),
    table: () => [["score", "threshold", "p(unseen)"], [now.row.score, now.rule.threshold, now.steps.pUnseen]],
  });
  const stages = smoothed ? ["before", "after"] : ["after"];
  const result = figure({
    title: smoothed ? "Result before and after smoothing" : "Result: p(y)", file: () => file("result"),
    draw: (width) => bars(width, both(), smoothed ? "Probability before and after smoothing" : "Probability",
      (one) => stages.map((stage) => ({ value: one[stage], hollow: stage === "before" })),
      { text: smoothed ? (value) => `${percent(value)} %` : shareText }),
    table: () => [["class", "domain", ...(smoothed ? ["before smoothing", "after smoothing"] : ["probability"])],
      ...[...now.steps.seen, ...now.steps.unseen].map((one) =>
        [named(one), one.seen ? "seen" : "unseen", ...stages.map((stage) => one[stage])])],
  });
  const masses = el("p", { class: "hint" });
  const notes = el("p", { class: "hint" });
  const node = el("div", {},
    el("h3", { class: "step" }, "1  Experts"),
    el("div", { class: "columns even" }, seen.node, unseen.node), masses,
    el("h3", { class: "step" }, "2  Gate"), gate.node,
    el("h3", { class: "step" }, "3  Combination"), result.node, notes);
  return {
    node,
    draw(row, rule, names, truth) {
      const steps = stepsOf(row, rule);
      now = { row, rule, names, truth, steps };
      for (const one of [seen, unseen, gate, result]) one.redraw();
      masses.textContent = `The best classes of each expert. The probabilities of all its classes sum to ${smoothed
        ? `${barText(row.seen_mass)} for the seen expert and ${barText(row.unseen_mass)} for the unseen expert` : "1"}.`
        + `${truth === null ? "" : " ✓ marks the true class."}`;
      notes.textContent = {
        adaptive: "Adaptive smoothing: each expert gets a uniform share, which is larger the lower the probability of its domain. "
          + "Hollow: before; filled: after.",
        constant: `Constant smoothing with weight ${short(rule.priorWeight)}. Hollow: before; filled: after.`,
        none: "p(y) = p(y | S) · p(S) for a seen class and p(y | U) · p(U) for an unseen one.",
      }[rule.smoothing] ?? "";
      return steps;
    },
  };
}

/** The gate's probabilities as one bar, split between the domains. */
function drawGate(width, { row, rule, steps }) {
  const span = width - 2, split = 1 + span * (1 - steps.pUnseen);
  const text = rule.share ? `log-odds of seen ${short(row.score)} at equal shares; ${pointPhrase(rule, rule.threshold)}`
    : `score ${short(row.score)}, threshold ${short(rule.threshold)}, softness ${tickText(rule.softness)}`;
  const root = svg("svg", {
    width, height: 64, viewBox: `0 0 ${width} 64`, role: "img",
    "aria-label": `gate: ${text}, p(unseen) ${percent(steps.pUnseen)} %`,
  });
  root.append(
    svg("rect", { x: 1, y: 4, width: Math.max(0, split - 1), height: 20, class: "seen" }),
    svg("rect", { x: split, y: 4, width: Math.max(0, span + 1 - split), height: 20, class: "unseen" }),
    svg("text", { x: 2, y: 40 }, `seen ${percent(1 - steps.pUnseen)} %`),
    svg("text", { x: width - 2, y: 40, class: "end" }, `unseen ${percent(steps.pUnseen)} %`),
    svg("text", { x: 2, y: 58, class: "faint" }, fit(text, width)));
  return root;
}

const isError = (verdict) => verdict !== "right" && verdict !== "fixed";
const verdictTag = (verdict) => el("span", { class: `tag ${isError(verdict) ? "bad" : "good"}` }, VERDICTS[verdict]);

const WALK_FILTERS = { all: "all samples", errors: "errors", ...VERDICTS };
const passes = (filter, verdict) => filter === "all" || (filter === "errors" ? isError(verdict) : verdict === filter);

const walkView = {
  id: "walk", title: "Walk-through",
  available: (set) => set.walk !== null,
  build(panel) {
    const { set } = state;
    let verdicts = null, at = null, filter = "all";
    const figures = walkFigures((what) => fileName(`sample ${state.sample + 1} ${what}`)(), ruleOf(set));
    const go = (i) => {
      state.sample = Math.max(0, Math.min(set.n - 1, i));
      changed();
    };
    /** Goes to the next sample in a direction that passes the filter, if there is one. */
    const seek = (way, which) => {
      for (let i = state.sample + way; i >= 0 && i < set.n; i += way) {
        if (passes(which, verdicts[i])) return go(i);
      }
    };
    const number = el("input", {
      type: "number", min: 1, max: set.n, "aria-label": "sample number",
      change: () => go(Math.round(Number(number.value) || 1) - 1),
    });
    const filters = Object.keys(WALK_FILTERS).filter((key) =>
      set.walk.smoothing !== "none" || !["fixed", "broke"].includes(key));
    const chooser = el("select", { "aria-label": "samples to walk through", change: () => {
      filter = chooser.value;
      if (!passes(filter, verdicts[state.sample])) {
        const first = verdicts.findIndex((verdict) => passes(filter, verdict));
        if (first >= 0) go(first);
      }
    } }, filters.map((key) => el("option", { value: key }, WALK_FILTERS[key])));
    const button = (text, label, way, which) => el("button", {
      type: "button", "aria-label": label, title: label, click: () => seek(way, which ?? filter),
    }, text);
    const bar = el("div", { class: "buttons walk-bar" },
      button("‹", "previous sample (k)", -1), button("›", "next sample (j)", 1),
      el("label", {}, "sample ", number, ` of ${set.n.toLocaleString("en")}`), chooser,
      button("‹ error", "previous error", -1, "errors"), button("error ›", "next error", 1, "errors"));
    const head = el("div", { class: "card sample", "aria-live": "polite" });
    const notice = el("p", { class: "hint" });
    panel.append(bar, notice,
      el("div", { class: "columns wide-right" }, head, el("div", { class: "card" }, figures.node)));
    document.addEventListener("keydown", (event) => {
      if (panel.hidden || !panel.isConnected || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("input, select, textarea")) return;
      const way = { j: 1, k: -1, ...(panel.contains(event.target) && { ArrowRight: 1, ArrowLeft: -1 }) }[event.key];
      if (way) { event.preventDefault(); seek(way, filter); }
    });

    return () => {
      const curve = set.curves[set.main];
      if (at !== curve.now) {
        at = curve.now;
        verdicts = verdictsOf(set);
        for (const option of chooser.options) {
          const count = verdicts.filter((verdict) => passes(option.value, verdict)).length;
          option.textContent = `${WALK_FILTERS[option.value]} (${count.toLocaleString("en")})`;
        }
      }
      const i = state.sample, truth = set.target[i];
      number.value = i + 1;
      const steps = figures.draw(rowOf(set, i), ruleOf(set), set.names, truth);
      head.replaceChildren(...sampleHead(set, i, steps, verdicts[i]));
      notice.textContent = state.curve === set.main ? ""
        : `The walk-through shows ${fullName(curve)}; the curve in use is ${fullName(currentCurve())}.`;
    };
  },
};

/** The sample, its true class and its prediction. */
function sampleHead(set, i, steps, verdict) {
  const truth = set.target[i], { samples } = set;
  return [
    picture(set, i, 160),
    samples.texts?.[i] && el("p", { class: "quoted" }, samples.texts[i]),
    el("dl", { class: "numbers" },
      samples.names?.[i] && termOf("sample", breakable(samples.names[i])),
      termOf("true class", set.names[truth], " ", domainTag(truth < set.nSeen)),
      termOf("prediction", el("strong", {}, set.names[steps.predicted]), " ", domainTag(!steps.toUnseen)),
      termOf("probability", `${percent(steps.probability)} %`),
      set.walk.smoothing !== "none" && termOf("without smoothing", set.names[steps.predictedBefore]),
      termOf("verdict", verdictTag(verdict))),
  ].filter(Boolean);
}
