"use strict";
/* The page of homes: an animal, a home and a model, its map and its answer; then all of them in a
   grid, and the animal at home and in the chosen home.
   `HOMES` is in homes.js, which tools/homes_page.py writes with homes.webp. */

const SIDE = 112, PATCHES = 8, COUNT = HOMES.homes.length;
const INFERNO = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]];
const NAMES = {
  original: "original", without: "finetuned without", with: "finetuned with relevance",
};
const page = document.getElementById("homes"), scenes = new Image();
let model = "original", chosen = 0;

const make = (kind, into, text = "", given = {}) => {
  const made = Object.assign(document.createElement(kind), given);
  if (text) made.textContent = text;
  into.append(made);
  return made;
};
const animalOf = (scene) => Math.floor(scene / COUNT);
const homeOf = (scene) => HOMES.homes[scene % COUNT];
const atHome = (scene) => animalOf(scene) * COUNT + HOMES.home[animalOf(scene)];
const right = (name, scene) => HOMES.models[name].answers[scene] === animalOf(scene);
const answer = (name, scene) =>
  `${HOMES.animals[HOMES.models[name].answers[scene]]} ${HOMES.models[name].sure[scene]} %`;
const mark = (name, scene) => (right(name, scene) ? "✓" : "×");

function heat(name, scene) {
  const small = document.createElement("canvas");
  small.width = small.height = PATCHES;
  const pen = small.getContext("2d"), pixels = pen.createImageData(PATCHES, PATCHES);
  const bytes = HOMES.models[name].bytes, start = scene * PATCHES * PATCHES;
  for (let i = 0; i < PATCHES * PATCHES; i++) {
    const place = (bytes.charCodeAt(start + i) / 255) * (INFERNO.length - 1);
    const low = Math.min(Math.floor(place), INFERNO.length - 2);
    const mix = (c) => INFERNO[low][c] + (place - low) * (INFERNO[low + 1][c] - INFERNO[low][c]);
    pixels.data.set([mix(0), mix(1), mix(2), 255], 4 * i);
  }
  pen.putImageData(pixels, 0, 0);
  return small;
}

function draw(canvas, scene, name) {
  const pen = canvas.getContext("2d");
  pen.globalCompositeOperation = "source-over";
  pen.globalAlpha = 1;
  const x = (scene % COUNT) * SIDE, y = animalOf(scene) * SIDE;
  pen.drawImage(scenes, x, y, SIDE, SIDE, 0, 0, SIDE, SIDE);
  if (!name) return;
  pen.globalCompositeOperation = "saturation"; // grey below the map
  pen.fillStyle = "#888";
  pen.fillRect(0, 0, SIDE, SIDE);
  pen.globalCompositeOperation = "source-over";
  pen.globalAlpha = 0.72;
  pen.drawImage(heat(name, scene), 0, 0, SIDE, SIDE);
}

function show() {
  const places = [["at home", atHome(chosen)], ["chosen", chosen]];
  const animal = HOMES.animals[animalOf(chosen)];
  const [animals, homes] = page.querySelectorAll("select");
  [animals.value, homes.value] = [animalOf(chosen), chosen % COUNT];
  page.querySelectorAll(".first canvas").forEach((canvas, number) => {
    draw(canvas, chosen, number ? model : null);
    canvas.setAttribute("aria-label", number
      ? `Relevance for the answer of the ${NAMES[model]} model` : `${animal}, ${homeOf(chosen)}`);
  });
  page.querySelectorAll(".looks figure").forEach((figure, number) => {
    const [where, scene] = places[Math.floor(number / 4)];
    const name = [null, ...Object.keys(NAMES)][number % 4];
    const [canvas, words] = figure.children;
    draw(canvas, scene, name);
    words.lastChild.textContent =
      name ? `${mark(name, scene)} ${answer(name, scene)}` : `${where}: ${homeOf(scene)}`;
    words.lastChild.className = name ? (right(name, scene) ? "right" : "wrong") : "";
    canvas.setAttribute("aria-label", name
      ? `Relevance for the answer of the ${NAMES[name]} model, ${homeOf(scene)}`
      : `${animal} in this home: ${homeOf(scene)}`);
  });
  const verdict = right(model, chosen) ? "Right." : `Wrong: it is the ${animal}.`;
  const own = `At home (${homeOf(atHome(chosen))}) it says ${answer(model, atHome(chosen))}.`;
  const here = chosen === atHome(chosen) ? "This is its home." : own;
  const told = page.querySelector("[aria-live]");
  told.textContent = `The model says ${answer(model, chosen)}. ${verdict} ${here}`;
  told.className = right(model, chosen) ? "right" : "wrong";
  page.querySelectorAll("[role=gridcell]").forEach((cell, scene) => {
    cell.tabIndex = scene === chosen ? 0 : -1;
    cell.setAttribute("aria-selected", scene === chosen);
  });
}

