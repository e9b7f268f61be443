{{/* Names, labels and images. */}}

{{- define "bole.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 39 | trimSuffix "-" }}
{{- end }}

{{/* At most 39 characters, so that a StatefulSet of a pool has at most 52. */}}
{{- define "bole.fullname" -}}
{{- $name := include "bole.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 39 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 39 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 39 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What pods are selected by. Takes {root}, and component and pool if they
     matter. */}}
{{- define "bole.selector" -}}
app.kubernetes.io/name: {{ include "bole.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with get . "component" }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with get . "pool" }}
bole/pool: {{ . }}
{{- end }}
{{- end }}

{{- define "bole.labels" -}}
{{ include "bole.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: bole
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Takes {root, image}. */}}
{{- define "bole.image" -}}
{{- $images := .root.Values.images }}
{{- $name := .image.repository }}
{{- if $images.registry }}
{{- $name = printf "%s/%s" (trimSuffix "/" $images.registry) $name }}
{{- end }}
{{- if .image.digest }}
{{- printf "%s@%s" $name .image.digest }}
{{- else }}
{{- printf "%s:%s" $name (.image.tag | default $images.tag | default .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* The image of a pool. Takes {root, pool}. */}}
{{- define "bole.workerImage" -}}
{{- $images := .root.Values.images }}
{{- $image := ternary $images.workerCuda $images.worker (gt (int .pool.gpu.count) 0) }}
{{- if .pool.image.repository }}
{{- $image = .pool.image }}
{{- else }}
{{- $image = dict "repository" $image.repository "tag" (.pool.image.tag | default $image.tag) "digest" (.pool.image.digest | default $image.digest) }}
{{- end }}
{{- include "bole.image" (dict "root" .root "image" $image) }}
{{- end }}

{{- define "bole.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bole.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* A Secret of TLS. Takes {root, kind}, the kind being door, worker or link. */}}
{{- define "bole.tlsSecret" -}}
{{- default (printf "%s-%s-tls" (include "bole.fullname" .root) .kind) (get .root.Values.tls.secrets .kind) }}
{{- end }}

{{/* The names in the certificates of schedulers and of workers. */}}
{{- define "bole.doorName" -}}
{{- printf "%s.%s.svc" (include "bole.fullname" .) .Release.Namespace }}
{{- end }}
{{- define "bole.workerName" -}}
{{- printf "%s-worker" (include "bole.fullname" .) }}
{{- end }}

{{/* Whether schedulers share workers: "true" or nothing. Tokens are not sent
     between them without TLS. */}}
{{- define "bole.hasPeers" -}}
{{- if or .Values.tls.enabled .Values.auth.anonymous }}true{{ end }}
{{- end }}
