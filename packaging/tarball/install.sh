#!/bin/sh
# Installs uswap from the directory that this file lies in, or removes it again.
#
#   ./install.sh                     to /usr/local if you are root, else to ~/.local
#   ./install.sh --prefix DIR        to DIR
#   ./install.sh --uninstall [--prefix DIR]
#
# What was installed is listed in PREFIX/share/uswap/manifest. Removing takes away these files, and the directories
# that were made for them if nothing else is in them by then. PREFIX/share/uswap/install.sh removes, too.
set -eu

here=$(cd -- "$(dirname -- "$0")" && pwd)
manifest_place=share/uswap/manifest
glibc_needed=@GLIBC@
kernel_needed=5.11

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
}

# Is the version $1 at least $2? Two numbers each; what follows does not count.
is_at_least() {
  major=${1%%.*} rest=${1#*.}
  minor=${rest%%[!0-9]*}
  [ "$major" -gt "${2%%.*}" ] || { [ "$major" -eq "${2%%.*}" ] && [ "${minor:-0}" -ge "${2#*.}" ]; }
}

check_machine() {
  machine=$(uname -m)
  [ "$machine" = x86_64 ] || fail "this machine is $machine; uswap is made for x86_64 only"
  [ "$(uname -s)" = Linux ] || fail "this is $(uname -s); uswap needs Linux"
  kernel=$(uname -r)
  is_at_least "$kernel" "$kernel_needed" ||
    fail "this is Linux $kernel; uswap needs $kernel_needed or newer, for faults of programs without rights"
  said=$(ldd --version 2>&1 || true)
  case "$said" in
    *musl*)
      fail "the C library here is musl, and this build of uswap needs glibc $glibc_needed or newer: use a system or a \
container with glibc (programs of musl themselves can be managed there)"
      ;;
  esac
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
  glibc=${glibc#glibc }
  if [ -n "$glibc" ] && ! is_at_least "$glibc" "$glibc_needed"; then
    fail "the C library here is glibc $glibc, and this build needs $glibc_needed or newer: build uswap here from its \
sources (cargo xtask install)"
  fi
}

# Makes a directory below the prefix, with those above it, and notes which of them were not there.
make_directory() {
  [ -d "$prefix/$1" ] && return
  case "$1" in
    */*) make_directory "${1%/*}" ;;
  esac
  mkdir -- "$prefix/$1"
  chmod 755 "$prefix/$1"
  echo "directory $1" >>"$list"
}

# A program that runs keeps the file that it has mapped: the new one gets its name only when it is whole.
install_file() {
  case "$1" in
    */*) make_directory "${1%/*}" ;;
  esac
  target=$prefix/$1
  new=${target%/*}/.${target##*/}.new
  rm -f -- "$new"
  case "$1" in
    *.service) sed "s|/usr/bin/uswap|$prefix/bin/uswap|g" "$here/$1" >"$new" && chmod 644 "$new" ;;
    *) cp -P -- "$here/$1" "$new" ;;
  esac
  mv -f -- "$new" "$target"
  echo "file $1" >>"$list"
}

install_all() {
  check_machine
  [ -f "$here/bin/uswap" ] || fail "there is no bin/uswap beside install.sh: unpack the whole archive"
  "$here/bin/uswap" --version >/dev/null ||
    fail "bin/uswap does not start here; what is above says why. It needs glibc $glibc_needed and libgcc_s.so.1"
  mkdir -p -- "$prefix"
  prefix=$(cd -- "$prefix" && pwd)
  case "$prefix" in
    *[[:space:]:\|\&\\]*)
      fail "the path '$prefix' has a blank or one of : | & \\, and an agent there could not be preloaded"
      ;;
  esac
  list=$(mktemp)
  trap 'rm -f -- "$list"' EXIT
  # What an earlier installation made is still ours.
  if [ -f "$prefix/$manifest_place" ]; then
    cat "$prefix/$manifest_place" >"$list"
  fi
  (cd "$here" && find bin lib include share \( -type f -o -type l \) | LC_ALL=C sort) >"$list.files"
  while IFS= read -r place; do
    install_file "$place"
  done <"$list.files"
  rm -f -- "$list.files"
  make_directory "${manifest_place%/*}"
  cp -- "$here/install.sh" "$prefix/share/uswap/install.sh"
  printf 'file %s\n' share/uswap/install.sh "$manifest_place" >>"$list"
  awk '!seen[$0]++' "$list" >"$prefix/$manifest_place"
  chmod 644 "$prefix/$manifest_place"
  echo "installed $("$prefix/bin/uswap" --version) to $prefix; 'uswap doctor' says whether it can work here"
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "$prefix/bin is not in PATH" ;;
  esac
}

uninstall_all() {
  manifest=$prefix/$manifest_place
  [ -f "$manifest" ] || fail "there is no $manifest: uswap was not installed to $prefix by install.sh"
  list=$(mktemp)
  trap 'rm -f -- "$list"' EXIT
  cat "$manifest" >"$list"
  while read -r kind place; do
    case "/$place/" in
      */../* | //*) fail "the manifest is damaged: it names '$place', which is not below the prefix" ;;
    esac
    if [ "$kind" = file ]; then rm -f -- "$prefix/$place"; fi
  done <"$list"
  # Those inside come after those around them.
  sed -n 's/^directory //p' "$list" | LC_ALL=C sort -r | while IFS= read -r place; do
    rmdir -- "$prefix/$place" 2>/dev/null || true
  done
  echo "removed uswap from $prefix"
}

action=install_all
prefix=
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix)
      [ $# -ge 2 ] || fail "--prefix needs a directory"
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall_all ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) fail "'$1' is not understood; --help says what is" ;;
  esac
  shift
done
if [ -z "$prefix" ]; then
  if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
fi
$action
