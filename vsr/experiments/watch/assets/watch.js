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
        const run = await answer.json();
        this.show(run);
        if (!OVER.includes(run.state) || run.robot.coming || run.robot.busySeconds !== null) pause = SOON;
      } catch (error) {
        this.showState("lost");
        this.note(`vsr watch cannot read how the run stands (${error.message}). What is shown may be out of date; the run itself is not affected.`);
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  show(run) {
    find("name").textContent = run.name;
    document.title = `${run.name}: ${WORDS[run.state]}`;
    this.showState(run.state);
    this.note(noteOn(run));
    if (run.of !== undefined) this.showFacts(run);
    if (run.curves) {
      this.version = run.version;
      this.showCurve(run);
    }
    this.showRobot(run.robot, run.state);
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

  showFacts(run) {
    const some = run.generations > 0, over = OVER.includes(run.state), several = run.seeds > 1 && some;
    const value = (number) => (some ? measured(number, run.unit) : "–");
    find("best-name").textContent = `best ${run.measure}`;
    fact("generation", `${count(run.generations)} of ${count(run.of)}`, some ? `${count(run.evaluations)} evaluations` : "");
    const of = several ? `seed ${run.bestSeed}; median of ${run.seeds} seeds: ${measured(run.bestMiddle, run.unit)}` : "";
    fact("best", value(run.best), of);
    fact("median", value(run.median), several ? "median over seeds" : "");
    find("speed-name").textContent = over ? "evaluations per second were" : "evaluations per second";
    const simulated = `${count(run.robotSecondsPerSecond)} robot-seconds/s`;
    fact("speed", some ? count(run.evaluationsPerSecond) : "–", some ? (over ? `on average; ${simulated}` : simulated) : "");
    find("left-name").textContent = over ? "time for generations" : "time left";
    const left = over ? clock(run.secondsTaken) : clock(run.secondsLeft), pace = `${clock(run.secondsPerGeneration)} a generation`;
    fact("left", some ? left : "–", some ? (over ? `${pace} on average` : pace) : "");
    fact("failed", some ? `${count(run.failed)} of ${count(run.robots)}` : "–", some ? `last generation; ${count(run.failedInAll)} in all` : "");
    find("done").style.width = `${(100 * run.generations) / run.of}%`;
    find("progress").setAttribute("aria-valuemax", run.of);
    find("progress").setAttribute("aria-valuenow", run.generations);
  }

  showCurve(run) {
    const name = run.measure + (run.unit ? ` [${run.unit}]` : ""), shown = run.curves.seed.length;
    this.curve.show(run.curves, name, run.unit);
    find("fitness").textContent = `Fitness: ${name}, ${run.direction === "maximize" ? "more" : "less"} is better`;
    const seeds = shown < run.seeds ? `${shown} of ${run.seeds} seeds` : `${shown} seeds`;
    const of = run.seeds > 1 ? `: median over seeds, thin: ${seeds}` : "";
    find("legend").replaceChildren(entry("best", `best so far${of}`), entry("median", "population median"));
    find("curve").setAttribute("aria-label", `${name} over ${count(run.generations)} generations, best ${measured(run.best, run.unit)}`);
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

// How the run stands, if that needs words, and what of its folder is lost or damaged.
function noteOn(run) {
  return [stateInWords(run), ...(run.warnings ?? []).map(warning => `Warning: ${warning}.`)].join(" ").trim();
}

function stateInWords(run) {
  if (run.state === "waiting") return "There is no run in this folder yet. The page goes on as soon as it begins.";
  if (run.state === "gone") return "The run folder is no longer there.";
  if (run.state === "stopped") return `The run has stopped. To go on: ${run.resume}`;
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
