{{/* What the settings say, checked, in one place. Every template begins with `include "ai-models.check" .` */}}

{{- define "ai-models.check" -}}
{{- if not (hasKey .Values "checked") -}}
{{- $s := .Values.aiModels -}}
{{- $a := $s.artifacts | default dict -}}
{{- if not $a.bucket -}}
{{- fail "aiModels.artifacts.bucket is not set: name the S3 bucket that the module has for itself" -}}
{{- end -}}
{{- if not $a.endpoint -}}
{{- fail "aiModels.artifacts.endpoint is not set: give the address of the S3 service, as https://s3.example.com" -}}
{{- end -}}
{{- if not $a.credentialsSecretName -}}
{{- fail "aiModels.artifacts.credentialsSecretName is not set: name the Secret that holds accessKey and secretKey of the bucket" -}}
{{- end -}}
{{- include "ai-models.checkAddress" (list "artifacts.endpoint" $a.endpoint false) -}}
{{- include "ai-models.checkAddress" (list "sources.huggingFace.endpoint" (($s.sources | default dict).huggingFace | default dict).endpoint true) -}}
{{- include "ai-models.checkAddress" (list "sources.ollama.registry" (($s.sources | default dict).ollama | default dict).registry true) -}}
{{- include "ai-models.checkAddress" (list "sources.proxy.httpsProxy" (include "ai-models.httpsProxy" .) true) -}}
{{- include "ai-models.checkQuantity" (list "artifacts.capacityLimit" $a.capacityLimit) -}}
{{- if not (has (toString $s.logLevel) (list "Debug" "Info" "Warn" "Error")) -}}
{{- fail (printf "aiModels.logLevel is %q: it is Debug, Info, Warn or Error" (toString $s.logLevel)) -}}
{{- end -}}
{{- if eq (dig "delivery" "type" "SharedPVC" $s) "NodeCache" -}}
{{- fail "aiModels.delivery.type is NodeCache: this version delivers models by SharedPVC only" -}}
{{- end -}}
{{- if not (include "ai-models.image" .) -}}
{{- fail "aiModels.internal.image is not set: name the image that tools/build-image made, where the cluster finds it" -}}
{{- end -}}
{{- if and (include "ai-models.publicHost" .) (eq (include "ai-models.httpsMode" .) "Disabled") -}}
{{- fail "global.modules.https.mode is Disabled: uploads carry a token and are not offered to the public over plain HTTP. Enable HTTPS, or leave global.modules.publicDomainTemplate empty" -}}
{{- end -}}
{{- $_ := set .Values "checked" true -}}
{{- end -}}
{{- end -}}

{{- define "ai-models.checkAddress" -}}
{{- $name := index . 0 -}}{{- $value := toString (index . 1 | default "") -}}
{{- if and $value (not (regexMatch "^https?://[^/?#@\\s]+(/[^?#\\s]*)?$" $value)) -}}
{{- fail (printf "aiModels.%s is %q: it is an address as https://HOST[:PORT], without credentials" $name $value) -}}
{{- end -}}
{{- end -}}

