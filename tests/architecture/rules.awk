# Reads CMakeLists.txt, then every source file. See `check` for the rules.

function broken(text) {
  print FILENAME ":" FNR ": " text
  failed = 1
}

# Layers: what each may include, itself included. Lines come in dependency order, so one pass closes the relation.
FILENAME == "CMakeLists.txt" {
  if ($0 !~ /^lockstep_layer\(/) next
  split(substr($0, 16), word, /[ ()]+/)
  layer = word[1]
  layers[layer] = 1
  allowed[layer, layer] = 1
  for (i = 2; word[i] == "USES" || (word[i] in layers && word[i] != "PRIVATE"); ++i) {
    if (word[i] == "USES") continue
    for (other in layers) if ((word[i], other) in allowed) allowed[layer, other] = 1
  }
  next
}

FNR == 1 {
  depth = split(FILENAME, path, "/")
  header = FILENAME ~ /\.(h|cuh)$/
  per_target = FILENAME ~ /-inl\.h$/
  in_source = path[1] == "src"
  own = in_source || path[1] == "tests" ? path[2] : ""
  first_directive = 1
  if (in_source) {
    room = FILENAME
    sub(/\.(h|cpp|cu|cuh)$/, "", room)
    folder = room
    sub(/\/[^\/]*$/, "", folder)
    if (!(room in rooms)) {
      rooms[room] = 1
      if (++count[folder] == 21) broken(folder " has more than 20 files: a room is missing")
    }
  }
}

# A family's public functions: src/ops/<family>.cpp.
in_source && own == "ops" && depth == 3 && !header {
  if (/[ !]do_[a-z_]+\(/ && !scoped) broken("a kernel is called in the line behind its scope: const OpScope running = scope(\"name\")")
  scoped = / = scope\(/
}

# As CTest shows it; a test with parameters has their names behind it.
path[1] == "tests" && match($0, /^TEST(_F|_P)?\([A-Za-z0-9_]+, [A-Za-z0-9_]+\)/) {
  name = substr($0, RSTART, RLENGTH - 1)
  sub(/^TEST(_F|_P)?\(/, own ".", name)
  sub(/, /, ".", name)
  if (length(name) > ($0 ~ /^TEST_P/ ? 60 : 80)) broken("a test name of more than " ($0 ~ /^TEST_P/ ? "60 characters before its parameters" : "80 characters"))
}

FNR == 401 { broken("more than 400 lines: this is more than one idea") }

# Layers whose sums and products are what a run learns.
in_source && own ~ /^(tensor|ops|layout|comm|arch|data|parallel|checkpoint|model|train)$/ {
  if (/std::(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sinh|cosh|tanh|asin|acos|atan|atan2|erf|erfc|cbrt|hypot|tgamma|lgamma)\(/)
    broken("C libraries differ in their last digits: base/math/elementary.h has functions of our own")
}

/TODO|FIXME/ { broken("finish it or leave it out") }

/^[ \t]*#/ {
  line = $0
  gsub(/[ \t]+/, " ", line)
  sub(/^ /, "", line)
  sub(/# /, "#", line)
  if (header && first_directive && (line ~ /^#pragma once/) == per_target) {
    broken(per_target ? "-inl.h is compiled once per instruction set: no #pragma once" : "a header starts with #pragma once")
  }
  first_directive = 0
  if (line ~ /^#(if|ifdef|ifndef|elif|else)/ && line !~ /^#if HWY_ONCE/ && FILENAME !~ /cuda\/device\/target[.]cuh$/) broken("no conditional compilation: an optional part is another file")
  if (line !~ /^#include/) next
  name = line
  sub(/^#include ?/, "", name)
  if (name ~ /^"/) {
    gsub(/"/, "", name)
    sub(/\/.*/, "", name)
    if (own in layers && name in layers && !((own, name) in allowed)) broken(own " may not include " name)
    if (in_source && !(name in layers)) broken("include by the path below src: \"layer/file.h\"")
  } else if (in_source && name ~ /^<cuda_/) {
    if (FILENAME !~ /\/cuda\//) broken("CUDA is included in the folders cuda/ alone")
  } else if (header && in_source && name !~ /^<[a-z_]+>/) {
    broken("a header includes only ours and the standard library, not " name)
  } else if (in_source && name ~ /^<(mpi\.h|oneapi\/)/ && FILENAME !~ /\/plugin\//) {
    broken("what a machine may lack is included by a plugin alone: src/layer/.../plugin/")
  } else if (in_source && match(name, /^<((nlohmann|toml\+\+|CLI|openssl|oneapi|Random123)\/|zlib\.h|zstd\.h)/)) {
    library = substr(name, 2, RLENGTH - 2)
    user = FILENAME
    sub(/_v[0-9]+\.cpp$/, "", user)  # files for one version each: only one of them is built
    if (!((library, user) in seen)) {
      seen[library, user] = 1
      if (++users[library] == 3) broken(library " is in more than two files: keep it behind a header of ours")
    }
  }
}

END { exit failed }
