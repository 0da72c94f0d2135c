#!/usr/bin/env bash
# Makes the Pythons that this machine lacks: newer ones from Debian's unstable suite, free-threaded ones from its source.
set -euo pipefail

PACKAGED=(3.14 3.15)
folder=${KINFORMER_INTERPRETERS:-${XDG_CACHE_HOME:-$HOME/.cache}/kinformer/interpreters}
mirror=${KINFORMER_DEBIAN_MIRROR:-http://deb.debian.org/debian}

usage() {
  cat <<USAGE
Usage: tests/support/interpreters.sh [--folder DIR] [--mirror URL] [--source ARCHIVE] [--list] [VERSION ...]

Makes interpreters, to be called as DIR/bin/python3.14 and so on, where noxfile.py finds them.

  VERSION        3.14, 3.15 (what Debian's unstable suite has): its packages, two minutes for both.
                 3.14t, 3.15t (3.13t to try things): without the GIL, built from Debian's source package, ten minutes each on two cores.
                 Without any: 3.14 and 3.15.

  --folder DIR   where they are kept (default: \$KINFORMER_INTERPRETERS, or ~/.cache/kinformer/interpreters);
                 now $folder
  --mirror URL   a mirror of Debian (default: \$KINFORMER_DEBIAN_MIRROR, or http://deb.debian.org/debian)
  --source ARCHIVE   the file or the URL of CPython's source (.tar.xz), for a mirror that lacks it; then VERSION is the one
                 free-threaded version that it is of
  --list         print the interpreters that are there, and make nothing
  --help         print this

DIR/sid is a small Debian tree (1 GB). The interpreters in it run outside of it, by its own loader and C library, so
they work beside the machine's tools. It needs Linux, root (debootstrap and chroot do) and a network; the first
run of it takes debootstrap from the machine's own package manager if it is missing. To remove everything, delete DIR.
USAGE
}

fail() {
  printf 'interpreters.sh: %s\n' "$*" >&2
  exit 1
}

versions=() list=no source=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --list) list=yes ;;
    --folder | --mirror | --source)
      [ $# -ge 2 ] || fail "$1 needs a value; --help says more"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    3.1[3-9] | 3.1[3-9]t) versions+=("$1") ;;
    *) fail "unknown argument '$1': a version is 3.14 or 3.15t, for example; --help says more" ;;
  esac
  shift
done
[ ${#versions[@]} -gt 0 ] || versions=("${PACKAGED[@]}")
[ -z "$source" ] || [[ ${#versions[@]} = 1 && ${versions[0]} = *t ]] ||
  fail "--source is for one free-threaded version, such as 3.14t"

if [ "$list" = yes ]; then
  for command in "$folder"/bin/python3*; do
    [ -x "$command" ] && printf '%s  %s\n' "$command" "$("$command" --version)"
  done
  exit 0
fi

[ "$(uname -s)" = Linux ] || fail "Debian's interpreters run on Linux, and this is $(uname -s)"
[ "$(id -u)" = 0 ] || fail "debootstrap and chroot need root, and this is $(id -un)"
mkdir -p "$folder/bin"
folder=$(realpath "$folder")
tree=$folder/sid
log=$folder/log

run() { # command ...: at low priority, with its output in the log, and the end of that if it fails
  nice -n 10 "$@" >>"$log" 2>&1 </dev/null || {
    tail -n 25 "$log" >&2
    fail "failed: $* (the whole output is in $log)"
  }
}

inside() { # command ...: in the tree, with nothing of this machine's environment
  run env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    /usr/sbin/chroot "$tree" "$@"
}

packages() { # name ...: installs them in the tree
  inside apt-get install -qq --no-install-recommends -y "$@"
}

make_tree() {
  [ ! -e "$tree/.complete" ] || return 0
  if ! command -v debootstrap >/dev/null; then
    command -v apt-get >/dev/null || fail "debootstrap is not installed, and there is no apt-get to install it with"
    echo "debootstrap, from this machine's packages"
    run apt-get update -qq
    run apt-get install -qq -y debootstrap
  fi
  echo "Debian's unstable suite in $tree"
  rm -rf "$tree"
  run debootstrap --variant=minbase --include=patchelf,ca-certificates sid "$tree" "$mirror"
  {
    echo "deb $mirror sid main"
    for suite in sid testing stable; do echo "deb-src $mirror $suite main"; done # some mirrors lack the newest sources
  } >"$tree/etc/apt/sources.list"
  # A mirror that is held at a date serves a Release file that has expired; its signature is checked all the same.
  printf 'Acquire::Check-Valid-Until "false";\n' >"$tree/etc/apt/apt.conf.d/frozen-mirror"
  inside apt-get update -qq
  touch "$tree/.complete"
}

# Makes a program of the tree run outside of it: with the tree's loader, and the tree's libraries before the machine's.
detach() { # path within the tree, name of the command
  local multiarch loader
  multiarch=$(basename "$(dirname "$(find "$tree/usr/lib" -name libc.so.6 | head -n 1)")")
  loader=$(/usr/sbin/chroot "$tree" patchelf --print-interpreter "$1")
  # On a copy: the tree's own programs, which make the next interpreter, go on to use what is at its root.
  inside cp -f "$1" "$1.detached"
  # In this order, and in two steps: otherwise what patchelf 0.18 makes of a program at a fixed address crashes.
  inside patchelf --force-rpath --set-rpath "$tree/usr/lib/$multiarch" "$1.detached"
  inside patchelf --set-interpreter "$tree$loader" "$1.detached"
  check "$tree$1.detached"
  # No link, since `python -m venv` would take the folder of the link for that of the interpreter.
  printf '#!/bin/sh\nexec %q "$@"\n' "$tree$1.detached" >"$folder/bin/$2"
  chmod +x "$folder/bin/$2"
}

check() { # interpreter
  "$1" - <<'PY' || fail "$1 does not run as it should"
import bz2, ctypes, lzma, sqlite3, ssl, sys, zlib
if sys.version_info >= (3, 14):
    import compression.zstd
print(sys.executable, sys.version.split()[0], ssl.OPENSSL_VERSION, "" if sys._is_gil_enabled() else "no GIL")
PY
}

packaged() { # version
  [ ! -x "$folder/bin/python$1" ] || return 0
  echo "Python $1"
  packages "python$1" "python$1-venv" "python$1-dev"
  # `python -m venv` takes pip from here.
  sed -i "s|\\([\"']\\)/usr/share/python-wheels|\\1$tree/usr/share/python-wheels|" "$tree/usr/lib/python$1"/_sysconfig*
  detach "/usr/bin/python$1" "python$1"
}

fetch_source() { # version with its t: what Debian's unstable suite is built from, or the newest before it that is there
  local version=${1%t}
  inside sh -ec "
    cd /usr/src/python$1
    for there in \$(apt-cache showsrc --only-source python$version | sed -n 's/^Version: //p' | sort -Vru); do
      if apt-get source -qq --download-only python$version=\$there; then
        dpkg-source --skip-patches -x *.dsc  # Debian's patches take the folders of its own packages for granted
        exit 0
      fi
    done
    echo 'the mirror has no source of python$version: it may lag behind, so try again later, another --mirror, or --source'
    exit 1"
}

fetch_archive() { # path
  case $source in
    *://*) run curl -fsSL -o "$1" "$source" ;;
    *) run cp "$source" "$1" ;;
  esac
}

free_threaded() { # version with its t
  [ ! -x "$folder/bin/python$1" ] || return 0
  local unpacked
  echo "Python $1, from ${source:-its source in Debian}"
  packages dpkg-dev gcc g++ make pkgconf libc6-dev libbz2-dev libffi-dev liblzma-dev libssl-dev libsqlite3-dev \
    libzstd-dev zlib1g-dev
  rm -rf "$tree/usr/src/python$1"
  mkdir -p "$tree/usr/src/python$1"
  if [ -n "$source" ]; then
    fetch_archive "$tree/usr/src/python$1/source.tar.xz"
    inside tar -C "/usr/src/python$1" -xf "/usr/src/python$1/source.tar.xz"
  else
    fetch_source "$1"
  fi
  unpacked=$(basename "$(dirname "$(ls "$tree/usr/src/python$1"/*/configure)")")
  # No PGO and no LTO: they double the time of the build, and of the tests' time they save little.
  inside sh -ec "
    cd /usr/src/python$1/$unpacked
    ./configure -q --prefix=/opt/python$1 --disable-gil --without-static-libpython --disable-test-modules
    make -s -j $(nproc)
    make -s install"
  rm -rf "$tree/usr/src/python$1"
  detach "/opt/python$1/bin/python$1" "python$1"
}

make_tree
for version in "${versions[@]}"; do
  case $version in
    *t) free_threaded "$version" ;;
    *) packaged "$version" ;;
  esac
done
