{{/* Where models come from. All take {root, name, source, volume}: the model's
     name, its source, and the name of the volume that it gets. */}}

{{- define "bole.modelFolder" -}}
{{- if hasKey .source "builtin" }}/usr/share/bole/models/{{ else }}/models/{{ end }}{{ .name }}
{{- end }}

{{- define "bole.modelVolume" -}}
{{- if hasKey .source "pvc" }}
- name: {{ .volume }}
  persistentVolumeClaim:
    claimName: {{ .source.pvc.claimName }}
    readOnly: true
{{- else if hasKey .source "hostPath" }}
- name: {{ .volume }}
  hostPath:
    path: {{ .source.hostPath.path }}
    type: Directory
{{- else if or (hasKey .source "image") (hasKey .source "init") }}
- name: {{ .volume }}
  emptyDir:
    sizeLimit: {{ get (get .source "image" | default (get .source "init")) "size" | default "20Gi" }}
{{- end }}
{{- end }}

{{- define "bole.modelMount" -}}
{{- if not (hasKey .source "builtin") }}
- name: {{ .volume }}
  mountPath: {{ include "bole.modelFolder" . }}
  readOnly: true
  {{- if hasKey .source "pvc" }}
  {{- with get .source.pvc "subPath" }}
  subPath: {{ . }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The container that fills the volume, where there is one. */}}
{{- define "bole.modelInit" -}}
{{- $init := get .source "init" }}
{{- $image := get .source "image" }}
{{- if $image }}
- name: {{ .volume }}
  image: {{ $image.reference }}
  imagePullPolicy: {{ .root.Values.images.pullPolicy }}
  command: [cp, -R, {{ printf "%s/." (trimSuffix "/" $image.path) | quote }}, {{ include "bole.modelFolder" . | quote }}]
{{- else if $init }}
- name: {{ .volume }}
  image: {{ $init.image }}
  imagePullPolicy: {{ .root.Values.images.pullPolicy }}
  command: {{ toYaml $init.command | nindent 4 }}
  env:
    - name: MODEL_FOLDER
      value: {{ include "bole.modelFolder" . }}
    {{- with get $init "env" }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with get $init "envFrom" }}
  envFrom: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if or $image $init }}
  securityContext: {{ include "bole.containerSecurity" . | nindent 4 }}
  resources:
    requests: {cpu: 100m, memory: 256Mi}
  volumeMounts:
    - name: {{ .volume }}
      mountPath: {{ include "bole.modelFolder" . }}
    - name: tmp
      mountPath: /tmp
{{- end }}
{{- end }}
