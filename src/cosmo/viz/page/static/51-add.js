// Add a class by its description: preview its effect, then add it.

const addView = {
  id: "add", title: "Add a class",
  available: (set, live) => live !== null,
  build(panel) {
    const { set, live } = state;
    const status = el("p", { class: "hint", role: "status" });
    const change = el("div", { class: "card", hidden: true, "aria-live": "polite" });
    const label = el("input", {
      type: "text", required: true, maxlength: live.limits?.name ?? null,
      "aria-label": "name of the class", placeholder: "Name of the new class",
    });
    const description = live.described_by === "words" ? wordsForm(set, live) : numbersForm(live);
    const look = el("button", { type: "submit", class: "primary" }, "Preview");
    const body = () => {
      if (!label.value.trim()) throw new Error("The class has no name yet.");
      return { name: label.value.trim(), ...description.read() };
    };
    let seen = null; // the previewed class, even if the form changes afterwards
    const keep = el("button", { type: "button", class: "primary", click: () => during(keep, status, async () => {
      live.kept = (await request("/classes/keep", seen)).kept;
      await reload(`"${seen.name}" is added to the running model.`);
    }) }, "Add the class");
    const undo = el("button", { type: "button", click: () => during(undo, status, async () => {
      live.kept = (await request("/classes/undo", {})).kept;
      await reload("Back to the model as it was loaded.");
    }) }, "Undo all changes");
    const form = el("form", { submit: (event) => {
      event.preventDefault();
      during(look, status, async () => {
        const wanted = body(), found = await request("/classes/preview", wanted);
        seen = wanted;
        change.replaceChildren(...changeOf(set, found), el("p", { class: "buttons" }, keep));
        change.hidden = false;
        return "This is a preview: the class is not added yet.";
      });
    } }, el("h3", {}, "A new class"), label, description.node, el("p", { class: "buttons" }, look));
    panel.append(el("div", { class: "columns even" },
      el("div", { class: "card" }, form, status,
        el("p", { class: "buttons" },
          el("a", { class: "button", href: `${live.api}/model`, download: "model.cosmo" }, "Download the model"), undo),
        live.kept?.length > 0 && el("p", {}, `Added so far: ${live.kept.join(", ")}.`),
        el("p", { class: "hint" }, "Added classes are in the download; otherwise they exist in the running server only.")),
      change));
    return () => { // A draft from the groups of rejected samples.
      if (!state.draft) return;
      label.value = state.draft.name;
      description.fill(state.draft);
      change.hidden = true;
      state.draft = null;
    };
  },
};

function wordsForm(set, live) {
  const box = el("textarea", {
    rows: 5, maxlength: live.limits?.description ?? null,
    "aria-label": "description of the class", placeholder: "Describe it in words",
  });
  const known = set.names.map((name, code) => [name, set.descriptions?.[code]]).filter(([, text]) => text);
  const start = known.length > 0 && el("label", { class: "chooser" }, "Start from ", el("select", { change: (event) => {
    const text = known[event.target.selectedIndex - 1]?.[1];
    if (text) box.value = text;
  } }, el("option", {}, "nothing"), known.map(([name]) => el("option", {}, name))));
  return {
    node: el("div", {}, box, start),
    fill: (draft) => { box.value = draft.description; },
    read: () => {
      if (!box.value.trim()) throw new Error("The class has no description yet: describe it in words.");
      return { description: box.value.trim() };
    },
  };
}

/** A box for a row of numbers; with known attributes also a table, and the two follow each other. */
function numbersForm(live) {
  const names = live.attributes;
  const box = el("textarea", {
    rows: 3, "aria-label": "attribute values",
    placeholder: `${names ? names.length : "The"} attribute values, separated by commas, spaces or lines`,
  });
  const read = () => {
    const values = numbersIn(box.value);
    if (!values.length) throw new Error("The class has no attribute values yet.");
    if (names && values.length !== names.length) {
      throw new Error(`A class has ${names.length} attributes, here are ${values.length} values.`);
    }
    return { values };
  };
  const fill = (draft) => {
    box.value = draft.values.join(", ");
    box.dispatchEvent(new Event("input"));
  };
  if (!names) return { node: box, read, fill };
  const gather = () => { box.value = inputs.map((one) => Number(one.value) || 0).join(", "); };
  const inputs = names.map((name) => el("input", {
    type: "number", step: "any", value: 0, "aria-label": name, input: gather,
  }));
  const rows = names.map((name, j) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, inputs[j])));
  const sift = () => rows.forEach((row, j) => {
    row.hidden = !names[j].toLowerCase().includes(filter.value.trim().toLowerCase());
  });
  const filter = el("input", {
    type: "search", placeholder: "Filter attributes", "aria-label": "filter attributes", input: sift,
  });
  box.addEventListener("input", () => {
    let values = [];
    try { values = numbersIn(box.value); } catch { return; } // reported when the form is sent
    inputs.forEach((one, j) => { one.value = values[j] ?? 0; });
  });
  box.value = names.map(() => 0).join(", ");
  return {
    node: el("div", {}, box, el("details", {}, el("summary", {}, `Edit ${names.length} attributes one by one`), filter,
      el("div", { class: "scroll tall" }, el("table", {}, el("tbody", {}, rows))))),
    read, fill,
  };
}

/** Shows the effect of a class. */
function changeOf(set, found) {
  const table = (caption, heads, rows) => rows?.length > 0 && tableOf(heads, rows, caption);
  const difference = (key) => {
    if (found.before[key] === null || found.after[key] === null) return "–"; // no samples of that domain
    const by = 100 * (found.after[key] - found.before[key]);
    return `${by >= 0.05 ? "+" : ""}${fixed(by, 1)}`;
  };
  return [
    el("h3", {}, "With ", el("q", {}, found.name)),
    el("p", {}, found.of
      ? `${plural(found.taken, "evaluated sample")} of ${found.of.toLocaleString("en")} would be predicted as this class.`
      : "There are no evaluated samples, so its effect on other classes is unknown."),
    found.before && found.after && table("Accuracies (percent)", ["", "before", "after", "change"],
      [["Acc_ts", "acc_ts"], ["Acc_tr", "acc_tr"], ["Acc_H", "acc_h"]].map(([text, key]) =>
        [text, percent(found.before[key]), percent(found.after[key]), difference(key)])),
    table("Previous predictions of these samples", ["class", "samples"], found.taken_from),
    table("Most similar classes", ["class", "similarity"],
      found.neighbours?.map(([name, value]) => [name, short(value)])),
    found.examples?.length > 0 && set.samples && el("div", {}, el("h4", {}, "Samples predicted as this class"),
      el("ul", { class: "samples" }, found.examples.filter((i) => i < set.n).map((i) => sampleLink(set, i)))),
  ].filter(Boolean);
}

function sampleLink(set, i) {
  const content = [picture(set, i, 64), el("span", { class: "sample-name" }, breakable(sampleTitle(set, i))),
    el("span", { class: "faint" }, set.names[set.target[i]])];
  return el("li", {}, set.walk ? el("a", { href: hashFor({ tab: "walk", sample: i }) }, content) : content);
}
