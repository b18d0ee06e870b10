// The drawing board: a document as a scene's file holds it, and the form that changes parts of it.
// Everything is checked, simulated and written down by the server.
"use strict";

const find = (id) => document.getElementById(id);
const PALER = { squares: {}, points: {}, evogym: { a: "h" } }; // letters that another engine knows by another
const EMPTY = ".", PHASE = "phase";
const TURN = 2 * Math.PI, PHASE_STEP = TURN / 8;

let catalog, doc, cells, phases, tool, level = 0, at = [0, 0], version = 0;
const past = [];

async function ask(path, sent) {
  const options = sent === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sent) };
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

async function start() {
  catalog = await ask("catalog.json");
  fill("engine", catalog.engines.map(({ name }) => [name, name]));
  fill("task", catalog.tasks.map(({ name }) => [name, name.replaceAll("_", " ")]));
  bind();
  show(catalog.first);
  mayAct(true);
}

// Buttons that need the server are disabled on the page until it has answered.
function mayAct(may) {
  for (const id of ["play", "save", "save-experiment", "load"]) find(id).disabled = !may;
}

function fill(id, options) {
  find(id).replaceChildren(...options.map(([value, text]) => new Option(text, value)));
}

// From a document to the form

function show(document) {
  doc = document;
  const body = doc.robot.body;
  body.materials = { ...body.materials, ...without(engineOf(body.engine)?.materials ?? {}, body.materials) };
  cells = levelsOf(body.shape).map((rows) => rows.map((row) => [...row].map((symbol) => (symbol === " " ? EMPTY : symbol))));
  const given = doc.robot.controller.phase, flat = typeof given === "number" || given === undefined;
  const numbers = flat ? null : levelsOf(given);
  phases = cells.map((rows, z) => rows.map((row, y) => row.map((_, x) => (flat ? given || 0 : numbers[z][y][x] || 0))));
  level = 0;
  at = [0, 0];
  past.length = 0;
  if (!tool || !(tool in body.materials)) tool = Object.keys(body.materials)[0];
  showForm();
  showGrid();
}

const without = (all, known) => Object.fromEntries(Object.entries(all).filter(([name]) => !(name in known)));

// Levels of rows, each a text or numbers; a 2-D drawing is one level.
function levelsOf(drawn) {
  const isRow = (row) => typeof row === "string" || typeof (row.find((one) => one !== null) ?? 0) === "number";
  return isRow(drawn[0]) ? [drawn] : drawn;
}

const in3d = () => find("dimension").value === "3";
const engineOf = (name) => catalog.engines.find((engine) => engine.name === name);

function showForm() {
  const { body, controller } = doc.robot, is3d = Array.isArray(body.shape[0]);
  find("dimension").value = is3d ? "3" : "2";
  for (const option of find("engine").options) option.disabled = !engineOf(option.value).dimensions.includes(is3d ? 3 : 2);
  find("engine").value = body.engine;
  find("columns").value = cells[0][0].length;
  find("rows").value = cells[0].length;
  find("levels").value = cells.length;
  find("levels-field").hidden = find("level-field").hidden = !is3d;
  fill("level", cells.map((_, z) => [z, z + 1]));
  find("level").value = level;
  const kinds = catalog.controllers.map(({ name }) => [name, name]);
  if (!kinds.some(([name]) => name === controller.type)) kinds.push([controller.type, `${controller.type}, as in the file`]);
  fill("controller", kinds);
  find("controller").value = controller.type;
  const known = hasPhases();
  for (const name of ["frequency", "amplitude"]) {
    const value = controller[name] ?? 1;
    find(name).value = typeof value === "number" ? value : "";
    find(name).placeholder = typeof value === "number" ? "" : "per voxel";
    find(name).disabled = !known;
  }
  for (const id of ["wave", "apply-wave", "random"]) find(id).disabled = !known;
  find("coupling-field").hidden = controller.type !== "oscillators";
  find("coupling").value = controller.coupling ?? 2;
  showWorld(is3d);
  showTools();
}

