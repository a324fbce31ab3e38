# Shows in the prompt that a shell runs within a budget: [uswap 512M] $
#
# For bash and zsh. In ~/.bashrc or ~/.zshrc:
#
#   . /usr/share/uswap/uswap-prompt.sh
#
# USWAP_RUN is set in all programs of a run, and begins with the process id of its supervisor. The budget may change, so
# the run is asked each time.

# `[uswap 512M] ` within a run; nothing elsewhere.
uswap_prompt() (
  supervisor=${USWAP_RUN-}
  supervisor=${supervisor%%:*}
  case "$supervisor" in
    '' | *[!0-9]*) exit 0 ;;
  esac
  stat=$(uswap stat --json "$supervisor" 2>/dev/null) || exit 0
  case "$stat" in
    *'"ram_bytes":'[0-9]*) ;;
    *) exit 0 ;;
  esac
  ram=${stat#*'"ram_bytes":'}
  ram=$((${ram%%[!0-9]*} / 1048576))
  if [ "$ram" -ge 1024 ] && [ $((ram % 1024)) -eq 0 ]; then
    printf '[uswap %dG] ' $((ram / 1024))
  else
    printf '[uswap %dM] ' "$ram"
  fi
)

if [ -n "${USWAP_RUN-}" ] && [ -n "${PS1-}" ]; then
  case "$PS1" in
    *uswap_prompt*) ;;
    *)
      if [ -n "${ZSH_VERSION-}" ]; then setopt PROMPT_SUBST; fi
      if [ -n "${ZSH_VERSION-}${BASH_VERSION-}" ]; then PS1='$(uswap_prompt)'$PS1; fi
      ;;
  esac
fi
