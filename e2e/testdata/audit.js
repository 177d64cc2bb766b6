// Lists what is wrong with a page for its readers: text without contrast
// (WCAG AA), fields and buttons without a name, headings that skip a level, a
// page wider than its window, a foreign text that runs, or could.
(() => {
  const problems = [];
  const name = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}"> ${(e.textContent || "").trim().slice(0, 40)}`;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.closest(".sr, .skip");

  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pixel = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    pixel.clearRect(0, 0, 1, 1);
    for (const c of colours) { pixel.fillStyle = c; pixel.fillRect(0, 0, 1, 1); }
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const grounds = (e) => {
    const all = [];
    for (; e; e = e.parentElement) all.unshift(getComputedStyle(e).backgroundColor);
    return ["white", ...all];
  };
  for (const e of document.body.querySelectorAll("*")) {
    const says = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!says || !shown(e) || e.closest("[aria-hidden=true], :disabled")) continue;
    const style = getComputedStyle(e);
    const ground = grounds(e);
    const colour = e.closest("svg") ? style.fill : style.color;
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
    const ratio = contrast(paint(ground), paint([...ground, colour]));
    if (ratio < (large ? 3 : 4.5)) problems.push(`contrast ${ratio.toFixed(2)}: ${name(e)}`);
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
})()
