// Lists what is wrong with a page for its readers: text without contrast
// (WCAG AA), fields and buttons without a name, headings that skip a level, a
// page wider than its window, a foreign text that runs, or could. Its argument says how
// the contrast of an element is less than it should be.
(contrast) => {
  const problems = [];
  const name = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}"> ${(e.textContent || "").trim().slice(0, 40)}`;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.closest(".sr, .skip");

  for (const e of document.body.querySelectorAll("*")) {
    const says = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!says || !shown(e) || e.closest("[aria-hidden=true], :disabled")) continue;
    const lacking = contrast(e);
    if (lacking) problems.push(`${lacking}: ${name(e)}`);
  }

  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (!e.labels.length && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby")) problems.push(`no label: ${e.name || name(e)}`);
  }
  for (const e of document.querySelectorAll("button, a[href], summary")) {
    if (!e.textContent.trim() && !e.getAttribute("aria-label")) problems.push(`no name: ${name(e)}`);
  }
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const own = Number(h.tagName[1]);
    if (own > level + 1 && !h.closest(".prose")) problems.push(`heading of level ${own} after ${level}: ${name(h)}`);
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1 && !document.querySelector(".prose h1")) problems.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) problems.push(`id twice: ${id}`);
  const wide = document.scrollingElement.scrollWidth - innerWidth;
  if (wide > 0) problems.push(`${wide} pixels wider than the window`);
  if (window.pwned) problems.push("a foreign text ran as a script");
  for (const v of window.violations ?? []) problems.push(`against the policy: ${v}`);
  for (const e of document.querySelectorAll("*")) {
    for (const a of e.attributes) if (a.name.startsWith("on") || /^\s*(javascript|vbscript|data:text)/i.test(a.value) && a.name !== "value" && a.name !== "title" && !a.name.startsWith("aria-") && !a.name.startsWith("data-")) problems.push(`could run: ${a.name} of ${name(e)}`);
  }
  for (const e of document.querySelectorAll("script:not([src]), iframe, object, embed, base, main link, main style, main img")) problems.push(`foreign element: ${name(e)}`);
  return problems;
}
