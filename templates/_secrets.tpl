{{/*
Passwords and certificates: given as values (a hook may do so), or those that are there, or made. They are worked out once for a rendering, whose
templates all see the same; so `include "ai-models.secrets" . | fromJson` costs nothing the second time.
*/}}

{{- define "ai-models.secrets" -}}
{{- if not (hasKey .Values "secrets") -}}
{{- $made := dict "tls" dict -}}
{{- include "ai-models.addAuthority" (list . $made) -}}
{{- range $part, $service := dict "dmcr" "dmcr" "controller" "ai-models-controller" -}}
{{- $short := printf "%s.%s" $service $.Release.Namespace -}}
{{- $names := list $service $short (printf "%s.svc" $short) (printf "%s.svc.%s" $short (include "ai-models.clusterDomain" $)) -}}
{{- include "ai-models.addCertificate" (list $ $made $part (ternary "ai-models-dmcr-tls" "ai-models-controller-webhook-tls" (eq $part "dmcr")) $names) -}}
{{- end -}}
{{- include "ai-models.addUsers" (list . $made) -}}
{{- include "ai-models.addArtifacts" (list . $made) -}}
{{- $_ := set .Values "secrets" (toJson $made) -}}
{{- end -}}
{{- .Values.secrets -}}
{{- end -}}

{{/* Data of a Secret of the release's namespace, decoded: a dict, empty when there is none (or no cluster). */}}
{{- define "ai-models.stored" -}}
{{- $found := dict -}}
{{- range $key, $value := (lookup "v1" "Secret" (index . 1) (index . 2)).data -}}
{{- $_ := set $found $key (b64dec $value) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "ai-models.addAuthority" -}}
{{- $root := index . 0 -}}{{- $made := index . 1 -}}
{{- $given := dig "internal" "rootCA" dict $root.Values.aiModels -}}
{{- $stored := include "ai-models.stored" (list $root $root.Release.Namespace "ai-models-ca") | fromJson -}}
{{- if and $given.crt $given.key -}}
{{- $_ := set $made "ca" (dict "crt" $given.crt "key" $given.key) -}}
{{- else if and (index $stored "tls.crt") (index $stored "tls.key") -}}
{{- $_ := set $made "ca" (dict "crt" (index $stored "tls.crt") "key" (index $stored "tls.key")) -}}
{{- else -}}
{{- $new := genCAWithKey "ai-models" 3650 (genPrivateKey "ecdsa") -}}
{{- $_ := set $made "ca" (dict "crt" $new.Cert "key" $new.Key) -}}
{{- end -}}
{{- end -}}

{{/* "ai-models.addCertificate" (list . MADE PART SECRET NAMES): a certificate stays as long as its authority and names do; for what it was made is noted
beside it. */}}
{{- define "ai-models.addCertificate" -}}
{{- $root := index . 0 -}}{{- $made := index . 1 -}}{{- $part := index . 2 -}}{{- $secret := index . 3 -}}{{- $names := index . 4 -}}
{{- $given := dig "internal" $part "cert" dict $root.Values.aiModels -}}
{{- $stored := include "ai-models.stored" (list $root $root.Release.Namespace $secret) | fromJson -}}
{{- $for := printf "%s %s" (join "," $names) $made.ca.crt | sha256sum -}}
{{- $noted := dig "metadata" "annotations" "ai.deckhouse.io/certificate-for" "" (lookup "v1" "Secret" $root.Release.Namespace $secret) -}}
{{- $one := dict "secret" $secret "ca" ($given.ca | default $made.ca.crt) -}}
{{- if and $given.crt $given.key -}}
{{- $one = merge $one (dict "crt" $given.crt "key" $given.key "for" "given") -}}
{{- else if and (eq $for $noted) (index $stored "tls.crt") (index $stored "tls.key") -}}
{{- $one = merge $one (dict "crt" (index $stored "tls.crt") "key" (index $stored "tls.key") "for" $for) -}}
{{- else -}}
{{- $authority := buildCustomCert (b64enc $made.ca.crt) (b64enc $made.ca.key) -}}
{{- $new := genSignedCertWithKey (index $names 0) (list "127.0.0.1") (append $names "localhost") 3650 $authority (genPrivateKey "ecdsa") -}}
{{- $one = merge $one (dict "crt" $new.Cert "key" $new.Key "for" $for) -}}
{{- end -}}
{{- $_ := set $made.tls $part $one -}}
{{- end -}}

