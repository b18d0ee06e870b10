// Draws 3-D robots with three.js: one canvas for all of them, a part of it for each.
"use strict";

const LIGHT = [-0.35, -0.6, 0.72];

class SpaceView {
  constructor(canvas) {
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true, alpha: true });
    this.renderer.setClearColor(0, 0);
    this.camera = new THREE.PerspectiveCamera(40, 1, 0.1, 5000);
    this.camera.up.set(0, 0, 1);
    this.worlds = new Map();
  }

  resize(width, height, ratio) {
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.height = height;
  }

  begin() {
    this.renderer.setScissorTest(false);
    this.renderer.clear();
    this.renderer.setScissorTest(true);
  }

  draw(g, rect, robot, pose, shared, look, theme, time) {
    const view = { left: rect.left + 6, top: rect.top + MARGIN.top, width: rect.width - 12, height: rect.height - MARGIN.top - 6 };
    if (!this.worlds.has(robot)) this.worlds.set(robot, new World(robot, shared));
    const world = this.worlds.get(robot);
    world.update(robot, pose, shared, look, theme);
    const target = look.follow ? robot.cameraAt(time) : robot.camera[0], orbit = look.orbit;
    const far = ((2.1 * robot.extent) / Math.min(1, view.width / view.height)) / look.zoom;
    const camera = this.camera, flat = Math.cos(orbit.elevation);
    camera.aspect = view.width / view.height;
    camera.position.set(
      target[0] + far * flat * Math.sin(orbit.azimuth),
      target[1] - far * flat * Math.cos(orbit.azimuth),
      target[2] + far * Math.sin(orbit.elevation)
    );
    camera.lookAt(target[0], target[1], target[2]);
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
    const bottom = this.height - view.top - view.height;
    this.renderer.setViewport(view.left, bottom, view.width, view.height);
    this.renderer.setScissor(view.left, bottom, view.width, view.height);
    this.renderer.render(world.scene, camera);
    const vector = new THREE.Vector3(), focal = view.height / (2 * Math.tan((camera.fov * Math.PI) / 360));
    const place = (point) => {
      vector.set(point[0], point[1], point[2]);
      const away = vector.distanceTo(camera.position);
      vector.project(camera);
      if (vector.z > 1 || vector.z < -1) return null;
      const x = view.left + ((vector.x + 1) / 2) * view.width, y = view.top + ((1 - vector.y) / 2) * view.height;
      return [x, y, (focal * robot.side) / away];
    };
    g.save();
    g.beginPath();
    g.rect(view.left, view.top, view.width, view.height);
    g.clip();
    this.drawScale(g, world, place, theme, target, far, view);
    drawOverlays(g, robot, pose, shared, look, theme, place);
    drawChambers(g, view, robot, pose, shared, look, theme, place);
    g.restore();
    g.strokeStyle = theme.ink;
    g.lineWidth = 1;
    g.strokeRect(view.left, view.top, view.width, view.height);
    drawTitle(g, rect, view, robot, pose, theme, time);
  }

  // Numbers along the lines of the ground nearest to the robot, and what one square is.
  drawScale(g, world, place, theme, target, far, view) {
    g.font = "12px system-ui, sans-serif";
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.lineWidth = 3;
    g.strokeStyle = theme.paper;
    g.fillStyle = theme.ink;
    const step = world.step;
    const exact = (value) => +value.toPrecision(12) + 0; // without what binary fractions leave behind
    const near = (value) => exact(Math.round(value / step) * step);
    const written = [];
    const write = (text, spot) => {
      if (!spot || spot[1] > view.top + view.height - 26) return;
      if (Math.abs(spot[0] - view.left - view.width / 2) > view.width / 2 - 30) return;
      if (written.some(([x, y]) => Math.abs(x - spot[0]) < 52 && Math.abs(y - spot[1]) < 16)) return;
      written.push(spot);
      g.strokeText(text, spot[0], spot[1]);
      g.fillText(text, spot[0], spot[1]);
    };
    if (world.robot.ground) {
      const y = near(target[1] - 0.32 * far), x = near(target[0] + 0.32 * far);
      for (let i = -3; i <= 2; i++) {
        const along = exact(near(target[0]) + i * step);
        write(`x ${along} m`, place([along, y, world.surface(along, y)]));
      }
      for (let i = -1; i <= 3; i++) {
        const along = exact(near(target[1]) + i * step);
        if (along > y) write(`y ${along} m`, place([x, along, world.surface(x, along)]));
      }
    }
    g.textAlign = "left";
    g.textBaseline = "alphabetic";
    g.strokeText(`one square: ${step} m`, view.left + 8, view.top + view.height - 9);
    g.fillText(`one square: ${step} m`, view.left + 8, view.top + view.height - 9);
  }
}

