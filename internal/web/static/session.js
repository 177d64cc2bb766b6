// The timeline of a session: its next part is loaded while a person scrolls, and
// keys jump to turns and failures.
"use strict";

const turns = document.querySelector("[data-turns]");

// more appends the next part of the timeline. It reports whether there was one.
let loading = null;
function more() {
  const link = document.querySelector("[data-more]");
  if (!link) return Promise.resolve(false);
  loading ??= load(link).finally(() => { loading = null; });
  return loading;
}

async function load(link) {
  const answer = await fetch(link.href);
  if (!answer.ok) {
    location.assign(link.href); // shows why
    return false;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  turns.append(...page.querySelector("[data-turns]").children);
  localTimes(turns);
  const next = page.querySelector("[data-more]");
  if (next) link.href = next.href;
  else link.closest("nav").remove();
  return true;
}

const link = document.querySelector("[data-more]");
if (link) {
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) more();
  }, { rootMargin: "600px" }).observe(link);
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    more();
  });
}

// jump focuses the next or previous of some elements after the focused one, and
// loads more of them at the end.
async function jump(selector, step) {
  const all = [...turns.querySelectorAll(selector)];
  const here = document.activeElement;
  let at = all.indexOf(here);
  if (at < 0 && turns.contains(here)) { // between them
    const after = all.findIndex((e) => here.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING);
    at = (after < 0 ? all.length : after) - (step > 0 ? 1 : 0);
  }
  const next = at < 0 ? (step > 0 ? all[0] : undefined) : all[at + step];
  if (next) {
    next.focus();
    next.scrollIntoView({ block: "center" });
  } else if (step > 0 && await more()) {
    await jump(selector, step);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  switch (event.key) {
    case "j": jump(".turn", 1); break;
    case "k": jump(".turn", -1); break;
    case "f": jump(".failure", 1); break;
    case "c": {
      const section = document.getElementById("case");
      if (!section) return;
      const form = section.querySelector("form");
      if (form?.checkValidity()) { // all is known: this key is enough
        form.requestSubmit();
        break;
      }
      section.querySelector("details").open = true;
      (form?.querySelector("#query") ?? section.querySelector("summary")).focus();
      break;
    }
    default: return;
  }
  event.preventDefault();
});

document.querySelector("[data-jump]")?.addEventListener("click", (event) => {
  event.preventDefault();
  jump(".failure", 1);
});
