// Draws all phones small on a canvas, around the large phones. The colour of a phone depends on the state that it
// shows.

export const STATES = ["empty", "active", "stale", "ended", "gone", "offline"];
const URGENT = 0x10;
const FLASH_MILLISECONDS = { 5: 420, 10: 900 };
const FLASH_LEVELS = 10;
const OBSTACLE_GAP = 16;
// The height of the cell in which a small phone is drawn, as a multiple of the cell's smallest width (cellWidthMin).
const CELL_HEIGHT_RATIO = 1.72;

// Hues of OKLCH in degrees. The season's teams have fixed hues. The hue of any other name is computed from its letters.
const HUES = { CSK: 95, SRH: 55, RCB: 25, KXIP: 8, RR: 350, KKR: 305, MI: 258, DD: 228 };

export function hueOf(name) {
  if (name in HUES) return HUES[name];
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 3600;
  return (hash * 137) % 360;
}

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export class PhoneGrid {
  constructor(canvas, { obstacles, onOpen, onPointedPhone }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.obstacles = obstacles;
    this.onOpen = onOpen;
    this.onPointedPhone = onPointedPhone;
    this.count = 0;
    this.cursor = -1;
    this.hues = [];
    this.colourTexts = new Map();
    this.framesDrawn = 0;
    this.reset(0);
    new ResizeObserver(() => this.arrange()).observe(canvas.parentElement);
    darkScheme.addEventListener("change", () => { this.colourTexts.clear(); this.mustRedrawAll = true; });
    canvas.addEventListener("click", (event) => {
      const phone = this.phoneAt(event.offsetX, event.offsetY);
      if (phone >= 0) { this.moveCursor(phone); this.onOpen(phone); }
    });
    canvas.addEventListener("pointermove", (event) => this.onPointedPhone(this.phoneAt(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => this.onPointedPhone(-1));
    canvas.addEventListener("keydown", (event) => this.handleKey(event));
    canvas.addEventListener("focus", () => { if (this.cursor < 0 && this.count) this.moveCursor(0); this.mustRedrawAll = true; });
    canvas.addEventListener("blur", () => { this.mustRedrawAll = true; });
    requestAnimationFrame((now) => this.draw(now));
  }

  reset(count) {
    this.count = count;
    this.states = new Uint8Array(count);
    this.alertCounts = new Uint8Array(count);
    this.tintIndexes = new Uint8Array(count);
    this.shades = new Uint8Array(count);
    this.flashBeganAt = new Float64Array(count).fill(-1e9);
    this.flashLevels = new Int8Array(count);
    this.cursor = Math.min(this.cursor, count - 1);
    this.arrange();
  }

  // Shows a response to GET /screens. It has all phones (isWhole), or the changes of a quarter of a second without their
  // times. The flash of a change begins at a random time within the next quarter of a second.
  update(screens, isWhole) {
    if (isWhole || screens.phones !== this.count) this.reset(screens.phones);
    if (screens.tints.length !== this.hues.length) { this.hues = screens.tints.map(hueOf); this.tintNames = screens.tints; this.colourTexts.clear(); }
    const bytes = Uint8Array.from(atob(screens.screens), (letter) => letter.charCodeAt(0));
    const now = performance.now();
    for (let at = 0; at + 6 <= bytes.length; at += 6) {
      const phone = bytes[at] | (bytes[at + 1] << 8);
      if (phone >= this.count) continue;
      this.states[phone] = bytes[at + 2];
      this.alertCounts[phone] = bytes[at + 3];
      this.tintIndexes[phone] = bytes[at + 4];
      this.shades[phone] = bytes[at + 5];
      this.flashBeganAt[phone] = isWhole ? -1e9 : now + Math.random() * 250;
      this.flashLevels[phone] = -1;
    }
    if (isWhole) this.mustRedrawAll = true;
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
      left: hole.left - box.left - OBSTACLE_GAP, right: hole.right - box.left + OBSTACLE_GAP,
      top: hole.top - box.top - OBSTACLE_GAP, bottom: hole.bottom - box.top + OBSTACLE_GAP,
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
    // First find the largest size that fits, then the widest spacing that fits, so that the last row is full.
    const cellWidthMin = largest((cellWidth) => this.findPlaces(cellWidth, cellWidth * CELL_HEIGHT_RATIO, holes, true) >= this.count);
    this.cellHeight = cellWidthMin * CELL_HEIGHT_RATIO;
    this.cellWidth = largest((cellWidth) => cellWidth >= cellWidthMin * 1.3 ? false : this.findPlaces(cellWidth, this.cellHeight, holes, true) >= this.count);
    this.cellWidthMin = cellWidthMin;
    this.places = this.findPlaces(this.cellWidth, this.cellHeight, holes, false);
    this.mustRedrawAll = true;
  }

  findPlaces(cellWidth, cellHeight, holes, countsOnly) {
    const columns = Math.floor(this.width / cellWidth);
    const rows = Math.floor(this.height / cellHeight);
    const left = (this.width - columns * cellWidth) / 2;
    const top = (this.height - rows * cellHeight) / 2;
    const places = [];
    let count = 0;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const x = left + column * cellWidth, y = top + row * cellHeight;
        if (holes.some((hole) => x + cellWidth > hole.left && x < hole.right && y + cellHeight > hole.top && y < hole.bottom)) continue;
        count++;
        if (!countsOnly && places.length < this.count) places.push({ x, y, row, column });
      }
    }
    return countsOnly ? count : places;
  }

  phoneAt(x, y) {
    if (!this.places.length) return -1;
    return this.places.findIndex((place) => x >= place.x && x < place.x + this.cellWidth && y >= place.y && y < place.y + this.cellHeight);
  }

  // MARK: keys

  handleKey(event) {
    const current = this.places[this.cursor];
    if (!current) return;
    const nearest = (fits, distance) => {
      let [best, least] = [this.cursor, Infinity];
      this.places.forEach((place, phone) => {
        if (fits(place) && distance(place) < least) [best, least] = [phone, distance(place)];
      });
      return best;
    };
    const below = (place) => Math.abs(place.row - current.row) * 1000 + Math.abs(place.x - current.x);
    switch (event.key) {
      case "ArrowRight": this.moveCursor(Math.min(this.count - 1, this.cursor + 1)); break;
      case "ArrowLeft": this.moveCursor(Math.max(0, this.cursor - 1)); break;
      case "ArrowDown": this.moveCursor(nearest((place) => place.row > current.row, below)); break;
      case "ArrowUp": this.moveCursor(nearest((place) => place.row < current.row, below)); break;
      case "Home": this.moveCursor(0); break;
      case "End": this.moveCursor(this.count - 1); break;
      case "Enter": case " ": this.onOpen(this.cursor); break;
      default: return;
    }
    event.preventDefault();
  }

  moveCursor(phone) {
    this.cursor = phone;
    this.onPointedPhone(phone);
    this.mustRedrawAll = true;
  }

  describe(phone) {
    const state = STATES[this.states[phone] & 0x0f];
    const nameText = state === "empty" ? "" : `, ${this.tintNames?.[this.tintIndexes[phone]] ?? ""}`;
    return `phone ${(phone + 1).toLocaleString("en")} of ${this.count.toLocaleString("en")}: ${state === "gone" ? "dismissed" : state}${nameText}`;
  }

  // MARK: colours

  colourText(state, tintIndex, shade, flashLevel, isUrgent) {
    const key = (((state * 256 + tintIndex) * 8 + (shade & 7)) * (FLASH_LEVELS + 1) + flashLevel) * 2 + (isUrgent ? 1 : 0);
    const known = this.colourTexts.get(key);
    if (known) return known;
    const isDark = darkScheme.matches;
    const hue = this.hues[tintIndex] ?? 0;
    const shadeOffset = ((shade & 7) - 3.5) / 3.5;
    let [light, chroma, alpha] = isDark ? [0.6 + shadeOffset * 0.075, 0.125, 0.92] : [0.74 + shadeOffset * 0.06, 0.125, 0.95];
    switch (STATES[state]) {
      case "stale": [chroma, alpha] = [0.05, 0.6]; break;
      case "ended": [light, chroma, alpha] = isDark ? [0.46 + shadeOffset * 0.03, 0.055, 0.8] : [0.82 + shadeOffset * 0.02, 0.05, 0.9]; break;
      case "gone": case "empty": case "offline": [light, chroma, alpha] = [0.6, 0, 0.16]; break;
    }
    const flashShare = flashLevel / FLASH_LEVELS;
    const [toLight, toChroma] = isUrgent
      ? (isDark ? [0.98, 0.02] : [0.5, 0.21])
      : (isDark ? [0.8, 0.13] : [0.88, 0.09]);
    light += (toLight - light) * flashShare;
    chroma += (toChroma - chroma) * flashShare;
    alpha += (1 - alpha) * flashShare;
    const text = `oklch(${light.toFixed(3)} ${chroma.toFixed(3)} ${hue} / ${alpha.toFixed(2)})`;
    this.colourTexts.set(key, text);
    return text;
  }

  // MARK: drawing

  draw(now) {
    this.framesDrawn++;
    const { context, places } = this;
    const redrawsAll = this.mustRedrawAll;
    if (redrawsAll) context.clearRect(0, 0, this.width, this.height);
    this.mustRedrawAll = false;
    const flashStrength = reducedMotion.matches ? 0 : 1;
    const width = Math.max(1, this.cellWidthMin * 0.68), height = Math.max(2, this.cellWidthMin * 1.4), corner = Math.min(width * 0.3, 4);
    for (let phone = 0; phone < places.length; phone++) {
      const age = now - this.flashBeganAt[phone];
      const isUrgent = (this.states[phone] & URGENT) !== 0;
      const flashMilliseconds = FLASH_MILLISECONDS[isUrgent ? 10 : 5];
      let flashLevel = 0;
      if (age >= 0 && age < flashMilliseconds) flashLevel = Math.max(1, Math.round(FLASH_LEVELS * (1 - age / flashMilliseconds) * flashStrength));
      else if (age < 0 && age > -1000) continue;
      if (!redrawsAll && flashLevel === this.flashLevels[phone]) continue;
      this.flashLevels[phone] = flashLevel;
      const { x, y } = places[phone];
      if (!redrawsAll) context.clearRect(x, y, this.cellWidth, this.cellHeight);
      context.fillStyle = this.colourText(this.states[phone] & 0x0f, this.tintIndexes[phone], this.shades[phone], flashLevel, isUrgent);
      context.beginPath();
      context.roundRect(x + (this.cellWidth - width) / 2, y + (this.cellHeight - height) / 2, width, height, corner);
      context.fill();
    }
    if (this.cursor >= 0 && places[this.cursor] && document.activeElement === this.canvas) this.drawCursor(places[this.cursor]);
    requestAnimationFrame((next) => this.draw(next));
  }

  drawCursor({ x, y }) {
    this.context.strokeStyle = darkScheme.matches ? "#fff" : "#000";
    this.context.lineWidth = 1.5;
    this.context.strokeRect(x + 0.75, y + 0.75, this.cellWidth - 1.5, this.cellHeight - 1.5);
  }
}
