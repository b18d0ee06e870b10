// Where everything is at a time: parts, masses, corners, and how voxels are filled.
"use strict";

const ROUND = [0, 1, 3, 2]; // corners of a square, counted by their bits, in the order of an outline
const WAYS = [[-1, -1], [1, -1], [-1, 1], [1, 1]];

function edgesOf(dimension) {
  const found = [];
  for (let axis = 0; axis < dimension; axis++)
    for (let corner = 0; corner < 1 << dimension; corner++)
      if (!((corner >> axis) & 1)) found.push([corner, corner | (1 << axis)]);
  return found;
}

class RecordedRobot {
  constructor(data, streams) {
    Object.assign(this, data);
    this.streams = streams;
    this.moments = data.packed.moments;
    this.end = (this.moments - 1) * this.interval;
    this.voxels = data.part.length;
    this.cornerCount = 1 << this.dimension;
    this.edges = edgesOf(this.dimension);
    this.centers = this._centers();
    this.camera = this._smooth(this.centers);
    this.spans = this._spans();
    this.extent = Math.max(...this.spans);
    this.bottom = this._bottom();
  }

  value(name, series, place) {
    const at = this.streams[name], first = series * this.moments, before = Math.floor(place);
    const low = at[first + before];
    return before + 1 < this.moments ? low + (place - before) * (at[first + before + 1] - low) : low;
  }

  // All that is drawn at a time [s]. masses and corners: one array per voxel of one point per corner.
  pose(time) {
    const place = Math.min(Math.max(time / this.interval, 0), this.moments - 1);
    const dimension = this.dimension, masses = [], corners = [], turns = [], flat = this.streams.angle !== undefined;
    for (let voxel = 0; voxel < this.voxels; voxel++) {
      const center = [], outer = [], turn = [];
      for (let corner = 0; corner < this.cornerCount; corner++) {
        const part = this.part[voxel][corner], point = [];
        for (let axis = 0; axis < dimension; axis++) point.push(this.value("position", part * dimension + axis, place));
        if (flat) {
          const angle = this.value("angle", part, place), c = Math.cos(angle), s = Math.sin(angle);
          const [x, y] = this.offset[voxel][corner], half = this.half[voxel], [u, v] = WAYS[corner];
          point[0] += c * x - s * y;
          point[1] += s * x + c * y;
          outer.push([point[0] + half * (c * u - s * v), point[1] + half * (s * u + c * v)]);
          turn.push([c, s]);
        } else outer.push(point);
        center.push(point);
      }
      masses.push(center);
      corners.push(outer);
      turns.push(turn);
    }
    return { place, masses, corners, turns, middle: masses.map(mean), center: mean(masses.map(mean)) };
  }

  massCorner(pose, voxel, mass, corner) {
    const center = pose.masses[voxel][mass], [x, y] = center;
    if (corner < 0) return center;
    const [c, s] = pose.turns[voxel][mass], half = this.half[voxel], [u, v] = WAYS[corner];
    return [x + half * (c * u - s * v), y + half * (s * u + c * v)];
  }

  // Pairs of points that springs join, and their voxel; those that broke join a point with itself.
  springEnds(pose) {
    const found = [];
    for (let voxel = 0; voxel < this.voxels; voxel++) {
      const has = this.springs[voxel];
      this.springOf.forEach(([group, a, ca, b, cb], number, all) => {
        if (!has[group] || this.lacks(voxel, number)) return;
        const first = this.massCorner(pose, voxel, a, ca), broken = this.isBroken(pose, voxel * all.length + number);
        found.push([first, broken ? first : this.massCorner(pose, voxel, b, cb), voxel]);
      });
    }
    return found;
  }

  // Whether a fluid voxel lacks a spring, since that is in no membrane.
  lacks(voxel, spring) {
    return this.isFluid(voxel) && this.chambers.lacking[voxel].includes(spring);
  }

  isFluid(voxel) {
    return Boolean(this.chambers) && this.chambers.chamber[voxel] >= 0;
  }

