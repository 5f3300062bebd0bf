{{/* The release's full name: its own name, when that says what it is. */}}
{{- define "leaderbridge.release" -}}
{{- if contains "leaderbridge" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-leaderbridge" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leaderbridge.name" -}}
{{- include "leaderbridge.release" . }}{{ if eq .Values.mode "watch" }}-watch{{ end -}}
{{- end -}}

{{- define "leaderbridge.component" -}}
{{- if eq .Values.mode "watch" }}watcher{{ else }}bridge{{ end -}}
{{- end -}}

{{/* Labels that select: (list context component). */}}
{{- define "leaderbridge.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: leaderbridge
app.kubernetes.io/instance: {{ include "leaderbridge.release" $ }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "leaderbridge.labels" -}}
{{- $ := index . 0 -}}
{{ include "leaderbridge.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version }}
{{- end -}}

{{/* Whether the release stands on Leases or watches them, and so has rights. */}}
{{- define "leaderbridge.usesKubernetes" -}}
{{- if ne .Values.nats.mode "leaf" }}true{{ end -}}
{{- end -}}

{{- define "leaderbridge.lease" -}}
{{- .Values.lease.name | default (include "leaderbridge.release" .) -}}
{{- end -}}

{{- define "leaderbridge.natsURL" -}}
{{- if eq .Values.nats.mode "external" -}}
{{- .Values.nats.url -}}
{{- else -}}
nats://{{ include "leaderbridge.release" . }}-nats:4222
{{- end -}}
{{- end -}}

{{/* A server configuration with the names of this release. */}}
{{- define "leaderbridge.natsFile" -}}
{{- $ := index . 0 -}}
{{- $.Files.Get (printf "files/%s" (index . 1)) | replace "leaderbridge-nats-keys" $.Values.nats.keysConfigMap | replace "leaderbridge-nats-peers" (printf "%s-nats-peers" (include "leaderbridge.release" $)) | replace "//leaderbridge-nats-" (printf "//%s-nats-" (include "leaderbridge.release" $)) -}}
{{- end -}}

{{- define "leaderbridge.collectorConfig" -}}
{{- if .Values.collector.config -}}
{{- toYaml .Values.collector.config -}}
{{- else -}}
{{- .Files.Get "files/collector.yaml" -}}
{{- end -}}
{{- end -}}

{{- define "leaderbridge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "leaderbridge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "leaderbridge.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