function showWorld(is3d) {
  const name = doc.task.type, task = catalog.tasks.find((one) => one.name === name);
  const list = find("task");
  if (!task && ![...list.options].some(({ value }) => value === name)) list.add(new Option(`${name}, as in the file`, name));
  for (const option of list.options) {
    const offered = catalog.tasks.find((one) => one.name === option.value);
    option.disabled = Boolean(offered) && !offered.engines.includes(doc.robot.body.engine);
  }
  list.value = name;
  const terrain = doc.world?.terrain, kind = terrain?.type ?? terrain ?? "flat";
  const grounds = catalog.terrains.filter((one) => is3d || !one.in3d).map((one) => [one.name, one.name]);
  if (terrain === null) grounds.push(["", "none"]);
  else if (!grounds.some(([value]) => value === kind)) grounds.push([kind, `${kind}, as in the file`]);
  const own = Boolean(task?.ground);
  fill("terrain", own ? [["", "the task's own"]] : grounds);
  find("terrain").value = own || terrain === null ? "" : kind;
  find("terrain").disabled = own;
  find("duration").value = doc.task.duration ?? "";
  find("duration").placeholder = "the task's own";
  find("about").textContent = [task?.words, own ? "" : catalog.terrains.find((one) => one.name === kind)?.words].filter(Boolean).join(" ");
}

const hasPhases = () => catalog.controllers.some(({ name }) => name === doc.robot.controller.type);

function showTools() {
  const box = find("tools"), legend = box.querySelector("legend");
  const add = (value, text, sign, color) => {
    const label = document.createElement("label"), input = document.createElement("input"), swatch = document.createElement("span");
    Object.assign(input, { type: "radio", name: "tool", value, checked: tool === value });
    input.addEventListener("change", () => { tool = value; });
    swatch.className = "swatch";
    swatch.textContent = sign;
    if (color) swatch.style.background = color;
    else swatch.style.color = "inherit";
    label.append(input, swatch, document.createTextNode(text));
    return label;
  };
  const symbols = Object.keys(doc.robot.body.materials);
  const tools = symbols.map((symbol) => add(symbol, wordsOf(symbol), symbol, colorOf(symbol)));
  tools.push(add(EMPTY, "nothing", "", null));
  if (hasPhases()) tools.push(add(PHASE, "phase + 45°", "φ", null));
  box.replaceChildren(legend, ...tools);
}

// What a material is, in a few words; one of a file's own is named by its letter.
function wordsOf(symbol) {
  const offered = engineOf(doc.robot.body.engine).materials[symbol], own = doc.robot.body.materials[symbol];
  return offered && JSON.stringify(offered) === JSON.stringify(own) ? catalog.words[symbol] : `material ${symbol}`;
}

function colorOf(symbol) {
  return catalog.colors[Object.keys(doc.robot.body.materials).indexOf(symbol) % catalog.colors.length];
}

// The grid

function showGrid() {
  const grid = find("grid"), rows = cells[level], width = rows[0].length;
  grid.style.gridTemplateColumns = `repeat(${width}, minmax(0, ${Math.max(20, Math.min(64, Math.floor(620 / width)))}px))`;
  at = [Math.min(at[0], rows.length - 1), Math.min(at[1], width - 1)];
  grid.replaceChildren(...rows.map((row, y) => {
    const line = document.createElement("div");
    line.setAttribute("role", "row");
    line.append(...row.map((_, x) => {
      const cell = document.createElement("div");
      cell.setAttribute("role", "gridcell");
      cell.dataset.row = y;
      cell.dataset.column = x;
      return cell;
    }));
    return line;
  }));
  rows.forEach((row, y) => row.forEach((_, x) => showCell(y, x)));
}

const cellAt = (y, x) => find("grid").children[y]?.children[x];

function showCell(y, x) {
  const cell = cellAt(y, x), symbol = cells[level][y][x], full = symbol !== EMPTY, driven = full && hasPhases() && isDriven(symbol);
  cell.className = full ? "cell full" : "cell";
  cell.style.background = full ? colorOf(symbol) : "";
  cell.tabIndex = y === at[0] && x === at[1] ? 0 : -1;
  const phase = phases[level][y][x];
  const named = full ? `${wordsOf(symbol)}${driven ? `, phase ${phase.toFixed(2)}` : ""}` : "empty";
  cell.setAttribute("aria-label", `row ${y + 1}, column ${x + 1}: ${named}`);
  cell.replaceChildren();
  if (!full) return;
  const text = document.createElement("span");
  text.textContent = symbol;
  if (driven) {
    const small = document.createElement("small");
    small.textContent = +phase.toFixed(2);
    text.append(small);
  }
  cell.append(text);
}

