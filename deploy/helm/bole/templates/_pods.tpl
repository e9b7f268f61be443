{{/* What all pods have in common. */}}

{{/* Takes {root}. */}}
{{- define "bole.podSecurity" -}}
runAsNonRoot: true
{{- range $key := list "runAsUser" "runAsGroup" "fsGroup" }}
{{- with get $.root.Values.security $key }}
{{ $key }}: {{ int64 . }}
{{- end }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "bole.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The head of a pod's spec. Takes {root, settings}. */}}
{{- define "bole.podHead" -}}
serviceAccountName: {{ include "bole.serviceAccountName" .root }}
automountServiceAccountToken: false
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext: {{ include "bole.podSecurity" . | nindent 2 }}
terminationGracePeriodSeconds: {{ include "bole.grace" .settings }}
{{- end }}

{{/* Where a pod may run. Takes {settings, selector, tolerations}. */}}
{{- define "bole.podPlace" -}}
{{- with .settings.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if .settings.topologySpreadConstraints }}
{{ toYaml .settings.topologySpreadConstraints | indent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ .selector | nindent 8 }}
{{- end }}
{{- end }}

{{/* The three probes, over gRPC. Takes {port, service, startupSeconds}, the
     service being what is ready. */}}
{{- define "bole.probes" -}}
startupProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ div (add (int .startupSeconds) 4) 5 | max 1 }}
livenessProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  grpc: {port: {{ .port }}, service: {{ .service }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* Takes the settings. */}}
{{- define "bole.lifecycle" -}}
{{- if gt (int .preStopSeconds) 0 }}
lifecycle:
  preStop:
    exec:
      command: [sleep, {{ .preStopSeconds | int | quote }}]
{{- end }}
{{- end }}

{{/* A port. Takes [name, number]. */}}
{{- define "bole.containerPort" -}}
- name: {{ index . 0 }}
  containerPort: {{ index . 1 }}
  protocol: TCP
{{- end }}
