// Brings the page's charts to life: values under the pointer, zoom, smoothing, logarithmic axes, runs that are hidden. Without it
// the page shows the same curves, drawn by lockstep itself (chart.cpp), in the same coordinates: 0 to 1000 both ways.
"use strict";
(() => {
  const view = { from: -Infinity, to: Infinity, smoothing: 0, logX: false, logY: false, hidden: new Set() };

  // Axes: ticks at multiples of 1, 2 or 5 with short numbers, as base/text/ticks.cpp has them.
  const label = (value, exponent, largest) => {
    const thousands = largest < 1e4 ? 0 : Math.floor(Math.log10(largest) / 3);
    const decimals = Math.max(0, -exponent), decimalsOfUnit = Math.max(0, 3 * thousands - exponent);
    if (largest < 1e-3 || thousands > 6 || decimals > 9) return String(+value.toPrecision(12));
    if (thousands === 0 || decimalsOfUnit > 2) return value.toFixed(decimals);
    return value === 0 ? "0" : (value / 10 ** (3 * thousands)).toFixed(decimalsOfUnit) + "kMGTPE"[thousands - 1];
  };
  const linearTicks = (low, high, most, whole) => {
    const smallest = Math.floor(Math.log10((high - low) / most));
    for (let exponent = whole ? Math.max(smallest, 0) : smallest; ; ++exponent) {
      for (const times of [1, 2, 5]) {
        const step = times * 10 ** exponent, slack = 1e-9;
        const first = Math.ceil(low / step - slack), last = Math.floor(high / step + slack);
        if (last - first >= most) continue;
        const largest = Math.max(Math.abs(first), Math.abs(last)) * step;
        return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step)
          .map((value) => ({ value, text: label(value, exponent, largest) }));
      }
    }
  };
  const logTicks = (low, high, most) => {
    const all = [];
    for (let exponent = Math.floor(Math.log10(low)); 10 ** exponent <= high; ++exponent) {
      for (const times of [1, 2, 5]) all.push({ times, exponent, value: times * 10 ** exponent });
    }
    const inside = all.filter((tick) => tick.value >= low && tick.value <= high);
    const tens = inside.filter((tick) => tick.times === 1);
    const every = Math.ceil(tens.length / most);
    return (inside.length <= most ? inside : tens.filter((_, i) => i % every === 0))
      .map((tick) => ({ value: tick.value, text: label(tick.value, tick.exponent, tick.value) }));
  };

  // An axis from low to high: value to part (0 to 1) and back.
  const axis = (low, high, log) => {
    if (!(low < high)) [low, high] = low > high ? [log ? 1 : 0, log ? 10 : 1] : low === 0 ? [-1, 1] : [low * 0.9, low * 1.1];
    if (low > high) [low, high] = [high, low];
    const by = log ? Math.log : (value) => value;
    const part = (value) => (by(value) - by(low)) / (by(high) - by(low));
    const value = (at) => log ? low * (high / low) ** at : low + at * (high - low);
    const ticks = (most, whole) => log && high / low >= 10 ? logTicks(low, high, most) : linearTicks(low, high, most, whole);
    return { low, high, part, value, ticks };
  };

  const isDrawn = (x, y) => x !== null && y !== null && (!view.logX || x > 0) && (!view.logY || y > 0);

  // Points with x in from..to and where lines cross these; null where a line has a gap.
  const pointsIn = (x, y, from, to) => {
    const points = [];
    const at = (i, edge) => [edge, y[i - 1] + (edge - x[i - 1]) / (x[i] - x[i - 1]) * (y[i] - y[i - 1])];
    for (let i = 0; i < x.length; ++i) {
      if (!isDrawn(x[i], y[i])) {
        points.push(null);
        continue;
      }
      const joined = i > 0 && isDrawn(x[i - 1], y[i - 1]);
      if (joined && x[i - 1] < from && x[i] > from) points.push(at(i, from));
      if (joined && x[i - 1] < to && x[i] > to) points.push(at(i, to));
      if (x[i] >= from && x[i] <= to) points.push([x[i], y[i]]);
    }
    return points;
  };

  // The mean of all values before, those further back with less weight.
  const smoothed = (y, weight) => {
    let sum = 0, weights = 0;
    return y.map((value) => {
      if (value === null) return null;
      sum = weight * sum + (1 - weight) * value;
      weights = weight * weights + 1 - weight;
      return sum / weights;
    });
  };

  const short = (value) => {
    const size = Math.abs(value);
    return size < 1e4 ? String(+value.toPrecision(5)) : label(value, Math.floor(Math.log10(size)) - 2, size);
  };
  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  class Chart {
    constructor(figure) {
      Object.assign(this, JSON.parse(figure.querySelector("script").textContent), { figure });
      this.turns = Math.min(6, new Set(this.curves.map((curve) => curve.run)).size);
      this.plot = figure.querySelector(".plot");
      this.svg = this.plot.querySelector("svg");
      this.axes = this.svg.querySelector(".axes");
      this.lines = this.svg.querySelector(".curves");
      this.svg.insertAdjacentHTML("beforeend", '<rect class="selection" height="100%" visibility="hidden"/>');
      this.svg.insertAdjacentHTML("beforeend", '<line class="cursor" y2="100%" visibility="hidden"/>');
      this.points = this.svg.appendChild(this.lines.cloneNode(false));  // of the curves under the pointer
      this.selection = this.svg.querySelector(".selection");
      this.cursor = this.svg.querySelector(".cursor");
      this.tip = this.plot.appendChild(element("div", "tip"));
      this.tip.hidden = true;
      this.listen();
    }

    draw() {
      const shown = this.curves.filter((curve) => !view.hidden.has(curve.run));
      const drawn = shown.map((curve) => {
        const soft = view.smoothing > 0 && !curve.validation;
        const raw = pointsIn(curve.x, curve.y, view.from, view.to);
        return { curve, raw, line: soft ? pointsIn(curve.x, smoothed(curve.y, view.smoothing), view.from, view.to) : raw, soft };
      });
      const extent = (index) => {
        const values = drawn.flatMap(({ raw, line }) => [...raw, ...line]).filter((point) => point).map((point) => point[index]);
        return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
      };
      let [low, high] = extent(1);
      if (this.zero && !view.logY) low = 0;
      const margin = 0.04;
      if (low < high) {
        const ratio = (high / low) ** margin, room = (high - low) * margin;
        high = view.logY ? high * ratio : high + room;
        if (!this.zero || view.logY) low = view.logY ? low / ratio : low - room;
      }
      this.clear();
      this.x = axis(...extent(0), view.logX);
      this.y = axis(low, high, view.logY);
      this.axes.innerHTML = this.axesText();
      this.lines.innerHTML = drawn.map((one) => this.faint(one)).join("") + drawn.map((one) => this.line(one)).join("") +
        (this.turns > 1 ? drawn.map((one) => this.line(one, this.turns)).join("") : "") +
        drawn.map((one) => this.marks(one)).join("");
    }

    axesText() {
      const percent = (part) => (100 * part).toFixed(2) + "%";
      const rows = this.y.ticks(6).map(({ value, text }) => {
        const y = percent(1 - this.y.part(value));
        return `<line class="grid" x2="100%" y1="${y}" y2="${y}"/><text x="-8" y="${y}" dy="4" text-anchor="end">${text}</text>`;
      });
      const columns = this.x.ticks(7, true).map(({ value, text }) => {
        const x = percent(this.x.part(value));
        return `<line class="grid" x1="${x}" x2="${x}" y2="100%"/>` +
          `<text x="${x}" y="100%" dy="18" text-anchor="middle">${text}</text>`;
      });
      return rows.join("") + columns.join("");
    }
    place([x, y]) {
      return `${(1000 * this.x.part(x)).toFixed(1)} ${(1000 - 1000 * this.y.part(y)).toFixed(1)}`;
    }
    path(points) {
      return points.map((point, i) => point ? (i > 0 && points[i - 1] ? "L" : "M") + this.place(point) : "").join("");
    }
    faint({ curve, raw, soft }) {
      return soft ? `<path class="faint ${curve.class}" d="${this.path(raw)}"/>` : "";
    }
    // The second time in turns with the others, so that curves that lie on each other are all seen.
    line({ curve, line }, turns = 0) {
      const dash = turns ? ` style="stroke-dasharray:8 ${8 * turns - 8};stroke-dashoffset:${-8 * (curve.run % turns)}"` : "";
      return `<path class="line ${curve.class}"${dash} d="${this.path(line)}"/>`;
    }
    marks({ curve, raw, soft }) {
      const points = raw.filter((point) => point && point[0] >= view.from && point[0] <= view.to);
      if (soft || points.length > (curve.validation ? 60 : 40)) return "";
      const dots = points.map((point) => `M${this.place(point)}h0`).join("");
      const wider = 1.5 * (this.turns - 1 - curve.run % this.turns);  // each leaves some of those below to be seen
      const mark = (kind, wide) => `<path class="${kind} ${curve.class}" style="stroke-width:${wide + wider}" d="${dots}"/>`;
      return curve.validation ? mark("ring", 8) + mark("hole", 4.5) : mark("dot", 5);
    }

    partAt(event) {
      const box = this.svg.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    }
    listen() {
      let start = null;
      this.plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        start = this.partAt(event);
        this.plot.setPointerCapture(event.pointerId);
        this.show(event);
      });
      this.plot.addEventListener("pointermove", (event) => {
        this.show(event);
        if (start !== null) this.select(start, this.partAt(event));
      });
      this.plot.addEventListener("pointerup", (event) => {
        const end = this.partAt(event);
        if (start !== null && Math.abs(end - start) > 0.02) {
          [view.from, view.to] = [this.x.value(Math.min(start, end)), this.x.value(Math.max(start, end))];
          drawAll();
        }
        start = null;
        this.selection.setAttribute("visibility", "hidden");
      });
      this.plot.addEventListener("pointercancel", () => {
        start = null;
        this.selection.setAttribute("visibility", "hidden");
      });
      this.plot.addEventListener("pointerleave", (event) => {
        if (event.pointerType !== "touch") charts.forEach((chart) => chart.hide());  // a finger that is lifted leaves
      });
      this.plot.addEventListener("dblclick", reset);
    }
    select(from, to) {
      this.selection.setAttribute("visibility", "visible");
      this.selection.setAttribute("x", 100 * Math.min(from, to) + "%");
      this.selection.setAttribute("width", 100 * Math.abs(to - from) + "%");
    }

    // What the curves have nearest to x: [curve, x, y, y smoothed].
    valuesAt(x) {
      const reach = (this.x.high - this.x.low) / 40;
      return this.curves.filter((curve) => !view.hidden.has(curve.run)).flatMap((curve) => {
        let best = -1;
        curve.x.forEach((at, i) => {
          if (isDrawn(at, curve.y[i]) && (best < 0 || Math.abs(at - x) < Math.abs(curve.x[best] - x))) best = i;
        });
        if (best < 0 || Math.abs(curve.x[best] - x) > reach) return [];
        const soft = view.smoothing > 0 && !curve.validation ? smoothed(curve.y, view.smoothing)[best] : null;
        return [{ curve, x: curve.x[best], y: curve.y[best], soft }];
      });
    }
    show(event) {
      const part = this.partAt(event), x = this.x.value(part), values = this.valuesAt(x);
      charts.forEach((chart) => chart.mark(x));
      charts.forEach((chart) => chart === this || chart.clear());
      this.tip.hidden = values.length === 0;
      this.points.innerHTML = values.map(({ curve, x: at, y, soft }) =>
        `<path class="dot ${curve.class}" style="stroke-width:7" d="M${this.place([at, soft ?? y])}h0"/>`).join("");
      if (values.length === 0) return;
      const most = 10, height = this.svg.getBoundingClientRect();
      const pointer = this.y.value(1 - (event.clientY - height.top) / height.height);
      const near = [...values].sort((a, b) => Math.abs(a.y - pointer) - Math.abs(b.y - pointer)).slice(0, most);
      const nearest = values.reduce((a, b) => Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a);
      this.tip.replaceChildren(element("b", "", `${this.label} ${Math.round(nearest.x).toLocaleString("en")}`),
        ...values.filter((value) => near.includes(value)).map(({ curve, y, soft }) => {
          const row = element("div", curve.class);
          row.append(element("i", curve.validation ? "open" : ""), element("span", "", curve.name),
            element("span", "value", short(y) + (soft === null ? "" : ` (${short(soft)})`)));
          return row;
        }));
      if (values.length > most) this.tip.append(element("div", "", `and ${values.length - most} more`));
      this.tip.style.left = part < 0.5 ? `calc(${100 * part}% + 14px)` : "auto";
      this.tip.style.right = part < 0.5 ? "auto" : `calc(${100 - 100 * part}% + 14px)`;
    }
    mark(x) {
      const part = this.x.part(x);
      this.cursor.setAttribute("visibility", part >= 0 && part <= 1 ? "visible" : "hidden");
      this.cursor.setAttribute("x1", 100 * part + "%");
      this.cursor.setAttribute("x2", 100 * part + "%");
    }
    clear() {
      this.tip.hidden = true;
      this.points.innerHTML = "";
    }
    hide() {
      this.cursor.setAttribute("visibility", "hidden");
      this.clear();
    }
  }

  const tools = document.querySelector(".tools"), whole = tools.querySelector("button");
  const drawAll = () => {
    charts.forEach((chart) => chart.draw());
    whole.disabled = view.from === -Infinity;
  };
  const reset = () => {
    [view.from, view.to] = [-Infinity, Infinity];
    drawAll();
  };
  let charts = [];
  const bring = () => {
    charts = [...document.querySelectorAll("figure.lines")]
      .map((figure) => charts.find((chart) => chart.figure === figure) ?? new Chart(figure));
    document.querySelectorAll(".key[data-run]")
      .forEach((key) => key.setAttribute("aria-pressed", view.hidden.has(+key.dataset.run)));
    tools.hidden = charts.length === 0;
    drawAll();
  };

  tools.addEventListener("input", () => {
    view.smoothing = +tools.querySelector("[name=smoothing]").value;
    view.logX = tools.querySelector("[name=x]").checked;
    view.logY = tools.querySelector("[name=y]").checked;
    tools.querySelector("output").textContent = view.smoothing.toFixed(2);
    drawAll();
  });
  whole.addEventListener("click", reset);
  document.addEventListener("keydown", (event) => event.key === "Escape" && reset());
  document.addEventListener("click", (event) => {
    const key = event.target.closest(".key[data-run]"), run = +key?.dataset.run;
    if (!key) return;
    if (!view.hidden.delete(run)) view.hidden.add(run);
    document.querySelectorAll(`.key[data-run="${run}"]`)
      .forEach((other) => other.setAttribute("aria-pressed", view.hidden.has(run)));
    drawAll();
  });

  // `lockstep watch` sends parts of the page again when they have changed. All text in them was escaped by lockstep, and
  // nothing that is parsed here runs.
  const live = document.querySelector("#live");
  const parts = (root) => [...root.querySelectorAll("header, section")];
  let served = live && parts(document).map((part) => part.outerHTML);  // without what charts add
  const refresh = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html"), old = parts(document), now = parts(fresh);
    const texts = now.map((part) => part.outerHTML);
    if (texts.join() === served.join()) return;
    document.querySelectorAll(".all:checked").forEach((box) => {
      const same = fresh.getElementById(box.id);
      if (same) same.checked = true;
    });
    const scrolls = [...document.querySelectorAll(".wide")].map((wide) => wide.scrollLeft);
    if (old.length === now.length) {
      now.forEach((part, i) => texts[i] === served[i] || old[i].replaceWith(part));
    } else {
      old[0].replaceWith(now[0]);
      document.querySelector("main").replaceWith(fresh.querySelector("main"));
    }
    [...document.querySelectorAll(".wide")].forEach((wide, i) => wide.scrollLeft = scrolls[i] ?? 0);
    served = texts;
    bring();
  };
  const follow = () => {
    let waiting = null;  // while a zoom is drawn
    const source = new EventSource("events");
    const take = () => {
      if (waiting === null || document.querySelector(".plot:active")) return;
      refresh(waiting);
      waiting = null;
    };
    live.textContent = "Connecting to lockstep.";
    source.onopen = () => live.textContent = "This page follows the runs.";
    source.onerror = () => live.textContent = "Nothing new comes: lockstep has ended, or has too many readers.";
    source.onmessage = (event) => {
      waiting = event.data;
      take();
    };
    document.addEventListener("pointerup", () => setTimeout(take));
  };
  bring();
  if (live) follow();
})();