const isDriven = (symbol) => doc.robot.body.materials[symbol]?.actuation !== "none";

function remember() {
  past.push(JSON.stringify({ cells, phases }));
  if (past.length > 100) past.shift();
}

function undo() {
  const before = past.pop();
  if (!before) return;
  ({ cells, phases } = JSON.parse(before));
  level = Math.min(level, cells.length - 1);
  put();
  showForm();
  showGrid();
}

function draw(y, x, what) {
  if (what === PHASE) phases[level][y][x] = turned(phases[level][y][x] + PHASE_STEP);
  else cells[level][y][x] = what;
  showCell(y, x);
}

const turned = (phase) => +(((phase % TURN) + TURN) % TURN).toFixed(4);

function goTo(y, x) {
  const before = at;
  at = [Math.min(Math.max(y, 0), cells[level].length - 1), Math.min(Math.max(x, 0), cells[level][0].length - 1)];
  showCell(...before);
  showCell(...at);
  cellAt(...at).focus();
}

function resize() {
  const read = (id) => Math.min(Math.max(Math.round(+find(id).value || 1), 1), +find(id).max);
  const [width, height, depth] = [read("columns"), read("rows"), in3d() ? read("levels") : 1];
  remember();
  const grown = (old, empty) => Array.from({ length: depth }, (_, z) => Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => old[z]?.[y]?.[x] ?? empty)));
  cells = grown(cells, EMPTY);
  phases = grown(phases, 0);
  level = Math.min(level, depth - 1);
  put();
  showForm();
  showGrid();
}

// From the form to the document

// The drawing and its phases, as a file holds them.
function put() {
  const is3d = in3d(), text = cells.map((rows) => rows.map((row) => row.join("")));
  doc.robot.body.shape = is3d ? text : text[0];
  const controller = doc.robot.controller;
  if (!hasPhases()) return;
  const numbers = cells.map((rows, z) => rows.map((row, y) => row.map((symbol, x) => (symbol === EMPTY ? null : phases[z][y][x]))));
  controller.phase = is3d ? numbers : numbers[0];
}

function changeDimension() {
  remember();
  const is3d = in3d();
  if (is3d && cells.length === 1) { // a body as deep as one row becomes three rows deep: each row of the drawing is a level
    const deep = (rows) => rows.map((row) => [row, row, row].map((one) => [...one]));
    [cells, phases] = [deep(cells[0]), deep(phases[0])];
  } else if (!is3d) { // the middle slice
    const slice = (levels) => [levels.map((rows) => [...rows[Math.floor(rows.length / 2)]])];
    [cells, phases] = [slice(cells), slice(phases)];
  }
  level = 0;
  const fits = engineOf(doc.robot.body.engine).dimensions.includes(is3d ? 3 : 2);
  changeEngine(fits ? doc.robot.body.engine : catalog.engines.find((one) => one.dimensions.includes(is3d ? 3 : 2)).name);
}

function changeEngine(name) {
  const { materials, side, frequency } = engineOf(name), first = Object.keys(materials)[0];
  const same = doc.robot.body.engine === name, body = same ? doc.robot.body : { engine: name, voxel_side: side, materials: structuredClone(materials) };
  const known = (symbol) => (symbol === EMPTY || symbol in body.materials ? symbol : PALER[name][symbol] ?? muscle(body.materials) ?? first);
  cells = cells.map((rows) => rows.map((row) => row.map(known)));
  doc.robot.body = body;
  if (!(tool in body.materials) && tool !== EMPTY && tool !== PHASE) tool = muscle(body.materials) ?? first;
  if (!same) { // each engine has its own steps and pace
    delete doc.physics;
    if (hasPhases()) doc.robot.controller.frequency = frequency;
  }
  const task = catalog.tasks.find((one) => one.name === doc.task.type);
  if (task && !task.engines.includes(name)) doc.task = { type: "locomotion", duration: 10 };
  put();
  showForm();
  showGrid();
}

