# Validation losses of each method at its best rate, a panel for each batch: awk -f optimizers-svg.awk optimizers.csv
function at_x(times, share) { return left + (panel + gap) * number[times] + share * panel }
function at_y(loss) { return height - bottom - (loss - low) / (high - low) * (height - top - bottom) }
function words(x, y, anchor, text) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
}
function colours(ink, grid, paper, a, m, l) {
    printf "text { fill: %s } .grid { stroke: %s } .paper { fill: %s } ", ink, grid, paper
    printf ".AdamW { stroke: %s } .muon { stroke: %s } .lars { stroke: %s }\n", a, m, l
}
BEGIN {
    FS = ","
    width = 860; height = 340; left = 44; top = 40; bottom = 40; gap = 28; panel = 244
    split("1 4 16", sizes, " "); for (i in sizes) number[sizes[i]] = i - 1
    split("AdamW muon lars", methods, " ")
    low = 1e9; high = 0
}
NR > 1 {
    run = $1 "," $2 "," $3
    n = ++points[run]
    step[run, n] = $4; loss[run, n] = $5
}
END {
    for (run in points) {
        split(run, part, ",")
        if (step[run, points[run]] != 2000 / part[2]) continue  # it diverged
        place = part[1] "," part[2]
        final = loss[run, points[run]]
        if (!(place in best) || final < loss[best[place], points[best[place]]]) best[place] = run
    }
    for (place in best) {
        run = best[place]
        for (n = 2; n <= points[run]; ++n) {
            if (loss[run, n] < low) low = loss[run, n] + 0
            if (loss[run, n] > high) high = loss[run, n] + 0
        }
    }
    low = int(low * 5) / 5; high = (int(high * 5) + 1) / 5
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" ", width, height
    print "aria-label=\"Validation losses of AdamW, Muon and LARS at three sizes of the batch\">\n<style>"
    print "text { font: 13px sans-serif } polyline, .key { fill: none; stroke-width: 2 }"
    colours("#1f2328", "#d0d7de", "#ffffff", "#1565c0", "#c75300", "#2e7d32")
    print "@media (prefers-color-scheme: dark) {"
    colours("#e6edf3", "#3d444d", "#0d1117", "#64b5f6", "#ffab66", "#81c784")
    print "}\n</style>"
    printf "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height
    for (s = 1; s <= 3; ++s) {
        for (y = low; y <= high + 1e-9; y += 0.2) {
            printf "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", at_x(sizes[s], 0), at_y(y),
                at_x(sizes[s], 1), at_y(y)
            if (s == 1) words(left - 6, at_y(y) + 4, "end", sprintf("%.1f", y))
        }
        words(at_x(sizes[s], 0.5), height - 14, "middle", sprintf("%d steps of %d tokens", 2000 / sizes[s], 768 * sizes[s]))
        for (m = 1; m <= 3; ++m) {
            run = best[methods[m] "," sizes[s]]
            if (run == "") continue
            line = ""
            for (n = 2; n <= points[run]; ++n)
                line = line sprintf("%.1f,%.1f ", at_x(sizes[s], step[run, n] / step[run, points[run]]), at_y(loss[run, n]))
            printf "<polyline class=\"%s\" points=\"%s\"/>\n", methods[m], line
        }
    }
    for (m = 1; m <= 3; ++m) {
        printf "<line class=\"key %s\" x1=\"%d\" y1=\"18\" x2=\"%d\" y2=\"18\"/>\n", methods[m], left + 110 * (m - 1),
            left + 110 * (m - 1) + 26
        words(left + 110 * (m - 1) + 34, 22, "start", methods[m])
    }
    print "</svg>"
}
