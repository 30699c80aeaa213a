# Sourced by the scripts of this folder: one cache folder, outside the tree, for what the tests build or download.
# Whoever finds a folder there finds it whole: it is filled under another name, then renamed.

cache_root=${XDG_CACHE_HOME:-$HOME/.cache}/ai-models-tests

# cache_key FILE...: prints a short name for the content of the files.
cache_key ()
{
  cat -- "$@" | sha256sum | cut -c 1-16
}

# cache_dir NAME COMMAND...: prints the path of the folder NAME. When it is missing, runs `COMMAND... TEMP FINAL` to fill
# TEMP, which is then renamed to FINAL. Two callers at once: one fills, the other waits.
# COMMAND's standard output goes to standard error. Fails, leaving nothing, when COMMAND fails.
cache_dir ()
{
  local final=$cache_root/$1 temp=$cache_root/$1.part
  shift
  if [ ! -d "$final" ]; then
    mkdir -p "$cache_root" || return
    (
      flock 9 || exit
      [ ! -d "$final" ] || exit 0
      rm -rf "$temp" && mkdir "$temp" || exit
      if ! "$@" "$temp" "$final" >&2 9>&-; then
        rm -rf "$temp"
        exit 1
      fi
      mv -T "$temp" "$final"
    ) 9> "$final.lock" || return
  fi
  printf '%s\n' "$final"
}
