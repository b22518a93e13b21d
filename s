
medians of 3 rounds, fp32, 2 rank2; in parentheses the target, ! where it is missed
