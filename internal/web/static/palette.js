// The command palette: Ctrl-K, or / on a page without a search field, and ? for the keys.
// It has the links of the menu and finds skills and entries as the lists of them do.
"use strict";

document.body.insertAdjacentHTML("beforeend", `
<dialog id="palette" aria-label="Go to"><label for="palette-field" class="sr">Page, skill or entry</label>
<input id="palette-field" type="search" autocomplete="off" placeholder="Page, skill or entry" autofocus><ul></ul></dialog>
<dialog id="keys" aria-labelledby="keys-title"><h2 id="keys-title">Keys</h2><dl class="pairs">
<dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>go to a page, a skill or an entry</dd>
<dt><kbd>/</kbd></dt><dd>search on this page</dd>
<dt><kbd>?</kbd></dt><dd>this list</dd>
<dt><kbd>a</kbd> <kbd>r</kbd> <kbd>s</kbd> <kbd>u</kbd> <kbd>n</kbd> <kbd>p</kbd></dt><dd>in Review: accept, reject, add to a suite, undo, skip, back</dd>
<dt><kbd>j</kbd> <kbd>k</kbd> <kbd>x</kbd></dt><dd>in lists of Review: down, up, select</dd>
</dl><form method="dialog"><button class="quiet">Close</button></form></dialog>`);
const palette = document.getElementById("palette");
const field = palette.querySelector("input");
const results = palette.querySelector("ul");
const pages = [...document.querySelectorAll("nav[aria-label=Main] a")].map((a) => [a.textContent.trim(), a.getAttribute("href"), ""]);
const lists = [["/skills", "skill"], ["/registry", "entry"]].filter(([path]) => pages.some(([, href]) => href === path));
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

// search lists the links of the first page of a list that are about one thing each.
async function search([path, kind], text) {
  const answer = await fetch(`${path}?q=${encodeURIComponent(text)}`);
  if (!answer.ok) return [];
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const links = [...page.querySelectorAll(`main tbody th a[href^="${path}/"], main tbody td:first-child a[href^="${path}/"]`)];
  return links.slice(0, 5).map((a) => [a.textContent.trim(), a.getAttribute("href"), kind]);
}

async function find() {
  const text = field.value.trim();
  const own = ++asked;
  const named = pages.filter(([name]) => name.toLowerCase().includes(text.toLowerCase()));
  show(named);
  if (!text) return;
  await new Promise((later) => setTimeout(later, 150));
  if (own !== asked) return;
  const found = await Promise.all(lists.map((list) => search(list, text).catch(() => [])));
  if (own === asked) show([...named, ...found.flat()]);
}

function open() {
  field.value = "";
  find();
  palette.showModal();
}

field.addEventListener("input", find);
palette.addEventListener("keydown", (event) => {
  const links = [...results.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter" && at < 0) {
    event.preventDefault();
    links[0]?.click();
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