  // The lowest and the highest pressure of all, and 0 [Pa]; never the same.
  pressureEnds() {
    if (!this.ends) {
      const find = (pick) => this.streams.pressure.reduce((found, value) => pick(found, value), 0);
      this.ends = [find(Math.min), find(Math.max)];
      if (this.ends[0] === this.ends[1]) this.ends[1] = 1;
    }
    return this.ends;
  }

  // Red, green, blue from 0 to 255: fluid by its pressure, unless materials are asked for.
  color(shared, look, pose, voxel) {
    if (look.colorBy !== "material" && this.isFluid(voxel))
      return colorOn(shared.pressureScale, this.value("pressure", this.chambers.chamber[voxel], pose.place));
    return colorOf(shared, look, this.quantity(look.colorBy, pose, voxel));
  }

  controlAt(pose, voxel) {
    return this.streams.control[voxel * this.moments + Math.ceil(pose.place - 1e-9)];
  }

  contactAt(pose, voxel) {
    return this.streams.contact[voxel * this.moments + Math.round(pose.place)] > 0.5;
  }

  isBroken(pose, spring) {
    return this.streams.broken !== undefined && this.streams.broken[spring * this.moments + Math.floor(pose.place + 1e-6)] > 0.5;
  }

  // The latest reading of a voxel's sensor, or null where it lacks that.
  feltAt(pose, voxel, sensor) {
    if (!this.felt[sensor].has[voxel]) return null;
    return this.streams[`felt${sensor}`][voxel * this.moments + Math.floor(pose.place + 1e-6)];
  }

  velocityAt(pose, voxel) {
    const before = Math.min(Math.floor(pose.place), this.moments - 2);
    if (before < 0) return new Array(this.dimension).fill(0);
    const found = [];
    for (let axis = 0; axis < this.dimension; axis++) {
      let change = 0;
      for (const part of this.part[voxel]) {
        const first = (part * this.dimension + axis) * this.moments + before;
        change += this.streams.position[first + 1] - this.streams.position[first];
      }
      found.push(change / this.cornerCount / this.interval);
    }
    return found;
  }

  // What a voxel is colored by.
  quantity(name, pose, voxel) {
    if (name === "area") return this.value("ratio", voxel, pose.place);
    if (name === "control") return this.controlAt(pose, voxel);
    if (name === "material") return this.material[voxel];
    const points = pose.corners[voxel];
    return Math.max(...this.edges.map(([a, b]) => Math.abs(distance(points[a], points[b]) / this.side - 1)));
  }

  // What a grain is colored by.
  grainValue(name, pose, grain) {
    if (name === "speed") return this.value("grainSpeed", grain, pose.place);
    if (name === "force") return this.value("grainForce", grain, pose.place);
    return this.value("grains", (grain + 1) * this.dimension - 1, pose.place);
  }

  // Copies of grains between two places, given along the axes that repeat; see: gets the grain's number and its center.
  // There are none inside the ground, whose walls rise through them.
  eachGrain(pose, low, high, see) {
    const { radius, period } = this.grains, up = this.dimension - 1;
    for (let grain = 0; grain < radius.length; grain++) {
      const at = period.map((_, axis) => this.value("grains", grain * this.dimension + axis, pose.place));
      for (const x of copiesOf(at[0], low[0], high[0], period[0]))
        for (const y of copiesOf(at[1], low[1], high[1], period[1]))
          if (!this.ground || at[up] > heightAt(this.ground, x)) see(grain, [x, y, at[2]].slice(0, up + 1));
    }
  }

  // Faces of objects; see: gets their corners and color.
  eachFace(pose, see) {
    const { ends, colors } = this.objects, dimension = this.dimension;
    colors.forEach((color, face) => {
      const points = [];
      for (let end = 0; end < ends; end++)
        points.push(Array.from({ length: dimension }, (_, axis) => this.value("objects", (face * ends + end) * dimension + axis, pose.place)));
      see(points, color, face);
    });
  }

  // Balls among objects; see: gets the center, a way that turns with the ball, radius and color.
  eachBall(pose, see) {
    const { radius, ballColors } = this.objects, dimension = this.dimension;
    radius.forEach((size, ball) => {
      const [center, spoke] = ["balls", "spokes"].map((name) =>
        Array.from({ length: dimension }, (_, axis) => this.value(name, ball * dimension + axis, pose.place)));
      see(center, spoke, size, ballColors[ball], ball);
    });
  }

