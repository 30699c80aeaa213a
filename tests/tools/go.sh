# Sourced by the scripts that build Go programs.

# A go that knows GOTOOLCHAIN (1.21 or later): go.mod may ask for a newer one, which such a go can bring by itself.
find_go ()
{
  local go
  for go in "$(command -v go || true)" /usr/lib/go-1.*/bin/go /usr/local/go/bin/go; do
    if [ -x "$go" ] && (cd / && "$go" version) | grep -qE ' go(1\.(2[1-9]|[3-9][0-9])|[2-9])'; then
      printf '%s\n' "$go"
      return
    fi
  done
  return 1
}

# use_go DIR: goes to the folder of a go.mod; sets $go, and the environment it builds in. Fails without one.
use_go ()
{
  go=$(find_go) || return
  cd "$1" || return
  # Distributions switch the change of toolchain off; go.mod's own version is what is needed here.
  if ! GOTOOLCHAIN=local "$go" list -mod=readonly -m > /dev/null 2>&1; then
    GOTOOLCHAIN=go$(awk '$1 == "go" { print $2 }' go.mod)
    export GOTOOLCHAIN
  fi
  export CGO_ENABLED=0 GOFLAGS=
}

module_version ()
{
  "$go" list -mod=readonly -m -f '{{.Version}}' "$1"
}
