# Two curves of losses in one drawing: awk -f reference-svg.awk PUBLISHED.csv OURS.csv
# Lines: losses of batches; circles and squares: evaluations on the training and the validation text; hollow: published.
function at_x(step) { return left + step / most_steps * (width - left - right) }
function at_y(loss) { return height - bottom - (loss - low) / (high - low) * (height - top - bottom) }
function line(which, class,   k, places) {
    for (k = 1; k <= points[which]; ++k)
        if (has[which, k, 2] != "" && steps[which, k] <= most_steps)
            places = places sprintf("%.1f,%.1f ", at_x(steps[which, k]), at_y(has[which, k, 2]))
    if (places != "") printf "<polyline class=\"%s\" points=\"%s\"/>\n", class, places
}
function marks(which, class,   k) {
    for (k = 1; k <= points[which]; ++k) {
        if (steps[which, k] > most_steps) continue
        if (has[which, k, 3] != "") circle(class, at_x(steps[which, k]), at_y(has[which, k, 3]))
        if (has[which, k, 4] != "") square(class, at_x(steps[which, k]), at_y(has[which, k, 4]))
    }
}
# Published marks are wider: ours are seen inside of them.
function reach(class) { return class == "given" ? 6.5 : 4 }
function circle(class, x, y) { printf "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", class, x, y, reach(class) }
function square(class, x, y,   r) {
    r = reach(class)
    printf "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x - r, y - r, 2 * r, 2 * r
}
function words(x, y, anchor, text) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
}
function stroke(class, x1, y1, x2, y2) {
    printf "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2
}
function legend_marks(class, whose) {
    circle(class, x + 6, y)
    square(class, x + 21, y)
    words(x + 34, y + 4, "start", whose ", train and validation loss")
}
function colours(ink, grid, paper, here, published) {
    printf "text { fill: %s } .axis { stroke: %s } .grid { stroke: %s } .paper { fill: %s }\n", ink, ink, grid, paper
    printf ".here { stroke: %s } .made { fill: %s } .published { stroke: %s } .given { fill: %s; stroke: %s }\n",
        here, here, published, paper, published
}
BEGIN {
    FS = ","
    width = 860; height = 420; left = 56; right = 24; top = 24; bottom = 48
    low = 1e9; high = -1e9
}
/^#/ || $1 == "step" { next }
{
    which = FILENAME == ARGV[1] ? "published" : "here"
    k = ++points[which]
    steps[which, k] = $1
    for (i = 2; i <= 4; ++i) has[which, k, i] = $i
    if (which == "here" && $1 > most_steps) most_steps = $1
}
END {
    for (place in has) {
        split(place, part, SUBSEP)
        if (has[place] == "" || steps[part[1], part[2]] > most_steps) continue
        if (has[place] < low) low = has[place] + 0
        if (has[place] > high) high = has[place] + 0
    }
    low = int(low * 2) / 2; high = (int(high * 2) + 1) / 2
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" ", width, height
    print "aria-label=\"Losses over steps, published and here\">"
    print "<style>"
    print "text { font: 13px sans-serif } polyline, .line { fill: none; stroke-width: 2 }"
    print ".published { stroke-dasharray: 7 4 } .given { stroke-width: 2 }"
    colours("#1f2328", "#d0d7de", "#ffffff", "#1565c0", "#c75300")
    print "@media (prefers-color-scheme: dark) {"
    colours("#e6edf3", "#3d444d", "#0d1117", "#64b5f6", "#ffab66")
    print "}"
    print "</style>"
    printf "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height
    for (y = low; y <= high + 1e-9; y += 0.5) {
        stroke("grid", left, at_y(y), width - right, at_y(y))
        words(left - 8, at_y(y) + 4, "end", sprintf("%.1f", y))
    }
    for (k = 0; k <= 5; ++k) words(at_x(k * most_steps / 5), height - bottom + 18, "middle", sprintf("%d", k * most_steps / 5))
    stroke("axis", left, height - bottom, width - right, height - bottom)
    words((left + width - right) / 2, height - 10, "middle", "step")
    line("published", "published")
    line("here", "here")
    marks("published", "given")
    marks("here", "made")
    x = width - right - 265
    y = top + 12
    stroke("here line", x, y, x + 26, y)
    words(x + 34, y + 4, "start", "here, loss of a batch")
    if (has["published", 2, 2] != "") {
        y += 20
        stroke("published line", x, y, x + 26, y)
        words(x + 34, y + 4, "start", "published, loss of a batch")
    }
    y += 20
    legend_marks("made", "here")
    y += 20
    legend_marks("given", "published")
    print "</svg>"
}
