// Draws all phones small on a canvas, around the large phones. The colour of a phone depends on the state that it shows.

export const STATES = ["empty", "active", "stale", "ended", "gone", "offline"];
const URGENT = 0x10;
const FLASH_MILLISECONDS = { 5: 420, 10: 900 };
const LEVELS = 10;
const GAP = 16;
// The height of the cell in which a small phone is drawn, as a multiple of the cell's smallest width (size).
const TALL = 1.72;

// Hues of OKLCH in degrees. The season's teams have fixed hues. The hue of any other name is computed from its letters.
const HUES = { CSK: 95, SRH: 55, RCB: 25, KXIP: 8, RR: 350, KKR: 305, MI: 258, DD: 228 };

export function hueOf(name) {
  if (name in HUES) return HUES[name];
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 3600;
  return (hash * 137) % 360;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Field {
  constructor(canvas, { obstacles, onOpen, onHint }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.obstacles = obstacles;
    this.onOpen = onOpen;
    this.onHint = onHint;
    this.count = 0;
    this.cursor = -1;
    this.tints = [];
    this.colours = new Map();
    this.frames = 0;
    this.reset(0);
    new ResizeObserver(() => this.arrange()).observe(canvas.parentElement);
    dark.addEventListener("change", () => { this.colours.clear(); this.isDirty = true; });
    canvas.addEventListener("click", (event) => {
      const phone = this.phoneAt(event.offsetX, event.offsetY);
      if (phone >= 0) { this.moveCursor(phone); this.onOpen(phone); }
    });
    canvas.addEventListener("pointermove", (event) => this.onHint(this.phoneAt(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => this.onHint(-1));
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("focus", () => { if (this.cursor < 0 && this.count) this.moveCursor(0); this.isDirty = true; });
    canvas.addEventListener("blur", () => { this.isDirty = true; });
    requestAnimationFrame((now) => this.draw(now));
  }

  reset(count) {
    this.count = count;
    this.state = new Uint8Array(count);
    this.alerts = new Uint8Array(count);
    this.tint = new Uint8Array(count);
    this.shade = new Uint8Array(count);
    this.flashBegan = new Float64Array(count).fill(-1e9);
    this.flashLevel = new Int8Array(count);
    this.cursor = Math.min(this.cursor, count - 1);
    this.arrange();
  }

  // Takes an answer of GET /screens. It has all phones (isWhole), or the changes of a quarter of a second without their
  // times. The flash of a change begins at a random time within the next quarter of a second.
  take(screens, isWhole) {
    if (isWhole || screens.phones !== this.count) this.reset(screens.phones);
    if (screens.tints.length !== this.tints.length) { this.tints = screens.tints.map(hueOf); this.names = screens.tints; this.colours.clear(); }
    const bytes = Uint8Array.from(atob(screens.screens), (letter) => letter.charCodeAt(0));
    const now = performance.now();
    for (let at = 0; at + 6 <= bytes.length; at += 6) {
      const phone = bytes[at] | (bytes[at + 1] << 8);
      if (phone >= this.count) continue;
      this.state[phone] = bytes[at + 2];
      this.alerts[phone] = bytes[at + 3];
      this.tint[phone] = bytes[at + 4];
      this.shade[phone] = bytes[at + 5];
      this.flashBegan[phone] = isWhole ? -1e9 : now + Math.random() * 250;
      this.flashLevel[phone] = -1;
    }
    if (isWhole) this.isDirty = true;
  }

  // MARK: places

  // Makes the small phones as large as the room around the large phones (`obstacles`) permits.
  arrange() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = Math.max(1, Math.round(box.width));
    this.height = Math.max(1, Math.round(box.height));
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const holes = this.obstacles().map((hole) => ({
      left: hole.left - box.left - GAP, right: hole.right - box.left + GAP,
      top: hole.top - box.top - GAP, bottom: hole.bottom - box.top + GAP,
    }));
    this.places = [];
    if (!this.count) return;
    const largest = (fits) => {
      let [low, high] = [2, 40];
      for (let step = 0; step < 14; step++) {
        const middle = (low + high) / 2;
        if (fits(middle)) low = middle; else high = middle;
      }
      return low;
    };
    // First finds the largest size that fits, then the widest spacing that fits, so that the last row is full.
    const size = largest((pitch) => this.placed(pitch, pitch * TALL, holes, true) >= this.count);
    this.tall = size * TALL;
    this.pitch = largest((pitch) => pitch >= size * 1.3 ? false : this.placed(pitch, this.tall, holes, true) >= this.count);
    this.size = size;
    this.places = this.placed(this.pitch, this.tall, holes, false);
    this.isDirty = true;
  }

  placed(pitch, tall, holes, countsOnly) {
    const columns = Math.floor(this.width / pitch);
    const rows = Math.floor(this.height / tall);
    const left = (this.width - columns * pitch) / 2;
    const top = (this.height - rows * tall) / 2;
    const places = [];
    let count = 0;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const x = left + column * pitch, y = top + row * tall;
        if (holes.some((hole) => x + pitch > hole.left && x < hole.right && y + tall > hole.top && y < hole.bottom)) continue;
        count++;
        if (!countsOnly && places.length < this.count) places.push({ x, y, row, column });
      }
    }
    return countsOnly ? count : places;
  }

  phoneAt(x, y) {
    if (!this.places.length) return -1;
    return this.places.findIndex((place) => x >= place.x && x < place.x + this.pitch && y >= place.y && y < place.y + this.tall);
  }

  // MARK: keys

  pressed(event) {
    const here = this.places[this.cursor];
    if (!here) return;
    const nearest = (fits, distance) => {
      let [best, least] = [this.cursor, Infinity];
      this.places.forEach((place, phone) => {
        if (fits(place) && distance(place) < least) [best, least] = [phone, distance(place)];
      });
      return best;
    };
    const below = (place) => Math.abs(place.row - here.row) * 1000 + Math.abs(place.x - here.x);
    switch (event.key) {
      case "ArrowRight": this.moveCursor(Math.min(this.count - 1, this.cursor + 1)); break;
      case "ArrowLeft": this.moveCursor(Math.max(0, this.cursor - 1)); break;
      case "ArrowDown": this.moveCursor(nearest((place) => place.row > here.row, below)); break;
      case "ArrowUp": this.moveCursor(nearest((place) => place.row < here.row, below)); break;
      case "Home": this.moveCursor(0); break;
      case "End": this.moveCursor(this.count - 1); break;
      case "Enter": case " ": this.onOpen(this.cursor); break;
      default: return;
    }
    event.preventDefault();
  }

  moveCursor(phone) {
    this.cursor = phone;
    this.onHint(phone);
    this.isDirty = true;
  }

  describe(phone) {
    const state = STATES[this.state[phone] & 0x0f];
    const shows = state === "empty" ? "" : `, ${this.names?.[this.tint[phone]] ?? ""}`;
    return `phone ${(phone + 1).toLocaleString("en")} of ${this.count.toLocaleString("en")}: ${state === "gone" ? "dismissed" : state}${shows}`;
  }

  // MARK: colours

  colour(state, tint, shade, level, isUrgent) {
    const key = (((state * 256 + tint) * 8 + (shade & 7)) * (LEVELS + 1) + level) * 2 + (isUrgent ? 1 : 0);
    const known = this.colours.get(key);
    if (known) return known;
    const isDark = dark.matches;
    const hue = this.tints[tint] ?? 0;
    const turn = ((shade & 7) - 3.5) / 3.5;
    let [light, chroma, alpha] = isDark ? [0.6 + turn * 0.075, 0.125, 0.92] : [0.74 + turn * 0.06, 0.125, 0.95];
    switch (STATES[state]) {
      case "stale": [chroma, alpha] = [0.05, 0.6]; break;
      case "ended": [light, chroma, alpha] = isDark ? [0.46 + turn * 0.03, 0.055, 0.8] : [0.82 + turn * 0.02, 0.05, 0.9]; break;
      case "gone": case "empty": case "offline": [light, chroma, alpha] = [0.6, 0, 0.16]; break;
    }
    const part = level / LEVELS;
    const [toLight, toChroma] = isUrgent
      ? (isDark ? [0.98, 0.02] : [0.5, 0.21])
      : (isDark ? [0.8, 0.13] : [0.88, 0.09]);
    light += (toLight - light) * part;
    chroma += (toChroma - chroma) * part;
    alpha += (1 - alpha) * part;
    const text = `oklch(${light.toFixed(3)} ${chroma.toFixed(3)} ${hue} / ${alpha.toFixed(2)})`;
    this.colours.set(key, text);
    return text;
  }

  // MARK: drawing

  draw(now) {
    this.frames++;
    const { context, places } = this;
    const everything = this.isDirty;
    if (everything) context.clearRect(0, 0, this.width, this.height);
    this.isDirty = false;
    const motion = calm.matches ? 0 : 1;
    const width = Math.max(1, this.size * 0.68), height = Math.max(2, this.size * 1.4), corner = Math.min(width * 0.3, 4);
    for (let phone = 0; phone < places.length; phone++) {
      const age = now - this.flashBegan[phone];
      const isUrgent = (this.state[phone] & URGENT) !== 0;
      const lasts = FLASH_MILLISECONDS[isUrgent ? 10 : 5];
      let level = 0;
      if (age >= 0 && age < lasts) level = Math.max(1, Math.round(LEVELS * (1 - age / lasts) * motion));
      else if (age < 0 && age > -1000) continue;
      if (!everything && level === this.flashLevel[phone]) continue;
      this.flashLevel[phone] = level;
      const { x, y } = places[phone];
      if (!everything) context.clearRect(x, y, this.pitch, this.tall);
      context.fillStyle = this.colour(this.state[phone] & 0x0f, this.tint[phone], this.shade[phone], level, isUrgent);
      context.beginPath();
      context.roundRect(x + (this.pitch - width) / 2, y + (this.tall - height) / 2, width, height, corner);
      context.fill();
    }
    if (this.cursor >= 0 && places[this.cursor] && document.activeElement === this.canvas) this.drawCursor(places[this.cursor]);
    requestAnimationFrame((next) => this.draw(next));
  }

  drawCursor({ x, y }) {
    this.context.strokeStyle = dark.matches ? "#fff" : "#000";
    this.context.lineWidth = 1.5;
    this.context.strokeRect(x + 0.75, y + 0.75, this.pitch - 1.5, this.tall - 1.5);
  }
}
