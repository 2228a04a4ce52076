/* The picture of the sampler: deals the rows of an epoch to the ranks, as common/data/sampler.c does. */
"use strict";
const TRAVEL = 420, REST = 320; // milliseconds: a card on its way; between two rounds when dealing
const rows = data.rows.length;
let n = 4, epoch = 0, round = 0, playing = 0;

/* The order from which a rank takes its cards, padded or cut so that all ranks get the same number. */
function order(rank) {
    const shift = ($("forgot").checked ? 0 : epoch) + ($("own").checked ? rank : 0);
    const all = $("plain").checked ? data.orders[0].map((_, i) => i) : data.orders[shift % data.orders.length];
    const rest = rows % n, total = rows - rest + (rest > 0 && !$("drop").checked ? n : 0);
    return Array.from({ length: total }, (_, i) => ({ row: all[i % rows], again: i >= rows }));
}

/* The cards of a rank: r, r + n, r + 2n ... of its order. */
const share = (rank) => order(rank).filter((_, i) => i % n === rank);

function card(row, kind = "", note = "") {
    const item = document.createElement("li");
    item.className = `card-row ${kind}`;
    item.dataset.row = row;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 8;
    const context = canvas.getContext("2d"), image = context.createImageData(8, 8);
    [...data.rows[row].pixels].forEach((level, i) => image.data.set([0, 0, 0, 0].map((_, c) => c < 3 ? 255 - Math.round(parseInt(level, 17) * 255 / 16) : 255), 4 * i));
    context.putImageData(image, 0, 0);
    item.append(canvas, String(row));
    item.title = `row ${row}: a ${data.rows[row].label}${note ? `, ${note}` : ""}`;
    if (note) item.append(Object.assign(document.createElement("b"), { textContent: note }));
    return item;
}

/* How often each row has been dealt in these rounds, padding apart. */
function counts(shares) {
    const times = Array(rows).fill(0);
    for (const own of shares) for (const { row, again } of own.slice(0, round)) if (!again) times[row]++;
    return times;
}

const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

function verdict(shares, times) {
    const last = round === shares[0].length, twice = times.filter((t) => t > 1).length, never = times.filter((t) => t === 0).length;
    const again = shares.flat().filter((c) => c.again).length, dropped = $("drop").checked ? rows % n : 0;
    if (!last) return ["", `${plural(round, "round")} of ${shares[0].length} dealt.`];
    if (twice) return ["wrong", `✕ ${plural(twice, "row")} came twice or more, ${plural(never, "row")} never: each rank shuffled with a seed of its own.`];
    if ($("forgot").checked && epoch > 0) return ["twin", `! Epoch ${epoch} dealt what epoch 0 dealt: without sampler_set_epoch the order never changes.`];
    const tail = dropped ? ` ${plural(dropped, "row")} left out (drop_last); another epoch leaves out others.` : again ? ` ${plural(again, "card")} came again, so that all ranks have ${shares[0].length}.` : "";
    return ["right", `✓ Each row came once.${tail}`];
}

