// Charts: what is known of a day, by mouse, touch and keyboard. Without this script
// the chart's table has it all.
"use strict";

for (const figure of document.querySelectorAll("[data-chart]")) {
  const plot = figure.querySelector(".plot");
  const box = plot.querySelector(".scroll");
  const tip = plot.querySelector(".tip");
  const cursor = plot.querySelector(".cursor");
  const days = [...plot.querySelectorAll(".day")];
  let at = -1;
  let touched = false;

  // A chart that is wider than the window shows its newest days first.
  box.scrollLeft = box.scrollWidth;

  const hide = () => {
    at = -1;
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  const show = (i) => {
    at = Math.max(0, Math.min(days.length - 1, i));
    const day = days[at];
    const x = day.x.baseVal.valueInSpecifiedUnits + day.width.baseVal.valueInSpecifiedUnits / 2;
    cursor.setAttribute("x1", `${x}%`);
    cursor.setAttribute("x2", `${x}%`);
    cursor.setAttribute("visibility", "visible");
    tip.replaceChildren(...day.dataset.tip.split("\n").map((line, n) => {
      const p = document.createElement(n ? "p" : "strong");
      p.textContent = line;
      return p;
    }));
    if (day.dataset.href) {
      const link = document.createElement("a");
      link.href = day.dataset.href;
      link.textContent = figure.dataset.open || "Show the sessions";
      link.tabIndex = -1; // the chart has Enter for it
      tip.append(link);
    }
    tip.hidden = false;
    const column = day.getBoundingClientRect(), outer = plot.getBoundingClientRect();
    const middle = column.left + column.width / 2 - outer.left;
    const beside = middle < outer.width / 2 ? middle + 12 : middle - tip.offsetWidth - 12;
    tip.style.left = `${Math.max(0, Math.min(outer.width - tip.offsetWidth, beside))}px`;
  };

  box.addEventListener("pointermove", (event) => {
    const i = days.indexOf(event.target);
    if (i >= 0 && event.pointerType === "mouse") show(i);
  });
  plot.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  box.addEventListener("pointerdown", (event) => { touched = event.pointerType !== "mouse"; });
  // A click leads to the day's sessions; a finger sees first what it has hit.
  box.addEventListener("click", (event) => {
    const day = event.target.closest(".day");
    if (!day) return;
    if (touched) show(days.indexOf(day));
    else if (day.dataset.href) location.assign(day.dataset.href);
  });
  box.addEventListener("keydown", (event) => {
    const last = days.length - 1;
    const to = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at < 0 ? last : at + 1, Home: 0, End: last }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      days[Math.max(0, Math.min(last, to))].scrollIntoView({ block: "nearest", inline: "nearest" });
      show(to);
    } else if (event.key === "Enter" && at >= 0 && days[at].dataset.href) {
      location.assign(days[at].dataset.href);
    } else if (event.key === "Escape") {
      hide();
    }
  });
  box.addEventListener("blur", (event) => { if (!tip.contains(event.relatedTarget)) hide(); });
  box.addEventListener("scroll", () => { if (at >= 0) show(at); });
}