const muscle = (materials) => Object.keys(materials).find((symbol) => materials[symbol].actuation !== "none");

function changeController(type) {
  const { frequency = 1, amplitude = 1 } = doc.robot.controller;
  const number = (value) => (typeof value === "number" ? value : 1);
  doc.robot.controller = { type, frequency: number(frequency), amplitude: number(amplitude) };
  put();
  showForm();
  showGrid();
}

function changeTask(type) {
  const task = catalog.tasks.find((one) => one.name === type);
  doc.task = { type };
  if (task.duration !== null) doc.task.duration = Math.min(task.duration, 10);
  delete doc.world; // a task may bring a world of its own
  delete doc.physics;
  showForm();
}

function setNumber(id, change) {
  const value = find(id).value.trim();
  change(value === "" ? undefined : +value);
}

function setAllPhases(phase) {
  if (!hasPhases()) return;
  remember();
  phases = phases.map((rows, z) => rows.map((row, y) => row.map((_, x) => phase(x, y, z))));
  put();
  showGrid();
}

// What the user does

function bind() {
  const on = (id, event, action) => find(id).addEventListener(event, (e) => { action(e.target); quiet(); });
  on("engine", "change", (list) => { remember(); changeEngine(list.value); });
  on("dimension", "change", changeDimension);
  for (const id of ["columns", "rows", "levels"]) on(id, "change", resize);
  on("level", "change", (list) => { level = +list.value; showGrid(); });
  on("clear", "click", () => { remember(); cells = cells.map((rows) => rows.map((row) => row.map(() => EMPTY))); put(); showGrid(); });
  on("undo", "click", undo);
  on("controller", "change", (list) => changeController(list.value));
  for (const name of ["frequency", "amplitude", "coupling"]) on(name, "change", () => setNumber(name, (value) => { if (value === undefined) delete doc.robot.controller[name]; else doc.robot.controller[name] = value; }));
  on("apply-wave", "click", () => setAllPhases((x) => turned(x * +find("wave").value)));
  on("random", "click", () => setAllPhases(() => turned(Math.random() * TURN)));
  on("task", "change", (list) => changeTask(list.value));
  on("terrain", "change", (list) => { doc.world = { ...doc.world, terrain: { type: list.value } }; showForm(); });
  on("duration", "change", () => setNumber("duration", (value) => { if (value === undefined) delete doc.task.duration; else doc.task.duration = value; }));
  find("play").addEventListener("click", () => attempt(play));
  find("save").addEventListener("click", () => attempt(() => save("scene", "robot.yaml")));
  find("save-experiment").addEventListener("click", () => attempt(() => save("experiment", "experiment.yaml")));
  find("load").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", () => attempt(load));
  bindGrid();
}

function bindGrid() {
  const grid = find("grid");
  let drawing = null;
  const under = (event) => {
    const cell = document.elementFromPoint(event.clientX, event.clientY)?.closest?.(".cell");
    return cell && grid.contains(cell) ? [+cell.dataset.row, +cell.dataset.column] : null;
  };
  grid.addEventListener("pointerdown", (event) => {
    const place = under(event);
    if (!place || event.button > 0) return;
    event.preventDefault();
    grid.setPointerCapture(event.pointerId);
    remember();
    // A click on a voxel of the chosen material erases it.
    const same = tool !== PHASE && cells[level][place[0]][place[1]] === tool;
    drawing = { what: same ? EMPTY : tool, last: String(place) };
    goTo(...place);
    draw(...place, drawing.what);
  });
  grid.addEventListener("pointermove", (event) => {
    const place = drawing && under(event);
    if (!place || String(place) === drawing.last) return;
    drawing.last = String(place);
    draw(...place, drawing.what);
  });
  for (const name of ["pointerup", "pointercancel"]) grid.addEventListener(name, () => { if (drawing) { drawing = null; put(); quiet(); } });
  grid.addEventListener("keydown", (event) => {
    const [y, x] = at, moves = { ArrowLeft: [y, x - 1], ArrowRight: [y, x + 1], ArrowUp: [y - 1, x], ArrowDown: [y + 1, x], Home: [y, 0], End: [y, cells[level][0].length - 1] };
    if (event.altKey || event.metaKey) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "z") { event.preventDefault(); undo(); return; }
    if (event.ctrlKey) return;
    if (event.key in moves) { event.preventDefault(); goTo(...moves[event.key]); return; }
    const change = (action) => { event.preventDefault(); remember(); action(); put(); quiet(); };
    const turn = (by) => change(() => { phases[level][y][x] = turned(phases[level][y][x] + by); showCell(y, x); });
    if (event.key === "Enter" || event.key === " ") change(() => draw(y, x, tool !== PHASE && cells[level][y][x] === tool ? EMPTY : tool));
    else if (["Delete", "Backspace", EMPTY].includes(event.key)) change(() => draw(y, x, EMPTY));
    else if (event.key in doc.robot.body.materials) change(() => draw(y, x, event.key));
    else if (event.key === "+" && hasPhases()) turn(PHASE_STEP);
    else if (event.key === "-" && hasPhases()) turn(-PHASE_STEP);
  });
}

