{{- define "holdtrue.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdtrue.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "holdtrue.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "holdtrue.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdtrue.selector" -}}
app.kubernetes.io/name: {{ include "holdtrue.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdtrue.labels" -}}
{{ include "holdtrue.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* holdtrue.yaml with the store on the volume unless another one is named. */}}
{{- define "holdtrue.config" -}}
{{- $store := dict "store" (dict "url" "sqlite:////var/lib/holdtrue/holdtrue.db") -}}
{{- $config := merge (deepCopy .Values.config) $store -}}
{{- if and (not .Values.persistence.enabled) (hasPrefix "sqlite" $config.store.url) -}}
{{- fail "persistence.enabled is false and the store is SQLite: the ledger and all alerts would end with the pod. Set config.store.url to PostgreSQL, or keep the volume." -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Both containers see the same settings and are confined alike. */}}
{{- define "holdtrue.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
env:
  - name: HOLDTRUE_CONFIG
    value: /etc/holdtrue/holdtrue.yaml
  - name: HOLDTRUE_LISTEN
    value: "0.0.0.0:8080"
  {{- range $name, $value := .Values.env }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range .Values.secret.keys }}
  - name: {{ . }}
    valueFrom: {secretKeyRef: {name: {{ $.Values.secret.name | quote }}, key: {{ . | quote }}}}
  {{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/holdtrue, readOnly: true}
  - {name: invariants, mountPath: /etc/holdtrue/invariants, readOnly: true}
  - {name: state, mountPath: /var/lib/holdtrue}
  - {name: tmp, mountPath: /tmp}
{{- end -}}
