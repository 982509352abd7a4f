
"use strict";
(() => {
  const room = document.getElementById("timeline");
  if (!room) return;
  const picture = room.querySelector("svg");
  const whole = picture.viewBox.baseVal;
  const full = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
  let view = { ...full };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const show = () => {
    view.x = clamp(view.x, full.x, full.x + full.width - view.width);
    view.y = clamp(view.y, full.y, full.y + full.height - view.height);
    picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
    room.classList.toggle("zoomed", view.width < full.width);
  };
  const zoom = (factor, atX, atY) => {
    const next = clamp(factor * view.width / full.width, 0.002, 1);
    const x = view.x + atX * view.width;
    const y = view.y + atY * view.height;
    view.width = full.width * next;
    view.height = full.height * next;
    view.x = x - atX * view.width;
    view.y = y - atY * view.height;
    show();
  };
  room.addEventListener("wheel", (event) => {
    const zoomed = view.width < full.width;
    // Scrolling down over the whole picture scrolls the page.
    if (event.deltaY > 0 && !zoomed) return;
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width,
      (event.clientY - box.top) / box.height);
  }, { passive: false });
  let held = null;
  room.addEventListener("pointerdown", (event) => {
    if (view.width < full.width) held = { x: event.clientX, y: event.clientY };
  });
  window.addEventListener("pointerup", () => { held = null; });
  window.addEventListener("pointermove", (event) => {
    if (!held) return;
    const box = picture.getBoundingClientRect();
    view.x -= (event.clientX - held.x) * view.width / box.width;
    view.y -= (event.clientY - held.y) * view.height / box.height;
    held = { x: event.clientX, y: event.clientY };
    show();
  });
  room.addEventListener("dblclick", () => { view = { ...full }; show(); });
  room.addEventListener("keydown", (event) => {
    const step = view.width / 10;
    if (event.key === "+") zoom(0.8, 0.5, 0.5);
    else if (event.key === "-") zoom(1.25, 0.5, 0.5);
    else if (event.key === "0" || event.key === "Escape") { view = { ...full }; show(); }
    else if (event.key === "ArrowLeft") { view.x -= step; show(); }
    else if (event.key === "ArrowRight") { view.x += step; show(); }
    else return;
    event.preventDefault();
  });
})();
