// Uploads of folders: dropped or chosen, sent as parts that are named by their
// paths.
"use strict";

const maxFiles = 2000;

for (const form of document.querySelectorAll("form.upload")) enhance(form);
tell();

// tell shows the flash message of an upload, which the request before this page has
// taken.
function tell() {
  const message = sessionStorage.getItem("upload");
  sessionStorage.removeItem("upload");
  if (!message || document.querySelector("main .flash")) return;
  const flash = document.createElement("p");
  flash.className = "flash";
  flash.role = "status";
  flash.textContent = message;
  document.querySelector("main").prepend(flash);
}

function enhance(form) {
  const drop = form.querySelector("[data-drop]");
  const folder = form.querySelector("input[webkitdirectory]");
  const file = form.querySelector("input[name=file]");
  const chosen = form.querySelector(".chosen");
  let parts = []; // [path, File]

  for (const hidden of form.querySelectorAll(".drop-text, .folder")) hidden.hidden = false;

  function take(found) {
    parts = found;
    chosen.textContent = found.length === 1 ? `${found[0][0]} is ready to be sent.` : `${found.length} files are ready to be sent.`;
  }
  folder.addEventListener("change", () => {
    file.value = "";
    take([...folder.files].map((f) => [f.webkitRelativePath, f]).filter(([path]) => wanted(path)));
  });
  file.addEventListener("change", () => { parts = []; chosen.textContent = ""; });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const loose = [...event.dataTransfer.files];
    file.value = "";
    const found = [];
    try {
      if (entries.some((entry) => entry.isDirectory) || entries.length > 1) {
        for (const entry of entries) await walk(entry, "", found);
        take(found);
      } else if (loose.length === 1) {
        take([["file", loose[0]]]);
        chosen.textContent = `${loose[0].name} is ready to be sent.`;
      }
    } catch (error) {
      chosen.textContent = `The folder could not be read: ${error.message}`;
    }
  });
  form.addEventListener("submit", (event) => {
    if (parts.length === 0) return; // the form's own file
    event.preventDefault();
    send(form, parts, chosen);
  });
}

// wanted leaves hidden folders out: .git alone can be larger than the skill.
function wanted(path) {
  return !path.split("/").slice(0, -1).some((part) => part.startsWith(".")) && !path.endsWith("/.DS_Store");
}

async function walk(entry, path, found) {
  const name = path + entry.name;
  if (entry.isFile) {
    if (!wanted(name)) return;
    if (found.length >= maxFiles) throw new Error(`it has over ${maxFiles} files`);
    found.push([name, await new Promise((resolve, reject) => entry.file(resolve, reject))]);
    return;
  }
  if (entry.name.startsWith(".")) return;
  const reader = entry.createReader();
  for (;;) { // a reader gives a hundred at a time
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const child of some) await walk(child, `${name}/`, found);
  }
}

async function send(form, parts, chosen) {
  const data = new FormData();
  for (const field of form.querySelectorAll("input[name]:not([type=file])")) data.append(field.name, field.value);
  for (const [path, file] of parts) data.append(path, file, file.name);
  const button = form.querySelector("button");
  button.disabled = true;
  chosen.textContent = "Sending…";
  try {
    const response = await fetch(form.action, { method: "POST", body: data });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (response.ok) {
      sessionStorage.setItem("upload", page.querySelector("main .flash")?.textContent ?? "");
      location.assign(response.url);
      return;
    }
    const problems = page.querySelector(".problems");
    chosen.textContent = problems ? [...problems.querySelectorAll("li")].map((li) => li.textContent).join("; ") : `The server answered ${response.status}.`;
  } catch (error) {
    chosen.textContent = `Not sent: ${error.message}`;
  }
  button.disabled = false;
}
