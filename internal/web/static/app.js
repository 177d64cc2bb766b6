// Progressive enhancement: every page works without this script.
"use strict";

// Times in the reader's zone, or relative to now by the rules of format.Ago; the
// exact time is on hover.
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
function ago(at) {
  const left = (at - Date.now()) / 60000, unit = left >= 1440 ? 1440 : left >= 60 ? 60 : 1;
  const minutes = left > 0 ? Math.round(left / unit) * unit : Math.floor(-left), days = Math.floor(minutes / 1440);
  if (Math.abs(left) < 1) return "just now";
  if (Math.abs(left) >= 43200) return day.format(at);
  const text = minutes < 60 ? `${minutes} min` : days < 1 ? `${Math.floor(minutes / 60)} h` : days === 1 ? "1 day" : `${days} days`;
  return left > 0 ? `in ${text}` : `${text} ago`;
}
function localTimes(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    t.dataset.utc ??= t.title;
    t.title = `${moment.format(at)} (${t.dataset.utc})`;
    t.textContent = { ago, day: (at) => day.format(at) }[t.dataset.format]?.(at) ?? moment.format(at);
  }
}
localTimes(document);
for (const option of document.querySelectorAll("option[data-time]")) { // it begins with the time in UTC
  option.textContent = option.textContent.replace(/^.* UTC/, moment.format(new Date(option.dataset.time)));
}
setInterval(() => localTimes(document), 60000);

// The answer to a form has the address of its page: a reload does not send it again.
const page = document.documentElement.dataset.address;
if (page) history.replaceState(null, "", page === location.pathname ? location.href : page);

// A page that waits for something asks until it is there.
if (document.querySelector("[data-await]")) {
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href).catch(() => null); // the server may be restarting
    if (answer?.ok && !(await answer.text()).includes("data-await")) location.reload();
  }, 5000);
}

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

// Forms with rows: one more is a copy of the last, empty and with the next number.
for (const add of document.querySelectorAll("[data-add-row]")) {
  const rows = add.form.querySelector("table.rows tbody");
  const clear = (row, number) => {
    for (const field of row.querySelectorAll("input, select")) {
      if (field.ariaLabel) field.ariaLabel = field.ariaLabel.replace(/\d+$/, number);
      if (field.tagName === "INPUT") field.value = "";
    }
  };
  add.hidden = false;
  for (const button of rows.querySelectorAll("[data-remove-row]")) button.hidden = false;
  add.addEventListener("click", () => {
    const row = rows.lastElementChild.cloneNode(true);
    clear(row, rows.children.length + 1);
    rows.append(row);
    row.querySelector("input").focus();
  });
  rows.addEventListener("click", (event) => {
    const row = event.target.closest("[data-remove-row]")?.closest("tr");
    if (!row) return;
    if (rows.children.length > 1) row.remove();
    else clear(row, 1);
    add.focus();
  });
}

// Changes that cannot be undone ask first.
document.addEventListener("submit", (event) => {
  const text = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (text && !confirm(text)) event.preventDefault();
});

// Filters of lists send themselves. Only what is around the form is replaced, so that it
// keeps the focus and the cursor.
for (const form of document.querySelectorAll("main form[data-auto]")) {
  const status = document.createElement("span");
  status.className = "sr";
  status.setAttribute("role", "status");
  form.append(status);
  let timer, request, asked = location.href, refused = false, typed = false;
  async function update(settled) {
    clearTimeout(timer);
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const to = new URL(form.getAttribute("action") + (query.size ? `?${query}` : ""), location).href;
    if (to === asked) {
      if (settled && refused) location.assign(to);
      return;
    }
    asked = to;
    request?.abort();
    request = new AbortController();
    const answer = await fetch(to, { signal: request.signal }).catch(() => null);
    if (!answer) return; // a later change was quicker, or the server is away: the button still works
    const text = await answer.text().catch(() => "");
    if (to !== asked) return;
    const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    const fresh = main?.querySelector("form[data-auto]");
    refused = !answer.ok || !fresh;
    if (refused) { // what is half typed may be
      if (settled) location.assign(to);
      return;
    }
    history[typed && !settled ? "replaceState" : "pushState"](null, "", to); // one word is one step back
    typed = !settled;
    const links = form.querySelector("button").parentElement;
    for (const a of links.querySelectorAll(":scope > a")) a.remove();
    links.append(...fresh.querySelectorAll("a"));
    const nodes = [...fresh.parentElement.childNodes], at = nodes.indexOf(fresh);
    while (form.previousSibling) form.previousSibling.remove();
    while (form.nextSibling) form.nextSibling.remove();
    form.before(...nodes.slice(0, at));
    form.after(...nodes.slice(at + 1));
    localTimes(form.parentElement);
    const rows = document.querySelectorAll("main tbody > tr").length;
    status.textContent = document.querySelector(".pager .muted")?.textContent ?? `${rows} ${rows === 1 ? "row" : "rows"}`;
  }
  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    if (!event.target.matches("select, [type=checkbox]")) timer = setTimeout(update, 300);
  });
  form.addEventListener("change", () => update(true));
  addEventListener("popstate", () => location.reload());
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
