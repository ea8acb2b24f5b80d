{{- define "thinkgate.name" -}}
{{- if contains "thinkgate" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-thinkgate{{ end }}
{{- end }}

{{- define "thinkgate.selector" -}}
app.kubernetes.io/name: thinkgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "thinkgate.labels" -}}
{{ include "thinkgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "thinkgate.secret" -}}
{{- if .Values.secret.existing }}{{ .Values.secret.existing }}{{ else if .Values.secret.values }}{{ include "thinkgate.name" . }}{{ end }}
{{- end }}

{{/* Seconds in which load balancers and kube-proxies learn that a pod is leaving; it still serves. */}}
{{- define "thinkgate.lag" -}}15{{- end }}

{{/* Seconds that running streams may go on after SIGTERM: the gateway's own default where the values name none. */}}
{{- define "thinkgate.drain" -}}
{{- $server := .Values.config.server | default dict }}
{{- get $server "drain" | default 600 }}
{{- end }}

{{/* thinkgate.yaml: the values' `config`, and what only the chart can know. */}}
{{- define "thinkgate.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "server" (merge (dict "host" "0.0.0.0" "port" 8080) ($config.server | default dict)) }}
{{- $_ := set $config "logs" (merge ($config.logs | default dict) (dict "format" "json")) }}
{{- toYaml $config }}
{{- end }}

{{/* What a running gateway does not take over from a changed file. All else must not roll pods in which people think. */}}
{{- define "thinkgate.needsRestart" -}}
{{- toJson (list (include "thinkgate.drain" .) .Values.config.embedded .Values.config.tracing) | sha256sum }}
{{- end }}
