# Reads the documents, then every source file: a document that a source names is there, and so is the section of it.

FNR == 1 { document = FILENAME ~ /\.md$/ }

FNR == 1 && document {
  name = FILENAME
  sub(/.*\//, "", name)
  known[name] = 1
}

document && /^#+ [0-9]+(\.[0-9]+)* / { sections[name, $2] = 1 }

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

END { exit failed }
