/* The walk from 01 to 05: the changes of the code one below the other, and a drawing that grows with them (walk.html). */
"use strict";

/* A part of the drawing appears with the change "STEP:TEXT", and may go with another. */
const part = (since, svg, until = "") => `<g data-since="${since}" data-until="${until}">${svg}</g>`;
const words = (x, y, text, css = "") => `<text x="${x}" y="${y}" class="${css}">${text}</text>`;
const box = (x, y, w, h, text, css = "box") => `<rect class="${css}" x="${x}" y="${y}" width="${w}" height="${h}" rx="8"/>` + words(x + w / 2, y + h / 2 + 5, text);

/* A process: what it holds, in its rank's colour. The gradients become buckets, the rows every world_size-th. */
function rank(r, x, since) {
    const rows = (which, css) => Array.from({ length: 8 }, (_, i) => `<rect x="${x + 10 + 14 * i}" y="318" width="11" height="24" rx="2" style="fill:var(--${which(i) ? `rank-${r}` : css})"/>`).join("");
    const buckets = [0, 1, 2].map((i) => `<rect x="${x + 83 - 36 * i}" y="256" width="34" height="30" rx="4" style="fill:var(--bucket-${i})"/><text x="${x + 100 - 36 * i}" y="276" style="fill:var(--bucket-${i}-on)">${i}</text>`).join("");
    const later = (text) => since.startsWith("04") ? since : text;
    return part(since, `<rect x="${x}" y="130" width="130" height="230" rx="12" style="fill:var(--rank-${r}-wash);stroke:var(--rank-${r});stroke-width:2"/>
        <text x="${x + 65}" y="160" class="b" style="fill:var(--rank-${r}-ink)">rank ${r}</text>` + box(x + 11, 178, 108, 30, "weights", "sunk") + words(x + 65, 246, "gradients", "m")
        + words(x + 65, 308, "its rows", "m") + rows(() => true, "line"))
        + part(since, box(x + 11, 256, 108, 30, "", "sunk"), "02:reducer_finalize(reducer") + part(later("02:reducer_finalize(reducer"), buckets)
        + part(later("02c:distributed_sampler_init("), `<rect x="${x + 8}" y="314" width="114" height="32" style="fill:var(--rank-${r}-wash)"/>` + rows((i) => i % (r > 1 ? 4 : 2) === r % (r > 1 ? 4 : 2), "line"));
}
const arrows = (y, back) => [[160, 210], [340, 380], [510, 560]].map(([from, to]) => `<path class="send" d="M${from} ${y}H${to}m-7 -5l7 5l-7 5${back ? `M${from + 7} ${y - 5}l-7 5l7 5` : ""}"/>`);

const PARTS = () => part("02a:static int spawn(", box(95, 20, 180, 44, "parent: forks") + '<path class="line" d="M150 64L118 128M220 64L252 128"/>', "03:static int spawn(")
    + part("03:static int spawn(", box(85, 14, 200, 50, "launcher: ddprun") + '<path class="line" d="M150 64L118 128M220 64L252 128"/>' + "") + part("03:RANK", words(72, 112, "RANK=0", "m") + words(298, 112, "RANK=1", "m"))
    + part("04:dist_env_init(", '<rect class="line" x="16" y="84" width="338" height="290" rx="16" stroke-dasharray="7 5"/><rect class="line" x="366" y="84" width="338" height="290" rx="16" stroke-dasharray="7 5"/>'
        + words(185, 394, "node 0", "m") + words(535, 394, "node 1", "m") + box(435, 14, 200, 50, "launcher: ddprun") + '<path class="line" d="M500 64L468 128M570 64L602 128M285 39H435"/>')
    + rank(0, 30, "") + rank(1, 210, "02a:static int spawn(") + rank(2, 380, "04:dist_env_init(") + rank(3, 560, "04:dist_env_init(")
    + part("02b:process_group_init(", '<path class="line" d="M95 362V384H275V362" stroke-dasharray="3 3"/>' + words(185, 402, "process group: they can talk", "m"), "04:dist_env_init(")
    + part("02b:broadcast(&pg", arrows(193, false)[0]) + part("04:dist_env_init(", arrows(193, false).slice(1).join(""))
    + part("02b:all_reduce(pg, model->grads", arrows(271, true)[0]) + part("04:dist_env_init(", arrows(271, true).slice(1).join(""))
    + part("04:scratch.h", box(90, 404, 190, 34, "a disk of its own", "sunk") + box(440, 404, 190, 34, "a disk of its own", "sunk"))
    + part("05:diagnostics_init", box(12, 460, 226, 40, "record of collectives", "sunk")) + part("05:snapshots_init", box(258, 460, 190, 40, "snapshot ✓", "ok"))
    + part("05:stop_listen", '<path class="cross" d="M255 200l40 60m0 -60l-40 60"/>' + box(468, 460, 240, 40, "attempt 1 resumes ✓", "ok"));

let stops = [], at = 0, moving = 0, jumping = false, place = -1; // place: where a key or button has led

