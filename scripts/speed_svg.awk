# The speed against PyTorch as bars, from the first table of docs/performance.md that is "Against PyTorch".
function words(x, y, anchor, text) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
}
function trimmed(text) {
    gsub(/^ +| +$/, "", text)
    return text
}
/^## / { here = $0 == "## Against PyTorch"; next }
!here || !/^\|/ { table += here && seen; seen = 0; next }
table > 0 || /^\|---/ { next }
{
    seen = 1
    cells = split($0, cell, "|")
    if (!headed++) {
        for (i = 3; i < cells; ++i)
            if (cell[i] ~ /tokens\/s/) {
                column[++processors] = i + 1
                name[processors] = trimmed(cell[i])
                sub(/:.*/, "", name[processors])
            }
        next
    }
    model[++models] = trimmed(cell[2])
    gsub(/`/, "", model[models])
    for (p = 1; p <= processors; ++p) ratio[models, p] = trimmed(cell[column[p]])
}
END {
    left = 330; width = 900; top = 58; bar = 11; group = processors * (bar + 2) + 12
    height = top + models * group + 34
    scale = (width - left - 60) / 2.2
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height
    print "<title>Training speed, times that of eager PyTorch</title><style>"
    print "text { fill: #222 } .paper { fill: #fff } .one { stroke: #222 } .grid { stroke: #ddd } .p1 { fill: #3b6fb6 } .p2 { fill: #d98032 } .p3 { fill: #4d9a55 }"
    print "@media (prefers-color-scheme: dark) { text { fill: #ddd } .paper { fill: #161b22 } .one { stroke: #ddd } .grid { stroke: #333 } }</style>"
    printf "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height
    words(16, 22, "start", "Tokens a second, times those of eager PyTorch on the same two cores (fp32, whole optimizer steps)")
    for (p = 1; p <= processors; ++p) {
        printf "<rect class=\"p%d\" x=\"%d\" y=\"32\" width=\"12\" height=\"12\"/>\n", p, left + (p - 1) * 90
        words(left + (p - 1) * 90 + 18, 43, "start", name[p])
    }
    for (mark = 0; mark <= 4; ++mark) {
        x = left + mark * scale / 2
        printf "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", mark == 2 ? "one" : "grid", x, x, top - 6, height - 26
        words(x, height - 10, "middle", mark == 2 ? "1 = PyTorch" : mark / 2)
    }
    for (m = 1; m <= models; ++m) {
        y = top + (m - 1) * group
        words(left - 10, y + group / 2 - 2, "end", model[m])
        for (p = 1; p <= processors; ++p) {
            if (ratio[m, p] + 0 == 0) continue
            at = y + (p - 1) * (bar + 2)
            printf "<rect class=\"p%d\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", p, left, at, ratio[m, p] * scale, bar
            words(left + ratio[m, p] * scale + 5, at + bar - 1, "start", ratio[m, p])
        }
    }
    print "</svg>"
}
