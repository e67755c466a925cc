{{- define "causeway.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 bytes: a StatefulSet's pods and a Job add to it. */}}
{{- define "causeway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "causeway.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selectors go by. It can never change in an upgrade. */}}
{{- define "causeway.selector" -}}
app.kubernetes.io/name: {{ include "causeway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "causeway.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "causeway.labels" -}}
{{ include "causeway.selector" . }}
{{ include "causeway.commonLabels" . }}
{{- end -}}

{{- define "causeway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "causeway.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "causeway.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "causeway.httpPort" -}}
{{- $port := dig "http" "port" 9464 .Values.config -}}
{{- if eq (int $port) 0 -}}
{{- fail "config.http.port: 0 would leave the probes nothing to ask" -}}
{{- end -}}
{{- int $port -}}
{{- end -}}

{{/* Seconds; the worker may close its clients for 15 s after the drain. */}}
{{- define "causeway.gracePeriod" -}}
{{- $drain := dig "worker" "drainMilliseconds" 20000 .Values.config | int -}}
{{- $drainSeconds := div (add $drain 999) 1000 | int -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $drainSeconds 20 -}}
{{- else if le (int $given) $drainSeconds -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is not above the drain time, config.worker.drainMilliseconds: %d" (int $given) $drain) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* Cores that the pod asks for, rounded up: "1500m" and 1.5 are 2. */}}
{{- define "causeway.lanes" -}}
{{- $cpu := dig "requests" "cpu" "1" .Values.resources | toString -}}
{{- $milli := ternary (trimSuffix "m" $cpu | float64) (mulf (float64 $cpu) 1000) (hasSuffix "m" $cpu) -}}
{{- max 1 (int (ceil (divf $milli 1000))) -}}
{{- end -}}