function colour() {
  page.querySelectorAll("[role=gridcell]").forEach((cell, scene) => {
    cell.textContent = mark(model, scene);
    cell.className = right(model, scene) ? "right" : "wrong";
    cell.classList.toggle("home", scene === atHome(scene));
    cell.setAttribute("aria-label", `${HOMES.animals[animalOf(scene)]}, ${homeOf(scene)}: ` +
      `${answer(model, scene)}, ${right(model, scene) ? "right" : "wrong"}`);
  });
}

function count(name) {
  const all = HOMES.models[name].answers.map((_, scene) => scene);
  const share = (some) => `${some.filter((scene) => right(name, scene)).length} of ${some.length}`;
  return `${NAMES[name]}: right at home ${share(all.filter((s) => s === atHome(s)))}, ` +
    `elsewhere ${share(all.filter((s) => s !== atHome(s)))}`;
}

function pick(into, title, names, change) {
  const select = make("select", make("label", into, title));
  names.forEach((name, value) => make("option", select, name, { value }));
  select.addEventListener("change", () => { change(Number(select.value)); show(); });
}

function first() {
  const top = make("div", page, "", { className: "first" }), picks = make("div", top);
  pick(picks, "Animal ", HOMES.animals, (animal) => { chosen = animal * COUNT + chosen % COUNT; });
  pick(picks, "Home ", HOMES.homes, (home) => { chosen = animalOf(chosen) * COUNT + home; });
  const models = make("fieldset", picks);
  make("legend", models, "Model");
  for (const name of Object.keys(NAMES)) {
    const label = make("label", models);
    const button = make("input", label, "", { type: "radio", name: "model" });
    button.checked = name === model;
    button.addEventListener("change", () => { model = name; colour(); show(); });
    label.append(` ${count(name)}`);
  }
  for (const said of ["what it sees", "where it looks"]) {
    const figure = make("figure", top);
    make("canvas", figure, "", { width: SIDE, height: SIDE }).setAttribute("role", "img");
    make("figcaption", figure, said);
  }
  make("p", top).setAttribute("aria-live", "polite");
}

function build() {
  first();
  const side = make("div", page, "", { className: "looks" });
  for (let number = 0; number < 8; number++) {
    const figure = make("figure", side);
    make("canvas", figure, "", { width: SIDE, height: SIDE }).setAttribute("role", "img");
    const words = make("figcaption", figure);
    make("small", words, ["image", ...Object.keys(NAMES)][number % 4]);
    make("span", words);
  }
  const left = make("div", page, "", { className: "answers" });
  const grid = make("table", left);
  grid.setAttribute("role", "grid");
  grid.setAttribute("aria-label", "Forty animals in eight homes. Arrow keys move.");
  const head = make("tr", make("thead", grid)), body = make("tbody", grid);
  make("td", head);
  HOMES.homes.forEach((home) => make("th", head, home, { scope: "col" }));
  HOMES.animals.forEach((animal) => {
    const row = make("tr", body);
    make("th", row, animal, { scope: "row" });
    HOMES.homes.forEach(() => make("td", row).setAttribute("role", "gridcell"));
  });
  const cells = [...grid.querySelectorAll("[role=gridcell]")];
  const choose = (scene) => { chosen = scene; show(); cells[scene].focus(); };
  grid.addEventListener("click", (event) => {
    const scene = cells.indexOf(event.target);
    if (scene >= 0) choose(scene);
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COUNT, ArrowDown: COUNT }[event.key];
    if (!step) return;
    event.preventDefault();
    if (cells[chosen + step]) choose(chosen + step);
  });
}

for (const one of Object.values(HOMES.models)) one.bytes = atob(one.maps);
while (right("original", chosen) || !right("with", chosen)) chosen++; // the first that is cured
build();
colour();
scenes.addEventListener("load", show);
scenes.src = page.dataset.scenes;
