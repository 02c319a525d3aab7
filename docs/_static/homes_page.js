"use strict";
/* The page of homes: a grid of answers, and the animal at home and in the chosen home.
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
  page.querySelectorAll("figure").forEach((figure, number) => {
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
  const told = Object.keys(NAMES).map((name) => `${NAMES[name]}: ${answer(name, chosen)}, ` +
    (right(name, chosen) ? "right" : "wrong"));
  const place = chosen === atHome(chosen) ? "at home" : "not at home";
  page.querySelector("[aria-live]").textContent =
    `${animal}, ${homeOf(chosen)} (${place}). ${told.join("; ")}.`;
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

function build() {
  const side = make("div", page, "", { className: "looks" });
  for (let number = 0; number < 8; number++) {
    const figure = make("figure", side);
    make("canvas", figure, "", { width: SIDE, height: SIDE }).setAttribute("role", "img");
    const words = make("figcaption", figure);
    make("small", words, ["image", ...Object.keys(NAMES)][number % 4]);
    make("span", words);
  }
  make("p", side).setAttribute("aria-live", "polite");
  const left = make("div", page, "", { className: "answers" });
  const models = make("fieldset", left);
  make("legend", models, "Answers of the model");
  for (const name of Object.keys(NAMES)) {
    const label = make("label", models);
    const button = make("input", label, "", { type: "radio", name: "model" });
    button.checked = name === model;
    button.addEventListener("change", () => { model = name; colour(); });
    label.append(` ${count(name)}`);
  }
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
