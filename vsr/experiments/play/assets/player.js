// Play, pause, scrub, speed, views. Everything on the page comes from the data in it.
"use strict";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const find = (id) => document.getElementById(id);
const FRAMED = window.parent !== window; // in a larger page, which wheel and fingers scroll

async function start() {
  const shared = JSON.parse(find("robots").textContent);
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old: it lacks DecompressionStream");
  const robots = [];
  for (const data of shared.robots) robots.push(new RecordedRobot(data, await unpack(data.packed)));
  new Player(robots, shared).run();
}

class Player {
  constructor(robots, shared) {
    this.robots = robots;
    this.shared = shared;
    this.end = Math.max(...robots.map((robot) => robot.end), 1e-9);
    this.step = Math.min(...robots.map((robot) => robot.interval));
    this.time = 0;
    this.speed = 1;
    this.playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.dirty = true;
    this.look = { zoom: 1, orbit: { azimuth: 0.6, elevation: 0.42 }, follow: true, ...shared.look };
    this.flat = find("flat");
    this.has3d = robots.some((robot) => robot.dimension === 3);
    if (this.has3d) this.openSpace();
    if (FRAMED) find("hint").textContent = find("hint").textContent.replace("wheel", "Ctrl and wheel");
    this.bindControls();
    this.bindKeys();
    this.bindPointer();
    this.readTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readTheme());
    new ResizeObserver(() => (this.dirty = true)).observe(find("scroll"));
  }

  openSpace() {
    try {
      this.space = new SpaceView(find("space"));
    } catch (error) {
      this.note = "3-D robots need WebGL, which this browser does not offer.";
    }
  }

  bindControls() {
    const change = (id, event, action) => find(id).addEventListener(event, (e) => { action(e.target); this.dirty = true; });
    find("play").addEventListener("click", () => this.toggle());
    find("scrub").max = this.end;
    find("scrub").step = this.end / 2000;
    change("scrub", "input", (input) => { this.playing = false; this.time = +input.value; });
    for (const speed of SPEEDS) find("speed").add(new Option(`${speed}×`, speed, speed === 1, speed === 1));
    change("speed", "change", (select) => (this.speed = +select.value));
    for (const [id, key] of [["color", "colorBy"], ["palette", "palette"], ["grains", "grainsBy"]]) {
      find(id).value = this.look[key];
      change(id, "change", (select) => { this.look[key] = select.value; this.showLegend(); });
    }
    for (const box of document.querySelectorAll("[data-look]")) this.bindBox(box);
    this.showLegend();
  }

  // Masses and springs may start as those of 2-D robots only: clicks then go to all, none, and 2-D only again.
  bindBox(box) {
    const name = box.dataset.look, choices = this.look[name] === "2d" ? ["2d", true, false] : [true, false];
    const show = () => { box.checked = this.look[name] === true; box.indeterminate = this.look[name] === "2d"; };
    show();
    if (name === "sensors" && !this.shared.sensors.length) {
      box.disabled = true;
      box.parentElement.title = "the controllers read no sensors";
    }
    box.addEventListener("change", () => {
      this.look[name] = choices[(choices.indexOf(this.look[name]) + 1) % choices.length];
      show();
      this.showMarks();
      this.dirty = true;
      if (this.pointing) setTimeout(() => box.blur()); // after a click the space bar plays
    });
  }

  bindKeys() {
    const actions = {
      " ": () => this.toggle(),
      ArrowLeft: (e) => this.jump(e.shiftKey ? -1 : -this.step),
      ArrowRight: (e) => this.jump(e.shiftKey ? 1 : this.step),
      ArrowUp: () => this.changeSpeed(1),
      ArrowDown: () => this.changeSpeed(-1),
      Home: () => this.jump(-this.end),
      End: () => this.jump(this.end),
    };
    addEventListener("pointerdown", () => (this.pointing = true), true);
    addEventListener("keydown", () => (this.pointing = false), true);
    addEventListener("keydown", (event) => {
      const action = actions[event.key];
      if (!action || event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === " " && event.target.type === "checkbox") return; // who came to a box by keys switches it so
      event.preventDefault();
      if (event.target.blur && event.target !== document.body) event.target.blur();
      action(event);
    });
  }

  bindPointer() {
    const stage = find("stage"), down = new Map();
    const spread = () => { const [a, b] = [...down.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
    stage.addEventListener("pointerdown", (e) => { stage.setPointerCapture(e.pointerId); down.set(e.pointerId, { x: e.clientX, y: e.clientY }); });
    for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, (e) => down.delete(e.pointerId));
    stage.addEventListener("pointermove", (e) => {
      const last = down.get(e.pointerId);
      if (!last) return;
      const before = down.size === 2 ? spread() : 0;
      const dx = e.clientX - last.x, dy = e.clientY - last.y;
      down.set(e.pointerId, { x: e.clientX, y: e.clientY });
      if (down.size === 2) this.zoom(spread() / Math.max(before, 1));
      else if (down.size === 1) {
        const orbit = this.look.orbit;
        orbit.azimuth -= dx * 0.008;
        orbit.elevation = Math.min(Math.max(orbit.elevation + dy * 0.006, -0.1), 1.55);
      }
      this.dirty = true;
    });
    stage.addEventListener("wheel", (e) => {
      if ((this.crowded || FRAMED) && !e.ctrlKey) return; // the wheel scrolls
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * 0.0012));
    }, { passive: false });
    stage.addEventListener("dblclick", () => { Object.assign(this.look, { zoom: 1, orbit: { azimuth: 0.6, elevation: 0.42 } }); this.dirty = true; });
  }

  zoom(factor) {
    this.look.zoom = Math.min(Math.max(this.look.zoom * factor, 0.1), 12);
    this.dirty = true;
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.time >= this.end) this.time = 0;
    this.dirty = true;
  }

  jump(seconds) {
    this.playing = false;
    this.time = Math.min(Math.max(this.time + seconds, 0), this.end);
    this.dirty = true;
  }

  changeSpeed(way) {
    const next = Math.min(Math.max(SPEEDS.indexOf(this.speed) + way, 0), SPEEDS.length - 1);
    this.speed = SPEEDS[next];
    find("speed").value = this.speed;
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.theme = Object.fromEntries(["paper", "ink", "faint", "ground", "floor", "grid"].map((name) => [name, read(name)]));
    this.theme.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.dirty = true;
  }

  // What the overlays that are on mean.
  showMarks() {
    const { words, colors } = this.shared.overlays, marks = find("marks"), look = this.look;
    marks.replaceChildren();
    // Signs are on white, as in voxels, whose colors are the same in dark windows.
    const add = (text, sign, ...shades) => {
      const entry = document.createElement("span"), signs = document.createElement("span");
      signs.className = "sign";
      for (const shade of shades) addSpan(signs, sign, { color: shade });
      entry.append(signs);
      addSpan(entry, ` ${text}`);
      marks.append(entry);
    };
    if (look.control) add(words.control, "▮", colors.shrinking, colors.growing);
    if (look.contact) add(words.contact, "●", colors.contact);
    if (look.velocity) add(words.velocity, "→", colors.velocity);
    if (look.sensors) for (const sensor of this.shared.sensors) add(sensor.words, "▮", sensor.color);
    if (look.path) add(words.path, "—", "#222222");
    marks.hidden = !marks.childElementCount;
  }

  showLegend() {
    const { colorBy, palette } = this.look, bar = find("bar"), words = find("words"), add = addSpan;
    this.showMarks();
    this.showSand();
    this.showFluid();
    bar.replaceChildren();
    words.replaceChildren();
    if (colorBy === "material") {
      bar.style.display = "none";
      const symbols = [...new Set(this.robots.flatMap((robot) => robot.symbols.map((symbol, i) => `${i}:${symbol}`)))];
      const table = this.shared.materials[palette];
      for (const entry of symbols) {
        const [index, symbol] = [parseInt(entry), entry.slice(entry.indexOf(":") + 1)];
        add(words, "", { background: table[index % table.length], width: "14px", height: "14px", border: "1px solid currentColor" });
        add(words, symbol);
      }
      words.style.justifyContent = "flex-start";
      find("meaning").textContent = "material of a voxel";
      return;
    }
    const scale = this.shared.scales[palette][colorBy];
    bar.style.display = "";
    showScale(scale, bar, words);
    find("meaning").textContent = colorBy === "area" ? `${this.shared.size} over that at rest` : scale.name;
  }

  showFluid() {
    const scale = this.shared.pressureScale;
    find("pressure").hidden = !scale;
    find("fluidLegend").hidden = !scale || this.look.colorBy === "material";
    if (!scale) return;
    find("fluidWords").replaceChildren();
    showScale(scale, find("fluidBar"), find("fluidWords"));
    find("fluidMeaning").textContent = scale.name;
  }

  showSand() {
    const scales = this.shared.grainScales;
    for (const id of ["sand", "sandLegend"]) find(id).hidden = !scales;
    if (!scales) return;
    const scale = scales[this.look.grainsBy];
    find("sandWords").replaceChildren();
    showScale(scale, find("sandBar"), find("sandWords"));
    find("sandMeaning").textContent = scale.name;
  }

  // As many columns as make the panels largest; the stage grows where they would be too small.
  layout() {
    const stage = find("stage"), room = find("scroll"), count = this.robots.length;
    let best = { size: 0, columns: 1 };
    for (let columns = 1; columns <= count; columns++) {
      const rows = Math.ceil(count / columns), wide = room.clientWidth / columns;
      const size = Math.min(wide, (1.5 * room.clientHeight) / rows);
      if (size > best.size + 1e-6 && (columns === 1 || wide >= 260)) best = { size, columns };
    }
    const rows = Math.ceil(count / best.columns);
    this.crowded = room.clientHeight / rows < 200;
    const tall = this.crowded ? `${rows * 220}px` : "100%";
    if (stage.style.height !== tall) stage.style.height = tall;
    stage.style.touchAction = this.crowded || FRAMED ? "pan-y" : "none"; // fingers must be able to reach what is further down
    const width = stage.clientWidth, height = stage.clientHeight, ratio = Math.min(devicePixelRatio || 1, 2);
    if (this.flat.width !== Math.round(width * ratio) || this.flat.height !== Math.round(height * ratio)) {
      this.flat.width = Math.round(width * ratio);
      this.flat.height = Math.round(height * ratio);
      if (this.space) this.space.resize(width, height, ratio);
    }
    this.ratio = ratio;
    const cell = { width: width / best.columns, height: height / rows };
    return this.robots.map((_, i) => ({
      left: (i % best.columns) * cell.width, top: Math.floor(i / best.columns) * cell.height, ...cell,
    }));
  }

  draw() {
    const rects = this.layout(), g = this.flat.getContext("2d");
    g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    g.clearRect(0, 0, this.flat.width, this.flat.height);
    if (this.space) this.space.begin();
    this.robots.forEach((robot, i) => {
      const time = Math.min(this.time, robot.end), pose = robot.pose(time);
      const look = lookOf(robot, this.look);
      if (robot.dimension === 2) drawPlane(g, rects[i], robot, pose, this.shared, look, this.theme, time);
      else if (this.space) this.space.draw(g, rects[i], robot, pose, this.shared, look, this.theme, time);
      else {
        g.fillStyle = this.theme.ink;
        g.fillText(this.note, rects[i].left + 12, rects[i].top + 30);
      }
    });
    find("scrub").value = this.time;
    find("time").textContent = `${this.time.toFixed(2)} of ${this.end.toFixed(2)} s`;
    find("play").textContent = this.playing ? "Pause" : "Play";
  }

  run() {
    let last = null;
    const frame = (now) => {
      if (this.playing && last !== null) {
        this.time += ((now - last) / 1000) * this.speed;
        if (this.time >= this.end && this.look.repeat) this.time %= this.end;
        else if (this.time >= this.end) { this.time = this.end; this.playing = false; }
        this.dirty = true;
      }
      last = now;
      if (this.dirty) { this.dirty = false; this.draw(); }
      requestAnimationFrame(frame);
    };
    window.player = this;
    requestAnimationFrame(frame);
  }
}

function showScale({ stops, ends: [low, high], per }, bar, words) {
  bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  words.style.justifyContent = "space-between";
  for (const share of [0, 0.5, 1]) addSpan(words, `${+((low + share * (high - low)) / per).toPrecision(3)}`);
}

function addSpan(owner, text, style) {
  const span = document.createElement("span");
  span.textContent = text;
  Object.assign(span.style, style || {});
  owner.append(span);
}

start().catch((error) => {
  find("problem").textContent = `This page cannot be played: ${error.message}`;
  find("problem").hidden = false;
  throw error;
});
