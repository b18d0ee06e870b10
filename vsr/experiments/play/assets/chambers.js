// Draws the pressures of a robot's chambers: a chart over time, numbers, and which chamber is which.
"use strict";

const CHAMBER_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const MOST_NUMBERS = 6; // chambers whose values are written
const chamberColor = (chamber) => CHAMBER_COLORS[chamber % CHAMBER_COLORS.length];

// 'chamber 1: 1.52 kPa, volume 104 %'
function chamberWords(robot, pose, chamber, scale) {
  const pressure = robot.value("pressure", chamber, pose.place) / scale.per, volume = robot.value("volume", chamber, pose.place);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(scale.ends[1] / scale.per))); // as many for all moments
  const number = pressure.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
  return `chamber ${chamber + 1}: ${number} ${scale.per > 1 ? "kPa" : "Pa"}, volume ${(100 * volume).toFixed(0)} %`;
}

// view: where the robot is drawn [pixels]; place: from meters to pixels, or null for what is behind the camera.
function drawChambers(g, view, robot, pose, shared, look, theme, place) {
  if (!robot.chambers || !look.pressure) return;
  const count = robot.chambers.count, numbers = Math.min(count, MOST_NUMBERS), left = view.left + 8, top = view.top + 8;
  g.save();
  g.font = "12px system-ui, sans-serif";
  if (count > 1) labelChambers(g, robot, pose, theme, place);
  const rows = Array.from({ length: numbers }, (_, chamber) => chamberWords(robot, pose, chamber, shared.pressureScale));
  if (count > numbers) rows.push(`and ${count - numbers} more`);
  const tall = view.height > 230 ? 46 : 0, wide = Math.max(150, ...rows.map((text) => g.measureText(text).width + 14));
  g.globalAlpha = 0.82;
  g.fillStyle = theme.paper;
  g.fillRect(left - 4, top - 4, wide + 8, 15 * rows.length + (tall ? tall + 6 : 0) + 8);
  g.globalAlpha = 1;
  g.textAlign = "left";
  g.textBaseline = "middle";
  rows.forEach((text, row) => {
    const middle = top + 15 * row + 7;
    if (row < numbers) {
      g.fillStyle = chamberColor(row);
      g.fillRect(left, middle - 4, 8, 8);
    }
    g.fillStyle = theme.ink;
    g.fillText(text, left + 14, middle);
  });
  if (tall) drawPressures(g, { left, top: top + 15 * rows.length + 4, width: wide, height: tall }, robot, pose, theme);
  g.restore();
}

// All pressures over time, from the lowest to the highest with 0 among them, and the moment that is shown.
function drawPressures(g, box, robot, pose, theme) {
  const [low, high] = robot.pressureEnds(), last = Math.max(robot.moments - 1, 1);
  const across = (moment) => box.left + (moment / last) * box.width;
  const up = (value) => box.top + box.height - ((value - low) / (high - low)) * box.height;
  g.lineWidth = 1;
  g.strokeStyle = theme.grid;
  g.beginPath();
  line(g, [box.left, up(0)], [box.left + box.width, up(0)]);
  g.stroke();
  const every = Math.max(1, Math.floor(robot.moments / (2 * box.width)));
  for (let chamber = 0; chamber < robot.chambers.count; chamber++) {
    g.strokeStyle = g.fillStyle = chamberColor(chamber);
    g.lineWidth = 1.3;
    g.beginPath();
    for (let moment = 0; moment < robot.moments; moment += every)
      g[moment ? "lineTo" : "moveTo"](across(moment), up(robot.value("pressure", chamber, moment)));
    g.stroke();
    g.beginPath();
    g.arc(across(pose.place), up(robot.value("pressure", chamber, pose.place)), 3, 0, 7);
    g.fill();
  }
  g.strokeStyle = theme.ink;
  g.lineWidth = 1;
  g.beginPath();
  line(g, [across(pose.place), box.top], [across(pose.place), box.top + box.height]);
  g.stroke();
}

function labelChambers(g, robot, pose, theme, place) {
  g.textAlign = "center";
  g.textBaseline = "middle";
  for (let chamber = 0; chamber < robot.chambers.count; chamber++) {
    const spot = place(mean(pose.middle.filter((_, voxel) => robot.chambers.chamber[voxel] === chamber)));
    if (!spot) continue;
    g.beginPath();
    g.arc(spot[0], spot[1], 8, 0, 7);
    g.fillStyle = "#ffffff";
    g.fill();
    g.strokeStyle = chamberColor(chamber);
    g.lineWidth = 2;
    g.stroke();
    g.fillStyle = "#222222";
    g.fillText(`${chamber + 1}`, spot[0], spot[1] + 0.5);
  }
}
