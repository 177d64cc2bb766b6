// The editor of a suite's cases.
"use strict";

// A link to a line selects it in the text.
for (const link of document.querySelectorAll("[data-line]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const text = document.getElementById("cases-json");
    const lines = text.value.split("\n");
    const line = Number(link.dataset.line);
    const begin = lines.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
    text.focus();
    text.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
    text.scrollTop = text.scrollHeight * Math.max(0, line - 5) / lines.length;
  });
}
