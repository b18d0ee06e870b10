// Draws a 2-D robot.
"use strict";

const GRAIN_SHADES = 32; // discs of one shade are drawn at once
const MARGIN = { left: 44, top: 24, right: 8, bottom: 34 };

function drawPlane(g, rect, robot, pose, shared, look, theme, time) {
  const view = {
    left: rect.left + MARGIN.left, top: rect.top + MARGIN.top,
    width: rect.width - MARGIN.left - MARGIN.right, height: rect.height - MARGIN.top - MARGIN.bottom,
  };
  const [wide, tall] = robot.spans;
  const scale = Math.min(view.width / (1.7 * wide), view.height / Math.max(1.35 * tall, 0.7 * wide)) * look.zoom;
  const camera = look.follow ? robot.cameraAt(time) : robot.camera[0];
  const low = [camera[0] - (0.5 * view.width) / scale, camera[1] - (shareBelow(robot, view.height / scale) * view.height) / scale];
  const at = ([x, y]) => [view.left + (x - low[0]) * scale, view.top + view.height - (y - low[1]) * scale];
  g.save();
  g.beginPath();
  g.rect(view.left, view.top, view.width, view.height);
  g.fillStyle = theme.paper;
  g.fill();
  g.clip();
  const ticks = [ticksBetween(low[0], view.width / scale, 70 / scale), ticksBetween(low[1], view.height / scale, 45 / scale)];
  g.strokeStyle = theme.faint;
  g.lineWidth = 1;
  g.beginPath();
  for (const x of ticks[0]) line(g, [at([x, 0])[0], view.top], [at([x, 0])[0], view.top + view.height]);
  for (const y of ticks[1]) line(g, [view.left, at([0, y])[1]], [view.left + view.width, at([0, y])[1]]);
  g.stroke();
  drawGroundLine(g, view, robot.ground, low, scale, at, theme);
  if (robot.grains) drawDiscs(g, robot, pose, shared, look, scale, at, low[0], low[0] + view.width / scale);
  if (robot.objects) drawObjects(g, robot, pose, at, scale);
  drawVoxels(g, robot, pose, shared, look, at);
  drawOverlays(g, robot, pose, shared, look, theme, (point) => [...at(point), scale * robot.side]);
  drawChambers(g, view, robot, pose, shared, look, theme, at);
  g.restore();
  drawFrame(g, view, ticks, at, theme);
  drawTitle(g, rect, view, robot, pose, theme, time);
}

function ticksBetween(low, length, room) {
  const step = roundStep(room), found = [];
  for (let i = Math.ceil(low / step); i * step <= low + length; i++) found.push(+(i * step).toPrecision(12) + 0);
  return found;
}

function line(g, a, b) {
  g.moveTo(a[0], a[1]);
  g.lineTo(b[0], b[1]);
}

function outline(g, points) {
  g.beginPath();
  points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
  g.closePath();
}

function drawGroundLine(g, view, ground, low, scale, at, theme) {
  if (!ground) return;
  const ends = [low[0], low[0] + view.width / scale];
  const inside = ground.x.map((x, i) => [x, ground.y[i]]).filter(([x]) => x > ends[0] && x < ends[1]);
  const end = (x) => [x, heightAt(ground, x)], top = [end(ends[0]), ...inside, end(ends[1])].map(at);
  const bottom = view.top + view.height + 2;
  outline(g, [...top, [view.left + view.width, bottom], [view.left, bottom]]);
  g.fillStyle = theme.ground;
  g.fill();
}

// Share of the view below the robot's middle, as vsr/drawing/painter.py has it: more where grains lie. height: [m]
function shareBelow(robot, height) {
  if (!robot.grains) return 0.4;
  const needed = mean(robot.camera)[1] - robot.bottom + 0.2 * robot.side;
  return Math.min(Math.max(needed / height, 0.4), 0.62);
}

// Rigid objects, soft ones and further robots. scale: pixels per meter
function drawObjects(g, robot, pose, at, scale) {
  g.lineWidth = 1;
  g.lineJoin = "round";
  g.strokeStyle = "#404040";
  robot.eachFace(pose, (points, color) => {
    outline(g, points.map(at));
    g.fillStyle = color;
    g.fill();
    g.stroke();
  });
  robot.eachBall(pose, (center, spoke, radius, color) => {
    g.beginPath();
    g.arc(...at(center), radius * scale, 0, 2 * Math.PI);
    g.fillStyle = color;
    g.fill();
    line(g, at(center), at(center.map((x, axis) => x + radius * spoke[axis])));
    g.stroke();
  });
}

