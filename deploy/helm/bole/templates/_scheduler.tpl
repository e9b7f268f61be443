{{/* The command line and the volumes of a scheduler. */}}

{{/* YAML of {models: [{root, name, source, volume}...]}: where schedulers find
     each model. */}}
{{- define "bole.schedulerModels" -}}
{{- $models := list }}
{{- range $i, $model := .Values.models }}
{{- $models = append $models (dict "name" $model.name "source" (get $model "tokenizer" | default $model.source) "volume" (printf "model-%d" $i)) }}
{{- end }}
{{- toYaml (dict "models" $models) }}
{{- end }}

{{- define "bole.schedulerArgs" -}}
{{- range (include "bole.schedulerModels" . | fromYaml).models }}
- --model={{ .name }}={{ include "bole.modelFolder" . }}
{{- end }}
{{- range (include "bole.pools" . | fromYaml).pools }}
- --worker={{ include "bole.poolName" (dict "root" $ "pool" .) }}.{{ $.Release.Namespace }}.svc:50052
{{- end }}
- --listen=0.0.0.0:8400
{{- if .Values.scheduler.http.enabled }}
- --http-listen=0.0.0.0:8000
{{- end }}
- --health-listen=0.0.0.0:8402
- --metrics-listen=0.0.0.0:9400
- --allow-remote
- --drain-seconds={{ int .Values.scheduler.drainSeconds }}
{{- with .Values.scheduler.policy }}
- --policy={{ . }}
{{- end }}
{{- if not .Values.auth.anonymous }}
- --tokens=/etc/bole/auth/tokens
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-cert=/etc/bole/door/tls.crt
- --tls-key=/etc/bole/door/tls.key
- --worker-ca=/etc/bole/link/ca.crt
- --worker-cert=/etc/bole/link/tls.crt
- --worker-key=/etc/bole/link/tls.key
- --worker-name={{ include "bole.workerName" . }}
{{- end }}
{{- if include "bole.hasPeers" . }}
- --peers={{ include "bole.fullname" . }}-peers.{{ .Release.Namespace }}.svc:8400
{{- if .Values.tls.enabled }}
- --peer-ca=/etc/bole/door/ca.crt
- --peer-name={{ include "bole.doorName" . }}
{{- if not .Values.auth.anonymous }}
- --peer-token-file=/etc/bole/auth/peer-token
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.scheduler.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The credentials, as pairs of name and Secret. */}}
{{- define "bole.schedulerSecrets" -}}
{{- if not .Values.auth.anonymous }}
auth: {{ .Values.auth.existingSecret }}
{{- end }}
{{- if .Values.tls.enabled }}
door: {{ include "bole.tlsSecret" (dict "root" . "kind" "door") }}
link: {{ include "bole.tlsSecret" (dict "root" . "kind" "link") }}
{{- end }}
{{- end }}

{{/* Volumes of Secrets. Takes the pairs. */}}
{{- define "bole.secretVolumes" -}}
{{- range $name, $secret := . }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret }}
    # Of the group of the pod, and of nobody else.
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "bole.secretMounts" -}}
{{- range $name, $_ := . }}
- name: {{ $name }}
  mountPath: /etc/bole/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
