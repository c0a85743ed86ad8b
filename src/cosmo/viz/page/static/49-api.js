// Requests of a live page to its server.

/** Sends a request; returns the response or throws an Error with a message for the user. */
async function request(path, body, type = "application/json") {
  let response;
  try {
    response = await fetch(`${state.live.api}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": type, "X-Cosmo": "1" },
      credentials: "same-origin",
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not respond. Is `cosmo studio` still running?");
  }
  const text = await response.text();
  let content = null;
  try { content = JSON.parse(text); } catch { /* /api/view returns plain text */ }
  if (!response.ok) throw new Error(content?.error ?? `The server returned status ${response.status}.`);
  return content ?? text;
}

/** Runs `work` with its button disabled; `status` shows its result or error. */
async function during(button, status, work) {
  button.disabled = true;
  status.className = "hint";
  status.textContent = "…";
  try {
    status.textContent = (await work()) ?? "";
  } catch (error) {
    status.className = "error";
    status.textContent = error.message;
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
