#!/usr/bin/env bash
# What somebody does in the first hour with uswap, from installing the package to removing it, on a Debian 12 that is
# made for it: each step checks its result. As root:
#
#   cargo xtask package --out dist deb
#   packaging/test/strangers-hour.sh dist [BASE.tar]
#
# The system lies in a directory that is removed again. BASE.tar keeps it as it was made, for the next time. Everything
# runs in namespaces of mounts and processes of its own: whatever happens, nothing stays mounted and nothing goes on.
set -euo pipefail

fail() {
  echo "strangers-hour: $*" >&2
  exit 1
}

((EUID == 0)) || fail "run it as root: it makes a system with debootstrap"
[[ $# -eq 1 || $# -eq 2 ]] || fail "usage: strangers-hour.sh DIR-OF-PACKAGES [BASE.tar]"
if [[ -z "${STRANGERS_HOUR:-}" ]]; then
  export STRANGERS_HOUR=1
  exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- "$0" "$@"
fi
unset STRANGERS_HOUR

packages=$(cd "$1" && pwd)
base=${2:-}
ram=64M
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/strangers-hour.XXXXXX")
root=$scratch/root
# The home of the stranger, in the system and from outside.
home=/srv/stranger
outside=$root$home

cleanup() {
  status=$?
  trap - EXIT
  # Whatever still runs keeps mounts busy. Our own process is the first here.
  for process in /proc/[0-9]*; do
    [[ "${process#/proc/}" == 1 ]] || kill -KILL "${process#/proc/}" 2>/dev/null || true
  done
  wait
  for place in dev/pts dev/shm dev proc; do
    if mountpoint -q "$root/$place"; then umount "$root/$place" || status=1; fi
  done
  if grep -q " $scratch" /proc/self/mounts; then
    echo "strangers-hour: something is still mounted below $scratch, which stays" >&2
    status=1
  else
    rm -rf --one-file-system -- "$scratch"
  fi
  if ((status == 0)); then
    echo "strangers-hour: all $number steps passed, $skipped left out"
  else
    echo "strangers-hour: step $number failed: $what" >&2
  fi
  exit "$status"
}

number=0 skipped=0 what="before the first"
step() {
  number=$((number + 1)) what=$*
  printf '[%2d] %s\n' "$number" "$what"
}

skip() {
  skipped=$((skipped + 1))
  echo "SKIP: $*"
}

# A program that executes another one in the system: as the stranger, without rights and with little in the environment.
make_stranger() {
  cat >"$scratch/stranger" <<EOF
#!/bin/sh
exec chroot --userspec=1000:1000 --groups= "$root" /usr/bin/env -i \\
  HOME=$home USER=stranger PATH=/usr/bin:/bin LC_ALL=C TERM=xterm-256color sh -c 'cd && exec "\$@"' sh "\$@"
EOF
  chmod +x "$scratch/stranger"
}

as_stranger() {
  timeout --kill-after=10 300 "$scratch/stranger" "$@"
}

in_system() {
  DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"
}

# A number that `uswap stat --json` has, of the only run.
number_of() {
  local said
  said=$(as_stranger uswap stat --json)
  [[ "$said" =~ \"$1\":([0-9]+) ]] || fail "stat has no $1: $said"
  echo "${BASH_REMATCH[1]}"
}

must_say() {
  [[ "$said" == *"$1"* ]] || fail "it does not say '$1': $said"
  sed 's/^/       /' <<<"$said"
}

# Everything that is in the system, but for what dpkg and apt write about themselves, and the stranger's own.
list_files() {
  find "$root" -xdev \( -path "$root/var/lib/dpkg" -o -path "$root/var/lib/apt" -o -path "$root/var/cache" \
    -o -path "$root/var/log" -o -path "$root/tmp" -o -path "$outside" \) -prune -o -print | sort
}

# Process ids of what runs from the system, by the root directory of processes.
processes_inside() {
  local process
  for process in /proc/[0-9]*; do
    if [[ "$(readlink "$process/root" 2>/dev/null)" == "$root" ]]; then echo "${process#/proc/}"; fi
  done
}

prepare_system() {
  mkdir "$root"
  if [[ -n "$base" && -f "$base" ]]; then
    tar -C "$root" -xf "$base"
  else
    debootstrap --variant=minbase bookworm "$root" >"$scratch/debootstrap.log" ||
      { tail -n 5 "$scratch/debootstrap.log" >&2 && fail "debootstrap did not make a system"; }
    if [[ -n "$base" ]]; then tar -C "$root" -cf "$base" .; fi
  fi
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=755,size=1M dev "$root/dev"
  local name
  for name in null zero full random urandom tty; do cp -a "/dev/$name" "$root/dev/$name"; done
  # As it is everywhere: only root may open it. A user has the system call.
  if [[ -e /dev/userfaultfd ]]; then
    cp -a /dev/userfaultfd "$root/dev/userfaultfd"
    chmod 600 "$root/dev/userfaultfd"
  fi
  mkdir "$root/dev/shm" "$root/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=666,mode=620 pts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  in_system useradd --uid 1000 --create-home --home-dir "$home" stranger
}

# Lines that sort has something to do with; always the same.
make_data() {
  awk 'BEGIN { srand(7); for (i = 0; i < 1200000; i++)
    printf "%09d server-%02d GET /images/%d/thumbnail.png 200 %d bytes\n", rand() * 1e9, i % 64, rand() * 1e5, i }' \
    >"$outside/data"
  LC_ALL=C sort "$outside/data" >"$scratch/expected"
  [[ "$(wc -l <"$scratch/expected")" == 1200000 ]]
}

trap cleanup EXIT

step "a Debian 12 with nothing in it"
make_stranger
prepare_system
make_data
list_files >"$scratch/before"

step "install uswap"
cp "$packages"/uswap_*_amd64.deb "$root/tmp/uswap.deb"
in_system apt-get -q -y install --no-install-recommends /tmp/uswap.deb >"$scratch/apt.log" 2>&1 ||
  { cat "$scratch/apt.log" >&2; fail "apt-get did not install it"; }
[[ "$(in_system dpkg-query -W -f='${db:Status-Status}' uswap)" == installed ]]
said=$(as_stranger uswap --version)
must_say "uswap "

step "its pages and completions are there"
for file in usr/share/man/man1/uswap-run.1.gz usr/share/man/man5/uswap.toml.5.gz \
  usr/share/bash-completion/completions/uswap usr/lib/systemd/system/uswap@.service; do
  [[ -s "$root/$file" ]] || fail "there is no /$file"
done
zcat "$root/usr/share/man/man1/uswap-run.1.gz" | grep ram >/dev/null || fail "the page of uswap run does not have --ram"

step "can it work here? uswap doctor, as a user without rights"
said=$(as_stranger uswap doctor) || fail "doctor says no: $said"
must_say "userfaultfd"

step "sort within $ram"
sorting=(sort -S 400M --parallel=1 -o sorted)
as_stranger uswap run --ram "$ram" --json "$home/report.json" -- "${sorting[@]}" data 2>"$scratch/said" ||
  { cat "$scratch/said" >&2; fail "it did not succeed"; }
cmp "$outside/sorted" "$scratch/expected" || fail "the result is not right"
said=$(cat "$scratch/said")
must_say "budget 64 MiB"
[[ "$said" != *"None left RAM"* ]] || fail "nothing left RAM, so this has shown nothing"
[[ -s "$outside/report.json" ]] || fail "there is no report"
rm "$outside/sorted" "$outside/report.json"

step "a run that goes on: sort has read all, and waits for the end of its input"
mkfifo "$scratch/input"
exec 9<>"$scratch/input"
"$scratch/stranger" uswap run --ram "$ram" -- "${sorting[@]}" <"$scratch/input" 9>&- 2>"$scratch/said" &
run=$!
cat "$outside/data" >&9
for _ in {1..100}; do
  said=$(as_stranger uswap ps 2>&1 || true)
  [[ "$said" != *sort* ]] || break
  sleep 0.1
done

step "uswap ps"
must_say "sort"
[[ "$(wc -l <<<"$said")" == 2 ]] || fail "these are not a title and one run"

step "uswap stat, of the only run"
said=$(as_stranger uswap stat)
must_say "memory "
[[ "$(number_of ram_bytes)" == $((64 << 20)) ]]
(($(number_of used_bytes) <= (64 << 20) * 105 / 100)) || fail "it uses more than its budget"

step "uswap set"
said=$(as_stranger uswap set --ram 96M)
must_say "96 MiB"
[[ "$(number_of ram_bytes)" == $((96 << 20)) ]]

step "uswap top"
if ! as_stranger uswap top --help >/dev/null 2>&1; then
  skip "this build has no uswap top"
elif ! command -v tmux >/dev/null; then
  skip "there is no tmux: apt-get install tmux"
else
  tmux -f /dev/null -S "$scratch/tmux" new-session -d -x 140 -y 40 "$scratch/stranger uswap top" 9>&-
  for _ in {1..50}; do
    sleep 0.2
    said=$(tmux -S "$scratch/tmux" capture-pane -p 2>/dev/null || true)
    [[ "$said" != *sort* ]] || break
  done
  [[ "$said" == *sort* ]] || fail "it does not show sort: $said"
  sed -n '1,6s/^/       /p' <<<"$said"
  tmux -S "$scratch/tmux" send-keys q
  for _ in {1..50}; do
    tmux -S "$scratch/tmux" has-session 2>/dev/null || break
    sleep 0.1
  done
  ! tmux -S "$scratch/tmux" has-session 2>/dev/null || fail "q does not end it"
fi

step "uswap metrics"
if as_stranger uswap metrics --help >/dev/null 2>&1; then
  as_stranger uswap metrics >"$scratch/metrics"
  grep -q "^uswap_ram_limit_bytes" "$scratch/metrics" || fail "there is no uswap_ram_limit_bytes"
  [[ "$(tail -n 1 "$scratch/metrics")" == "# EOF" ]] || fail "it does not end as OpenMetrics do"
else
  skip "this build has no uswap metrics"
fi

step "uswap leave: all memory comes home"
said=$(as_stranger uswap leave)
must_say ""
sorter=
for process in $(processes_inside); do
  if [[ "$(cat "/proc/$process/comm" 2>/dev/null)" == sort ]]; then sorter=$process; fi
done
[[ -n "$sorter" ]] || fail "sort does not run any more"
resident=$(awk '/^VmRSS:/ { print $2 }' "/proc/$sorter/status")
((resident > 100000)) || fail "sort has only $resident kB in RAM"

step "it ends with the right result"
exec 9>&-
wait "$run" || { cat "$scratch/said" >&2; fail "it did not succeed"; }
cmp "$outside/sorted" "$scratch/expected" || fail "the result is not right"
rm "$outside/sorted"

step "a program that is not there: 127"
status=0
as_stranger uswap run --ram "$ram" -- no-such-program 2>/dev/null || status=$?
((status == 127)) || fail "the exit code is $status"

step "the C library, and what others are told of it"
cp "$packages"/libusw0_*_amd64.deb "$root/tmp/libusw0.deb"
cp "$packages"/libusw-dev_*_amd64.deb "$root/tmp/libusw-dev.deb"
in_system apt-get -q -y install --no-install-recommends /tmp/libusw0.deb /tmp/libusw-dev.deb >"$scratch/apt.log" 2>&1 ||
  { cat "$scratch/apt.log" >&2; fail "apt-get did not install it"; }
said=$(in_system ldconfig -p | grep libusw)
must_say "libusw.so.0"
[[ -s "$root/usr/include/usw.h" && -e "$root/usr/lib/x86_64-linux-gnu/libusw.so" ]]

step "remove all of it"
in_system apt-get -q -y remove libusw0 uswap >"$scratch/apt.log" 2>&1 ||
  { cat "$scratch/apt.log" >&2; fail "apt-get did not remove it"; }
in_system dpkg --purge uswap libusw0 libusw-dev >"$scratch/apt.log" 2>&1 || { cat "$scratch/apt.log" >&2; exit 1; }
! in_system dpkg-query -W uswap >/dev/null 2>&1 || fail "dpkg still knows it"

step "nothing is left: files, processes, swap files"
list_files >"$scratch/after"
left=$(comm -13 "$scratch/before" "$scratch/after")
[[ -z "$left" ]] || fail "these files are left: $left"
left=$(processes_inside)
[[ -z "$left" ]] || fail "these processes are left: $left"
left=$(find "$root/var/tmp" "$root/dev/shm" -mindepth 1)
[[ -z "$left" ]] || fail "these are left: $left"
