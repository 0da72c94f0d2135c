// A line of the last minute, drawn on a canvas.

export const SAMPLES = 60;

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.values = [];
  }

  push(value) {
    this.values.push(value);
    if (this.values.length > SAMPLES) this.values.shift();
  }

  draw(floor = 0) {
    const { canvas, values } = this, ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const known = values.filter((value) => value !== null);
    if (known.length < 2) return;
    const most = Math.max(floor, ...known), step = width / (SAMPLES - 1), bottom = height - 1.5;
    const x = (place) => width - (values.length - 1 - place) * step;
    const y = (value) => bottom - (most ? value / most : 0) * (height - 4);
    context.beginPath();
    let begun = false;
    values.forEach((value, place) => {
      if (value === null) return;
      if (begun) context.lineTo(x(place), y(value));
      else context.moveTo(x(place), y(value));
      begun = true;
    });
    context.strokeStyle = style.color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(x(values.findIndex((value) => value !== null)), height);
    context.closePath();
    context.globalAlpha = 0.13;
    context.fillStyle = style.color;
    context.fill();
    context.globalAlpha = 1;
  }
}
