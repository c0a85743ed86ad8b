// Talking to the server behind a live page.

/** Posts to the server; returns its answer or throws an Error with a sentence for the reader. */
async function ask(path, body, type = "application/json") {
  let answer;
  try {
    answer = await fetch(`${state.live.api}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": type, "X-Cosmo": "1" },
      credentials: "same-origin",
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer. Is `cosmo studio` still running?");
  }
  const text = await answer.text();
  let content = null;
  try { content = JSON.parse(text); } catch { /* /api/view answers with plain text */ }
  if (!answer.ok) throw new Error(content?.error ?? `The server answered ${answer.status}.`);
  return content ?? text;
}

/** Runs `work` while its button waits; an error becomes a sentence in `said`. */
async function during(button, said, work) {
  button.disabled = true;
  said.className = "hint";
  said.textContent = "…";
  try {
    said.textContent = (await work()) ?? "";
  } catch (error) {
    said.className = "error";
    said.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

/** Numbers from text: separated by commas, semicolons, spaces or lines. */
function numbersIn(text) {
  const parts = text.trim().split(/[\s,;]+/).filter(Boolean);
  const bad = parts.findIndex((part) => !Number.isFinite(Number(part)));
  if (bad >= 0) {
    throw new Error(`Value ${bad + 1}, "${parts[bad].slice(0, 40)}", is not a number; write numbers separated by `
      + "commas or spaces, with a decimal point.");
  }
  return parts.map(Number);
}
