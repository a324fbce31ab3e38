#!/bin/sh
#SBATCH --job-name=uswap
#SBATCH --mem=8G
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#
# A job that needs more memory than its node gives: sbatch packaging/slurm/job.sh. Slurm filters no system calls, so
# nothing has to be allowed. A cgroup that limits memory counts page cache too, so `auto` leaves a tenth of --mem.
set -eu

# The disk of the node, not the network: on many clusters TMPDIR is a directory of the job there.
scratch=${TMPDIR:-/var/tmp}

uswap doctor --swap "$scratch"

# One program. Several ranks on a node share --mem, and each `uswap run` has a budget of its own: divide it.
uswap run --ram auto --swap "$scratch" --swap-min-free 10G --json "uswap-$SLURM_JOB_ID.json" -- ./solver input
