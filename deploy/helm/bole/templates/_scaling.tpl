{{/* How fast an autoscaler may act: up at once, down one worker at a time.
     Takes a pool's autoscaling. */}}
{{- define "bole.scaling" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - type: Percent
      value: 100
      periodSeconds: 60
scaleDown:
  stabilizationWindowSeconds: {{ int .scaleDownSeconds }}
  policies:
    - type: Pods
      value: 1
      periodSeconds: 60
{{- end }}
