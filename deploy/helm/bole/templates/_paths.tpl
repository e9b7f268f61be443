{{/* What is shown outside the cluster: not Admin, Peers, reflection and
     metrics. */}}
{{- define "bole.paths" -}}
http:
  - {path: /v1, type: Prefix}
  - {path: /health, type: Exact}
  - {path: /ready, type: Exact}
  - {path: /version, type: Exact}
grpc:
  - {path: /bole.v1.BoleService, type: Prefix}
  - {path: /grpc.health.v1.Health, type: Prefix}
{{- end }}
