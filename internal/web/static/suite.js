// The editor of a suite's cases.
"use strict";

const add = document.querySelector("[data-add-row]");
if (add) {
  add.hidden = false;
  add.addEventListener("click", () => {
    const rows = document.querySelector("table.rows tbody");
    const row = rows.lastElementChild.cloneNode(true);
    const number = rows.children.length + 1;
    for (const field of row.querySelectorAll("input, select")) {
      if (field.ariaLabel) field.ariaLabel = field.ariaLabel.replace(/\d+$/, number);
      if (field.tagName === "INPUT") field.value = "";
    }
    rows.append(row);
    row.querySelector("[name=query]").focus();
  });
}

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
