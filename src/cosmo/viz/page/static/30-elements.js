// Elements, always with text as text: no string of the data is ever parsed as markup.

function build(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else if (key === "value" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element; functions among the attributes are listeners named by their key. */
const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

/** An SVG element. */
const svg = (tag, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** Fixed decimals. Sums of many shares end just below or above a half: both are written alike, rounded up. */
const fixed = (value, digits) => (value + 1e-9).toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");

const percent = (share, digits = 1) => (Number.isFinite(share) ? fixed(100 * share, digits) : "–");

/** A share as percent; one that is not exactly zero or one is not written as such. */
const shareText = (share) => (share > 0 && share < 5e-4 ? "<0.1 %" : share < 1 && share > 1 - 5e-4 ? ">99.9 %"
  : `${percent(share)} %`);

/** A number with a few significant digits, never in a form that hides its size. */
function short(value, digits = 3) {
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(digits - 1) : value.toFixed(
    size >= 100 ? 1 : size >= 10 ? 2 : digits);
  return text.replace("-", "−");
}

/** A table; the first cell of a row names it. Cells are texts or elements. */
const tableOf = (heads, rows, caption) => el("table", {}, caption && el("caption", {}, caption),
  el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))),
  el("tbody", {}, rows.map(([first, ...rest]) => el("tr", {},
    el("th", { scope: "row" }, first), rest.map((cell) => el("td", {}, cell))))));

/** A term and its description, for a <dl>. */
const termOf = (term, ...content) => el("div", {}, el("dt", {}, term), el("dd", {}, ...content));

const plural = (count, what, more = `${what}s`) => `${count.toLocaleString("en")} ${count === 1 ? what : more}`;

/** Text that fits into about `width` pixels of the figures' letters. */
function fit(text, width, letter = 6.4) {
  const most = Math.max(3, Math.floor(width / letter));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Sets a text only if it differs, which avoids layout. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A name that may break where its parts meet, such as Black_footed_Albatross. */
const breakable = (text) => text.split(/(?<=[_/.:-])/).flatMap((part) => [part, el("wbr")]).slice(0, -1);

/** Debounces `work`: runs it after a pause between calls. */
function atRest(work, milliseconds) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, milliseconds);
  };
}

/** Runs `work` at most once per animation frame. */
function perFrame(work) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; work(); });
  };
}
