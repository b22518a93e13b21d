# Losses where both curves have one: awk -f reference-table.awk PUBLISHED.csv OURS.csv. Exit code 1: one differs by more than 0.1.
BEGIN {
    FS = ","
    names[2] = "a batch"; names[3] = "train"; names[4] = "validation"
    printf "%-6s%-12s%10s%10s%12s\n", "step", "loss", "published", "here", "difference"
}
/^#/ || $1 == "step" { next }
FNR == NR { for (i = 2; i <= 4; ++i) published[$1, i] = $i; next }
{
    for (i = 2; i <= 4; ++i) {
        if ($i == "" || published[$1, i] == "") continue
        difference = $i - published[$1, i]
        if (difference > 0.1 || difference < -0.1) missed = 1
        printf "%-6d%-12s%10.4f%10.4f%+12.4f\n", $1, names[i], published[$1, i], $i, difference
    }
}
END { exit missed }
