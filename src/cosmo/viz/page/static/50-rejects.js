// Groups of rejected samples, as drafts of new classes.

const rejectsView = {
  id: "rejects", title: "Rejects",
  available: (set, live) => Boolean(live?.discovers),
  build(panel) {
    const status = el("p", { class: "hint", role: "status" }), groups = el("div", { "aria-live": "polite" });
    const smallest = el("input", { type: "number", min: 2, max: 10000, value: 15, "aria-label": "samples of a group, at least" });
    const button = el("button", { type: "submit", class: "primary" }, "Group the rejected samples");
    const submit = (event) => {
      event.preventDefault();
      during(button, status, async () => {
        const found = await request("/discover", { smallest: Number(smallest.value) });
        groups.replaceChildren(...found.map(groupCard));
        return found.length ? `${plural(found.length, "group")}, the least known first.` : "There is no group of this size.";
      });
    };
    panel.append(
      el("form", { class: "card", submit }, el("h3", {}, "What are the rejected samples?"),
        el("label", {}, "Samples of a group, at least ", smallest), el("p", { class: "buttons" }, button), status),
      groups);
    return () => {};
  },
};

const groupCard = (group) => el("div", { class: "card" }, el("h3", {}, breakable(group.name)),
  el("p", {}, `${plural(group.size, "sample")}; nearest classes: ${group.nearest}`),
  el("ul", {}, group.typical.map((text) => el("li", {}, text))),
  el("p", { class: "buttons" }, el("button", { type: "button", click: () => {
    state.draft = group;
    showSet.select("add");
  } }, "Describe a class from it")));
