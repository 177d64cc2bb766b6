// A function that says how the contrast of an element's text is less than WCAG AA asks
// for, "" if it is enough. What lies below the text is painted as the browser does: the
// grounds of its ancestors, and what else is at its place if that is in the window. Of a
// gradient, the worst colour counts.
(() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pixel = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (layers) => {
    pixel.clearRect(0, 0, 1, 1);
    for (const { colour, alpha } of layers) {
      pixel.globalAlpha = alpha;
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
    }
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const opacity = (e) => { let all = 1; for (; e; e = e.parentElement) all *= getComputedStyle(e).opacity; return all; };

  // below lists what an element's text stands on, from the bottom.
  const below = (e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    const box = range.getClientRects()[0] ?? e.getBoundingClientRect();
    const stack = document.elementsFromPoint(box.left + Math.min(4, box.width / 2), box.top + box.height / 2);
    const at = stack.indexOf(e);
    if (at >= 0) return stack.slice(at).reverse();
    const all = [];
    for (; e; e = e.parentElement) all.unshift(e);
    return all;
  };
  // grounds are the colours that a layer may have.
  const grounds = (e) => {
    const style = getComputedStyle(e);
    if (e instanceof SVGGeometryElement) return [{ colour: style.fill === "none" ? "transparent" : style.fill, alpha: style.fillOpacity * opacity(e) }];
    const alpha = Number(style.opacity);
    const stops = style.backgroundImage.match(/(?:rgba?|hsla?|oklch|oklab|lab|lch|color)\([^()]*\)/g);
    return (stops ?? [style.backgroundColor]).map((colour) => ({ colour, alpha }));
  };

  return (e) => {
    const style = getComputedStyle(e);
    const layers = below(e).map(grounds);
    const text = { colour: e.closest("svg") ? style.fill : style.color, alpha: opacity(e) };
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
    const wanted = large ? 3 : 4.5;
    let worst = 21;
    for (let i = 0; i < Math.max(...layers.map((l) => l.length)); i++) {
      const ground = [{ colour: "white", alpha: 1 }, ...layers.map((l) => l[i % l.length])];
      worst = Math.min(worst, contrast(paint(ground), paint([...ground, text])));
    }
    return worst < wanted ? `contrast ${worst.toFixed(2)}, wants ${wanted}` : "";
  };
})()
