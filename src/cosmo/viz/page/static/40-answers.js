// Every answer with its probability and the true class, and how often answers of a probability are correct.

const BANDS = [0, 0.5, 0.7, 0.9, 0.99, 1];
const ANSWERS_AT_ONCE = 30;

const answersView = {
  id: "answers", title: "Answers",
  available: (set) => set.walk !== null && set.curves.length > 0,
  build(panel) {
    const { set } = state;
    let answers = null, limit = ANSWERS_AT_ONCE;
    const kinds = {
      mistakes: ["mistakes, most confident first", () => answers.filter((one) => !one.right).sort((a, b) => b.probability - a.probability)],
      doubts: ["all, least confident first", () => [...answers].sort((a, b) => a.probability - b.probability)],
      all: ["all, in their order", () => answers],
    };
    const chooser = el("select", { "aria-label": "answers to list", change: () => { limit = ANSWERS_AT_ONCE; list(); } },
      Object.entries(kinds).map(([key, [text]]) => el("option", { value: key }, text)));
    const count = el("p", { class: "hint", role: "status" }), body = el("tbody"), bands = el("tbody");
    const more = el("button", { type: "button", click: () => { limit += 4 * ANSWERS_AT_ONCE; list(); } });

    const list = () => {
      const found = kinds[chooser.value][1](), left = found.length - limit;
      count.textContent = found.length ? `${plural(found.length, "answer")} of ${set.n.toLocaleString("en")}` : "There is no mistake.";
      more.hidden = left <= 0;
      more.textContent = `Show more (${left})`;
      body.replaceChildren(...found.slice(0, limit).map(({ i, answer, truth, right, probability }) => el("tr", {},
        el("th", { scope: "row" }, el("a", { href: hashFor({ tab: "walk", sample: i }) }, picture(set, i, 40),
          el("span", {}, breakable(fit(sampleTitle(set, i), 560))))),
        el("td", { class: right ? "good" : "bad" }, `${right ? "✓" : "✗"}\u00a0`, breakable(set.names[answer])),
        el("td", {}, shareText(probability)),
        el("td", {}, breakable(set.names[truth]), " ", domainTag(truth < set.nSeen)))));
    };

    const settle = () => {
      const rule = ruleOf(set);
      answers = Array.from(set.target, (truth, i) => {
        const { predicted, probability } = stepsOf(rowOf(set, i), rule);
        return { i, truth, answer: predicted, probability, right: predicted === truth };
      });
      bands.replaceChildren(...BANDS.slice(1).map((high, j) => {
        const within = answers.filter(({ probability: p }) => p > BANDS[j] && p <= high);
        const right = within.filter((one) => one.right).length;
        return [`${100 * BANDS[j]} to ${100 * high} %`, within.length, within.length ? `${percent(right / within.length, 0)} %` : "–"];
      }).reverse().map((row) => el("tr", {}, el("th", { scope: "row" }, row[0]), el("td", {}, row[1]), el("td", {}, row[2]))));
      list();
    };
    const settleLater = atRest(settle, 150);

    const head = (texts) => el("thead", {}, el("tr", {}, texts.map((text) => el("th", { scope: "col" }, text))));
    panel.append(el("div", { class: "columns wide-left" },
      el("div", { class: "card" }, el("h3", {}, "Answers"), el("div", { class: "buttons" }, chooser), count,
        el("div", { class: "scroll" }, el("table", { class: "answers-table" }, head(["sample", "answer", "probability", "true class"]), body)),
        el("p", { class: "buttons" }, more)),
      el("div", { class: "card" }, el("h3", {}, "Confidence"),
        el("table", {}, head(["probability", "answers", "correct"]), bands),
        el("p", { class: "hint" }, "Of the answers with a probability of 90 to 99 %, about 95 % should be correct. ",
          set.raw.calibration && el("a", { class: "link", href: hashFor({ tab: "calibration" }) }, "More on confidence")))));
    return () => (answers ? settleLater() : settle());
  },
};
