"""Plain SVG figures for the scripts reproduce_*.py."""
import html

COLOURS = ["#444444", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf"]
LEFT, RIGHT, TOP, BOTTOM = 60, 400, 40, 290  # of the area of the points, in pixels
HEIGHT = 340
LABEL = 40  # least distance of labels
DOTS = 30  # most points of a line that have one


def svg(path, title, x_label, y_label, series, from_zero=True):
    """Points and the lines between them, from y = 0 up or from a little below the lowest. series: {name: [(x, y), ...]};
    without points no file. Points that are too close for dots have none."""
    series = {name: sorted(line) for name, line in series.items() if line}
    if not series:
        return
    xs = sorted({x for line in series.values() for x, _ in line})
    ys = [y for line in series.values() for _, y in line]
    low, top = (0, 1.1 * max(ys) or 1) if from_zero else _margins(min(ys), max(ys))

    def place(x, y):
        across = (x - xs[0]) / (xs[-1] - xs[0]) if len(xs) > 1 else 0.5
        return LEFT + across * (RIGHT - LEFT), BOTTOM - (y - low) / (top - low) * (BOTTOM - TOP)

    width = RIGHT + 24 + 7 * max(map(len, series))
    font = 'font-family="sans-serif" font-size="12"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" {font}>',
           f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{html.escape(title)}</text>',
           f'<text x="{LEFT}" y="{HEIGHT - 12}">{html.escape(x_label)}</text>',
           f'<text x="14" y="{BOTTOM}" transform="rotate(-90 14 {BOTTOM})">{html.escape(y_label)}</text>']
    out += _grid(low, top, [(x, place(x, low)[0]) for x in xs])
    for i, (name, line) in enumerate(series.items()):
        out += _series(name, [place(*point) for point in line], COLOURS[i % len(COLOURS)], 50 + 18 * i)
    path.write_text("\n".join([*out, "</svg>\n"]), encoding="utf-8")


def _margins(least, most):
    margin = 0.05 * (most - least or 1)
    return least - margin, most + margin


def _grid(low, top, columns):
    out = []
    for step in range(6):
        y = BOTTOM - step / 5 * (BOTTOM - TOP)
        out.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
                   f'<text x="{LEFT - 36}" y="{y + 4:.1f}">{low + (top - low) * step / 5:.2f}</text>')
    last = -LABEL
    for x, column in columns:  # a label that would run into the one before is left out
        if column - last >= LABEL:
            out.append(f'<text x="{column - 12:.1f}" y="{BOTTOM + 18}">{x:.4g}</text>')
            last = column
    return out


def _series(name, places, colour, legend_y):
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = places if len(places) <= DOTS else []
    return [f'<polyline fill="none" stroke="{colour}" points="{line}"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots),
            f'<text x="{RIGHT + 12}" y="{legend_y}" fill="{colour}">{html.escape(name)}</text>']
