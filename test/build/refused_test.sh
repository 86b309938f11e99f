#!/bin/sh
# What must not compile does not, each line with its own error, and what must compile does without a warning:
#   refused_test.sh HEADERS_FOLDER COMPILER...
# It tries each compiler that is installed, once, as C++17 and C++20.
set -eu
headers=$1
shift
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=

fail() {
  echo "FAILED: $compiler -std=c++$standard: $1"
  failed=yes
}

tried=
for compiler in "$@"; do
  command -v "$compiler" >/dev/null || { echo "$compiler: not installed"; continue; }
  version=$("$compiler" --version | head -n 1)
  version=${version#"${compiler##*/} "}  # GCC begins with the name of the program
  case $tried in *"($version)"*) continue ;; esac
  tried="$tried ($version)"
  case $version in *clang*) all=-ferror-limit=0 ;; *) all=-fmax-errors=0 ;; esac
  standard=14
  for header in "$headers"/delayqueue/*.h; do
    "$compiler" -std=c++14 -fsyntax-only -I "$headers" -x c++ "$header" >"$work/output" 2>&1 && fail "$header compiles"
    grep -q 'delayqueue needs C++17: compile with -std=c++17 or later' "$work/output" || fail "$header: no #error"
    [ "$(grep -c 'error: ' "$work/output")" -eq 2 ] ||  # the #error, and an #include that ends the compilation
      { fail "$header: more than the #error"; head -n 20 "$work/output"; }
  done
  for standard in 17 20; do
    compile() { "$compiler" -std=c++$standard -fsyntax-only $all -I "$headers" "$@" 2>&1; }

    compile -Wall -Wextra -Werror -Wno-unused "$here/allowed.cc" || fail "allowed.cc does not compile"

    compile -w "$here/refused.cc" >"$work/output" && fail "refused.cc compiles"
    grep -n '[^ ] *// refused' "$here/refused.cc" | grep -v '^[0-9]*:// ' >"$work/marked"
    while IFS=: read -r line text; do
      grep -q "refused.cc:$line:" "$work/output" || fail "no error in line $line: $text"
      case $text in
        *'// refused: '*)
          wanted=${text##*// refused: }
          grep -qF "$wanted" "$work/output" || fail "line $line: no error with \"$wanted\"" ;;
      esac
    done <"$work/marked"
    errors=$(grep 'error:' "$work/output" | grep -vc '^/usr/')  # not the second half of an error in <type_traits>
    [ "$errors" -eq "$(wc -l <"$work/marked")" ] ||
      { fail "$errors errors for $(wc -l <"$work/marked") lines"; grep 'error:' "$work/output" | cut -c 1-200; }

    printf 'namespace delayqueue { class Producer; }\n#include <delayqueue/delayqueue.h>\ndelayqueue::Producer* p;\n' |
      compile -x c++ - >"$work/output" && fail "a class of the library can be declared by others"
    grep -q ambiguous "$work/output" || fail "a class of the library that others declare is not ambiguous"
    echo "$compiler -std=c++$standard: $errors uses are refused"
  done
done
[ -z "$failed" ]
