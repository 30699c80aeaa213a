# bash completion for ai-models
# Made by `ai-models completion`: do not edit.
_ai_models ()
{
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local options= values= kinds= words= kind i n=0 line=${COMP_LINE:0:COMP_POINT} typed
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "push pull inspect verify list rm copy serve controller publish materialize upload-gateway completion --help --version" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
    push)
      case $before in
        --format) COMPREPLY=($(compgen -W "safetensors gguf diffusers" -- "$word")); return ;;
        --variant) COMPREPLY=(); return ;;
        --token-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--dry-run --format --variant --token-file --store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--format --variant --token-file --store --ca-file --username -u --password-file --log-format"
      kinds="path reference"
      ;;
    pull)
      case $before in
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--force --store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--store --ca-file --username -u --password-file --log-format"
      kinds="reference directory"
      ;;
    inspect)
      case $before in
        --token-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--token-file --store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--token-file --store --ca-file --username -u --password-file --log-format"
      kinds="reference"
      ;;
    verify)
      case $before in
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--store --ca-file --username -u --password-file --log-format"
      kinds="reference"
      ;;
    list)
      case $before in
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--names --store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--store --ca-file --username -u --password-file --log-format"
      kinds="reference"
      ;;
    rm)
      case $before in
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--store --ca-file --username -u --password-file --log-format"
      kinds="reference"
      ;;
    copy)
      case $before in
        --from-ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --from-username) COMPREPLY=(); return ;;
        --from-password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --username|-u) COMPREPLY=(); return ;;
        --password-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--referrers --from-plain-http --from-ca-file --from-insecure --from-username --from-password-file --store --plain-http --ca-file --insecure --username --password-stdin --password-file --json --quiet --verbose --log-format --help --version"
      values="--from-ca-file --from-username --from-password-file --store --ca-file --username -u --password-file --log-format"
      kinds="reference reference"
      ;;
    serve)
      case $before in
        --listen|-l) COMPREPLY=(); return ;;
        --tls-cert) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --tls-key) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --htpasswd) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --plain-users) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --writer) COMPREPLY=(); return ;;
        --grant-salt-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --max-connections) COMPREPLY=(); return ;;
        --max-connections-per-peer) COMPREPLY=(); return ;;
        --port-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warning error" -- "$word")); return ;;
        --store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--listen --tls-cert --tls-key --htpasswd --plain-users --writer --grant-salt-file --anonymous-read --allow-anonymous-write --accept-sparse-manifests --max-connections --max-connections-per-peer --port-file --log-level --store --json --quiet --verbose --log-format --help --version"
      values="--listen -l --tls-cert --tls-key --htpasswd --plain-users --writer --grant-salt-file --max-connections --max-connections-per-peer --port-file --log-level --store --log-format"
      kinds=""
      ;;
    controller)
      case $before in
        --namespace) COMPREPLY=(); return ;;
        --worker-image) COMPREPLY=(); return ;;
        --worker-image-pull-secret) COMPREPLY=(); return ;;
        --worker-service-account) COMPREPLY=(); return ;;
        --worker-requests) COMPREPLY=(); return ;;
        --worker-limits) COMPREPLY=(); return ;;
        --max-workers) COMPREPLY=(); return ;;
        --registry) COMPREPLY=(); return ;;
        --registry-ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --registry-login-dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --registry-write-secret) COMPREPLY=(); return ;;
        --registry-ca-secret) COMPREPLY=(); return ;;
        --staging-store) COMPREPLY=(); return ;;
        --artifacts-secret) COMPREPLY=(); return ;;
        --artifacts-ca-secret) COMPREPLY=(); return ;;
        --upload-url) COMPREPLY=(); return ;;
        --capacity-limit) COMPREPLY=(); return ;;
        --hf-endpoint) COMPREPLY=(); return ;;
        --ollama-registry) COMPREPLY=(); return ;;
        --sources-ca-config-map) COMPREPLY=(); return ;;
        --https-proxy) COMPREPLY=(); return ;;
        --no-proxy) COMPREPLY=(); return ;;
        --delivery) COMPREPLY=($(compgen -W "SharedPVC none" -- "$word")); return ;;
        --account) COMPREPLY=(); return ;;
        --webhook-listen) COMPREPLY=(); return ;;
        --grant-salt-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --materializer-image) COMPREPLY=(); return ;;
        --materializer-pull-secret) COMPREPLY=(); return ;;
        --materializer-requests) COMPREPLY=(); return ;;
        --materializer-limits) COMPREPLY=(); return ;;
        --max-materializations) COMPREPLY=(); return ;;
        --shared-class) COMPREPLY=(); return ;;
        --modules-class) COMPREPLY=(); return ;;
        --cluster-class) COMPREPLY=(); return ;;
        --registry-peers) COMPREPLY=(); return ;;
        --listen) COMPREPLY=(); return ;;
        --metrics-listen) COMPREPLY=(); return ;;
        --tls-cert) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --tls-key) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --linger) COMPREPLY=(); return ;;
        --lease) COMPREPLY=(); return ;;
        --sweep-interval-s) COMPREPLY=(); return ;;
        --inventory-interval-s) COMPREPLY=(); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warning error" -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--namespace --worker-image --worker-image-pull-secret --worker-service-account --worker-requests --worker-limits --max-workers --registry --registry-plain-http --registry-ca-file --registry-login-dir --registry-write-secret --registry-ca-secret --staging-store --artifacts-secret --artifacts-ca-secret --upload-url --capacity-limit --no-accounting --hf-endpoint --ollama-registry --sources-ca-config-map --https-proxy --no-proxy --delivery --account --webhook-listen --grant-salt-file --materializer-image --materializer-pull-secret --materializer-requests --materializer-limits --max-materializations --shared-class --modules-class --cluster-class --registry-peers --listen --metrics-listen --tls-cert --tls-key --linger --lease --sweep-interval-s --inventory-interval-s --log-level --json --quiet --verbose --log-format --help --version"
      values="--namespace --worker-image --worker-image-pull-secret --worker-service-account --worker-requests --worker-limits --max-workers --registry --registry-ca-file --registry-login-dir --registry-write-secret --registry-ca-secret --staging-store --artifacts-secret --artifacts-ca-secret --upload-url --capacity-limit --hf-endpoint --ollama-registry --sources-ca-config-map --https-proxy --no-proxy --delivery --account --webhook-listen --grant-salt-file --materializer-image --materializer-pull-secret --materializer-requests --materializer-limits --max-materializations --shared-class --modules-class --cluster-class --registry-peers --listen --metrics-listen --tls-cert --tls-key --linger --lease --sweep-interval-s --inventory-interval-s --log-level --log-format"
      kinds=""
      ;;
    publish)
      case $before in
        --owner-kind) COMPREPLY=($(compgen -W "Model ClusterModel" -- "$word")); return ;;
        --owner-namespace) COMPREPLY=(); return ;;
        --owner-name) COMPREPLY=(); return ;;
        --owner-uid) COMPREPLY=(); return ;;
        --owner-generation) COMPREPLY=(); return ;;
        --source) COMPREPLY=(); return ;;
        --revision) COMPREPLY=(); return ;;
        --token-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --staged-file) COMPREPLY=(); return ;;
        --staging-store) COMPREPLY=(); return ;;
        --staging-keys-dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --registry) COMPREPLY=(); return ;;
        --registry-ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --registry-login-dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --repository) COMPREPLY=(); return ;;
        --namespace) COMPREPLY=(); return ;;
        --accounting) COMPREPLY=(); return ;;
        --capacity-limit) COMPREPLY=(); return ;;
        --termination-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warning error" -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--owner-kind --owner-namespace --owner-name --owner-uid --owner-generation --source --revision --token-file --staged-file --staging-store --staging-keys-dir --registry --registry-ca-file --registry-plain-http --registry-login-dir --repository --namespace --accounting --capacity-limit --termination-file --log-level --json --quiet --verbose --log-format --help --version"
      values="--owner-kind --owner-namespace --owner-name --owner-uid --owner-generation --source --revision --token-file --staged-file --staging-store --staging-keys-dir --registry --registry-ca-file --registry-login-dir --repository --namespace --accounting --capacity-limit --termination-file --log-level --log-format"
      kinds=""
      ;;
    materialize)
      case $before in
        --registry) COMPREPLY=(); return ;;
        --registry-ca-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --artifact) COMPREPLY=(); return ;;
        --grant-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --volume) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --expected-bytes) COMPREPLY=(); return ;;
        --patience) COMPREPLY=(); return ;;
        --stale-after) COMPREPLY=(); return ;;
        --termination-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warning error" -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--registry --registry-ca-file --registry-plain-http --artifact --grant-file --volume --expected-bytes --patience --stale-after --termination-file --log-level --json --quiet --verbose --log-format --help --version"
      values="--registry --registry-ca-file --artifact --grant-file --volume --expected-bytes --patience --stale-after --termination-file --log-level --log-format"
      kinds=""
      ;;
    upload-gateway)
      case $before in
        --listen|-l) COMPREPLY=(); return ;;
        --namespace|-n) COMPREPLY=(); return ;;
        --staging-store) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")); return ;;
        --accounting) COMPREPLY=(); return ;;
        --capacity-limit) COMPREPLY=(); return ;;
        --max-uploads) COMPREPLY=(); return ;;
        --port-file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warning error" -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--listen --namespace --staging-store --accounting --capacity-limit --max-uploads --port-file --log-level --json --quiet --verbose --log-format --help --version"
      values="--listen -l --namespace -n --staging-store --accounting --capacity-limit --max-uploads --port-file --log-level --log-format"
      kinds=""
      ;;
    completion)
      case $before in
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
      esac
      options="--json --quiet --verbose --log-format --help --version"
      values="--log-format"
      kinds="word"
      words="bash zsh"
      ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    return
  fi
  read -ra typed <<< "$line"
  [[ $line == *' ' ]] || unset 'typed[-1]'
  for ((i = 2; i < ${#typed[@]}; i++)); do
    if [[ " $values " == *" ${typed[i]} "* ]]; then
      i=$((i + 1))
    elif [[ ${typed[i]} != -* ]]; then
      n=$((n + 1))
    fi
  done
  read -ra kinds <<< "$kinds"
  kind=${kinds[n]:-none}
  case $kind in
    path) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")) ;;
    directory) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")) ;;
    reference)
      word=${line##* }
      COMPREPLY=($(compgen -W "$(ai-models list --names 2> /dev/null)" -- "$word"))
      if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
      fi
      ;;
    word) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -F _ai_models ai-models