/* The stops: the first program, then each change; with the index at which each text of the drawing is reached. */
function tell() {
    // In a frame a long line is broken behind a comma or before an operator: other spaces of code do not break.
    const kept = (text) => one ? text.replace(/(?<![,;]|[^=!<>]=|\/\/.*) (?!\/\/|&& |\|\| |\? )/g, "\u00a0") : text;
    const story = [], line = (text) => Object.assign(document.createElement("span"), { textContent: kept(text), className: { "+": "add", "-": "del" }[text[0]] ?? "" });
    const card = (why, lines) => {
        const element = Object.assign(document.createElement("article"), { className: "card hunk", tabIndex: -1 }), pre = document.createElement("pre");
        element.append(Object.assign(document.createElement("p"), { textContent: why }), pre);
        pre.tabIndex = 0;
        pre.append(...lines.map(line));
        return element;
    };
    const heading = (title, text) => {
        const element = Object.assign(document.createElement("section"), { className: "step" });
        element.append(Object.assign(document.createElement("h2"), { textContent: title }), Object.assign(document.createElement("p"), { textContent: text }));
        return element;
    };
    const head = (title, text) => { story.push(heading(title, text)); return story.at(-1); };
    const add = (step, number, element, changed, title, key) => { story.push(element); stops.push({ step, number, element, changed, title, key }); };
    const first = head("01: one process, one device", "The trainer, read from top to bottom. This is a step of it.");
    add("01", 1, card("A step of gradient descent is four calls. What follows changes only a few lines at a time.", data.first.split("\n").map((text) => ` ${text}`)), [], first, 2);
    for (const step of data.steps) {
        const changed = step.hunks.flatMap((hunk) => hunk.lines).filter((text) => text[0] !== " ").length;
        const title = head(`${step.name}: ${step.idea}`, `${step.program}: ${changed} changed lines in ${step.hunks.length} places.`);
        step.hunks.forEach((hunk, i) => add(step.name, i + 1, card(hunk.why, hunk.lines), hunk.lines.filter((text) => text[0] !== " "), title, hunk.key));
    }
    $("story").replaceChildren(...story);
}

/* The stop of "STEP:TEXT", the first change of the step that has the text; 0 for none, -1 if no change has it. */
function reached(place) {
    const [step, text] = place.split(":");
    return place === "" ? 0 : stops.findIndex((stop) => stop.step === step && stop.changed.some((line) => line.includes(text)));
}

function show() {
    const { step, number, element, title, key } = stops[at], last = stops.filter((stop) => stop.step === step).length;
    for (const shown of $("story").children) shown.classList.toggle("here", shown === element || shown === title);
    for (const group of document.querySelectorAll("[data-since]")) {
        const since = reached(group.dataset.since), until = group.dataset.until ? reached(group.dataset.until) : stops.length;
        group.classList.toggle("on", since <= at && at < until);
        group.classList.toggle("new", at > 0 && since === at);
    }
    $("svg").setAttribute("viewBox", step < "04" ? "0 10 370 400" : step < "05" ? "0 8 720 436" : "0 8 720 498");
    $("svg").classList.toggle("wide", step >= "04");
    $("svg").setAttribute("aria-label", `Step ${step}, change ${number} of ${last}`);
    $("now").textContent = at === 0 ? "01: one process trains." : `${step}, change ${number} of ${last}`;
    for (const button of $("rail").children) button.toggleAttribute("aria-current", button.textContent === step);
    if (one) element.lastChild.scrollTop = element.lastChild.children[Math.max(0, key)].offsetTop - element.lastChild.offsetTop - 60;
    $("back").disabled = at === 0;
    $("next").disabled = at === stops.length - 1;
}

function go(to) {
    at = Math.max(0, Math.min(stops.length - 1, to));
    if (!one) {
        cancelAnimationFrame(moving);
        stops[at].element.scrollIntoView({ block: "start", behavior: still.matches ? "instant" : "smooth" });
        jumping = !still.matches;
        place = scrollY;
    }
    show();
}
const goStep = (name) => go(stops.findIndex((stop) => stop.step === name && stop.key >= 0)); // its key change, which the drawing shows

/* walk.html#one shows one change at a time, with buttons: so another page has it in a frame, and nothing scrolls inside. */
const one = linked().has("one");
document.documentElement.classList.toggle("one", one);
$("back").onclick = () => go(at - 1);
$("next").onclick = () => go(at + 1);
onmessage = (event) => { document.documentElement.dataset.theme = event.data.theme; }; // light or dark, as that page

tell();
$("lines").textContent = data.lines;
$("picture").innerHTML = `<svg id="svg" role="img" viewBox="0 10 370 400">${PARTS()}</svg>`;
const names = ["01", ...data.steps.map((step) => step.name)];
$("rail").replaceChildren(...names.map((name) => Object.assign(document.createElement("button"), { type: "button", textContent: name, onclick: () => goStep(name) })));
$("rail").hidden = $("keys").hidden = false;

/* Scrolling moves to the last change whose top has passed the upper third of what is free; keys and buttons scroll. */
if (!one) onscroll = () => {
    if (jumping || scrollY === place) return; // a key or button has led to a short change, below which the next is already in sight
    cancelAnimationFrame(moving);
    moving = requestAnimationFrame(() => {
        const free = matchMedia("(max-width: 64rem)").matches ? document.querySelector(".stage").offsetHeight : 0;
        const line = free + (innerHeight - free) * 0.4, passed = stops.findLastIndex((stop) => stop.element.getBoundingClientRect().top < line);
        const end = scrollY + innerHeight > document.documentElement.scrollHeight - 4;
        const now = end ? stops.length - 1 : Math.max(0, passed);
        if (now !== at) { at = now; show(); }
    });
};
onwheel = ontouchmove = () => { jumping = false; };
onscrollend = () => {
    if (jumping) place = scrollY;
    jumping = false;
};
document.onkeydown = (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || e.target.matches("pre") && e.key.startsWith("Arrow")) return;
    const act = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(stops.length) }[e.key];
    if (act) act();
    else if (names[+e.key - 1]) goStep(names[+e.key - 1]);
    else return;
    e.preventDefault();
};

/* walk.html#step=02b&change=2 is a link to a change, for slides and texts. */
function open_() {
    const wanted = linked(), number = +(wanted.get("change") ?? 1);
    const to = stops.findIndex((stop) => stop.step === wanted.get("step") && stop.number === number);
    if (to > 0) go(to);
    else show();
}
onhashchange = open_;
open_();