class World {
  constructor(robot, shared) {
    this.robot = robot;
    this.scene = new THREE.Scene();
    this.faces = outerFaces(robot, shared.faces).filter(({ voxel }) => !robot.isFluid(voxel));
    this.walls = robot.chambers ? robot.chambers.walls : [];
    this.step = roundStep(robot.extent / 3);
    // Of a body with fluid only the near side is painted, and lets through what is inside.
    this.skin = this.shell(this.faces.length, this.walls.length ? THREE.FrontSide : THREE.DoubleSide);
    this.edges = this.rims(this.faces.length, this.walls.length > 0);
    if (this.walls.length) this.addFluid(shared);
    const springs = robot.springEnds(robot.pose(0)).length;
    this.springs = this.mesh(new THREE.LineSegments(this.geometry(springs * 2), new THREE.LineBasicMaterial({ color: 0x606060 })));
    const parts = robot.streams.position.length / robot.moments / 3;
    this.masses = this.mesh(new THREE.Points(this.geometry(parts), new THREE.PointsMaterial({ color: 0x202020, size: 5, sizeAttenuation: false })));
    this.addGround();
    this.level = robot.grains ? shared.grainScales.height.ends[1] : -Infinity;
    if (robot.grains) this.addGrains();
    if (robot.objects) this.addObjects();
  }

  // Faces of rigid objects, soft ones and further robots, lines around them, and balls.
  addObjects() {
    const { ends, colors, radius, ballColors } = this.robot.objects;
    this.objectSkin = this.shell(0, THREE.DoubleSide);
    this.objectSkin.geometry = this.geometry(colors.length * (ends - 2) * 3, true);
    this.objectEdges = this.rims(0, false);
    this.objectEdges.geometry = this.geometry(colors.length * ends * 2);
    this.balls = radius.map((size, ball) => {
      const material = new THREE.MeshBasicMaterial({ color: ballColors[ball] });
      const sphere = this.mesh(new THREE.Mesh(new THREE.IcosahedronGeometry(size, 4), material));
      sphere.add(new THREE.LineSegments(new THREE.EdgesGeometry(new THREE.IcosahedronGeometry(size * 1.002, 1)), new THREE.LineBasicMaterial({ color: 0x404040 })));
      return sphere;
    });
  }

  updateObjects(pose) {
    const robot = this.robot, { ends } = robot.objects, spot = this.objectSkin.geometry.attributes.position;
    const tint = this.objectSkin.geometry.attributes.color, rim = this.objectEdges.geometry.attributes.position;
    robot.eachFace(pose, (points, text, face) => {
      const color = rgb(text), u = points[1].map((x, i) => x - points[0][i]), v = points[2].map((x, i) => x - points[0][i]);
      const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
      const shade = 0.72 + (0.28 * normal.reduce((sum, x, i) => sum + x * LIGHT[i], 0)) / (Math.hypot(...normal) || 1);
      for (let corner = 1; corner + 1 < ends; corner++)
        [0, corner, corner + 1].forEach((end, i) => {
          const place = (face * (ends - 2) + corner - 1) * 3 + i;
          spot.setXYZ(place, ...points[end]);
          tint.setXYZ(place, ...color.map((part) => (part / 255) * shade));
        });
      for (let end = 0; end < ends; end++) {
        rim.setXYZ((face * ends + end) * 2, ...points[end]);
        rim.setXYZ((face * ends + end) * 2 + 1, ...points[(end + 1) % ends]);
      }
    });
    robot.eachBall(pose, (center, spoke, _, color, ball) => {
      this.balls[ball].position.set(...center);
      this.balls[ball].quaternion.setFromUnitVectors(new THREE.Vector3(1, 0, 0), new THREE.Vector3(...spoke).normalize());
    });
    spot.needsUpdate = tint.needsUpdate = rim.needsUpdate = true;
  }

