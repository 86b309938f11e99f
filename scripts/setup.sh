#!/bin/sh
# Installs the missing packages that building and testing need. Does nothing if all of them are installed.
# --check: also installs the packages that scripts/check.sh and scripts/fuzz.sh need.
# --page: also installs what the test of the page of dqctl serve needs: a browser and axe-core, about 500 MB.
set -eu

check=no
page=no
for option in "$@"; do
  case $option in
    --check) check=yes ;;
    --page) page=yes ;;
    *) echo "usage: $0 [--check] [--page]" >&2; exit 2 ;;
  esac
done
root=$(cd "$(dirname "$0")/.." && pwd)

# program, header or file     apt               dnf                  apk                 brew
table='
c++                          g++               gcc-c++              g++                 -
cmake                        cmake             cmake                cmake               cmake
ninja                        ninja-build       ninja-build          ninja-build         ninja
pkg-config                   pkg-config        pkgconf-pkg-config   pkgconf             pkgconf
openssl                      openssl           openssl              openssl             openssl@3
redis-server|valkey-server   redis-server      valkey               redis               redis
<hiredis/hiredis.h>          libhiredis-dev    hiredis-devel        hiredis-dev         hiredis
<openssl/ssl.h>              libssl-dev        openssl-devel        openssl-dev         openssl@3
<uuid/uuid.h>                uuid-dev          libuuid-devel        util-linux-dev      util-linux
<cctz/time_zone.h>           libcctz-dev       cctz-devel           -                   cctz
/usr/share/zoneinfo/Etc/UTC  tzdata            tzdata               tzdata              -
<nlohmann/json.hpp>          nlohmann-json3-dev json-devel          nlohmann-json       nlohmann-json
<doctest/doctest.h>          doctest-dev       doctest-devel        doctest-dev         doctest
<CLI/CLI.hpp>                libcli11-dev      cli11-devel          cli11-dev           cli11
<utf8proc.h>                 libutf8proc-dev   utf8proc-devel       utf8proc-dev        utf8proc
<httplib.h>                  libcpp-httplib-dev cpp-httplib-devel   cpp-httplib-dev     cpp-httplib
'
tools='
bash                         bash              bash                 bash                bash
<asio.hpp>                   libasio-dev       asio-devel           asio-dev            asio
<boost/asio.hpp>             libboost-dev      boost-devel          boost-dev           boost
clang++                      clang             clang                clang               llvm
-fsanitize=fuzzer            libclang-rt-dev   compiler-rt          compiler-rt         llvm
clang-tidy                   clang-tidy        clang-tools-extra    clang-extra-tools   llvm
clang-format                 clang-format      clang-tools-extra    clang-extra-tools   clang-format
promtool                     prometheus        golang-github-prometheus prometheus       prometheus
go                           golang-go         golang               go                  go
'
browser='
python3                      python3           python3              python3             python3
chromium|google-chrome       chromium          chromium             chromium            -
chromedriver                 chromium-driver   chromedriver         chromium-chromedriver chromedriver
npm                          npm               nodejs-npm           npm                 node
'
[ $check = no ] || table="$table$tools"
[ $page = no ] || table="$table$browser"

# A tool of the test only: no program of this project contains it.
fetch_axe() {
  axe=axe-core-4.14.1
  [ ! -f "$root/build/axe-core/$axe" ] || return 0
  folder=$(mktemp -d)
  if (cd "$folder" && npm pack --silent "axe-core@${axe#axe-core-}" >/dev/null && tar xzf "$axe.tgz"); then
    mkdir -p "$root/build/axe-core"
    cp "$folder/package/axe.min.js" "$folder/package/LICENSE" "$root/build/axe-core/"
    touch "$root/build/axe-core/$axe"
    echo "setup: build/axe-core has $axe"
  else
    echo "setup: npm could not fetch $axe: the test of accessibility will be skipped" >&2
  fi
  rm -r "$folder"
}

if [ "$(uname)" = Darwin ] && command -v brew >/dev/null; then
  manager=brew
  prefix=$(brew --prefix)
  CPATH="$prefix/include:$prefix/opt/openssl@3/include"
  PATH="$PATH:$prefix/opt/llvm/bin"
  export CPATH PATH
else
  for manager in apt-get dnf apk none; do
    ! command -v $manager >/dev/null || break
  done
fi

# Succeeds if clang++ can link a program with this option.
links() {
  command -v clang++ >/dev/null || return 1
  trial=$(mktemp -d)
  result=0
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ "$1" -x c++ - -o "$trial/trial" >/dev/null 2>&1 || result=1
  rm -r "$trial"
  return $result
}

is_installed() {
  case $1 in
    -*) links "$1" ;;
    /*) [ -e "$1" ] ;;
    '<'*) printf '#if !__has_include(%s)\n#error\n#endif\n' "$1" | c++ -std=c++17 -E -x c++ - >/dev/null 2>&1 ;;
    *'|'*) command -v "${1%|*}" >/dev/null || command -v "${1#*|}" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

find_missing() {
  missing=
  packages=
  while read -r what apt dnf apk brew; do
    if [ -z "$what" ] || is_installed "$what"; then continue; fi
    case $manager in
      apt-get) package=$apt ;;
      dnf) package=$dnf ;;
      apk) package=$apk ;;
      *) package=$brew ;;
    esac
    missing="$missing $what"
    [ "$package" = - ] || packages="$packages $package"
  done <<END
$table
END
}

find_missing
if [ -z "$missing" ]; then
  echo "setup: nothing is missing"
  [ $page = no ] || fetch_axe
  exit 0
fi

sudo=
if [ $manager != brew ] && [ "$(id -u)" != 0 ]; then sudo=sudo; fi
echo "setup: missing:$missing"
echo "setup: installing with $manager${sudo:+ (sudo)}:$packages"
if [ -n "$sudo" ] && ! command -v sudo >/dev/null; then
  echo "setup: cannot install packages: sudo is not installed; run this script once as root" >&2
  exit 1
fi
# shellcheck disable=SC2086  # lists of words
case $manager in
  apt-get)
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages
    ;;
  dnf) $sudo dnf install -y $packages ;;
  apk) $sudo apk add $packages ;;
  brew) brew install $packages ;;
  none)
    echo "setup: cannot install packages: found no apt-get, dnf, apk or brew; install the missing ones yourself" >&2
    exit 1
    ;;
esac
for service in redis-server prometheus; do
  case "$packages" in
    *" $service"*)
      # Debian starts the service after the installation. This project does not use it.
      [ ! -d /run/systemd/system ] || echo "setup: 'systemctl disable --now $service' stops the service"
      ;;
  esac
done

find_missing
if [ -n "$missing" ]; then
  echo "setup: still missing:$missing" >&2
  exit 1
fi
[ $page = no ] || fetch_axe
