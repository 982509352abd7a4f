"use strict";
(() => {
  const room = document.getElementById("timeline");
  if (!room) return;
  const picture = room.querySelector("svg");
  const drawing = picture.querySelector(".timeline");
  const number = (name) => Number(drawing.dataset[name]);
  const [left, right, top, rows, bottom, span, tick] =
    ["left", "right", "top", "rows", "bottom", "span", "tick"].map(number);
  const unit = drawing.dataset.unit;
  const character = 6.6;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const make = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent.append(node);
    return node;
  };

  const about = new Map();
  const parts = [...drawing.querySelectorAll("[data-at]")].map((group) => {
    const title = group.querySelector("title");
    const said = title ? title.textContent.trim() : "";
    if (title) title.remove();
    about.set(group, said);
    const texts = [...group.querySelectorAll("text")];
    return {
      group, at: Number(group.dataset.at), took: Number(group.dataset.for),
      name: said.split("\n")[0], bar: group.querySelector("rect"),
      line: group.querySelector("line"), text: texts[texts.length - 1],
      strip: group.classList.contains("strip"), row: group.classList.contains("row"),
    };
  });

  const view = { from: 0, took: span };
  const closest = Math.min(span, 100);
  const place = (at) => left + (at - view.from) * (right - left) / view.took;
  const visible = (node, shown) => { if (node) node.style.display = shown ? "" : "none"; };

  // A step of 1, 2 or 5, and times in the largest unit that keeps it whole.
  const axis = drawing.querySelector(".axis");
  const drawAxis = () => {
    axis.replaceChildren();
    const rough = view.took * tick / 8;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || rough;
    const units = unit === "s" ? [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]
      : [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
    const [scale, name] = units.find(([size]) => size <= step * 1.0001) || units[units.length - 1];
    const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
    const first = Math.ceil(view.from * tick / step - 1e-9);
    for (let k = first; k * step / tick <= view.from + view.took; k++) {
      const x = place(k * step / tick);
      make("line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" }, axis);
      make("text", { x, y: top - 6, class: "tick" }, axis).textContent =
        `${(k * step / scale).toFixed(digits)} ${name}`;
    }
  };

  const drawStrip = (part, from, to) => {
    const [x, end] = [clamp(from, left, right), clamp(to, left, right)];
    const width = Math.max(end - x, 0.75);
    part.bar.setAttribute("x", x);
    part.bar.setAttribute("width", width);
    const fits = Math.floor((width - 8) / character);
    if (fits >= 5 && !part.text && !part.bar.classList.contains("gap")) {
      const light = part.bar.classList.contains("outer");
      const y = Number(part.bar.getAttribute("y")) + 13;
      part.text = make("text", { y, class: light ? "label" : "inside" }, part.group);
    }
    visible(part.text, fits >= 5);
    if (part.text && fits >= 5) {
      part.text.setAttribute("x", x + 5);
      part.text.textContent =
        part.name.length > fits ? part.name.slice(0, fits - 1) + "…" : part.name;
    }
  };

  const draw = () => {
    view.took = clamp(view.took, closest, span);
    view.from = clamp(view.from, 0, span - view.took);
    drawAxis();
    for (const part of parts) {
      const [from, to] = [place(part.at), place(part.at + part.took)];
      const inside = to >= left - 0.01 && from <= right + 0.01;
      if (part.strip) {
        visible(part.group, inside);
        if (inside) drawStrip(part, from, to);
      } else if (part.row) {
        visible(part.bar, inside);
        visible(part.text, inside);
        const [x, end] = [clamp(from, left, right), clamp(to, left, right)];
        const width = Math.max(end - x, 1.5);
        part.bar.setAttribute("x", x);
        part.bar.setAttribute("width", width);
        part.text.setAttribute("x", x + width + 5);
      } else {
        visible(part.group, inside);
        if (part.line) for (const end of ["x1", "x2"]) part.line.setAttribute(end, from);
        if (part.text) part.text.setAttribute("x", Math.min(from, 1170 - part.text.textContent.trim().length * character) + 2);
      }
    }
    room.classList.toggle("zoomed", view.took < span);
  };
  const whole = () => { view.from = 0; view.took = span; draw(); };
  const zoom = (factor, at) => {
    const took = clamp(view.took * factor, closest, span);
    view.from = at - (at - view.from) * took / view.took;
    view.took = took;
    draw();
  };

  // Where the pointer is, in coordinates of the drawing.
  const pointer = (event) => new DOMPoint(event.clientX, event.clientY)
    .matrixTransform(drawing.getScreenCTM().inverse());
  const time = (x) => view.from + (x - left) * view.took / (right - left);
  room.addEventListener("wheel", (event) => {
    const { x, y } = pointer(event);
    // Elsewhere the wheel scrolls the page.
    if (x < left || (y > rows && !event.ctrlKey)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.from += event.deltaX * view.took / 1000;
      draw();
    } else {
      zoom(event.deltaY > 0 ? 1.25 : 0.8, time(x));
    }
  }, { passive: false });
  let held = null;
  let moved = false;
  room.addEventListener("pointerdown", (event) => {
    moved = false;
    if (event.button === 0) held = pointer(event).x;
  });
  window.addEventListener("pointerup", () => { held = null; });
  window.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const { x } = pointer(event);
    if (Math.abs(x - held) < 3 && !moved) return;
    moved = true;
    view.from -= (x - held) * view.took / (right - left);
    held = x;
    draw();
  });
  room.addEventListener("click", (event) => {
    const group = event.target.closest(".activity");
    if (moved || !group || Number(group.dataset.for) === 0) return;
    view.took = Number(group.dataset.for) * 1.1;
    view.from = Number(group.dataset.at) - Number(group.dataset.for) * 0.05;
    draw();
  });
  room.addEventListener("dblclick", whole);
  room.addEventListener("keydown", (event) => {
    const middle = view.from + view.took / 2;
    if (event.key === "+") zoom(0.8, middle);
    else if (event.key === "-") zoom(1.25, middle);
    else if (event.key === "0" || event.key === "Escape") whole();
    else if (event.key === "ArrowLeft") { view.from -= view.took / 10; draw(); }
    else if (event.key === "ArrowRight") { view.from += view.took / 10; draw(); }
    else return;
    event.preventDefault();
  });

  const hint = document.createElement("div");
  hint.id = "hint";
  hint.hidden = true;
  room.append(hint);
  room.addEventListener("pointermove", (event) => {
    const group = event.target.closest("[data-at]");
    const said = group && about.get(group);
    hint.hidden = !said || moved && held !== null;
    if (hint.hidden) return;
    hint.textContent = said;
    hint.style.left = `${Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8)}px`;
    hint.style.top = `${Math.min(event.clientY + 18, innerHeight - hint.offsetHeight - 8)}px`;
  });
  room.addEventListener("pointerleave", () => { hint.hidden = true; });
})();