function draw() {
    const shares = Array.from({ length: n }, (_, r) => share(r)), times = counts(shares), last = round === shares[0].length;
    const common = order(0), padded = round > 0 && shares.some((own) => own[round - 1].again);
    $("deck").replaceChildren(...common.map(({ row, again }, i) => {
        const never = last && times[row] === 0;
        return card(row, [again ? "again" : "", i < round * n && !$("own").checked ? "dealt" : "", never ? "never" : ""].join(" "), again ? "again" : never ? "never" : "");
    }));
    if ($("drop").checked) for (const row of Array.from({ length: rows }, (_, i) => i).filter((r) => !common.some((c) => c.row === r)))
        $("deck").append(card(row, "again", "left out"));
    $("trays").replaceChildren(...shares.map((own, r) => {
        const tray = Object.assign(document.createElement("div"), { className: "tray" }), list = Object.assign(document.createElement("ol"), { className: "rows" });
        const plate = Object.assign(document.createElement("span"), { className: "plate", textContent: r });
        plate.style.cssText = `background:var(--rank-${r});color:var(--rank-${r}-on)`;
        list.setAttribute("aria-label", `rows of rank ${r}`);
        list.append(...own.slice(0, round).map(({ row, again }) => {
            const twice = !again && times[row] > 1, item = card(row, again ? "again" : twice ? "twice" : "", again ? "again" : twice ? "twice" : "");
            if (!twice) item.style.borderColor = `var(--rank-${r})`;
            return item;
        }));
        tray.append(plate, list);
        return tray;
    }));
    const [kind, text] = verdict(shares, times);
    $("verdict").className = `values ${kind}`;
    $("verdict").textContent = text;
    $("sides").innerHTML = shares.map((own, r) => `<tr><td>${r}<td>${own.length}<td>${own.slice(0, 6).map((c) => c.row).join(" ")}${own.length > 6 ? " ..." : ""}`).join("");
    $("order").textContent = $("plain").checked ? "as stored" : $("own").checked ? "rank 0's; the others have their own" : `seed 0 + epoch ${$("forgot").checked ? 0 : epoch}`;
    $("where").textContent = `epoch ${epoch}, ${plural(n, "rank")}`;
    $("now").textContent = round === 0 ? `${rows} rows, ${plural(n, "rank")}: ${rows % n ? `${n} do not divide ${rows}` : "it divides"}.`
        : `Round ${round}: rank r takes card ${(round - 1) * n} + r${padded ? "; the order continues with its own beginning" : ""}.`;
    $("nis").textContent = `n = ${n}`; $("n").value = n;
    $("epochis").textContent = `epoch ${epoch}`; $("epoch").value = epoch;
    $("previous").disabled = round === 0;
    $("next").disabled = last;
    $("play").textContent = playing ? "Pause" : last ? "Again" : "Deal";
    const forgot = $("forgot").checked && epoch > 0; // no order is drawn in this epoch
    markCode(padded ? [/order\[i\] = sampler->order\[i - n\]/] : round > 0 ? [/index\[i\] =/] : forgot ? [] : [/rng_permutation/]);
}

/* Deals the next round: its cards fly from the deck to the trays. */
function deal() {
    const before = [...$("deck").children].map((item) => [item.dataset.row, item.getBoundingClientRect()]);
    round++;
    draw();
    if (still.matches) return;
    [...$("trays").children].forEach((tray, r) => {
        const item = tray.querySelector("ol").lastElementChild;
        const place = $("own").checked ? before.findIndex(([row]) => row === item.dataset.row) : (round - 1) * n + r;
        const from = before[place]?.[1], to = item.getBoundingClientRect();
        if (from) item.animate([{ transform: `translate(${from.x - to.x}px, ${from.y - to.y}px)` }, { transform: "none" }], { duration: TRAVEL, easing: "ease-in-out" });
    });
}

const rounds = () => share(0).length;
function pause() {
    clearTimeout(playing);
    playing = 0;
    draw();
}
function tick() {
    if (round === rounds()) return pause();
    deal();
    playing = setTimeout(tick, (still.matches ? 0 : TRAVEL) + REST);
}
function play() {
    if (playing) return pause();
    if (round === rounds()) round = 0;
    playing = 1;
    tick();
}
function forward() {
    pause();
    if (round < rounds()) deal();
}
function set(ranks, number, deals) {
    clearTimeout(playing);
    playing = 0;
    n = ranks;
    epoch = number;
    round = Math.min(deals, rounds());
    draw();
}

$("previous").onclick = () => set(n, epoch, round - 1);
$("next").onclick = forward;
$("play").onclick = play;
$("n").oninput = () => set(+$("n").value, epoch, 0);
$("epoch").oninput = () => set(n, +$("epoch").value, round);
for (const id of ["drop", "forgot", "own", "plain"]) $(id).onchange = () => set(n, epoch, round);
document.onkeydown = (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const slider = e.target.matches("input"), button = e.target.matches("button");
    if (e.key === "ArrowRight" && !slider) forward();
    else if (e.key === "ArrowLeft" && !slider) set(n, epoch, Math.max(0, round - 1));
    else if (e.key === " " && !slider && !button) play();
    else if (/^[1-8]$/.test(e.key)) set(+e.key, epoch, 0);
    else if (e.key.toLowerCase() === "e") set(n, (epoch + 1) % 8, round);
    else return;
    e.preventDefault();
};
showCode(data.code);
$("controls").hidden = $("keys").hidden = false;

/* sampler.html#n=3&epoch=1&round=4&own: a link to a frame, for slides and texts. */
function show() {
    const wanted = linked();
    for (const id of ["drop", "forgot", "own", "plain"]) $(id).checked = wanted.has(id);
    const number = (name, least, most, otherwise) => wanted.has(name) ? Math.max(least, Math.min(most, +wanted.get(name) || 0)) : otherwise;
    set(number("n", 1, 8, 4), number("epoch", 0, 7, 0), number("round", 0, rows, 0));
}
window.onhashchange = show;
show();
