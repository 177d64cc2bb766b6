// Live updates of a run or an improve run: its progress, and its verdicts or
// descriptions as they come.
"use strict";

const live = document.querySelector("[data-events]");
const shapes = { pass: ["good", "●"], fail: ["bad", "■"], error: ["warn", "▲"], skipped: ["warn", "▲"] };

function badge(word) {
  const [kind, shape] = shapes[word] ?? ["busy", "◐"];
  const mark = document.createElement("span");
  mark.ariaHidden = "true";
  mark.textContent = shape;
  const all = document.createElement("span");
  all.className = `badge ${kind}`;
  all.append(mark, ` ${word}`);
  return all;
}

function progress({ done, total }) {
  live.querySelector("progress").max = total;
  live.querySelector("progress").value = done;
  live.querySelector("[data-done]").textContent = done;
  live.querySelector("[data-all]").textContent = total;
}

// refresh replaces the parts of the page that grow with their current state.
async function refresh() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-fresh]")) {
    const fresh = page.querySelector(`[data-fresh="${CSS.escape(part.dataset.fresh)}"]`);
    if (fresh) part.replaceChildren(...fresh.children);
  }
}

function follow() {
  let iterations = 0;
  const events = new EventSource(live.dataset.events);
  events.addEventListener("progress", (event) => progress(JSON.parse(event.data)));
  events.addEventListener("case", (event) => {
    const told = JSON.parse(event.data);
    progress(told.progress);
    const row = document.querySelector(`[data-case="${CSS.escape(told.id)}"] [data-verdict]`);
    if (row && told.verdict) row.replaceChildren(badge(told.verdict));
  });
  events.addEventListener("status", (event) => {
    const run = JSON.parse(event.data);
    document.querySelector("[data-status]").replaceChildren(badge(run.status));
    progress(run.progress);
    if (run.finished_at) {
      events.close();
      location.reload(); // the server renders the figures
    } else if (run.iterations > iterations) {
      iterations = run.iterations;
      refresh().catch(() => {}); // the next description retries
    }
  });
}

if (live) follow();