// With the server

// Faults of something that has been changed since are no longer shown.
function quiet() {
  report([]);
}

const FIELDS = [["robot.body.shape", "grid"], ["robot.body.engine", "engine"], ["robot.body", "grid"], ["robot.controller.frequency", "frequency"], ["robot.controller.amplitude", "amplitude"], ["robot.controller.coupling", "coupling"], ["robot.controller", "controller"], ["world", "terrain"], ["task.duration", "duration"], ["task", "task"]];

function report(problems) {
  const box = find("problems"), list = document.createElement("ul");
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const { path, message } of problems) {
    const item = document.createElement("li");
    item.textContent = path ? `${path}: ${message}` : message;
    list.append(item);
    const field = FIELDS.find(([start]) => path.startsWith(start));
    if (field) find(field[1]).setAttribute("aria-invalid", "true");
  }
  box.replaceChildren(list);
  box.hidden = !problems.length;
}

async function attempt(work) {
  report([]);
  mayAct(false);
  try {
    await work();
  } catch (error) {
    find("status").textContent = "";
    report([{ path: "", message: error instanceof TypeError ? "the server does not answer: is vsr design still running?" : error.message }]);
  } finally {
    mayAct(true);
  }
}

async function play() {
  find("status").textContent = "Simulating; the first robot of a grid's size is compiled first.";
  const answer = await ask("play", { document: doc });
  if (answer.problems.length) {
    find("status").textContent = "";
    report(answer.problems);
    return;
  }
  version = answer.version;
  const failed = answer.failed ? " The simulation failed: its measures are no use." : "";
  find("status").textContent = `${answer.simulated.toFixed(1)} s simulated in ${answer.seconds.toFixed(1)} s.${failed}`;
  showMeasures(answer.measures);
  const frame = document.createElement("iframe");
  frame.title = "the robot in motion";
  frame.src = `robot.html?${version}`;
  find("robot").replaceChildren(frame);
  if (matchMedia("(max-width: 860px)").matches) find("result").scrollIntoView({ block: "start" });
}

function showMeasures(measures) {
  find("measures").hidden = !measures.length;
  find("measures").tBodies[0].replaceChildren(...measures.map(({ name, value, unit, words }) => {
    const row = document.createElement("tr"), head = document.createElement("th");
    head.scope = "row";
    head.textContent = name.replaceAll("_", " ");
    row.append(head);
    for (const [text, kind] of [[value === null ? "none" : `${+value.toPrecision(4)} ${unit}`, ""], [words, "words"]]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.className = kind;
      row.append(cell);
    }
    return row;
  }));
}

async function save(as, name) {
  const answer = await ask("save", { document: doc, as });
  if (answer.problems.length) { report(answer.problems); return; }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([answer.yaml], { type: "application/yaml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  find("status").textContent = as === "scene" ? `Saved: vsr play ${name}` : `Saved: vsr evolve ${name}`;
}

async function load() {
  const [file] = find("file").files;
  if (!file) return;
  const answer = await ask("read", { text: await file.text(), name: file.name });
  find("file").value = "";
  if (answer.problems.length) { report(answer.problems); return; }
  show(answer.document);
  find("status").textContent = `${file.name} loaded.`;
}

start().catch((error) => report([{ path: "", message: error.message }]));