{{/* A hash differs each time it is made: it stays as long as the password it was made of. */}}
{{- define "ai-models.addUsers" -}}
{{- $root := index . 0 -}}{{- $made := index . 1 -}}
{{- $given := dig "internal" "dmcr" "auth" dict $root.Values.aiModels -}}
{{- $stored := include "ai-models.stored" (list $root $root.Release.Namespace "ai-models-dmcr-auth") | fromJson -}}
{{- $auth := dict "salt" ($given.salt | default $stored.salt | default (randAlphaNum 64)) -}}
{{- range $kind, $user := dict "write" "ai-models" "read" "ai-models-reader" -}}
{{- $password := get $given (printf "%sPassword" $kind) | default (get $stored (printf "%s.password" $kind)) | default (printf "A1a%s" (randAlphaNum 37)) -}}
{{- $sum := sha256sum $password -}}
{{- $kept := ternary (get $stored (printf "%s.htpasswd" $kind)) "" (eq (get $stored (printf "%s.htpasswd.checksum" $kind)) $sum) -}}
{{- $_ := set $auth (printf "%s.password" $kind) $password -}}
{{- $_ := set $auth (printf "%s.htpasswd" $kind) (get $given (printf "%sHtpasswd" $kind) | default $kept | default (htpasswd $user $password)) -}}
{{- $_ := set $auth (printf "%s.htpasswd.checksum" $kind) $sum -}}
{{- end -}}
{{- $_ := set $auth "htpasswd" (printf "%s\n%s\n" (get $auth "write.htpasswd") (get $auth "read.htpasswd")) -}}
{{- $_ := set $made "auth" $auth -}}
{{- end -}}

{{/*
The bucket's keys, of the Secret that the settings name: in d8-system, where Deckhouse has such, else in the namespace of the release. Without a
cluster to look into (helm template) there are none, and the Secret is not rendered: who deploys so makes it, or gives the keys as values.
*/}}
{{- define "ai-models.addArtifacts" -}}
{{- $root := index . 0 -}}{{- $made := index . 1 -}}
{{- $a := $root.Values.aiModels.artifacts -}}
{{- $given := dig "internal" "artifacts" dict $root.Values.aiModels -}}
{{- $_ := set $made "artifactsCA" ($given.ca | default "") -}}
{{- if and $given.accessKey $given.secretKey -}}
{{- $_ := set $made "artifacts" (dict "accessKey" $given.accessKey "secretKey" $given.secretKey "namespace" "" "name" "") -}}
{{- else if lookup "v1" "Namespace" "" "kube-system" -}}
{{- $found := include "ai-models.findSource" (list $root $a.credentialsSecretName "artifacts.credentialsSecretName") | fromJson -}}
{{- range $key := list "accessKey" "secretKey" -}}
{{- if not (get $found.data $key | trim) -}}
{{- fail (printf "the Secret %s/%s has no %s: it must hold accessKey and secretKey of the bucket" $found.namespace $a.credentialsSecretName $key) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $made "artifacts" (dict "accessKey" (trim $found.data.accessKey) "secretKey" (trim $found.data.secretKey) "namespace" $found.namespace "name" $a.credentialsSecretName) -}}
{{- if $a.caSecretName -}}
{{- $other := include "ai-models.findSource" (list $root $a.caSecretName "artifacts.caSecretName") | fromJson -}}
{{- if not (get $other.data "ca.crt") -}}
{{- fail (printf "the Secret %s/%s has no ca.crt: it must hold the certificate authority of the bucket's endpoint" $other.namespace $a.caSecretName) -}}
{{- end -}}
{{- $_ := set $made "artifactsCA" (get $other.data "ca.crt") -}}
{{- else -}}
{{- $_ := set $made "artifactsCA" (get $found.data "ca.crt") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ai-models.findSource" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $setting := index . 2 -}}
{{- if has $name (list "ai-models-artifacts" "ai-models-artifacts-ca") -}}
{{- fail (printf "aiModels.%s is %q: the module makes a Secret of this name itself; name yours otherwise" $setting $name) -}}
{{- end -}}
{{- $found := dict -}}
{{- range $namespace := list "d8-system" $root.Release.Namespace -}}
{{- if and (not $found.namespace) (lookup "v1" "Secret" $namespace $name) -}}
{{- $_ := set $found "namespace" $namespace -}}
{{- $_ := set $found "data" (include "ai-models.stored" (list $root $namespace $name) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- if not $found.namespace -}}
{{- fail (printf "there is no Secret %q, which aiModels.%s names, in d8-system or %s: make it there" $name $setting $root.Release.Namespace) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
