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
  const left = live.querySelector("[data-left]");
  const started = Date.parse(live.dataset.started);
  if (left && started && done > 0 && done < total) left.textContent = `, ${duration((Date.now() - started) / done * (total - done))} left`;
}

// duration is a rough one: "under a minute", "about 5 minutes".
function duration(ms) {
  const minutes = Math.round(ms / 60000);
  if (minutes < 1) return "under a minute";
  return minutes < 90 ? `about ${minutes} minute${minutes === 1 ? "" : "s"}` : `about ${Math.round(minutes / 60)} hours`;
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
  const failed = new Set();
  const tab = document.querySelector("[data-failing]");
  const before = Number(tab?.textContent);
  const events = new EventSource(live.dataset.events);
  events.addEventListener("progress", (event) => progress(JSON.parse(event.data)));
  events.addEventListener("case", (event) => {
    const told = JSON.parse(event.data);
    progress(told.progress);
    const row = document.querySelector(`[data-case="${CSS.escape(told.id)}"] [data-verdict]`);
    if (row && told.verdict) row.replaceChildren(badge(told.verdict));
    // The server's count has the cases that failed before; it may tell them again.
    if (told.verdict === "fail" || told.verdict === "error") failed.add(told.id);
    if (tab) tab.textContent = Math.max(before, failed.size);
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