  // Chambers come after the skin, which leaves no depth behind, so that they have their own colors; then all lines.
  addFluid(shared) {
    this.fluid = this.shell(this.walls.length, THREE.DoubleSide);
    this.fluidEdges = this.rims(this.walls.length, false);
    this.fluidEdges.material.color.set(shared.lines.wall);
    [this.skin, this.fluid, this.edges, this.fluidEdges].forEach((object, order) => (object.renderOrder = order));
    this.fluidEdges.material.transparent = true; // as all that comes in this order
  }

  shell(count, side) {
    const material = { vertexColors: true, side, transparent: true, polygonOffset: true, polygonOffsetFactor: 1, polygonOffsetUnits: 1 };
    return this.mesh(new THREE.Mesh(this.geometry(count * 6, true), new THREE.MeshBasicMaterial(material)));
  }

  rims(count, faint) {
    const material = { color: 0x303030, transparent: faint, opacity: faint ? 0.4 : 1 };
    return this.mesh(new THREE.LineSegments(this.geometry(count * 8), new THREE.LineBasicMaterial(material)));
  }

  // Faces of voxels with their colors, and lines around them.
  updateFaces(faces, mesh, edges, pose, colors) {
    const spot = mesh.geometry.attributes.position, tint = mesh.geometry.attributes.color, rim = edges.geometry.attributes.position;
    faces.forEach(({ voxel, corners }, index) => {
      const points = corners.map((corner) => pose.corners[voxel][corner]);
      const shade = shadeOf(points, mean(pose.corners[voxel])), color = colors[voxel];
      [0, 1, 2, 0, 2, 3].forEach((corner, i) => {
        spot.setXYZ(index * 6 + i, ...points[corner]);
        tint.setXYZ(index * 6 + i, (color[0] / 255) * shade, (color[1] / 255) * shade, (color[2] / 255) * shade);
      });
      for (let i = 0; i < 4; i++) {
        rim.setXYZ(index * 8 + 2 * i, ...points[i]);
        rim.setXYZ(index * 8 + 2 * i + 1, ...points[(i + 1) % 4]);
      }
    });
    spot.needsUpdate = tint.needsUpdate = rim.needsUpdate = true;
  }

  // Balls of radius 1, to be moved and scaled; they do not turn, so their light side is painted on.
  addGrains() {
    const ball = new THREE.IcosahedronGeometry(1, 3), normals = ball.attributes.position, shades = [];
    for (let i = 0; i < normals.count; i++) {
      const lit = normals.getX(i) * LIGHT[0] + normals.getY(i) * LIGHT[1] + normals.getZ(i) * LIGHT[2];
      const shade = 0.64 + 0.36 * lit;
      shades.push(shade, shade, shade);
    }
    ball.setAttribute("color", new THREE.Float32BufferAttribute(shades, 3));
    const count = this.robot.grains.radius.length;
    this.grains = this.mesh(new THREE.InstancedMesh(ball, new THREE.MeshBasicMaterial({ vertexColors: true }), count));
    this.grains.instanceColor = new THREE.InstancedBufferAttribute(new Float32Array(3 * count), 3);
  }

