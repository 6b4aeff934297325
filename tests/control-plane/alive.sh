# shellcheck shell=bash
# alive PID: it runs. One that has ended and that nobody has waited for yet does not.
alive() {
  kill -0 "$1" 2>/dev/null || return 1
  ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"
}