// scale: pixels per meter; left and right: ends of the view [m]
function drawDiscs(g, robot, pose, shared, look, scale, at, left, right) {
  const { radius } = robot.grains, shades = shared.grainScales[look.grainsBy], [low, high] = shades.ends;
  const largest = radius.reduce((a, b) => Math.max(a, b)), discs = Array.from({ length: GRAIN_SHADES }, () => []);
  robot.eachGrain(pose, [left - largest], [right + largest], (grain, place) => {
    const share = (robot.grainValue(look.grainsBy, pose, grain) - low) / (high - low);
    const shade = Math.round(Math.min(Math.max(share, 0), 1) * (GRAIN_SHADES - 1));
    discs[shade].push([...at(place), radius[grain] * scale]);
  });
  discs.forEach((found, shade) => {
    const color = colorOn(shades, low + (shade / (GRAIN_SHADES - 1)) * (high - low));
    g.fillStyle = `rgb(${color})`;
    g.strokeStyle = `rgb(${color.map((part) => Math.round(0.62 * part))})`;
    g.lineWidth = Math.min(1, 0.2 * largest * scale);
    g.beginPath();
    for (const [x, y, size] of found) {
      const inner = Math.max(size - g.lineWidth / 2, 0); // the rim lies inside
      g.moveTo(x + inner, y);
      g.arc(x, y, inner, 0, 2 * Math.PI);
    }
    g.fill();
    g.stroke();
  });
}

function drawVoxels(g, robot, pose, shared, look, at) {
  g.lineJoin = "round";
  const dark = [];
  for (let voxel = 0; voxel < robot.voxels; voxel++) {
    const color = robot.color(shared, look, pose, voxel), [r, green, b] = color;
    dark.push(isDark(color, shared.lines));
    outline(g, ROUND.map((corner) => at(pose.corners[voxel][corner])));
    g.fillStyle = `rgb(${r},${green},${b})`;
    g.fill();
    g.strokeStyle = robot.isFluid(voxel) ? g.fillStyle : "#404040"; // no line is seen amid fluid
    g.lineWidth = 1;
    g.stroke();
  }
  if (look.springs) {
    const ends = robot.springEnds(pose);
    for (const [onDark, stroke] of [[false, "rgba(40,40,40,0.6)"], [true, "rgba(220,220,220,0.6)"]]) {
      g.beginPath();
      for (const [a, b, voxel] of ends) if (dark[voxel] === onDark) line(g, at(a), at(b));
      g.strokeStyle = stroke;
      g.lineWidth = 0.6;
      g.stroke();
    }
  }
  if (robot.chambers) {
    g.beginPath();
    for (const { voxel, corners } of robot.chambers.walls) line(g, ...corners.map((corner) => at(pose.corners[voxel][corner])));
    g.strokeStyle = shared.lines.wall;
    g.lineWidth = 2;
    g.stroke();
  }
  if (!look.masses) return;
  g.lineWidth = 0.7;
  for (let voxel = 0; voxel < robot.voxels; voxel++) {
    g.strokeStyle = dark[voxel] || !robot.streams.angle ? "#d0d0d0" : "#202020"; // points have a light rim
    g.fillStyle = "#202020";
    for (let mass = 0; mass < 4; mass++)
      if (robot.streams.angle) {
        outline(g, ROUND.map((corner) => at(robot.massCorner(pose, voxel, mass, corner))));
        g.stroke();
      } else if (!robot.chambers || !robot.chambers.amid.includes(robot.part[voxel][mass])) {
        g.beginPath();
        g.arc(...at(pose.masses[voxel][mass]), 2.5, 0, 7);
        g.fill();
        g.stroke();
      }
  }
}

function drawFrame(g, view, ticks, at, theme) {
  g.strokeStyle = g.fillStyle = theme.ink;
  g.lineWidth = 1;
  g.strokeRect(view.left, view.top, view.width, view.height);
  g.font = "12px system-ui, sans-serif";
  const bottom = view.top + view.height, right = view.left + view.width;
  g.beginPath();
  g.textAlign = "center";
  g.textBaseline = "top";
  for (const x of ticks[0]) {
    const [px] = at([x, 0]);
    line(g, [px, bottom], [px, bottom + 4]);
    if (px > view.left + 10 && px < right - 40 - g.measureText(`${x}`).width / 2) g.fillText(`${x}`, px, bottom + 6);
  }
  g.textAlign = "right";
  g.fillText("x [m]", right, bottom + 6);
  g.fillText("y [m]", view.left - 7, view.top);
  g.textBaseline = "middle";
  for (const y of ticks[1]) {
    const [, py] = at([0, y]);
    line(g, [view.left - 4, py], [view.left, py]);
    if (py > view.top + 22) g.fillText(`${y}`, view.left - 7, py);
  }
  g.stroke();
}

function drawTitle(g, rect, view, robot, pose, theme, time) {
  const failed = robot.failed && time >= robot.end;
  const status = `x = ${pose.center[0].toFixed(1)} m` + (failed ? "  failed" : "");
  g.fillStyle = theme.ink;
  g.textBaseline = "alphabetic";
  g.textAlign = "right";
  g.font = "12px system-ui, sans-serif";
  g.fillText(status, view.left + view.width, rect.top + 17);
  const room = view.width - g.measureText(status).width - 12;
  g.textAlign = "left";
  g.font = "600 13px system-ui, sans-serif";
  let name = robot.name;
  while (name && g.measureText(name).width > room) name = name.slice(0, -2) + (name.length > 2 ? "…" : "");
  g.fillText(name, view.left, rect.top + 17);
}
