// The fitness curve: every seed as a thin line, the median over seeds as a thick one.
"use strict";

const EDGE = { left: 66, top: 12, right: 14, bottom: 40 };

class Curve {
  constructor(canvas, readout) {
    this.canvas = canvas;
    this.readout = readout;
    this.curves = null;
    this.pointed = null;
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    canvas.addEventListener("pointerdown", (event) => this.point(event.offsetX));
    canvas.addEventListener("pointerleave", () => this.point(null));
  }

  // curves: values over generations by seed; name: of the measure with its unit.
  show(curves, name, unit) {
    this.curves = curves;
    this.name = name;
    this.unit = unit;
    this.draw();
  }

  point(x) {
    this.pointed = x;
    this.draw();
  }

  draw() {
    const ratio = Math.min(devicePixelRatio || 1, 2), width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width || !height) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const theme = (key) => style.getPropertyValue(`--${key}`).trim();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "12px system-ui, sans-serif";
    if (!this.curves) return;
    const view = { left: EDGE.left, top: EDGE.top, width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    const { generation } = this.curves, end = Math.max(generation[generation.length - 1], 1), [low, high] = this.range();
    const at = (x, y) => [view.left + (x / end) * view.width, view.top + (1 - (y - low) / (high - low)) * view.height];
    this.drawAxes(g, view, at, theme, end, low, high);
    const several = this.curves.seed.length > 1;
    for (const [key, dash] of [["median", [6, 4]], ["best", []]]) {
      g.strokeStyle = theme(key);
      g.setLineDash(dash);
      g.lineWidth = 1;
      g.globalAlpha = 0.6;
      if (several) for (const values of this.curves[key]) this.stroke(g, values, at);
      g.globalAlpha = 1;
      g.lineWidth = 2.4;
      this.stroke(g, this.curves[`${key}Middle`], at, theme(key));
    }
    g.setLineDash([]);
    this.drawPointer(g, view, at, theme, end);
  }

  // Of all values, with some room; never empty.
  range() {
    const known = ["best", "median"].flatMap((key) => [...this.curves[key], this.curves[`${key}Middle`]]).flat().filter((y) => y !== null);
    if (!known.length) return [0, 1];
    let low = Infinity, high = -Infinity;
    for (const y of known) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    }
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  }

  // A gap where all robots had failed; a dot where there is but one generation.
  stroke(g, values, at, dot) {
    g.beginPath();
    let drawing = false;
    values.forEach((y, i) => {
      if (y !== null) {
        const spot = at(this.curves.generation[i], y);
        drawing ? g.lineTo(...spot) : g.moveTo(...spot);
      }
      drawing = y !== null;
    });
    g.stroke();
    if (!dot || values.length > 1 || values[0] === null) return;
    g.fillStyle = dot;
    g.beginPath();
    g.arc(...at(this.curves.generation[0], values[0]), 4, 0, 7);
    g.fill();
  }

  drawAxes(g, view, at, theme, end, low, high) {
    const right = view.left + view.width, bottom = view.top + view.height;
    g.lineWidth = 1;
    g.strokeStyle = theme("faint");
    g.fillStyle = theme("ink");
    const xs = ticks(0, end, Math.max(end / (view.width / 70), 1)), ys = ticks(low, high, (high - low) / (view.height / 44));
    g.beginPath();
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const x of xs) {
      const [place] = at(x, low);
      g.moveTo(place, view.top);
      g.lineTo(place, bottom);
      g.fillText(x.toLocaleString("en"), place, bottom + 6);
    }
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const y of ys) {
      const [, place] = at(0, y);
      g.moveTo(view.left, place);
      g.lineTo(right, place);
      g.fillText(`${y}`, view.left - 7, place);
    }
    g.stroke();
    g.strokeStyle = theme("ink");
    g.strokeRect(view.left, view.top, view.width, view.height);
    g.textAlign = "center";
    g.textBaseline = "bottom";
    g.fillText("generation", view.left + view.width / 2, bottom + EDGE.bottom);
    g.save();
    g.translate(4, view.top + view.height / 2);
    g.rotate(-Math.PI / 2);
    g.textBaseline = "top";
    g.fillText(this.name, 0, 0);
    g.restore();
  }

  // The generation below the pointer, in words below the curve.
  drawPointer(g, view, at, theme, end) {
    const { generation, bestMiddle, medianMiddle, best, seed } = this.curves;
    if (this.pointed === null) {
      this.readout.textContent = "";
      return;
    }
    const target = ((this.pointed - view.left) / view.width) * end;
    let nearest = 0;
    generation.forEach((x, i) => { if (Math.abs(x - target) < Math.abs(generation[nearest] - target)) nearest = i; });
    g.strokeStyle = theme("soft");
    g.beginPath();
    const [x] = at(generation[nearest], 0);
    g.moveTo(x, view.top);
    g.lineTo(x, view.top + view.height);
    g.stroke();
    const known = best.map((values) => values[nearest]).filter((y) => y !== null);
    const range = seed.length > 1 && known.length ? ` (${round(Math.min(...known))} to ${round(Math.max(...known))})` : "";
    const [leader, crowd] = [bestMiddle, medianMiddle].map((values) => measured(values[nearest], this.unit));
    this.readout.textContent = `generation ${generation[nearest].toLocaleString("en")}: best ${leader}${range}, population median ${crowd}`;
  }
}

function ticks(low, high, least) {
  const power = 10 ** Math.floor(Math.log10(least)), found = [];
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= least * (1 - 1e-9));
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12); i++) found.push(+(i * step).toPrecision(12) + 0);
  return found;
}

// A value with its unit.
function measured(value, unit) {
  return value === null || value === undefined || !unit ? round(value) : `${round(value)} ${unit}`;
}

function round(value) {
  return value === null || value === undefined ? "none" : `${+value.toPrecision(4)}`;
}
