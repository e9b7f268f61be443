{{/* The command line and the calibration of a worker. All take {root, pool}. */}}

{{/* What a table of costs depends on, beside the image. */}}
{{- define "bole.engineArgs" -}}
{{- $model := include "bole.model" (dict "root" .root "name" .pool.model) | fromYaml }}
- --model={{ include "bole.modelFolder" $model }}
- --device={{ ternary "cuda" "cpu" (gt (int .pool.gpu.count) 0) }}
{{- with int .pool.threads }}
- --threads={{ . }}
{{- end }}
{{- with int64 .pool.engine.maxRequests }}
- --max-requests={{ . }}
{{- end }}
{{- with int64 .pool.engine.context }}
- --context={{ . }}
{{- end }}
{{- with int64 .pool.engine.pages }}
- --pages={{ . }}
{{- end }}
{{- with .pool.engine.hostCacheGb }}
- --host-cache-gb={{ . }}
{{- end }}
{{- if gt (int .pool.gpu.count) 0 }}
- --memory-fraction={{ .pool.engine.memoryFraction }}
{{- end }}
{{- range .pool.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "bole.workerArgs" -}}
{{ include "bole.engineArgs" . }}
- --listen=0.0.0.0:50052
- --health-listen=0.0.0.0:50053
- --metrics-listen=0.0.0.0:9401
- --allow-remote
- --drain-seconds={{ int .pool.drainSeconds }}
{{- if .root.Values.tls.enabled }}
- --tls-cert=/etc/bole/worker/tls.crt
- --tls-key=/etc/bole/worker/tls.key
- --tls-client-ca=/etc/bole/worker/ca.crt
{{- end }}
{{- with include "bole.costTable" . }}
- --cost-table={{ . }}
{{- end }}
{{- end }}

{{/* "measure", "given" or nothing: whence the table of costs comes. */}}
{{- define "bole.calibration" -}}
{{- if .pool.calibration.configMap.name }}given
{{- else if .pool.calibration.enabled }}measure
{{- end }}
{{- end }}

{{/* A table that is measured has another name whenever what it depends on is
     another, so that the old one is not taken for it. */}}
{{- define "bole.costTable" -}}
{{- $from := include "bole.calibration" . }}
{{- if eq $from "given" }}/etc/bole/costs/{{ .pool.calibration.configMap.key }}
{{- else if eq $from "measure" }}
{{- $model := include "bole.model" (dict "root" .root "name" .pool.model) }}
{{- printf "/var/lib/bole/costs-%s.json" (printf "%s %s %s" (include "bole.workerImage" .) (include "bole.engineArgs" .) $model | sha256sum | trunc 16) }}
{{- end }}
{{- end }}

{{- define "bole.calibrateInit" -}}
{{- $size := .pool.calibration.size | default (ternary "full" "coarse" (gt (int .pool.gpu.count) 0)) }}
- name: calibrate
  image: {{ include "bole.workerImage" . }}
  imagePullPolicy: {{ .root.Values.images.pullPolicy }}
  command: [bole-calibrate-once]
  args:
    - {{ include "bole.costTable" . }}
    - --max-seconds={{ int .pool.calibration.maxSeconds }}
    {{- if eq $size "coarse" }}
    - --coarse
    {{- end }}
    - "--"
    {{- include "bole.engineArgs" . | nindent 4 }}
  {{- include "bole.workerEnv" . | nindent 2 }}
  resources: {{ include "bole.workerResources" . | nindent 4 }}
  securityContext: {{ include "bole.containerSecurity" . | nindent 4 }}
  volumeMounts: {{ include "bole.workerMounts" (dict "root" .root "pool" .pool "measures" true) | nindent 4 }}
{{- end }}

{{- define "bole.workerEnv" -}}
env:
  # Where the CUDA driver keeps what it compiles.
  - name: CUDA_CACHE_PATH
    value: /tmp
  {{- with .pool.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A quantity of memory and so many GiB more, in whole MiB or GiB. Takes
     {quantity, gib}. */}}
{{- define "bole.moreMemory" -}}
{{- $bytes := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $number := .quantity }}
{{- $unit := "" }}
{{- if kindIs "string" .quantity }}
{{- $number = regexFind "^[0-9.]+" .quantity | float64 }}
{{- $unit = regexFind "[A-Za-z]*$" .quantity }}
{{- end }}
{{- $mib := addf (divf (mulf $number (get $bytes $unit)) 1048576) (mulf .gib 1024) | ceil | int64 }}
{{- if mod $mib 1024 }}{{ $mib }}Mi{{ else }}{{ div $mib 1024 }}Gi{{ end }}
{{- end }}

{{- define "bole.workerResources" -}}
{{- $resources := deepCopy .pool.resources }}
{{- with .pool.engine.hostCacheGb }}
{{- range $kind, $quantities := $resources }}
{{- with get $quantities "memory" }}
{{- $_ := set $quantities "memory" (include "bole.moreMemory" (dict "quantity" . "gib" $.pool.engine.hostCacheGb)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if gt (int .pool.gpu.count) 0 }}
{{- $limits := deepCopy (get $resources "limits" | default dict) }}
{{- $_ := set $limits .pool.gpu.resource (int .pool.gpu.count) }}
{{- $_ := set $resources "limits" $limits }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* Also takes measures: whether the table may be written. */}}
{{- define "bole.workerMounts" -}}
{{- $model := include "bole.model" (dict "root" .root "name" .pool.model) | fromYaml }}
{{- $from := include "bole.calibration" . }}
- name: tmp
  mountPath: /tmp
{{- include "bole.modelMount" (set $model "volume" "model") }}
{{- if eq $from "given" }}
- name: costs
  mountPath: /etc/bole/costs
  readOnly: true
{{- else if eq $from "measure" }}
- name: calibration
  mountPath: /var/lib/bole
  readOnly: {{ not (get . "measures") }}
{{- end }}
{{- if and .root.Values.tls.enabled (not (get . "measures")) }}
- name: tls
  mountPath: /etc/bole/worker
  readOnly: true
{{- end }}
{{- with .pool.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bole.workerVolumes" -}}
{{- $model := include "bole.model" (dict "root" .root "name" .pool.model) | fromYaml }}
{{- $calibration := .pool.calibration }}
{{- $from := include "bole.calibration" . }}
- name: tmp
  emptyDir:
    sizeLimit: 4Gi
{{- include "bole.modelVolume" (set $model "volume" "model") }}
{{- if eq $from "given" }}
- name: costs
  configMap:
    name: {{ $calibration.configMap.name }}
{{- else if and (eq $from "measure") (not $calibration.volume.persistent) }}
- name: calibration
  emptyDir:
    sizeLimit: {{ $calibration.volume.size }}
{{- end }}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "bole.tlsSecret" (dict "root" .root "kind" "worker") }}
    defaultMode: 0440
{{- end }}
{{- with .pool.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
