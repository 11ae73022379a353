{{- define "toolbridge.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "toolbridge.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "toolbridge.selector" . }}
{{- end -}}

{{- define "toolbridge.selector" -}}
app.kubernetes.io/name: toolbridge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolbridge.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "toolbridge.natsName" -}}
{{ include "toolbridge.name" . }}-nats
{{- end -}}

{{- define "toolbridge.natsSecret" -}}
{{- if .Values.nats.auth.create -}}
{{ include "toolbridge.natsName" . }}-users
{{- else -}}
{{ .Values.nats.auth.existingSecret }}
{{- end -}}
{{- end -}}

{{/* Where workers and hosts connect: a dict of root and user. */}}
{{- define "toolbridge.natsEnv" -}}
{{- $v := .root.Values.nats -}}
{{- if $v.auth.credentials }}
- name: TOOLBRIDGE_NATS
  value: {{ required "nats.url must be set with nats.auth.credentials" $v.url | quote }}
- name: TOOLBRIDGE_CREDS
  value: /etc/toolbridge/creds/{{ .key }}.creds
{{- else if and $v.url (not (include "toolbridge.natsSecret" .root)) }}
- name: TOOLBRIDGE_NATS
  value: {{ $v.url | quote }}
{{- else }}
- name: NATS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "toolbridge.natsSecret" .root }}
      key: {{ .key }}
{{- $url := default (printf "nats://%s:4222" (include "toolbridge.natsName" .root)) $v.url }}
- name: TOOLBRIDGE_NATS
  value: {{ regexReplaceAll "(^|,)([a-z]+)://" $url (printf "${1}${2}://%s:$$(NATS_PASSWORD)@" .user) | quote }}
{{- end }}
{{- end -}}

{{- define "toolbridge.telemetryEnv" -}}
{{- $v := .root.Values.telemetry -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: OTEL_SERVICE_NAME
  value: {{ .service }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: service.instance.id=$(POD_NAME),k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE),k8s.node.name=$(NODE_NAME)
{{- if $v.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ $v.endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ $v.protocol | quote }}
- name: OTEL_METRICS_EXPORTER
  value: none # Prometheus fetches them
- name: OTEL_TRACES_SAMPLER
  value: {{ $v.sampler | quote }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ $v.samplerArg | quote }}
{{- end }}
{{- end -}}

{{- define "toolbridge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "toolbridge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "toolbridge.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end -}}
