{{/* Pools with their defaults, and checks of what the schema cannot say. */}}

{{/* YAML of `over` above `base`: maps are merged, all else is replaced.
     Takes {over, base}. */}}
{{- define "bole.overlay" -}}
{{- $merged := deepCopy .base }}
{{- range $key, $value := .over }}
{{- $below := get $merged $key }}
{{- if and (kindIs "map" $value) (kindIs "map" $below) }}
{{- $_ := set $merged $key (include "bole.overlay" (dict "over" $value "base" $below) | fromYaml) }}
{{- else }}
{{- $_ := set $merged $key $value }}
{{- end }}
{{- end }}
{{- toYaml $merged }}
{{- end }}

{{/* YAML of {pools: [...]}, complete. */}}
{{- define "bole.pools" -}}
{{- $pools := list }}
{{- range .Values.pools }}
{{- $pools = append $pools (include "bole.overlay" (dict "over" . "base" $.Values.poolDefaults) | fromYaml) }}
{{- end }}
{{- toYaml (dict "pools" $pools) }}
{{- end }}

{{/* YAML of the model of a name. Takes {root, name}. */}}
{{- define "bole.model" -}}
{{- $found := dict }}
{{- range .root.Values.models }}
{{- if eq .name $.name }}{{ $found = . }}{{ end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{- define "bole.poolName" -}}
{{- printf "%s-%s" (include "bole.fullname" .root) .pool.name }}
{{- end }}

{{/* The seconds from the end's start to SIGKILL. Takes what has both values. */}}
{{- define "bole.grace" -}}
{{- add (int .preStopSeconds) (int .drainSeconds) 15 }}
{{- end }}

{{/* Fails if a list of names has one twice. Takes {what, names}. */}}
{{- define "bole.checkUnique" -}}
{{- $seen := dict }}
{{- range .names }}
{{- if hasKey $seen . }}{{ fail (printf "%s: %s is there twice" $.what .) }}{{ end }}
{{- $_ := set $seen . true }}
{{- end }}
{{- end }}

{{/* Fails if extraArgs has a flag that the chart sets itself. Takes
     {what, args, flags}. */}}
{{- define "bole.checkArgs" -}}
{{- range .args }}
{{- if has (regexFind "^--[a-z-]+" .) $.flags }}
{{- fail (printf "%s: %s is set by the chart" $.what .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "bole.checks" -}}
{{- $names := list }}
{{- range .Values.models }}{{ $names = append $names .name }}{{ end }}
{{- include "bole.checkUnique" (dict "what" "models" "names" $names) }}
{{- $pools := list }}
{{- range $i, $pool := (include "bole.pools" . | fromYaml).pools }}
{{- $pools = append $pools $pool.name }}
{{- if not (has $pool.model $names) }}
{{- fail (printf "pools[%d].model: %s is none of the models %s" $i $pool.model (join ", " $names)) }}
{{- end }}
{{- if has $pool.name (list "workers" "worker" "peers" "door" "link" "authority") }}
{{- fail (printf "pools[%d].name: %s is the name of something else" $i $pool.name) }}
{{- end }}
{{- if gt (int $pool.autoscaling.minReplicas) (int $pool.autoscaling.maxReplicas) }}
{{- fail (printf "pools[%d].autoscaling: minReplicas is %d, above maxReplicas %d" $i (int $pool.autoscaling.minReplicas) (int $pool.autoscaling.maxReplicas)) }}
{{- end }}
{{- include "bole.checkArgs" (dict "what" (printf "pools[%d].extraArgs" $i) "args" $pool.extraArgs "flags" (list "--model" "--device" "--threads" "--listen" "--health-listen" "--metrics-listen" "--drain-seconds" "--cost-table" "--allow-remote" "--tls-cert" "--tls-key" "--tls-client-ca" "--max-requests" "--context" "--pages" "--host-cache-gb" "--memory-fraction")) }}
{{- end }}
{{- include "bole.checkUnique" (dict "what" "pools" "names" $pools) }}
{{- include "bole.checkArgs" (dict "what" "scheduler.extraArgs" "args" .Values.scheduler.extraArgs "flags" (list "--model" "--listen" "--http-listen" "--health-listen" "--metrics-listen" "--worker" "--peers" "--share" "--drain-seconds" "--policy" "--allow-remote" "--tokens" "--tls-cert" "--tls-key" "--worker-ca" "--worker-cert" "--worker-key" "--worker-name" "--peer-ca" "--peer-name" "--peer-token-file")) }}
{{- if and (not .Values.auth.anonymous) (not .Values.auth.existingSecret) }}
{{- fail "auth.existingSecret is empty: name a Secret with tokens, or set auth.anonymous" }}
{{- end }}
{{- if and (gt (int .Values.scheduler.replicas) 1) (not (include "bole.hasPeers" .)) }}
{{- fail (printf "scheduler.replicas is %d: with tokens, schedulers share workers over TLS alone; set tls.enabled" (int .Values.scheduler.replicas)) }}
{{- end }}
{{- if and .Values.tls.enabled (not .Values.tls.certManager.enabled) }}
{{- range $kind := list "door" "worker" "link" }}
{{- if not (get $.Values.tls.secrets $kind) }}
{{- fail (printf "tls.secrets.%s is empty: name a Secret, or set tls.certManager.enabled" $kind) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.enabled) }}
{{- fail "tls.certManager.enabled is true, but tls.enabled is false" }}
{{- end }}
{{- range $door := list "http" "grpc" }}
{{- $ingress := get $.Values.ingress $door }}
{{- if and $ingress.enabled (not $ingress.host) }}
{{- fail (printf "ingress.%s.host is empty" $door) }}
{{- end }}
{{- $route := get $.Values.gateway $door }}
{{- if and $route.enabled (not $route.parentRefs) }}
{{- fail (printf "gateway.%s.parentRefs is empty: name the Gateway" $door) }}
{{- end }}
{{- end }}
{{- if and (or .Values.ingress.http.enabled .Values.gateway.http.enabled .Values.inferencePool.enabled) (not .Values.scheduler.http.enabled) }}
{{- fail "scheduler.http.enabled is false, but ingress.http, gateway.http or inferencePool is enabled" }}
{{- end }}
{{- if and .Values.tests.model (not (has .Values.tests.model $names)) }}
{{- fail (printf "tests.model: %s is none of the models %s" .Values.tests.model (join ", " $names)) }}
{{- end }}
{{- end }}
