// Draws over robots what can be switched on. Colors and places in a voxel come from vsr/drawing/overlays.py.
"use strict";

// place: from meters to pixels and the length of a voxel's side there, or null for what is behind the camera.
function drawOverlays(g, robot, pose, shared, look, theme, place) {
  if (look.path) drawPath(g, robot, pose, theme, place);
  const marks = shared.overlays, seen = [];
  pose.middle.forEach((point, voxel) => {
    const spot = place(point);
    if (spot) seen.push([voxel, ...spot]);
  });
  if (robot.dimension === 3) seen.sort((a, b) => a[3] - b[3]); // the nearest last, which cover others
  for (const [voxel, x, y, side] of seen) {
    const unit = side * (robot.dimension === 3 ? marks.scale3d : 1);
    if (look.control) drawControl(g, robot.controlAt(pose, voxel), x, y, unit, marks);
    if (look.sensors) drawSensors(g, robot, pose, voxel, x, y, unit, shared);
    if (look.contact && robot.contactAt(pose, voxel)) drawDot(g, x, y, unit, marks);
    if (look.velocity) {
      const velocity = robot.velocityAt(pose, voxel);
      const tip = place(pose.middle[voxel].map((at, i) => at + velocity[i] * marks.arrowSeconds));
      if (tip) drawArrow(g, [x, y], tip, marks.colors.velocity);
    }
  }
}

function drawControl(g, value, x, y, unit, marks) {
  const box = drawPanel(g, x, y, unit, marks.control);
  g.fillStyle = marks.colors[value > 0 ? "shrinking" : "growing"];
  drawBar(g, box, 0, box.width, value);
}

// A bar for each sensor that the voxel has, up or down from the value at rest.
function drawSensors(g, robot, pose, voxel, x, y, unit, shared) {
  const here = [];
  robot.felt.forEach(({ label }, i) => {
    const value = robot.feltAt(pose, voxel, i);
    if (value !== null) here.push([shared.sensors.find((sensor) => sensor.label === label), value]);
  });
  if (!here.length) return;
  const { sensors, widestBar } = shared.overlays, wide = Math.min((sensors.right - sensors.left) / here.length, widestBar);
  const box = drawPanel(g, x, y, unit, { ...sensors, right: sensors.left + wide * here.length }), width = wide * unit;
  here.forEach(([sensor, value], i) => {
    g.fillStyle = sensor.color;
    drawBar(g, box, i * width, width, (value - sensor.at_rest) / sensor.reach);
  });
  g.fillStyle = "#222222";
  g.fillRect(box.left, box.zero - 0.25, box.width, 0.5);
}

function drawDot(g, x, y, unit, marks) {
  const [across, up, radius] = marks.dot;
  g.beginPath();
  g.arc(x + across * unit, y - up * unit, radius * unit, 0, 7);
  g.fillStyle = marks.colors.contact;
  g.strokeStyle = "#ffffff";
  g.lineWidth = 1.5;
  g.fill();
  g.stroke();
}

// A white panel in a voxel, and what bars in it need.
function drawPanel(g, x, y, unit, part) {
  const left = x + part.left * unit, top = y - part.top * unit;
  const width = (part.right - part.left) * unit, height = (part.top - part.bottom) * unit;
  g.fillStyle = "#ffffff";
  g.strokeStyle = "#222222";
  g.lineWidth = 1;
  g.fillRect(left, top, width, height);
  g.strokeRect(left, top, width, height);
  return { left, width, zero: top + height / 2, half: height / 2 };
}

// Up or down from the panel's middle; share: of half its height.
function drawBar(g, box, start, width, share) {
  const height = Math.min(Math.max(share, -1), 1) * box.half;
  g.fillRect(box.left + start + 0.5, Math.min(box.zero, box.zero - height), Math.max(width - 1, 0.5), Math.abs(height));
}

function drawPath(g, robot, pose, theme, place) {
  g.beginPath();
  const last = Math.floor(pose.place), step = Math.max(1, Math.floor(last / 2000));
  const points = [];
  for (let moment = 0; moment <= last; moment += step) points.push(robot.centers[moment]);
  points.push(pose.center);
  let drawing = false;
  for (const point of points) {
    const spot = place(point);
    if (spot) drawing ? g.lineTo(spot[0], spot[1]) : g.moveTo(spot[0], spot[1]);
    drawing = spot !== null;
  }
  g.strokeStyle = theme.ink;
  g.lineWidth = 1.5;
  g.stroke();
}

function drawArrow(g, start, tip, color) {
  const dx = tip[0] - start[0], dy = tip[1] - start[1], length = Math.hypot(dx, dy);
  if (length < 4) return;
  const ax = (dx / length) * 6, ay = (dy / length) * 6;
  g.beginPath();
  line(g, start, tip);
  g.moveTo(tip[0], tip[1]);
  g.lineTo(tip[0] - ax - ay * 0.5, tip[1] - ay + ax * 0.5);
  g.moveTo(tip[0], tip[1]);
  g.lineTo(tip[0] - ax + ay * 0.5, tip[1] - ay - ax * 0.5);
  for (const [stroke, width] of [["#ffffff", 3.5], [color, 1.6]]) {
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.stroke();
  }
}
