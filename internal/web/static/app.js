// Progressive enhancement: every page works without this script.
"use strict";

// Times in the reader's zone; the UTC stays on hover.
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
function localTimes(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    if (!isNaN(at)) t.textContent = (t.dataset.format === "day" ? day : moment).format(at);
  }
}
localTimes(document);

// The answer to a form has the address of its page: a reload does not send it again.
const page = document.documentElement.dataset.address;
if (page) history.replaceState(null, "", page === location.pathname ? location.href : page);

// Commands to copy.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    const label = button.querySelector("span");
    const before = label.textContent;
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = before; }, 1500);
  });
}

// Changes that cannot be undone ask first.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}

// Dark and light without a new page. The cookie makes the next one right from
// its first byte.
const theme = document.querySelector("form.theme");
theme?.addEventListener("submit", (event) => {
  event.preventDefault();
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `whetstone_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax${secure}`;
});

// On a phone the menu begins closed.
const menu = document.querySelector("details.menu");
const phone = matchMedia("(max-width: 52rem)");
function fold() { if (menu) menu.open = !phone.matches; }
fold();
phone.addEventListener("change", fold);

// A chart that is wider than the window shows its newest days first.
for (const box of document.querySelectorAll(".chart .scroll")) box.scrollLeft = box.scrollWidth;

// A day of a chart leads to its sessions. Its table has the same links.
document.addEventListener("click", (event) => {
  const day = event.target.closest("[data-href]");
  if (day) location.assign(day.dataset.href);
});