  // Each grain once: its copy nearest to the robot.
  updateGrains(pose, shared, look) {
    const robot = this.robot, { radius, period } = robot.grains, around = robot.cameraAt(pose.place * robot.interval);
    const low = period.map((length, axis) => around[axis] - length / 2), high = low.map((from, axis) => from + period[axis]);
    const matrix = new THREE.Matrix4(), tint = this.grains.instanceColor;
    let shown = 0;
    robot.eachGrain(pose, low, high, (grain, place) => {
      if (shown === radius.length) return;
      const size = radius[grain];
      this.grains.setMatrixAt(shown, matrix.makeScale(size, size, size).setPosition(...place));
      const color = colorOn(shared.grainScales[look.grainsBy], robot.grainValue(look.grainsBy, pose, grain));
      tint.setXYZ(shown, ...color.map((part) => part / 255));
      shown++;
    });
    this.grains.count = shown;
    this.grains.instanceMatrix.needsUpdate = tint.needsUpdate = true;
  }

  geometry(points, colored) {
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(points * 3), 3));
    if (colored) geometry.setAttribute("color", new THREE.BufferAttribute(new Float32Array(points * 3), 3));
    return geometry;
  }

  mesh(object) {
    object.frustumCulled = false;
    this.scene.add(object);
    return object;
  }

  height(x, y) {
    const ground = this.robot.ground;
    if (!ground) return 0;
    if (!ground.field) return heightAt(ground, x);
    const { start, spacing, heights } = ground.field;
    const u = Math.min(Math.max((x - start[0]) / spacing[0], 0), heights[0].length - 1.000001);
    const v = Math.min(Math.max((y - start[1]) / spacing[1], 0), heights.length - 1.000001);
    const i = Math.floor(u), j = Math.floor(v), a = u - i, b = v - j;
    return (1 - b) * ((1 - a) * heights[j][i] + a * heights[j][i + 1]) + b * ((1 - a) * heights[j + 1][i] + a * heights[j + 1][i + 1]);
  }

  // Of what the robot walks on.
  surface(x, y) {
    return Math.max(this.height(x, y), this.level);
  }

  // A surface as far as the robot gets and some more, and lines on it that show distances.
  addGround() {
    const robot = this.robot;
    if (!robot.ground) return;
    const centers = robot.centers, around = Math.max(4 * robot.extent, 20), step = this.step;
    const range = (axis) => {
      const values = centers.map((point) => point[axis]);
      const low = Math.floor((Math.min(...values) - around) / step) * step, high = Math.max(...values) + around;
      const found = [];
      for (let i = 0; low + i * step <= high + step; i++) found.push(+(low + i * step).toPrecision(12));
      return found;
    };
    const [xs, ys] = [range(0), range(1)];
    const breaks = (values, extra) => [...new Set([...values, ...extra.filter((v) => v > values[0] && v < values[values.length - 1])])].sort((a, b) => a - b);
    const field = robot.ground.field;
    const along = (axis, count) => Array.from({ length: count }, (_, i) => field.start[axis] + i * field.spacing[axis]);
    const fineX = breaks(xs, field ? along(0, field.heights[0].length) : robot.ground.x);
    const fineY = field ? breaks(ys, along(1, field.heights.length)) : ys;
    const points = [], corners = [];
    for (const y of fineY) for (const x of fineX) points.push(x, y, this.height(x, y));
    for (let j = 0; j + 1 < fineY.length; j++)
      for (let i = 0; i + 1 < fineX.length; i++) {
        const a = j * fineX.length + i, b = a + fineX.length;
        corners.push(a, a + 1, b, b, a + 1, b + 1);
      }
    const surface = new THREE.BufferGeometry();
    surface.setAttribute("position", new THREE.Float32BufferAttribute(points, 3));
    surface.setIndex(corners);
    surface.computeVertexNormals();
    const normals = surface.attributes.normal, shades = [];
    for (let i = 0; i < normals.count; i++) {
      const lit = normals.getX(i) * LIGHT[0] + normals.getY(i) * LIGHT[1] + normals.getZ(i) * LIGHT[2];
      const shade = Math.min(1, Math.max(0.55, 1 + 0.9 * (lit - LIGHT[2])));
      shades.push(shade, shade, shade);
    }
    surface.setAttribute("color", new THREE.Float32BufferAttribute(shades, 3));
    this.ground = this.mesh(new THREE.Mesh(surface, new THREE.MeshBasicMaterial({ vertexColors: true, side: THREE.DoubleSide, polygonOffset: true, polygonOffsetFactor: 2, polygonOffsetUnits: 2 })));
    const lines = [];
    const stroke = (a, b) => lines.push(a[0], a[1], this.height(a[0], a[1]), b[0], b[1], this.height(b[0], b[1]));
    for (const y of ys) for (let i = 0; i + 1 < fineX.length; i++) stroke([fineX[i], y], [fineX[i + 1], y]);
    for (const x of xs) for (let j = 0; j + 1 < fineY.length; j++) stroke([x, fineY[j]], [x, fineY[j + 1]]);
    const grid = new THREE.BufferGeometry();
    grid.setAttribute("position", new THREE.Float32BufferAttribute(lines, 3));
    this.grid = this.mesh(new THREE.LineSegments(grid, new THREE.LineBasicMaterial()));
  }

  update(robot, pose, shared, look, theme) {
    if (this.ground) {
      this.ground.material.color.set(theme.floor);
      this.grid.material.color.set(theme.grid);
    }
    if (this.grains) this.updateGrains(pose, shared, look);
    if (this.balls) this.updateObjects(pose);
    this.edges.material.color.set(theme.dark ? 0x0c0c0c : 0x303030);
    this.masses.material.color.set(theme.dark ? 0xe0e0e0 : 0x202020);
    const colors = pose.corners.map((_, voxel) => robot.color(shared, look, pose, voxel));
    this.updateFaces(this.faces, this.skin, this.edges, pose, colors);
    if (this.fluid) this.updateFaces(this.walls, this.fluid, this.fluidEdges, pose, colors);
    this.skin.material.opacity = look.springs ? 0.4 : this.fluid ? 0.55 : 1;
    this.skin.material.depthWrite = !look.springs && !this.fluid;
    this.springs.visible = look.springs;
    this.masses.visible = look.masses;
    if (look.springs) {
      const ends = this.springs.geometry.attributes.position;
      robot.springEnds(pose).forEach(([a, b], i) => {
        ends.setXYZ(2 * i, ...a);
        ends.setXYZ(2 * i + 1, ...b);
      });
      ends.needsUpdate = true;
    }
    if (look.masses) {
      const dots = this.masses.geometry.attributes.position;
      for (let i = 0; i < dots.count; i++)
        dots.setXYZ(i, ...[0, 1, 2].map((axis) => robot.value("position", 3 * i + axis, pose.place)));
      dots.needsUpdate = true;
    }
  }
}

