#!/bin/sh
# For the administrator: a part of the Prolog= of slurm.conf. On a node with default settings uswap needs nothing of it;
# this is what stands in its way elsewhere.
set -eu

# A scratch directory of the job, on a disk: swap files in a tmpfs free nothing. The line `echo "export TMPDIR=..."` of
# a TaskProlog= names it to the job, and the Epilog= removes it.
scratch=/local/scratch/$SLURM_JOB_ID
mkdir -p "$scratch"
chown "$SLURM_JOB_UID" "$scratch"
chmod 700 "$scratch"

# vm.unprivileged_userfaultfd may stay 0, the default: uswap asks for faults of user mode only. Where the kernel has no
# userfaultfd, `uswap doctor` says so, and nothing here can mend that.
#
# Swap files are written by io_uring where that is allowed, which takes less CPU. 2 switches it off for everybody:
# sysctl -w kernel.io_uring_disabled=0
