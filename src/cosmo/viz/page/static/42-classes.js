// Accuracy of each class, its most frequent confusion, and its samples.

const SAMPLES_AT_ONCE = 48;

/** Per class: samples, correct ones, most frequent wrong prediction; and all confused pairs, most frequent first. */
function perClass(set, predicted) {
  const rows = set.names.map((name, code) => ({ code, samples: 0, right: 0, wrong: -1, times: 0 }));
  const pairs = new Map();
  set.target.forEach((truth, i) => {
    const row = rows[truth], answer = predicted[i];
    row.samples++;
    if (answer === truth) { row.right++; return; }
    const key = truth * set.names.length + answer, times = (pairs.get(key) ?? 0) + 1;
    pairs.set(key, times);
    if (times > row.times) [row.wrong, row.times] = [answer, times];
  });
  const confused = [...pairs].sort((a, b) => b[1] - a[1] || a[0] - b[0])
    .map(([key, times]) => ({ truth: Math.floor(key / set.names.length), answer: key % set.names.length, times }));
  return { rows, confused };
}

const domainTag = (seen) => el("span", { class: `tag ${seen ? "seen" : "unseen"}` }, seen ? "seen" : "unseen");

const classesView = {
  id: "classes", title: "Classes",
  available: (set) => set.n > 0 && set.curves.length > 0,
  build(panel) {
    const { set } = state;
    let found = null, predicted = null, chosen = null, limit = SAMPLES_AT_ONCE;
    let sorting = { key: "accuracy", down: false };
    const accuracy = (row) => (row.samples ? row.right / row.samples : NaN);
    const lower = (code) => (set.names[code] ?? "").toLowerCase();
    const columns = [
      { key: "name", title: "class", of: (row) => lower(row.code) },
      { key: "domain", title: "domain", of: (row) => Number(row.code >= set.nSeen) },
      { key: "samples", title: "samples", roomy: true, of: (row) => row.samples, show: (row) => row.samples },
      { key: "accuracy", title: "accuracy", of: accuracy, show: (row) => `${percent(accuracy(row))} %` },
      {
        key: "wrong", title: "most often confused with", of: (row) => lower(row.wrong),
        show: (row) => (row.wrong < 0 ? "–" : breakable(set.names[row.wrong])),
      },
      { key: "times", title: "times", roomy: true, of: (row) => row.times, show: (row) => row.times },
    ];

    const heads = columns.map((column) => el("th", { scope: "col", class: column.roomy ? "roomy" : null }, el("button", {
      type: "button",
      click: () => {
        const largestFirst = ["samples", "times"].includes(column.key);
        sorting = { key: column.key, down: sorting.key === column.key ? !sorting.down : largestFirst };
        arrange();
      },
    }, column.title)));
    const body = el("tbody");
    const opener = (code) => el("button", { type: "button", class: "link", click: () => show(code, true) },
      breakable(set.names[code]));
    // One row of elements per class, made once: an update only changes texts.
    const lines = set.names.map((name, code) => {
      const cells = columns.map(({ key, roomy }) => (key === "name"
        ? el("th", { scope: "row" }) : el("td", { class: `${key}${roomy ? " roomy" : ""}` })));
      cells[0].append(opener(code));
      cells[1].append(domainTag(code < set.nSeen));
      return { row: el("tr", {}, cells), cells };
    });
    const filter = el("input", {
      type: "search", placeholder: "Filter classes", "aria-label": "filter classes by name", input: () => arrange(),
    });
    const domain = el("select", { "aria-label": "domain", change: () => arrange() },
      el("option", { value: "all" }, "seen and unseen"), el("option", { value: "seen" }, "only seen"),
      el("option", { value: "unseen" }, "only unseen"));
    const count = el("p", { class: "hint", role: "status" });
    const pairsBody = el("tbody");
    const detail = el("section", { class: "card", tabindex: -1, "aria-label": "samples of a class", hidden: true });
    const titled = el("h3");

    const arrange = () => {
      const { of } = columns.find((column) => column.key === sorting.key), wanted = filter.value.trim().toLowerCase();
      const kept = found.rows.filter((row) => row.samples > 0
        && (domain.value === "all" || (domain.value === "seen") === (row.code < set.nSeen))
        && set.names[row.code].toLowerCase().includes(wanted));
      kept.sort((a, b) => {
        const [x, y] = [of(a), of(b)];
        return (x < y ? -1 : x > y ? 1 : a.code - b.code) * (sorting.down ? -1 : 1);
      });
      heads.forEach((head, j) => {
        if (columns[j].key === sorting.key) head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      body.replaceChildren(...kept.map((row) => lines[row.code].row));
      count.textContent = `${plural(kept.length, "class", "classes")} of ${set.names.length} shown`;
    };

    const update = () => {
      const curve = currentCurve();
      predicted = predictionsAt(curve, curve.now);
      found = perClass(set, predicted);
      for (const row of found.rows) {
        const line = lines[row.code], shown = `${row.right} ${row.wrong} ${row.times}`;
        if (line.shown === shown) continue; // most classes stay as they are while the point moves
        line.shown = shown;
        for (let j = 2; j < columns.length; j++) line.cells[j].replaceChildren(...[columns[j].show(row)].flat());
      }
      titled.textContent = `Classes under ${curve.name}`;
      if (body.childElementCount) settleLater(); else settle();
    };

    // Order, pairs and thumbnails are updated when the point rests, so that rows do not jump while it moves.
    const settle = () => {
      pairsBody.replaceChildren(...found.confused.slice(0, 12).map(({ truth, answer, times }) => el("tr", {},
        el("th", { scope: "row" }, opener(truth)),
        el("td", { class: "wrong" }, breakable(set.names[answer])), el("td", {}, times))));
      arrange();
      if (chosen !== null) show(chosen);
    };
    const settleLater = atRest(settle, 150);

    const show = (code, fresh = false) => {
      if (fresh) limit = SAMPLES_AT_ONCE;
      chosen = code;
      const row = found.rows[code], members = [];
      set.target.forEach((truth, i) => { if (truth === code) members.push(i); });
      const description = set.descriptions?.[code];
      detail.hidden = false;
      detail.replaceChildren(
        el("h3", {}, set.names[code], " ", domainTag(code < set.nSeen)),
        el("p", {}, `${row.right} of ${plural(row.samples, "sample")} correct (${percent(accuracy(row))} %).`),
        description ? el("p", { class: "quoted" }, description) : "",
        el("ul", { class: "samples" }, members.slice(0, limit).map((i) => sampleCard(set, i, predicted[i]))),
        members.length > limit ? el("button", {
          type: "button", click: () => { limit += 4 * SAMPLES_AT_ONCE; show(code); },
        }, `Show more (${members.length - limit})`) : "");
      if (fresh) {
        detail.scrollIntoView({ block: "nearest" });
        detail.focus({ preventScroll: true });
      }
    };

    const save = () => offer(csvText([
      columns.map((column) => column.title),
      ...found.rows.filter((row) => row.samples).map((row) => [
        set.names[row.code], row.code < set.nSeen ? "seen" : "unseen", row.samples, accuracy(row),
        set.names[row.wrong] ?? "", row.times]),
    ]), "text/csv;charset=utf-8", `${fileName("classes")()}.csv`);

    panel.append(
      el("div", { class: "columns" },
        el("div", { class: "card" }, titled,
          el("div", { class: "buttons" }, filter, domain,
            el("button", {
              type: "button", class: "small", "aria-label": "download the classes as CSV", click: save,
            }, "CSV")),
          count,
          el("div", { class: "scroll tall" },
            el("table", { class: "classes" }, el("thead", {}, el("tr", {}, heads)), body))),
        el("div", {}, detail,
          el("div", { class: "card" }, el("h3", {}, "Most confused"), el("table", { class: "pairs" },
            el("thead", {}, el("tr", {},
              ["class", "predicted", "times"].map((text) => el("th", { scope: "col" }, text)))), pairsBody)))));
    return update;
  },
};

const sampleTitle = ({ samples }, i) => samples.texts?.[i] ?? samples.names?.[i] ?? `sample ${i + 1}`;

/** A sample in a list; a link to its walk-through where there is one. */
function sampleCard(set, i, answer) {
  const right = answer === set.target[i];
  const content = [
    picture(set, i, 64),
    el("span", { class: "sample-name" }, breakable(sampleTitle(set, i))),
    el("span", { class: right ? "good" : "bad" }, `${right ? "✓" : "✗"}\u00a0`, breakable(set.names[answer])),
  ];
  return el("li", {}, set.walk ? el("a", { href: hashFor({ tab: "walk", sample: i }) }, content) : content);
}
