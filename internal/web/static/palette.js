// The command palette: the search of the side bar, Ctrl-K, or / on a page without a search
// field, and ? for the keys. It has the links of the menu, and what /search finds.
"use strict";

document.body.insertAdjacentHTML("beforeend", `
<dialog id="palette" aria-label="Search"><label for="palette-field" class="sr">Skill, version, suite, session, page or action</label>
<input id="palette-field" type="search" autocomplete="off" placeholder="Skill, version, suite, session, page or action" autofocus><ul></ul></dialog>
<dialog id="keys" aria-labelledby="keys-title"><h2 id="keys-title">Keys</h2><dl class="pairs">
<dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>find a skill, a version, a suite, a session, a page or an action</dd>
<dt><kbd>/</kbd></dt><dd>search on this page</dd>
<dt><kbd>?</kbd></dt><dd>this list</dd>
<dt><kbd>a</kbd> <kbd>r</kbd> <kbd>s</kbd> <kbd>u</kbd> <kbd>n</kbd> <kbd>p</kbd></dt><dd>in Review: accept, reject, add to a suite, undo, skip, back</dd>
<dt><kbd>j</kbd> <kbd>k</kbd> <kbd>x</kbd></dt><dd>in lists of Review: down, up, select</dd>
</dl><form method="dialog"><button class="quiet">Close</button></form></dialog>`);
const palette = document.getElementById("palette");
const field = palette.querySelector("input");
const results = palette.querySelector("ul");
const pages = [...document.querySelectorAll("nav[aria-label=Main] a")].map((a) => [a.textContent.trim(), a.getAttribute("href"), ""]);
let asked = 0;

function show(found) {
  results.replaceChildren(...found.slice(0, 12).map(([text, href, kind]) => {
    const link = document.createElement("a");
    link.href = href;
    link.textContent = text;
    if (kind) {
      const tag = document.createElement("span");
      tag.className = "muted";
      tag.textContent = ` ${kind}`;
      link.append(tag);
    }
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
}

// search returns what the page of the search lists.
async function search(text) {
  const answer = await fetch(`/search?q=${encodeURIComponent(text)}`);
  if (!answer.ok) return [];
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.querySelectorAll("main .hits li")].map((li) => {
    const a = li.querySelector("a");
    return [a.textContent.trim(), a.getAttribute("href"), li.querySelector("span").textContent];
  });
}

async function find() {
  const text = field.value.trim();
  const own = ++asked;
  const named = pages.filter(([name]) => name.toLowerCase().includes(text.toLowerCase()));
  show(named);
  if (!text) return;
  await new Promise((later) => setTimeout(later, 150));
  if (own !== asked) return;
  const found = await search(text).catch(() => []);
  if (own === asked) show(found);
}

function open() {
  field.value = "";
  find();
  palette.showModal();
}

document.querySelector("a.find")?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open();
});
field.addEventListener("input", find);
palette.addEventListener("keydown", (event) => {
  const links = [...results.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter" && at < 0) {
    event.preventDefault();
    if (links[0]) links[0].click();
    else if (field.value.trim()) location.href = `/search?q=${encodeURIComponent(field.value.trim())}`;
  } else if (event.key === "ArrowDown") {
    event.preventDefault();
    links[Math.min(at + 1, links.length - 1)]?.focus();
  } else if (event.key === "ArrowUp") {
    event.preventDefault();
    (links[at - 1] ?? field).focus();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    open();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || palette.open) return;
  if (event.key === "/") {
    event.preventDefault();
    const search = document.querySelector("main input[type=search]");
    if (search) search.focus();
    else open();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  }
});