{{- define "ai-models.checkQuantity" -}}
{{- $name := index . 0 -}}{{- $value := toString (index . 1 | default "") -}}
{{- if $value -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?([eE][0-9]+|[kMGTPE]i?|Ki)?$" $value) -}}
{{- fail (printf "aiModels.%s is %q: it is a quantity of bytes as 500Gi" $name $value) -}}
{{- end -}}
{{- if not (regexMatch "^[0.]*[1-9]" $value) -}}
{{- fail (printf "aiModels.%s is %q: it must be more than zero; leave it out for no limit" $name $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a map of resources: cpu=1,memory=1Gi */}}
{{- define "ai-models.quantities" -}}
{{- $parts := list -}}
{{- range $name, $value := . -}}{{- $parts = append $parts (printf "%s=%v" $name $value) -}}{{- end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* Where uploads go, without their path. */}}
{{- define "ai-models.uploadURL" -}}
{{- $host := include "ai-models.publicHost" . -}}
{{- if $host -}}https://{{ $host }}{{- else -}}http://ai-models-upload-gateway.{{ .Release.Namespace }}.svc:8444{{- end -}}
{{- end -}}

{{/* As the program calls the levels. */}}
{{- define "ai-models.logLevel" -}}
{{- get (dict "Debug" "debug" "Info" "info" "Warn" "warning" "Error" "error") .Values.aiModels.logLevel -}}
{{- end -}}

{{- define "ai-models.labels" -}}
heritage: deckhouse
module: ai-models
app.kubernetes.io/part-of: ai-models
{{- end -}}

{{- define "ai-models.image" -}}
{{- $internal := .Values.aiModels.internal | default dict -}}
{{- $digest := dig "modulesImages" "digests" "aiModels" "aiModels" "" (.Values.global | default dict) -}}
{{- if $internal.image -}}
{{- $internal.image -}}
{{- else if $digest -}}
{{- printf "%s@%s" (dig "registry" "base" "" .Values.aiModels) $digest -}}
{{- end -}}
{{- end -}}

{{- define "ai-models.pullSecret" -}}
{{- if dig "registry" "dockercfg" "" .Values.aiModels -}}
ai-models-module-registry
{{- else -}}
{{- (.Values.aiModels.internal | default dict).imagePullSecretName | default "" -}}
{{- end -}}
{{- end -}}

{{- define "ai-models.clusterDomain" -}}
{{- dig "discovery" "clusterDomain" "cluster.local" (.Values.global | default dict) -}}
{{- end -}}

{{- define "ai-models.registryHost" -}}
dmcr.{{ .Release.Namespace }}.svc.{{ include "ai-models.clusterDomain" . }}
{{- end -}}

{{- define "ai-models.isHA" -}}
{{- if (.Values.global | default dict).highAvailability -}}true{{- end -}}
{{- end -}}

{{- define "ai-models.replicas" -}}
{{- ternary 2 1 (eq (include "ai-models.isHA" .) "true") -}}
{{- end -}}

{{- define "ai-models.isDeckhouse" -}}
{{- if hasKey (.Values.global | default dict) "enabledModules" -}}true{{- end -}}
{{- end -}}

{{- define "ai-models.publicHost" -}}
{{- $template := dig "modules" "publicDomainTemplate" "" (.Values.global | default dict) -}}
{{- if $template -}}{{- printf $template "ai-models" -}}{{- end -}}
{{- end -}}

{{- define "ai-models.httpsMode" -}}
{{- dig "modules" "https" "mode" "" (.Values.global | default dict) -}}
{{- end -}}

{{- define "ai-models.httpsProxy" -}}
{{- $own := dig "sources" "proxy" "httpsProxy" "" .Values.aiModels -}}
{{- $own | default (dig "clusterConfiguration" "proxy" "httpsProxy" "" (.Values.global | default dict)) -}}
{{- end -}}

{{- define "ai-models.noProxy" -}}
{{- $own := dig "sources" "proxy" "noProxy" list .Values.aiModels -}}
{{- $own | default (dig "clusterConfiguration" "proxy" "noProxy" list (.Values.global | default dict)) | join "," -}}
{{- end -}}

{{/* "ai-models.store" (list . PREFIX): the URL of a part of the bucket, as --store takes it. */}}
{{- define "ai-models.store" -}}
{{- $root := index . 0 -}}{{- $a := $root.Values.aiModels.artifacts -}}
{{- printf "s3://%s/%s?endpoint=%s&region=%s&path-style=%t" $a.bucket (index . 1) (urlquery $a.endpoint) ($a.region | default "us-east-1") (ne (toString $a.usePathStyle) "false") -}}
{{- if (include "ai-models.secrets" $root | fromJson).artifactsCA -}}
&ca-file=/etc/ai-models/artifacts-ca/ca.crt
{{- end -}}
{{- end -}}

{{/* "ai-models.pod" (list . NAME ACCOUNT): what the Pods of the components have in common. */}}
{{- define "ai-models.pod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 2 }}
priorityClassName: system-cluster-critical
securityContext:
  runAsNonRoot: true
  runAsUser: 64535
  runAsGroup: 64535
  fsGroup: 64535
  seccompProfile:
    type: RuntimeDefault
{{- with include "ai-models.pullSecret" $root }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- with $root.Values.aiModels.internal.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $root.Values.aiModels.internal.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- if include "ai-models.isHA" $root }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app: {{ index . 1 }}
{{- end }}
{{- end -}}

{{- define "ai-models.strategy" -}}
type: RollingUpdate
{{- if include "ai-models.isHA" . }}
rollingUpdate:
  maxSurge: 0
  maxUnavailable: 1
{{- end }}
{{- end -}}

{{- define "ai-models.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* "ai-models.probes" (list PORT SCHEME): a slow start has five minutes; what follows is looked at seldom. */}}
{{- define "ai-models.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ index . 0 }}, scheme: {{ index . 1 }}}
  periodSeconds: 1
  failureThreshold: 300
readinessProbe:
  httpGet: {path: /readyz, port: {{ index . 0 }}, scheme: {{ index . 1 }}}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: {{ index . 0 }}, scheme: {{ index . 1 }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "ai-models.artifactsEnv" -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: ai-models-artifacts, key: accessKey}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: ai-models-artifacts, key: secretKey}
{{- end -}}