  // Of the grains at the start [m]; none lie without them.
  _bottom() {
    if (!this.grains) return null;
    const heights = this.grains.radius.map((radius, grain) => this.grainValue("height", { place: 0 }, grain) - radius);
    return heights.reduce((lowest, height) => Math.min(lowest, height), Infinity);
  }

  _centers() {
    const found = [];
    for (let moment = 0; moment < this.moments; moment++) found.push(this.pose(moment * this.interval).center);
    return found;
  }

  // Averaged over a second, so that the camera does not tremble.
  _smooth(path) {
    const reach = Math.max(1, Math.round(0.5 / this.interval));
    return path.map((_, i) => {
      const near = Math.min(reach, i, path.length - 1 - i);
      return mean(path.slice(i - near, i + near + 1));
    });
  }

  cameraAt(time) {
    const place = Math.min(Math.max(time / this.interval, 0), this.moments - 1), before = Math.floor(place);
    const after = Math.min(before + 1, this.moments - 1);
    return this.camera[before].map((x, i) => x + (place - before) * (this.camera[after][i] - x));
  }

  // The largest sides of the box around the robot, over the episode [m].
  _spans() {
    const largest = new Array(this.dimension).fill(0);
    const step = Math.max(1, Math.floor(this.moments / 40));
    for (let moment = 0; moment < this.moments; moment += step) {
      const points = this.pose(moment * this.interval).corners.flat();
      for (let axis = 0; axis < this.dimension; axis++) {
        const values = points.map((point) => point[axis]);
        largest[axis] = Math.max(largest[axis], Math.max(...values) - Math.min(...values));
      }
    }
    return largest;
  }
}

function copiesOf(value, low, high, period) {
  if (!period) return [value];
  const found = [];
  for (let at = low + ((((value - low) % period) + period) % period); at <= high; at += period) found.push(at);
  return found;
}

function mean(points) {
  const total = points[0].map(() => 0);
  for (const point of points) for (let i = 0; i < total.length; i++) total[i] += point[i];
  return total.map((x) => x / points.length);
}

function distance(a, b) {
  return Math.hypot(...a.map((x, i) => x - b[i]));
}

function heightAt(ground, x) {
  const xs = ground.x, ys = ground.y;
  if (x <= xs[0]) return ys[0];
  for (let i = 1; i < xs.length; i++)
    if (x <= xs[i]) return ys[i - 1] + ((x - xs[i - 1]) / (xs[i] - xs[i - 1])) * (ys[i] - ys[i - 1]);
  return ys[ys.length - 1];
}

// Red, green, blue from 0 to 255.
function colorOf(shared, look, value) {
  if (look.colorBy === "material") {
    const table = shared.materials[look.palette];
    return rgb(table[value % table.length]);
  }
  return colorOn(shared.scales[look.palette][look.colorBy], value);
}

function colorOn({ ends: [low, high], stops }, value) {
  const place = Math.min(Math.max((value - low) / (high - low), 0), 1) * (stops.length - 1);
  const before = Math.min(Math.floor(place), stops.length - 2), a = rgb(stops[before]), b = rgb(stops[before + 1]);
  return a.map((x, i) => Math.round(x + (place - before) * (b[i] - x)));
}

// Whether dark lines are lost on a color.
function isDark(color, { lightness, dark }) {
  return color.reduce((sum, x, i) => sum + x * lightness[i], 0) < dark;
}

const known = new Map();
function rgb(text) {
  if (!known.has(text)) known.set(text, [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
  return known.get(text);
}

function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least * (1 - 1e-9));
}

if (typeof module !== "undefined") module.exports = { RecordedRobot, colorOf, roundStep };

// The look of one robot: masses and springs may be shown for 2-D robots only ("2d").
function lookOf(robot, look) {
  const here = (choice) => (choice === "2d" ? robot.dimension === 2 : choice);
  return { ...look, masses: here(look.masses), springs: here(look.springs) };
}
