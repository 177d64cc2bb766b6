// The review queue by keyboard: a key presses the button with that shortcut, and
// the next suggestion is loaded without a new page.
"use strict";

let busy = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.matches("input:not(.pick), select, textarea")) return;
  const picks = [...document.querySelectorAll("#queue .pick")];
  if (picks.length && "jkx".includes(event.key)) {
    event.preventDefault();
    const at = picks.indexOf(document.activeElement);
    if (event.key === "x" && at >= 0) picks[at].click();
    else picks[Math.min(picks.length - 1, Math.max(0, at + (event.key === "k" ? -1 : 1)))].focus();
    return;
  }
  const target = document.querySelector(`#queue [data-key="${CSS.escape(event.key)}"]`);
  if (!target) return;
  event.preventDefault();
  target.click();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || !form.closest("#queue")) return;
  event.preventDefault();
  go(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#queue [data-all]")) {
    event.preventDefault();
    const picks = [...document.querySelectorAll("#queue .pick")];
    const on = !picks.every((pick) => pick.checked);
    for (const pick of picks) pick.checked = on;
    return;
  }
  const link = event.target.closest("#queue .places a[data-key]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.href, {});
});

// go asks for a page and shows its queue in place of this one.
async function go(url, options) {
  if (busy) return;
  busy = true;
  const suite = document.querySelector("#queue #suite")?.value;
  try {
    const response = await fetch(url, options);
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    const queue = next.getElementById("queue");
    if (!queue) { // an error's page: show it whole
      document.querySelector("main").replaceWith(document.adoptNode(next.querySelector("main")));
      return;
    }
    history.replaceState(null, "", response.url);
    document.querySelector("main .flash")?.remove();
    const flash = next.querySelector("main .flash");
    document.getElementById("queue").replaceWith(document.adoptNode(queue));
    if (flash) queue.before(document.adoptNode(flash));
    localTimes(queue);
    keep(queue, suite);
    (queue.querySelector("#query, .pick") ?? document.querySelector("main")).focus();
  } catch {
    location.reload();
  } finally {
    busy = false;
  }
}

// keep leaves the suite chosen that was.
function keep(queue, suite) {
  const select = queue.querySelector("#suite");
  if (select && [...select.options].some((option) => option.value === suite)) select.value = suite;
}
