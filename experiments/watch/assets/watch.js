// Asks how the run stands, again and again, and shows it.
"use strict";

const SOON = 1000, LATER = 4000; // milliseconds between two questions
const WORDS = {
  waiting: "waiting for the run", starting: "waiting for the first generation", running: "running", finished: "finished",
  stopped: "stopped", gone: "gone", lost: "no connection",
};
const OVER = ["finished", "stopped"]; // states in which a speed is one of the past
const find = (id) => document.getElementById(id);

class Watch {
  constructor() {
    this.curve = new Curve(find("curve"), find("readout"));
    this.version = "";
    this.robotVersion = 0;
  }

  async run() {
    for (;;) {
      let pause = LATER;
      try {
        const answer = await fetch(`state.json?known=${encodeURIComponent(this.version)}`, { cache: "no-store" });
        if (!answer.ok) throw new Error((await answer.text()).trim());
        const told = await answer.json();
        this.show(told);
        if (!OVER.includes(told.state) || told.robot.coming || told.robot.busySeconds !== null) pause = SOON;
      } catch (error) {
        this.showState("lost");
        this.note(`vsr watch cannot tell how the run stands (${error.message}). What is shown may be out of date; the run itself is not affected.`);
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  show(told) {
    find("name").textContent = told.name;
    document.title = `${told.name}: ${WORDS[told.state]}`;
    this.showState(told.state);
    this.note(noteOn(told));
    if (told.of !== undefined) this.showFacts(told);
    if (told.curves) {
      this.version = told.version;
      this.showCurve(told);
    }
    this.showRobot(told.robot, told.state);
  }

  showState(state) {
    const pill = find("state");
    if (pill.dataset.state === state) return;
    pill.dataset.state = state;
    pill.textContent = WORDS[state];
    pill.className = `state ${state}`;
  }

  note(text) {
    find("note").textContent = text;
    find("note").hidden = !text;
  }

  showFacts(told) {
    const some = told.generations > 0, over = OVER.includes(told.state), several = told.seeds > 1 && some;
    const value = (number) => (some ? measured(number, told.unit) : "–");
    find("best-name").textContent = `best ${told.measure}`;
    fact("generation", `${count(told.generations)} of ${count(told.of)}`, some ? `${count(told.evaluations)} evaluations` : "");
    const of = several ? `seed ${told.bestSeed}; median of ${told.seeds} seeds: ${measured(told.bestMiddle, told.unit)}` : "";
    fact("best", value(told.best), of);
    fact("median", value(told.median), several ? "median over seeds" : "");
    find("speed-name").textContent = over ? "evaluations per second were" : "evaluations per second";
    const simulated = `${count(told.robotSecondsPerSecond)} robot-seconds/s`;
    fact("speed", some ? count(told.evaluationsPerSecond) : "–", some ? (over ? `on average; ${simulated}` : simulated) : "");
    find("left-name").textContent = over ? "time for generations" : "time left";
    const left = over ? clock(told.secondsTaken) : clock(told.secondsLeft), pace = `${clock(told.secondsPerGeneration)} a generation`;
    fact("left", some ? left : "–", some ? (over ? `${pace} on average` : pace) : "");
    fact("failed", some ? `${count(told.failed)} of ${count(told.robots)}` : "–", some ? `last generation; ${count(told.failedInAll)} in all` : "");
    find("done").style.width = `${(100 * told.generations) / told.of}%`;
    find("progress").setAttribute("aria-valuemax", told.of);
    find("progress").setAttribute("aria-valuenow", told.generations);
  }

  showCurve(told) {
    const name = told.measure + (told.unit ? ` [${told.unit}]` : ""), shown = told.curves.seed.length;
    this.curve.show(told.curves, name, told.unit);
    find("fitness").textContent = `Fitness: ${name}, ${told.direction === "maximise" ? "more" : "less"} is better`;
    const seeds = shown < told.seeds ? `${shown} of ${told.seeds} seeds` : `${shown} seeds`;
    const of = told.seeds > 1 ? `: median over seeds, thin: ${seeds}` : "";
    find("legend").replaceChildren(entry("best", `best so far${of}`), entry("median", "population median"));
    find("curve").setAttribute("aria-label", `${name} over ${count(told.generations)} generations, best ${measured(told.best, told.unit)}`);
  }

  // The next robot's page is loaded behind the present one, which leaves when the next one plays.
  showRobot(robot, state) {
    const words = [], busy = robot.busySeconds !== null;
    if (robot.trouble) words.push(`The best robot cannot be shown: ${robot.trouble}.`);
    if (busy) words.push(`${robot.version ? "Simulating a better robot" : "Compiling and simulating the best robot"}: ${Math.round(robot.busySeconds)} s so far.`);
    if (robot.version) words.push(robot.caption);
    if (!words.length && robot.coming) words.push("The best robot is about to be simulated.");
    if (!words.length) words.push(OVER.includes(state) ? "There is no best robot." : "The first generation brings the first robot.");
    const place = robot.version ? null : find("coming"); // where the first robot will be, until it is there
    (place ?? find("caption")).textContent = words.join(" ");
    if (robot.version === this.robotVersion) return;
    this.robotVersion = robot.version;
    const frame = document.createElement("iframe");
    frame.title = "best robot so far";
    frame.className = "coming";
    frame.src = `robot.html?version=${robot.version}`;
    frame.addEventListener("load", () => {
      frame.classList.remove("coming");
      for (const other of [...find("robot").children]) if (other !== frame) other.remove();
    });
    find("robot").append(frame);
  }
}

function noteOn(told) {
  if (told.state === "waiting") return "There is no run in this folder yet. The page goes on as soon as it begins.";
  if (told.state === "gone") return "The run folder is no longer there.";
  if (told.state === "stopped") return `The run has stopped. To go on: ${told.resume}`;
  return "";
}

function fact(id, value, more) {
  const small = document.createElement("small");
  small.textContent = more;
  find(id).replaceChildren(value, small);
}

function entry(kind, text) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}

// As `experiments.numbers.count` does.
function count(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(3)}`;
}

function clock(seconds) {
  if (seconds < 10) return `${+seconds.toPrecision(2)} s`;
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60, rest = whole % 60;
  const two = (number) => `${number}`.padStart(2, "0");
  if (hours) return `${hours} h ${two(minutes)} min`;
  return minutes ? `${minutes} min ${two(rest)} s` : `${rest} s`;
}

window.watch = new Watch();
window.watch.run();