function outerFaces(robot, faces) {
  const taken = new Set(robot.place.map(String)), found = [];
  for (const { axis, side, corners } of faces)
    robot.place.forEach((place, voxel) => {
      const neighbor = place.map((value, i) => (i === axis ? value + side : value));
      if (!taken.has(String(neighbor))) found.push({ voxel, corners: outward(corners, axis, side) });
    });
  return found;
}

// Corners of a face, counted by their bits, against the clock for who sees it from outside.
function outward(corners, axis, side) {
  const [u, v] = [(axis + 1) % 3, (axis + 2) % 3], [a, b, , d] = corners;
  const along = (corner, bit) => ((corner >> bit) & 1) - ((a >> bit) & 1);
  const turn = along(b, u) * along(d, v) - along(b, v) * along(d, u);
  return turn === side ? corners : [...corners].reverse();
}

// How bright a face is that looks away from its voxel's middle.
function shadeOf(points, middle) {
  const [a, b, c, d] = points, u = c.map((x, i) => x - a[i]), v = d.map((x, i) => x - b[i]);
  const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
  const out = mean(points).map((x, i) => x - middle[i]);
  const dot = (p, q) => p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
  const way = dot(normal, out) < 0 ? -1 : 1, size = Math.hypot(...normal) || 1;
  return 0.72 + 0.28 * ((way * dot(normal, LIGHT)) / size);
}
