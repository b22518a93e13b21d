# What the planner predicts beside what was measured, a dot a row, from `plan published` and `plan published FILE.csv`, with --csv.
function words(x, y, anchor, text) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
}
function height_of(error) {
    if (error > most) error = most
    if (error < -most) error = -most
    return middle - error * scale
}
{ gsub(/"[^"]*"/, "text") }
/^$/ { split("", column); next }
/(^|,)faster(,|$)/ {
    split("", column)
    for (i = 1; i <= NF; ++i) column[$i] = i
    next
}
!("faster" in column) { next }
{
    kind = "gpu" in column ? ($(column["source"]) ~ /^torchtitan/ ? "torchtitan, " : "FSDP, ") $(column["gpu"]) : "Megatron, a100"
    sub(/_hbm2e_500w/, "", kind)
    gsub(/_/, " ", kind)
    if (!(kind in rows)) order[++kinds] = kind
    error[kind, ++rows[kind]] = $(column["faster"])
    ++all
}
END {
    left = 60; width = 900; top = 40; most = 0.35; middle = top + 150; scale = 150 / most; bottom = middle + 150
    step = (width - left - 20 - 18 * (kinds - 1)) / all
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width, bottom + 46
    print "<title>Throughput, predicted against measured</title><style>"
    print "text { fill: #222 } .paper { fill: #fff } .band { fill: #e8eef7 } .one { stroke: #222 } .grid { stroke: #ddd }"
    print ".p1 { fill: #3b6fb6 } .p2 { fill: #d98032 } .p3 { fill: #4d9a55 } .p4 { fill: #a04f9a } .p5 { fill: #b03a3a }"
    print "@media (prefers-color-scheme: dark) { text { fill: #ddd } .paper { fill: #161b22 } .band { fill: #22314a } .one { stroke: #ddd } .grid { stroke: #333 } }</style>"
    printf "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, bottom + 46
    words(16, 22, "start", "How much faster than measured the planner says each row is (band: within 10 %)")
    printf "<rect class=\"band\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n", left, height_of(0.1), width - left - 20, 0.2 * scale
    for (line = -3; line <= 3; ++line) {
        y = height_of(line / 10)
        printf "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", line ? "grid" : "one", left, width - 20, y, y
        words(left - 6, y + 4, "end", line ? sprintf("%+d %%", 10 * line) : "0 %")
    }
    x = left
    for (k = 1; k <= kinds; ++k) {
        kind = order[k]
        last = k == kinds
        words(last ? width - 20 : x + rows[kind] * step / 2, bottom + 18 + 16 * (k % 2 == 0), last ? "end" : "middle", kind)
        for (i = 1; i <= rows[kind]; ++i)
            printf "<circle class=\"p%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n", k, x + (i - 0.5) * step, height_of(error[kind, i])
        x += rows[kind] * step + 18
    }
    print "</svg>"
}
