// Updates the preview of an alert with its form, debounced. Without this script a
// button does.
(() => {
  "use strict";
  const form = document.getElementById("alert-form");
  if (!form) return;
  const fields = ["type", "pass_rate", "days", "sensitivity", "skill"];
  let waiting = 0;
  let latest = 0;

  async function refresh() {
    const mine = ++latest;
    const all = new FormData(form);
    const body = new URLSearchParams();
    for (const name of fields) body.set(name, all.get(name) || "");
    try {
      const response = await fetch("/alerts/preview", { method: "POST", body });
      if (!response.ok || mine !== latest) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = page.getElementById("preview");
      if (fresh && mine === latest) document.getElementById("preview").replaceChildren(...fresh.childNodes);
    } catch {
      // The server cannot be reached now; the next change asks again.
    }
  }

  form.addEventListener("input", (event) => {
    if (!fields.includes(event.target.name)) return;
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 250);
  });
  document.getElementById("preview-button").hidden = true;
})();
