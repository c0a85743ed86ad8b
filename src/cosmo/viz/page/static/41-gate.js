// The gate: distribution of its score for seen and unseen classes, and its ROC curve.

const BINS = 40;

const gateView = {
  id: "gate", title: "Gate",
  available: (set) => set.gates.length > 0,
  build(panel) {
    const { set } = state;
    let gate = set.gates.find((one) => one.main) ?? set.gates[0];
    let bars = null, roc = null, histogram = null, line = null, dots = null, rocArea = null;
    const threshold = () => (gate.linked ? set.curves[set.main].now : gate.now);
    const move = (value) => {
      if (gate.linked) operateAt(value, set.main);
      else { gate.now = value; changed(); }
    };

    const measure = () => {
      roc = rocOf(gate.scores, set.isSeen);
      histogram = histogramOf(gate.scores, set.isSeen, BINS);
    };
    measure();

    const spread = figure({
      title: "Scores of the gate", file: fileName("gate scores"),
      caption: "High scores: seen. Shares of the samples of each domain. Drag the line, or use the arrow keys.",
      draw: (width) => {
        const { low, high, seen, unseen } = histogram, step = (high - low) / BINS;
        const top = 100 * Math.max(...seen, ...unseen) * 1.06;
        bars = chart({
          width, height: Math.round(Math.min(360, Math.max(240, width * 0.55))), x: [low, high], y: [0, top],
          role: "group", xLabel: gate.share ? "log-odds of seen, if half of all samples are seen" : "gate score", yLabel: "share of samples (%)",
          label: `Histogram of the scores of ${gate.name} for samples of seen and of unseen classes`,
        });
        const { root, X, Y } = bars;
        root.classList.add("plane");
        for (const [shares, kind] of [[seen, "seen"], [unseen, "unseen"]]) {
          let path = `M${X(low)} ${Y(0)}`;
          shares.forEach((value, j) => { path += `V${Y(100 * value)}H${X(low + (j + 1) * step)}`; });
          root.append(svg("path", { d: `${path}V${Y(0)}Z`, class: `mass ${kind}` },
            svg("title", {}, `samples of ${kind} classes`)));
        }
        const keyX = X(low) + 10;
        for (const [j, kind] of ["seen", "unseen"].entries()) {
          root.append(svg("rect", { x: keyX, y: 14 + 17 * j, width: 22, height: 11, class: `mass ${kind}` }),
            svg("text", { x: keyX + 28, y: 24 + 17 * j }, `${kind} classes`));
        }
        line = svg("g", {
          role: "slider", tabindex: 0, class: "handle", keydown,
          "aria-label": gate.share ? "expected share of unseen samples" : "threshold of the gate",
          "aria-valuemin": low, "aria-valuemax": high,
        }, svg("rect", { x: -12, width: 24, y: bars.margin.top, height: bars.h, class: "reach", "data-tool": "reach" }),
        svg("line", { y1: bars.margin.top, y2: bars.margin.top + bars.h }), svg("path", { class: "arrow" }),
        svg("text", { y: bars.margin.top + 46, class: "label" }));
        root.append(line);
        draggable(root, (px) => move(Math.min(high, Math.max(low, bars.toX(px)))));
        place();
        return root;
      },
      table: () => [["from", "to", "share of seen samples", "share of unseen samples"],
        ...histogram.seen.map((value, j) => [
          histogram.low + (j * (histogram.high - histogram.low)) / BINS,
          histogram.low + ((j + 1) * (histogram.high - histogram.low)) / BINS, value, histogram.unseen[j]])],
    });

    const keydown = (event) => {
      const { low, high } = histogram, step = (high - low) / 200;
      const now = Math.min(high, Math.max(low, threshold()));
      const to = {
        ArrowRight: now + step, ArrowUp: now + step, ArrowLeft: now - step, ArrowDown: now - step,
        PageUp: now + 10 * step, PageDown: now - 10 * step, Home: low, End: high,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      move(Math.min(high, Math.max(low, to)));
    };

    const curveFigure = figure({
      title: "ROC curve", file: fileName("gate roc"),
      draw: (width) => {
        if (!roc) return el("p", {}, "All samples are of one domain: there is no ROC curve.");
        const size = Math.min(width, 380);
        rocArea = chart({
          width: size, height: size, x: [0, 100], y: [0, 100], square: true, xLabel: "unseen predicted seen, FPR (%)",
          yLabel: "seen predicted seen, TPR (%)", label: `ROC curve of ${gate.name}, AUC ${percent(aucOf(roc))} %`,
        });
        const { root, X, Y } = rocArea;
        root.append(svg("line", { x1: X(0), y1: Y(0), x2: X(100), y2: Y(100), class: "chance" }),
          svg("path", {
            d: linePath(roc.fpr.map((v) => 100 * v), roc.tpr.map((v) => 100 * v), X, Y), class: "curve c0 current",
          }));
        dots = { gate: svg("circle", { r: 6, class: "ring" }, svg("title", {}, "the gate alone at the threshold")) };
        if (gate.linked) {
          dots.whole = svg("rect", { x: -5, y: -5, width: 10, height: 10, class: "chosen c5" },
            svg("title", {}, "gate and experts"));
        }
        root.append(...Object.values(dots));
        place();
        return root;
      },
      table: () => [["fpr", "tpr"], ...(roc ? roc.fpr.map((value, j) => [value, roc.tpr[j]]) : [])],
    });

    const inputs = el("span");
    const learned = () => (gate.weights?.labels ?? []).map((label, j) => [label, gate.weights.values[j]]);
    const weights = figure({
      title: "Weights of the gate", file: fileName("gate weights"),
      caption: el("span", {}, "A positive weight raises the probability of seen. Inputs are ", inputs, "."),
      draw: (width) => barChart({
        width, label: "Weights of the gate", widest: 360,
        rows: learned().map(([label, value], j) => (
          { label, seen: gate.weights.seen?.[j] ?? !label.startsWith("unseen"), values: [{ value }] })),
      }),
      table: () => [["input", "weight"], ...learned()],
    });

    const numbers = el("dl", { class: "numbers" });
    const about = el("p", { class: "hint" }), note = el("p", { class: "hint" });
    const updateNumbers = () => {
      const [tpr, fpr] = rates();
      numbers.replaceChildren(
        termOf("AUC", roc ? `${percent(aucOf(roc))} %` : "–"),
        termOf("FPR at 95 % TPR", roc ? `${percent(fprAt(roc))} %` : "–"),
        termOf(gate.share ? "expected share of unseen samples" : "threshold", pointValue(gate, threshold())),
        termOf("seen predicted seen, TPR", `${percent(tpr)} %`),
        termOf("unseen predicted seen, FPR", `${percent(fpr)} %`));
      const outside = threshold() < histogram.low || threshold() > histogram.high;
      const curve = set.curves[set.main];
      note.textContent = gate.note ?? "";
      setText(inputs, gate.weights?.inputs ?? "the sorted outputs of each expert");
      about.textContent = [
        gate.linked && gate.share ? "The line is at the log-odds of the share: to its left p(U) is above 50 %." : "",
        gate.linked && !curve.hard ? `The ${pointTerm(gate)} is that of ${curve.name}. `
          + `${curve.share ? "The" : `With a softness of ${tickText(curve.softness)} the`} prediction depends on the `
          + "gate and on the experts: square, both; ring, the gate alone." : "",
        outside ? "The line is beyond all scores: the gate alone would give every sample to one expert." : "",
      ].filter(Boolean).join(" ");
    };

    /** TPR and FPR of the gate alone. */
    const rates = () => {
      let hits = 0, alarms = 0, nSeen = 0;
      gate.scores.forEach((score, i) => {
        const seen = set.isSeen(i);
        nSeen += seen;
        if (!(threshold() > score)) { if (seen) hits++; else alarms++; }
      });
      return [hits / nSeen, alarms / (gate.scores.length - nSeen)];
    };

    const place = () => {
      if (line) {
        const now = threshold(), { low, high } = histogram, x = bars.X(Math.min(high, Math.max(low, now)));
        line.setAttribute("transform", `translate(${x} 0)`);
        line.setAttribute("aria-valuenow", now);
        line.setAttribute("aria-valuetext", pointPhrase(gate, now));
        const middle = bars.margin.top + bars.h / 2, way = now > high ? 1 : now < low ? -1 : 0;
        const [arrow, label] = [...line.children].slice(-2), right = x > bars.margin.left + 0.6 * bars.w;
        setText(label, `${gate.share ? "share" : "threshold"} ${pointValue(gate, now)}`);
        label.setAttribute("x", right ? -8 : 8);
        label.setAttribute("text-anchor", right ? "end" : "start");
        arrow.setAttribute("d", way ? `M${-way * 2} ${middle - 6}l${way * 10} 6l${-way * 10} 6z` : "");
      }
      if (dots && rocArea) {
        const [tpr, fpr] = rates();
        const put = (dot, a, b) =>
          dot.setAttribute("transform", `translate(${rocArea.X(100 * a)} ${rocArea.Y(100 * b)})`);
        put(dots.gate, fpr, tpr);
        if (dots.whole) {
          const { exact } = set.curves[set.main], point = pointOf(set.curves[set.main]);
          put(dots.whole, 1 - point.unseenAsUnseen / exact.totalUnseen, 1 - point.seenAsUnseen / exact.totalSeen);
        }
      }
    };

    const chooser = set.gates.length > 1 && el("label", { class: "chooser" }, "Gate ", el("select", {
      change: (event) => {
        gate = set.gates[event.target.selectedIndex];
        measure();
        dots = null;
        for (const one of [spread, curveFigure, weights]) one.redraw();
        weights.node.hidden = !gate.weights;
        updateNumbers();
      },
    }, set.gates.map((one) => el("option", { selected: one === gate }, one.name))));

    weights.node.hidden = !gate.weights;
    panel.append(...[chooser].filter(Boolean), numbers, note, about,
      el("div", { class: "columns wide-left" }, el("div", {}, spread.node, weights.node), curveFigure.node));
    return () => { place(); updateNumbers(); };
  },
};
