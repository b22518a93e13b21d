# Reads the documents, then every source file: a document that a source names is there, and so is the section of it; and so are the
# tests that the last column of a table of reliability.md names, or one of seeds.md (`Suite`, `Suite.Name`, `Suite.Beginning...`).

FNR == 1 { document = FILENAME ~ /\.md$/ }

FNR == 1 && document {
  name = FILENAME
  sub(/.*\//, "", name)
  known[name] = 1
}

document && /^#+ [0-9]+(\.[0-9]+)* / { sections[name, $2] = 1 }

document && FILENAME ~ /(reliability|seeds)\.md$/ && /^\|.*\|$/ {
  columns = split($0, column, "|")
  words = split(column[columns - 1], word, "`")
  for (i = 2; i <= words; i += 2) {
    if (word[i] ~ /^[A-Z][A-Za-z0-9]*(\.[A-Za-z0-9]+(\.\.\.)?)?$/) promised[word[i]] = FILENAME ":" FNR
  }
}

/^(TEST|TEST_F|TEST_P)\([A-Za-z0-9_]+, [A-Za-z0-9_]+\)/ {
  split($0, word, /[(), ]+/)
  suites[word[2]] = 1
  tests[word[2] "." word[3]] = 1
}

function held(test, name) {
  if (test in suites || test in tests) return 1
  if (!sub(/\.\.\.$/, "", test)) return 0
  for (name in tests) {
    if (index(name, test) == 1) return 1
  }
  return 0
}

!document {
  rest = $0
  while (match(rest, /[A-Za-z0-9_-]+\.md( section [0-9]+(\.[0-9]+)*)?/)) {
    split(substr(rest, RSTART, RLENGTH), word, " ")
    rest = substr(rest, RSTART + RLENGTH)
    problem = !(word[1] in known) ? word[1] " is not in the repository" : word[3] != "" && !((word[1], word[3]) in sections) ? word[1] " has no section " word[3] : ""
    if (problem == "") continue
    print FILENAME ":" FNR ": " problem
    failed = 1
  }
}

END {
  for (test in promised) {
    if (held(test)) continue
    print promised[test] ": there is no test " test
    failed = 1
  }
  exit failed
}
