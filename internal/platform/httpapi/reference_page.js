'use strict';
{
  const theme = document.cookie.match(/(?:^|; )whetstone_theme=(light|dark)/);
  if (theme) document.documentElement.dataset.theme = theme[1];
  const box = document.getElementById('find'), input = document.getElementById('q'), found = document.getElementById('found');
  const groups = document.getElementById('groups'), all = found.innerHTML;
  let best = null; // what Enter opens: the first operation with most words in its path or summary
  const schemas = new Map([...document.querySelectorAll('.schema')].map(e => [e.id, {
    element: e, head: e.querySelector('h3').textContent.toLowerCase(), fields: names(e), uses: uses(e),
  }]));
  const operations = [...document.querySelectorAll('.op')].map(e => {
    const group = e.closest('.group').querySelector('h2').textContent;
    return { element: e, head: (group + ' ' + e.querySelector('summary').textContent).toLowerCase(), fields: reach(e) };
  });

  // The names of the fields in an element, or of the sections of a document.
  function names(e) { return [...e.querySelectorAll('dt > code, .sections li')].map(c => c.textContent); }
  // The ids of the schemas that an element refers to.
  function uses(e) { return [...e.querySelectorAll('.type a, .answers a')].map(a => a.hash.slice(1)); }
  // The fields of an operation, also those of the schemas that it refers to, except for errors.
  function reach(e) {
    const fields = new Set(names(e)), seen = new Set(['schema-StructuredError', 'schema-ValidationError']);
    const open = uses(e);
    while (open.length) {
      const id = open.pop(), s = schemas.get(id);
      if (seen.has(id) || !s) continue;
      seen.add(id);
      s.fields.forEach(f => fields.add(f));
      open.push(...s.uses);
    }
    return [...fields];
  }

  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let ops = 0, pages = 0, kinds = 0;
    best = null;
    for (const o of operations) {
      const rest = words.filter(w => !o.head.includes(w));
      const by = rest.map(w => o.fields.filter(f => f.toLowerCase().includes(w)));
      const hit = by.every(f => f.length);
      o.element.hidden = !hit;
      if (hit) ops++;
      if (hit && o.element.matches('.doc')) pages++;
      if (hit && (!best || rest.length < best.missing)) best = { element: o.element, missing: rest.length };
      note(o.element, hit ? [...new Set(by.flat())] : []);
    }
    for (const s of schemas.values()) {
      const hit = words.every(w => s.head.includes(w) || s.fields.some(f => f.toLowerCase().includes(w)));
      s.element.hidden = !hit;
      if (hit) kinds++;
    }
    for (const g of document.querySelectorAll('.group')) g.hidden = !g.querySelector('.op:not([hidden]), .schema:not([hidden])');
    groups.hidden = words.length > 0;
    if (!words.length) found.innerHTML = all;
    else if (ops + kinds) found.textContent = count(ops - pages, 'operation') + ', ' + count(pages, 'document') + ' and ' + count(kinds, 'schema') + ' match.' + (ops ? ' Press Enter to open the best.' : '');
    else found.textContent = 'No match for "' + input.value.trim() + '". Search for a path, a method, a word of a summary or the name of a field.';
  }
  function count(n, thing) { return n + ' ' + thing + (n === 1 ? '' : 's'); }
  function note(e, fields) {
    let by = e.querySelector('.by');
    if (!fields.length) { by?.remove(); return; }
    if (!by) { by = document.createElement('span'); by.className = 'by'; e.querySelector('summary').append(by); }
    by.textContent = (e.matches('.doc') ? 'section ' : 'field ') + fields.slice(0, 4).join(', ') + (fields.length > 4 ? ' and ' + (fields.length - 4) + ' more' : '');
  }
  function open(e) { e.open = true; e.scrollIntoView(); e.querySelector('summary').focus({ preventScroll: true }); }
  // An address with a hash opens the operation, and shows what a search has hidden.
  function show() {
    const e = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!e) return;
    if (e.closest('[hidden]')) { input.value = ''; search(); }
    if (e.matches('.op')) open(e); else e.scrollIntoView();
  }

  box.hidden = false;
  input.value = new URLSearchParams(location.search).get('q') ?? '';
  search();
  input.addEventListener('input', search);
  input.addEventListener('keydown', e => {
    if (e.key === 'Escape') { input.value = ''; search(); }
    if (e.key === 'Enter' && best && input.value.trim()) {
      e.preventDefault(); // the summary, which gets the focus, would close on it again
      open(best.element);
    }
  });
  addEventListener('keydown', e => {
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input')) return;
    e.preventDefault();
    input.focus();
    input.select();
  });
  addEventListener('hashchange', show);
  for (const s of document.querySelectorAll('.server')) s.textContent = location.origin;
  for (const c of document.querySelectorAll('.curl')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', () => copy(button, c.querySelector('code')));
    c.append(button);
  }
  // Browsers offer the clipboard to secure pages only; elsewhere the text is selected.
  async function copy(button, code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  }
  show();
}
